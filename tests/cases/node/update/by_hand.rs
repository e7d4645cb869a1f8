//! `berthctl update`: the agent does it by itself, without an object at the API server.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ContainerUpdateRequest;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use kube::Api;
use kube::api::ListParams;

use super::{Scene, container, gate, image};
use crate::case::{Case, is_ready, run_updating};

#[tokio::test]
async fn berthctl_updates() -> Result<()> {
    run_updating("berthctl_updates", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let main = container(evidence, "main", &[("CONFIG", "metadata.annotations['config']")]);
            pod.annotation("config", "one").container(main).container(container(evidence, "other", &[]))
        })
        .await?;
        let other = scene.running("other").await?;
        let berthd = case.node.berthd()?;
        let pod = format!("{}/pod", case.namespace);
        let asked = format!("main={BUSYBOX_NEXT}");
        let story = berthd
            .ctl(&["update", &pod, &asked, "--annotation", "config=two", "--rollback-on-failure"])
            .await?;
        ensure!(scene.restarts("main").await? == 1, "not restarted once: {story}");
        ensure!(scene.running("other").await?.id == other.id, "the other container was restarted");
        ensure!(scene.env("main", "CONFIG").await? == "two", "old env");
        let now = scene.now().await?;
        ensure!(image(&now, "main")? == BUSYBOX_NEXT && image(&now, "other")? == BUSYBOX, "wrong images");
        ensure!(gate(&now)? == "True", "the gate is closed");
        case.await_pod("pod", "Ready again", is_ready).await?;

        let mut lines = story.lines();
        let name =
            lines.next().and_then(|line| line.strip_prefix("request ")).with_context(|| story.clone())?;
        let told: Vec<&str> = lines.collect();
        ensure!(told.iter().any(|line| line.ends_with("main     Updating")), "{story}");
        ensure!(told.iter().any(|line| line.ends_with("main     Succeeded")), "{story}");
        ensure!(told.last().is_some_and(|line| line.contains("request  Completed")), "{story}");
        let shown = berthd.ctl(&["get", "updates", name]).await?;
        ensure!(shown.contains("main (Succeeded)") && shown.contains(" admin "), "{shown}");
        let api: Api<ContainerUpdateRequest> = Api::namespaced(case.node.client().await?, &case.namespace);
        let objects = api.list(&ListParams::default()).await?.items;
        ensure!(objects.is_empty(), "objects were made: {objects:?}");

        // What cannot be is told at once, and nothing is touched.
        for (more, why) in [
            (&["z=busybox"][..], "has no container z; it has main, other"),
            (&["main=No Image"], "is not an image reference"),
            (&["--label", "track=not one word"], "metadata.labels[track] cannot be set"),
        ] {
            let command: Vec<&str> = ["update", &pod].into_iter().chain(more.iter().copied()).collect();
            let refused =
                berthd.ctl(&command).await.err().with_context(|| format!("{more:?} was accepted"))?;
            ensure!(format!("{refused:#}").contains(why), "{refused:#}");
        }
        // An image that is nowhere is told when its pull has failed, before anything is stopped.
        let nowhere = ["update", &pod, "main=127.0.0.1:1/nowhere:v1", "--deadline", "5s"];
        let failed = berthd.ctl(&nowhere).await.err().context("an image that is nowhere was found")?;
        ensure!(format!("{failed:#}").contains("failed ("), "{failed:#}");
        ensure!(scene.restarts("main").await? == 1, "stopped for an image that is nowhere");
        Ok(())
    })
    .await
}
