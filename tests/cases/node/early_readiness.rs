//! Where the one that is waited for has a probe, the agent runs it as well: then a pod that lists its highest
//! container first comes up in one pass of the kubelet, without a refusal, and still in its order.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_tests::manifest::Container;
use berth_tests::observe::History;
use berth_tests::recreate::Evidence;
use berth_tests::wait::{Standstill, await_condition};
use k8s_openapi::api::events::v1::Event;
use kube::Api;

use crate::case::{Case, PATIENCE, run};

/// Lists the notes of the kubelet's Events on the pod's containers, those that it was refused included. The
/// Event of the start that was last comes after all others.
async fn told(case: &Case, last: &str) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(case.pods.clone().into_client(), &case.namespace);
    await_condition(format!("the Event that {last} was started"), PATIENCE, async || {
        let found = events.list(&Default::default()).await?.items;
        let of_last = |event: &Event| {
            let field = event.regarding.as_ref().and_then(|regarding| regarding.field_path.as_deref());
            let is_last = field == Some(&format!("spec.containers{{{last}}}"));
            is_last && event.reason.as_deref() == Some("Started")
        };
        ensure!(found.iter().any(of_last), "{} Events", found.len());
        Ok(found.into_iter().filter_map(|event| event.note).collect())
    })
    .await
}

/// None was refused: whoever is refused is told of, and tried again with the next pass. A call is held for
/// five seconds, of which the pods here leave two: on a machine that stood still while they came up, and lost
/// more than a second, a refusal is right.
async fn came_up_in_one_pass(case: &Case, history: &History, names: &[&str], lost: Duration) -> Result<()> {
    let last = names.last().context("no names")?;
    let refusals: Vec<_> =
        told(case, last).await?.into_iter().filter(|note| note.contains("launch order")).collect();
    ensure!(refusals.is_empty() || lost > Duration::from_secs(1), "{refusals:?}; {lost:?} were lost");
    for name in names {
        ensure!(history.of(name).len() == 1, "instances of {name}: {:?}", history.of(name));
    }
    Ok(())
}

#[tokio::test]
async fn highest_first_comes_up_in_one_pass() -> Result<()> {
    run("highest_first_comes_up_in_one_pass", async |case: &Case| {
        const APART: Duration = Duration::from_secs(1);
        let recorder = case.record("pod");
        let late = |name: &str| {
            // Longer than what is asked for: the runtime notes a start after the program's first step.
            Container::new(name).shell("sleep 1.5; touch /tmp/ready").ready_when("test -f /tmp/ready")
        };
        let manifest = case
            .manifest("pod")
            .container(late("a").priority(3))
            .container(late("b").priority(2))
            .container(late("c").priority(1));
        let still = Standstill::watch();
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        let lost = still.lost();
        let history = recorder.finish().await?;
        history.check_start_order(&["a", "b", "c"], APART)?;
        came_up_in_one_pass(case, &history, &["a", "b", "c"], lost).await
    })
    .await
}

/// The others wait until the probe has succeeded, however often it is tried before.
#[tokio::test]
async fn nothing_is_early_before_the_probe_succeeds() -> Result<()> {
    run("nothing_is_early_before_the_probe_succeeds", async |case: &Case| {
        let evidence = Evidence::new(case.node.run(), &case.namespace, "pod")?;
        let recorder = case.record("pod");
        let higher = evidence
            .mounted(Container::new("higher").priority(1))
            .ready_when("echo try >> /evidence/tries; test -f /evidence/go");
        let manifest =
            evidence.mount(case.manifest("pod")).container(higher).container(Container::new("lower"));
        let still = Standstill::watch();
        case.create(&manifest).await?;
        // More would take a slow machine longer than a call is held.
        await_condition("the probe was tried twice", PATIENCE, async || {
            let tries = evidence.count("tries", "try")?;
            ensure!(tries >= 2, "{tries} times");
            Ok(())
        })
        .await?;
        let early = recorder.so_far();
        ensure!(early.of("lower").is_empty(), "lower was created: {:?}", early.of("lower"));
        evidence.put("go")?;
        case.await_ready("pod").await?;
        let lost = still.lost();
        let history = recorder.finish().await?;
        let (go, started) = (evidence.written_at("go")?, history.started("lower")?);
        if started < go {
            bail!("lower was started {} ms before the probe could succeed", (go - started) / 1_000_000);
        }
        came_up_in_one_pass(case, &history, &["higher", "lower"], lost).await
    })
    .await
}
