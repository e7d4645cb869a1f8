//! More exec probes than the node is to bear: they run as often as the budget has it, all of them, and it is
//! said.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::Marker;
use berth_tests::node::NODE_NAME;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;

use super::{Stage, exec, run_alone};
use crate::case::PATIENCE;

/// 40 probes, one a second each.
const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];
const EACH: usize = 10;
/// `probes.execPerSecond`, and how many may begin together.
const PER_SECOND: f64 = 8.0;
const BURST: f64 = 4.0;
/// `probes.execConcurrent`: so many may have begun and not yet written.
const AT_ONCE: f64 = 4.0;

async fn ready(stage: &Stage<'_>) -> Result<NodeCondition> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let conditions = nodes.get(NODE_NAME).await?.status.unwrap_or_default().conditions.unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == "Ready").context("no condition")
}

async fn await_on_time(stage: &Stage<'_>, status: &str) -> Result<Condition> {
    await_condition(format!("OnTime is {status}"), PATIENCE, async || {
        let conditions = stage.objects.get(NODE_NAME).await?.status.unwrap_or_default().conditions;
        let on_time = conditions.into_iter().find(|condition| condition.type_ == "OnTime");
        match on_time {
            Some(on_time) if on_time.status == status => Ok(on_time),
            other => bail!("{other:?}"),
        }
    })
    .await
}

#[tokio::test]
async fn the_budget_of_exec_probes_holds() -> Result<()> {
    run_alone("the_budget_of_exec_probes_holds", async |stage: &Stage| {
        let evidence = Evidence::new(stage.case.node.run(), &stage.case.namespace, "all")?;
        for pod in PODS {
            let main = evidence.mounted(Container::new("main"));
            let manifest = evidence.mount(stage.case.manifest(pod).label("app", "busy"));
            stage.case.create(&manifest.container(main)).await?;
        }
        for pod in PODS {
            stage.case.await_ready(pod).await?;
        }
        let before = ready(stage).await?;
        let marker = (0..EACH).fold(Marker::new("marker", "busy"), |marker, number| {
            marker.probe(
                &format!("n{number}"),
                "main",
                exec(&format!("echo $HOSTNAME-{number} >> /evidence/runs")),
            )
        });
        stage.mark(&marker).await?;
        await_condition("every probe has had its turn", PATIENCE, async || {
            let who: BTreeSet<_> = evidence.words("runs")?.into_iter().collect();
            ensure!(who.len() == PODS.len() * EACH, "{} of them", who.len());
            Ok(())
        })
        .await?;

        let (begun, first) = (Instant::now(), evidence.words("runs")?.len());
        let on_time = await_on_time(stage, "False").await?;
        let (last, seconds) = (evidence.words("runs")?.len(), begun.elapsed().as_secs_f64());
        let runs = (last - first) as f64;
        eprintln!("{runs} runs in {seconds:.1} s; {}", on_time.message);
        ensure!(runs <= PER_SECOND * seconds + BURST + AT_ONCE, "{runs} runs in {seconds} s");
        ensure!(
            on_time.reason == "OverBudget" && on_time.message.contains("later than they should"),
            "{on_time:?}"
        );
        let after = ready(stage).await?;
        ensure!(
            after.status == "True" && after.last_transition_time == before.last_transition_time,
            "{before:?}, then {after:?}"
        );

        stage.unmark("marker").await?;
        await_on_time(stage, "True").await?;
        for pod in PODS {
            stage.await_untold(pod).await?;
        }
        // None runs any more of those that were waiting for their turns: there is nothing to await.
        let end = evidence.words("runs")?.len();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let more = evidence.words("runs")?.len() - end;
        ensure!(more as f64 <= AT_ONCE, "{more} runs after the marker was gone");
        Ok(())
    })
    .await
}
