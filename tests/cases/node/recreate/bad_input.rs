//! Requests that cannot be carried out end with a reason, and nothing is touched. Here nobody looked at them
//! before: the node checks for itself.

use anyhow::{Result, ensure};
use berth_tests::recreate::Ask;
use kube::api::DeleteParams;
use serde_json::json;

use super::{PATIENCE, Scene};
use crate::case::{Case, run};

#[tokio::test]
async fn recreate_bad_requests_touch_nothing() -> Result<()> {
    run("recreate_bad_requests_touch_nothing", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", ""))
                .init_container(berth_tests::manifest::Container::new("once").only("exit 0"))
        })
        .await?;
        let before = scene.running("a").await?;
        let client = case.node.client().await?;
        let uid = case.pods.get("pod").await?.metadata.uid.unwrap_or_default();
        let context =
            |name: &str| json!({ "name": name, "containerID": "containerd://x", "restartCount": 0 });
        let table = [
            // (name, ask, contexts, pod UID, reason, words of the message)
            (
                "unknown",
                Ask::new("pod", &["nobody"]),
                vec![context("nobody")],
                uid.as_str(),
                "ContainerFailed",
                "nobody",
            ),
            ("init", Ask::new("pod", &["once"]), vec![context("once")], &uid, "ContainerFailed", "once"),
            ("no-context", Ask::new("pod", &["a"]), vec![], &uid, "InvalidRequest", "a"),
            (
                "other-pod",
                Ask::new("pod", &["a"]),
                vec![context("a")],
                "0000-1111",
                "PodGone",
                "pod has gone",
            ),
        ];
        for (name, ask, contexts, uid, reason, words) in table {
            let asked = ask.create(&client, &case.namespace, name).await?;
            asked.assign_to(berth_tests::node::NODE_NAME, uid, contexts).await?;
            let status = asked.failed(reason, PATIENCE).await?;
            let message = status.message.unwrap_or_default();
            ensure!(message.contains(words), "{name}: {message:?} does not say {words:?}");
        }
        // Assigned to another node: not ours to touch.
        let asked = Ask::new("pod", &["a"]).create(&client, &case.namespace, "elsewhere").await?;
        asked.assign_to("another-node", &uid, vec![context("a")]).await?;
        // A request after it that is carried out shows that this one had its turn.
        let witness = scene.ask("witness", &Ask::new("pod", &["a"])).await?;
        witness.succeeded(PATIENCE).await?;
        scene.replaced_once("a", &before, 0).await?;
        let other = asked.now().await?.and_then(|request| request.status).unwrap_or_default();
        ensure!(other.phase.is_none(), "a request of another node was answered: {other:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn recreate_pod_deleted_in_the_middle() -> Result<()> {
    run("recreate_pod_deleted_in_the_middle", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            // However slow the machine is, the hook goes on until the request has ended.
            let held = "until test -f /evidence/go; do sleep 0.1; done";
            pod.container(evidence.container("a", held)).grace(600)
        })
        .await?;
        let asked = scene.ask("interrupted", &Ask::new("pod", &["a"])).await?;
        berth_tests::wait::await_condition("the hook runs", PATIENCE, async || {
            ensure!(scene.evidence.count("a", "hook")? == 1, "no hook yet");
            Ok(())
        })
        .await?;
        case.pods.delete("pod", &DeleteParams::default()).await?;
        let status = asked.failed("PodGone", PATIENCE).await?;
        ensure!(status.message.as_deref() == Some("pod has gone"), "{status:?}");
        scene.evidence.put("go")?;
        case.await_gone("pod").await?;
        // The kubelet ends the SyncPod it is in, with the start of the next instance, before it looks at the
        // deletion.
        let (starts, hooks) = (scene.evidence.count("a", "start")?, scene.evidence.count("a", "hook")?);
        ensure!(starts == hooks && starts <= 2, "{starts} starts and {hooks} hooks");
        Ok(())
    })
    .await
}
