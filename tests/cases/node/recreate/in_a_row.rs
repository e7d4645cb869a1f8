//! Eight times in a row, under every restart policy: as fast the last time as the first, and nothing is lost on the way.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::recreate::Ask;

use super::{PATIENCE, Scene};
use crate::case::{Case, container, run};

const ROUNDS: usize = 8;

async fn eight_times(case: &Case, policy: &str) -> Result<()> {
    let scene = Scene::begin(case, "pod", |pod, evidence| {
        pod.container(evidence.container("a", "sleep 0.2")).spec("restartPolicy", policy)
    })
    .await?;
    for round in 1..=ROUNDS {
        let before = scene.running("a").await?;
        let asked = scene.ask(&format!("round-{round}"), &Ask::new("pod", &["a"])).await?;
        let status = asked.succeeded(PATIENCE).await.with_context(|| format!("round {round}"))?;
        let state = status.container_recreate_states.first().context("no state of a")?;
        ensure!(state.is_killed && state.name == "a", "{state:?}");
        scene.replaced_once("a", &before, round).await?;

        // What is said of the instance before is the truth about it.
        let pod = case.pods.get("pod").await?;
        let last = container(&pod, "a")?.last_state.clone().and_then(|state| state.terminated);
        let last = last.context("no lastState")?;
        ensure!(last.exit_code == 0, "lastState {last:?}");
        ensure!(
            last.container_id.is_some_and(|id| id.ends_with(&before.id)),
            "lastState of another instance"
        );
        let ended = scene.instances("a").await?;
        let ended =
            ended.iter().find(|instance| instance.id == before.id).context("the old instance is gone")?;
        let now = scene.running("a").await?;
        let down = Duration::from_nanos(u64::try_from(now.started_at - ended.finished_at)?);
        // Measured by `berth-bench recreate`; here only: no back-off.
        ensure!(down < Duration::from_secs(10), "round {round}: down for {down:?}");
    }
    let logs = case.pods.logs("pod", &kube::api::LogParams { previous: true, ..Default::default() }).await?;
    ensure!(logs.contains("term"), "the previous instance logged {logs:?}");
    Ok(())
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
