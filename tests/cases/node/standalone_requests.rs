//! Requests without the API: a file in the desired-state directory, and `berthctl recreate` through the admin
//! socket.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerRecreateRequestStatus, RecreatePhase};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::PodManifest;
use berth_tests::node::NODE_NAME;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;

use crate::case::{Case, run};
use crate::recreate::{PATIENCE, Scene};

/// Puts a request into the folder; the file of its status.
fn put(case: &Case, name: &str, pod: &str, containers: &str) -> Result<PathBuf> {
    let dir = case.node.berthd()?.desired_dir();
    let text = format!(
        "apiVersion: apps.kruise.io/v1alpha1
kind: ContainerRecreateRequest
metadata:
  namespace: {}
  name: {name}
spec:
  podName: {pod}
  containers: {containers}
",
        case.namespace
    );
    let file = dir.join(format!("{name}.yaml"));
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok(dir.join(format!("{name}.yaml.status.yaml")))
}

/// Waits until the file says that the request was carried out.
async fn succeeded(file: &PathBuf) -> Result<()> {
    await_condition(format!("{}: Completed", file.display()), PATIENCE, async || {
        let text = fs::read_to_string(file)?;
        let status: ContainerRecreateRequestStatus = serde_saphyr::from_str(&text)?;
        ensure!(status.phase == Some(RecreatePhase::Completed) && status.completion_time.is_some(), "{text}");
        let good = |kind: &str| {
            status.conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
        };
        ensure!(good("Complete") && !good("Failed"), "{text}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn file_recreates_a_container() -> Result<()> {
    run("file_recreates_a_container", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", "true")).container(evidence.container("b", "true"))
        })
        .await?;
        let (before, b) = (scene.running("a").await?, scene.running("b").await?);
        let status = put(case, "from-a-file", "pod", "[{name: a}]")?;
        succeeded(&status).await?;
        scene.replaced_once("a", &before, 1).await?;
        ensure!(scene.running("b").await?.id == b.id, "its neighbour was touched");

        let shown = case.node.berthd()?.ctl(&["get", "crr"]).await?;
        let line = shown.lines().find(|line| line.contains("from-a-file")).with_context(|| shown.clone())?;
        ensure!(
            line.contains(&format!("{}/pod", case.namespace)) && line.contains("a (Succeeded)"),
            "{line}"
        );

        // A file that goes takes its status with it.
        fs::remove_file(status.with_extension("").with_extension(""))?;
        await_condition("the status is gone", PATIENCE, async || {
            ensure!(!status.exists(), "it is still there");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn file_recreates_in_a_static_pod() -> Result<()> {
    run("file_recreates_in_a_static_pod", async |case: &Case| {
        let pod = format!("static-{NODE_NAME}");
        let evidence = Evidence::new(case.node.run(), &case.namespace, "static")?;
        let manifest = evidence.mount(PodManifest::new(&case.namespace, "static"));
        let kubelet = case.node.kubelet()?;
        kubelet.play("static", manifest.container(evidence.container("a", "true")).json())?;
        let outcome = async {
            case.await_ready(&pod).await?;
            let scene = Scene { case, pod: pod.clone(), evidence };
            let before = scene.running("a").await?;
            let status = put(case, "of-a-static-pod", &pod, "[{name: a}]")?;
            succeeded(&status).await?;
            scene.replaced_once("a", &before, 1).await
        }
        .await;
        kubelet.unplay("static")?;
        outcome?;
        case.await_gone(&pod).await
    })
    .await
}

#[tokio::test]
async fn berthctl_recreates() -> Result<()> {
    run("berthctl_recreates", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", "sleep 1")).container(evidence.container("b", ""))
        })
        .await?;
        let before = [scene.running("a").await?, scene.running("b").await?];
        let berthd = case.node.berthd()?;
        let pod = format!("{}/pod", case.namespace);
        let story = berthd.ctl(&["recreate", &pod, "a", "b", "--grace", "5s"]).await?;
        scene.replaced_once("a", &before[0], 1).await?;
        scene.replaced_once("b", &before[1], 0).await?;
        let mut lines = story.lines();
        let name =
            lines.next().and_then(|line| line.strip_prefix("request ")).with_context(|| story.clone())?;
        ensure!(name.starts_with(&case.namespace), "{name}");
        let told: Vec<_> = lines.collect();
        for container in ["a", "b"] {
            ensure!(told.iter().any(|line| line.contains(&format!("  {container}"))), "{container}: {story}");
        }
        let shown = berthd.ctl(&["get", "crr", name]).await?;
        ensure!(shown.contains("a (Succeeded), b (Succeeded)"), "{shown}");

        // Whoever asks for what is not there is told at once.
        let refused = berthd.ctl(&["recreate", &pod, "z"]).await;
        let error = refused.err().context("a container that is not there was accepted")?;
        ensure!(format!("{error:#}").contains('z'), "{error:#}");
        let states = case.cri.states(&case.namespace, "pod").await?;
        let running = states.iter().filter(|(_, state)| *state == ContainerState::ContainerRunning).count();
        ensure!(running == 2, "{states:?}");
        Ok(())
    })
    .await
}
