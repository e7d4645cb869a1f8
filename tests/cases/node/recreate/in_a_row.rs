//! Eight times in a row, under every restart policy: as fast the last time as the first, and nothing is lost
//! on the way.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::observe::Instance;
use berth_tests::recreate::Ask;
use kube::api::LogParams;

use super::{PATIENCE, Scene};
use crate::case::{Case, container, run};

const ROUNDS: usize = 8;

/// Longer than a container is down on a slow machine. A back-off would be twice as long each time: 10 s for
/// the second restart, and 40 s for the fourth.
const BACK_OFF: Duration = Duration::from_secs(30);

/// How often the kubelet collects garbage.
const COLLECTION: Duration = Duration::from_secs(60);

async fn eight_times(case: &Case, policy: &str) -> Result<()> {
    let scene = Scene::begin(case, "pod", |pod, evidence| {
        pod.container(evidence.container("a", "sleep 0.2")).spec("restartPolicy", policy)
    })
    .await?;
    let (begun, mut collected) = (Instant::now(), 0);
    for round in 1..=ROUNDS {
        let before = scene.running("a").await?;
        let asked = scene.ask(&format!("round-{round}"), &Ask::new("pod", &["a"])).await?;
        let status = asked.succeeded(PATIENCE).await.with_context(|| format!("round {round}"))?;
        let state = status.container_recreate_states.first().context("no state of a")?;
        ensure!(state.is_killed && state.name == "a", "{state:?}");
        scene.replaced_once("a", &before, round).await?;
        let ended = scene.evidence.ended_at("a")?;
        let down = Duration::from_nanos(u64::try_from(scene.running("a").await?.started_at - ended)?);
        // Measured by `berth-bench recreate`; here only: no back-off.
        ensure!(down < BACK_OFF, "round {round}: down for {down:?}");
        if !told_of(&scene, &before).await.with_context(|| format!("round {round}"))? {
            collected += 1;
        }
    }
    let turns = begun.elapsed().as_secs() / COLLECTION.as_secs() + 1;
    ensure!(collected <= turns, "{collected} old instances are gone, and no kubelet has taken that many");
    Ok(())
}

/// Checks that the report about the instance before is the truth. It returns false if that instance is gone:
/// the kubelet's garbage collection keeps one instance that does not run, and in the moment in which the new
/// one is created and not started it takes the old one.
async fn told_of(scene: &Scene<'_>, before: &Instance) -> Result<bool> {
    if !scene.instances("a").await?.iter().any(|instance| instance.id == before.id) {
        return Ok(false);
    }
    let pods = &scene.case.pods;
    let last = container(&pods.get("pod").await?, "a")?.last_state.clone().and_then(|state| state.terminated);
    let last = last.context("no lastState")?;
    ensure!(last.exit_code == 0, "lastState {last:?}");
    ensure!(last.container_id.is_some_and(|id| id.ends_with(&before.id)), "lastState of another instance");
    let logs = pods.logs("pod", &LogParams { previous: true, ..Default::default() }).await?;
    ensure!(logs.contains("term"), "the previous instance logged {logs:?}");
    Ok(true)
}

#[tokio::test]
async fn recreate_in_a_row_always() -> Result<()> {
    run("recreate_in_a_row_always", async |case: &Case| eight_times(case, "Always").await).await
}

#[tokio::test]
async fn recreate_in_a_row_on_failure() -> Result<()> {
    run("recreate_in_a_row_on_failure", async |case: &Case| eight_times(case, "OnFailure").await).await
}

#[tokio::test]
async fn recreate_in_a_row_never() -> Result<()> {
    run("recreate_in_a_row_never", async |case: &Case| eight_times(case, "Never").await).await
}
