//! Conditions of a container that does not run, or runs again.

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, condition_type};
use berth_tests::observe::PodWatch;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::{Stage, exec, run};
use crate::case::PATIENCE;

const DOWN: &str = "Container(main) is Non-running";

/// While it is down it does not run, and of what runs anew nothing is known until it was asked: no probe ever
/// says False.
#[tokio::test]
async fn a_container_that_restarts() -> Result<()> {
    run("a_container_that_restarts", async |stage: &Stage| {
        let watch = PodWatch::start(Api::namespaced(stage.client.clone(), &stage.case.namespace)).await?;
        // The second instance would be called busy before it has come so far, were it asked without delay.
        let main = Container::new("main").shell("sleep 1; touch /tmp/up");
        stage.case.create(&stage.manifest("pod").container(main).container(Container::new("side"))).await?;
        let mut probe = exec("echo asked; test -f /tmp/up");
        probe["initialDelaySeconds"] = 10.into();
        let marker =
            Marker::new("marker", "pod").probe("up", "main", probe).probe("side", "side", exec("true"));
        stage.mark(&marker).await?;
        stage.await_says("pod", "up", "True", "asked").await?;
        stage.await_says("pod", "side", "True", "").await?;
        let seen = |probe: &str| -> Result<Vec<(String, String)>> {
            let seen = watch.named("pod").context("the pod was not seen")?;
            Ok(seen.conditions.get(&condition_type(probe)).cloned().unwrap_or_default())
        };
        let before = seen("up")?.len();
        stage.case.end("pod", "main").await?;
        let after = await_condition("it is up again", PATIENCE, async || {
            let after = seen("up")?.split_off(before);
            ensure!(after.len() > 1 && after.last().is_some_and(|last| last.0 == "True"), "{after:?}");
            Ok(after)
        })
        .await?;
        let expected = [
            ("False", DOWN),
            ("Unknown", "Container(main) has no result yet since it started"),
            ("True", "asked"),
        ];
        // A command may come to an instance that has just ended: then nobody knows, as with the kubelet.
        let too_late =
            |seen: &(&str, &str)| seen.0 == "Unknown" && seen.1.starts_with("failed to exec in container");
        let after = after.iter().map(|(status, message)| (status.as_str(), message.as_str()));
        let after: Vec<_> = after.skip_while(too_late).collect();
        // A state may be over before it was written: these, in their order, and the last one.
        let mut possible = expected.iter();
        let in_order = after.iter().all(|seen| possible.any(|expected| expected == seen));
        ensure!(in_order && after.last() == expected.last(), "{after:?}");
        // Of the other container the same is known as before.
        let side = seen("side")?;
        ensure!(side.len() == 1, "{side:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_container_that_exits() -> Result<()> {
    run("a_container_that_exits", async |stage: &Stage| {
        let manifest = stage
            .manifest("pod")
            .spec("restartPolicy", "Never")
            .container(Container::new("main"))
            .container(Container::new("side"));
        stage.case.create(&manifest).await?;
        let marker = Marker::new("marker", "pod").probe("up", "main", exec("true")).label("up").probe(
            "side",
            "side",
            exec("test -f /tmp/up"),
        );
        stage.mark(&marker).await?;
        stage.await_says("pod", "up", "True", "").await?;
        stage.await_says("pod", "side", "False", "exit code 1").await?;
        stage.case.end("pod", "main").await?;
        let pod = stage.await_says("pod", "up", "False", DOWN).await?;
        let labels = pod.metadata.labels.unwrap_or_default();
        ensure!(labels.get("up").is_some_and(|value| value == "false"), "{labels:?}");
        // The other one goes on.
        stage.case.inside("pod", "side", "touch /tmp/up").await?;
        stage.await_says("pod", "side", "True", "").await?;
        // The prober follows the runtime, so its word may be there before the kubelet's first status is.
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Running"), "{phase:?}");
            Ok(())
        };
        stage.case.await_pod("pod", "runs", runs).await?;
        Ok(())
    })
    .await
}
