//! While nothing changes nothing is written, and a berthd that comes back has nothing to say either.

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, says};
use berth_tests::node::NODE_NAME;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::{Stage, every_second, exec, label, run_alone};
use crate::case::PATIENCE;

/// So many runs of a probe with nothing new, one a second.
const RUNS: usize = 15;

/// Counts the writes on behalf of probes, as berthd counts them since its start.
async fn writes(stage: &Stage<'_>) -> Result<f64> {
    let metrics = stage.case.node.berthd()?.metrics().await?;
    let of_probes = metrics.lines().filter(|line| {
        ["mark", "event"]
            .iter()
            .any(|kind| line.starts_with(&format!("berth_agent_api_writes_total{{write=\"{kind}\"")))
    });
    let values = of_probes.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
    Ok(values.sum::<Result<f64, _>>()?)
}

/// The versions of all that probes could write to.
async fn versions(stage: &Stage<'_>) -> Result<Vec<Option<String>>> {
    let pod = stage.case.pods.get("pod").await?;
    let object = stage.objects.get(NODE_NAME).await?;
    Ok(vec![pod.resource_version(), object.resource_version()])
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes() -> Result<()> {
    run_alone("nothing_is_written_while_nothing_changes", async |stage: &Stage| {
        let evidence = Evidence::new(stage.case.node.run(), &stage.case.namespace, "pod")?;
        let main =
            Container::new("main").shell("mkdir /www; echo fine > /www/index.html; httpd -p 8080 -h /www");
        stage.case.create(&evidence.mount(stage.manifest("pod")).container(evidence.mounted(main))).await?;
        stage.case.await_ready("pod").await?;
        let get = every_second("httpGet", json!({ "port": 8080 }));
        let no_program = every_second("exec", json!({ "command": ["/no/such/program"] }));
        let marker = Marker::new("marker", "pod")
            .probe("good", "main", exec("echo run >> /evidence/runs; echo good"))
            .label("good")
            .probe("bad", "main", exec("false"))
            .label("bad")
            .probe("web", "main", get)
            .probe("unknown", "main", no_program);
        stage.mark(&marker).await?;
        let as_expected = |pod: &Pod| {
            ensure!((label(pod, "good"), label(pod, "bad")) == (Some("true"), Some("false")), "labels");
            says(pod, "good", "True", "good")?;
            says(pod, "bad", "False", "exit code 1")?;
            says(pod, "web", "True", "fine")?;
            says(pod, "unknown", "Unknown", "no such file")
        };
        stage.case.await_pod("pod", "has all results", as_expected).await?;
        await_condition("all of them are told", PATIENCE, async || {
            let told = stage.told("pod").await?;
            ensure!(told.len() == 4, "{told:?}");
            Ok(())
        })
        .await?;
        let ran = async |more: usize| {
            let begun = evidence.count("runs", "run")?;
            await_condition(format!("the probe ran {more} more times"), PATIENCE, async || {
                let runs = evidence.count("runs", "run")?;
                ensure!(runs >= begun + more, "{} times", runs - begun);
                Ok(())
            })
            .await
        };
        // What was still on its way is written when nothing more comes for a while.
        let settled = async || -> Result<_> {
            let before = (versions(stage).await?, writes(stage).await?);
            ran(3).await?;
            let after = (versions(stage).await?, writes(stage).await?);
            ensure!(before == after, "{before:?}, then {after:?}");
            Ok(after)
        };
        let (before, written) = await_condition("what was on its way is written", PATIENCE, settled).await?;
        ensure!(written > 0.0, "nothing is counted");
        ran(RUNS).await?;
        let (after, more) = (versions(stage).await?, writes(stage).await? - written);
        ensure!(more == 0.0, "{more} writes while nothing changed");
        ensure!(before == after, "pod and NodePodProbe: {before:?}, then {after:?}");

        let was = stage.objects.get(NODE_NAME).await?;
        let berthd = stage.case.node.berthd()?;
        berthd.crash().await?;
        berthd.ready().await?;
        ran(4).await?;
        let (after, more) = (versions(stage).await?, writes(stage).await?);
        ensure!(more == 0.0, "{more} writes because berthd came back");
        let now = stage.objects.get(NODE_NAME).await?;
        let says = serde_json::to_string(&(was.status, now.status, now.metadata.managed_fields))?;
        ensure!(before == after, "pod and NodePodProbe: {before:?}, then {after:?} after a crash: {says}");
        // It is wide awake.
        stage.case.inside("pod", "main", "rm /www/index.html").await?;
        stage.await_says("pod", "web", "False", "404").await?;
        // A write is counted when it was answered, and the pod shows it before that.
        await_condition("its write is counted", PATIENCE, async || {
            ensure!(writes(stage).await? > 0.0, "nothing is counted");
            Ok(())
        })
        .await
    })
    .await
    .context("quiet")
}
