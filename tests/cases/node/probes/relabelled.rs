//! Pods that begin and cease to be selected, and probes that are changed while they run.

use anyhow::{Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, condition, says};
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Stage, exec, label, run};
use crate::case::PATIENCE;

/// Gives a pod this value of a label, or takes the label from it.
async fn relabel(stage: &Stage<'_>, pod: &str, key: &str, value: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { key: value } } });
    stage.case.pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

#[tokio::test]
async fn a_pod_that_is_relabelled() -> Result<()> {
    run("a_pod_that_is_relabelled", async |stage: &Stage| {
        // Another app to begin with. The pod of the marker's own shows that the marker is carried out by
        // then.
        let manifest = |name: &str| stage.manifest(name).container(Container::new("main"));
        stage.case.create(&manifest("other")).await?;
        stage.case.create(&manifest("pod")).await?;
        stage.mark(&Marker::new("marker", "pod").probe("up", "main", exec("true")).label("up")).await?;
        stage.await_says("pod", "up", "True", "").await?;
        let other = stage.case.await_ready("other").await?;
        ensure!(condition(&other, "up").is_none(), "{:?}", condition(&other, "up"));

        relabel(stage, "other", "app", Some("pod")).await?;
        stage
            .case
            .await_pod("other", "is marked", |pod| {
                ensure!(label(pod, "up") == Some("true"), "{:?}", pod.metadata.labels);
                says(pod, "up", "True", "")
            })
            .await?;
        relabel(stage, "other", "app", None).await?;
        stage
            .case
            .await_pod("other", "is not marked any more", |pod| {
                ensure!(label(pod, "up").is_none(), "{:?}", pod.metadata.labels);
                says(pod, "up", "Unknown", "no probe asks")
            })
            .await?;
        stage.await_untold("other").await?;
        // The marks of the other pod are none of that one's business, and what a user takes away comes back.
        relabel(stage, "pod", "up", None).await?;
        stage
            .case
            .await_pod("pod", "is marked again", |pod| {
                ensure!(label(pod, "up") == Some("true"), "{:?}", pod.metadata.labels);
                Ok(())
            })
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_probe_that_is_changed() -> Result<()> {
    run("a_probe_that_is_changed", async |stage: &Stage| {
        let evidence = Evidence::new(stage.case.node.run(), &stage.case.namespace, "pod")?;
        let container = evidence.mounted(Container::new("main"));
        stage.case.create(&evidence.mount(stage.manifest("pod")).container(container)).await?;
        let probe = |word: &str, period: u32| -> Value {
            let mut probe = exec(&format!("echo {word} >> /evidence/runs; echo {word}"));
            probe["periodSeconds"] = period.into();
            probe
        };
        let marker = |word, period| Marker::new("marker", "pod").probe("up", "main", probe(word, period));
        let ran = async |word: &str, times: usize| {
            await_condition(format!("{word} ran {times} times"), PATIENCE, async || {
                let count = evidence.count("runs", word)?;
                ensure!(count >= times, "{count} times");
                Ok(())
            })
            .await
        };
        stage.mark(&marker("slow", 3600)).await?;
        stage.await_says("pod", "up", "True", "slow").await?;
        // By the old period the second would come in an hour.
        stage.mark(&marker("slow", 1)).await?;
        ran("slow", 3).await?;
        // Another command is another probe: it runs at once, and its words replace the old ones.
        stage.mark(&marker("new", 3600)).await?;
        stage.await_says("pod", "up", "True", "new").await?;
        ensure!(evidence.count("runs", "new")? == 1, "{:?}", evidence.words("runs")?);
        // Without it in the marker nothing runs: shown by another probe that does.
        stage.mark(&Marker::new("marker", "pod").probe("down", "main", probe("next", 1))).await?;
        stage.await_says("pod", "up", "Unknown", "no probe asks").await?;
        let old = (evidence.count("runs", "slow")?, evidence.count("runs", "new")?);
        ran("next", 3).await?;
        ensure!(old == (evidence.count("runs", "slow")?, evidence.count("runs", "new")?), "{old:?}");
        Ok(())
    })
    .await
}
