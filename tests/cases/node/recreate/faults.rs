//! Something goes away in the middle of a recreate: berthd at each of its steps, the kubelet, containerd, the
//! API server. Whatever it is, in the end the container was replaced once, by way of its hook once, and the
//! request says so.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::RecreatePhase;
use berth_tests::recreate::{Ask, Asked, HELD};
use berth_tests::wait::await_condition;
use berthd::agent::fault::{Point, Way};

use super::{PATIENCE, Scene};
use crate::case::{Case, run_alone};
use crate::faults::dies_and_comes_back;

/// A kubelet that lost a call comes back after 10 to 15 s; twice that, and the machine has other work.
const LONG: Duration = Duration::from_secs(240);

/// Grace of a pod whose hook is held, in seconds: longer than what happens in the middle.
const GRACE: i64 = 60;

async fn hook_runs(scene: &Scene<'_>) -> Result<()> {
    await_condition("the hook runs", PATIENCE, async || {
        ensure!(scene.evidence.count("a", "hook")? >= 1, "no hook yet");
        Ok(())
    })
    .await
}

/// A request during which `fault` happens once the hook runs.
async fn in_the_middle(case: &Case, policy: &str, fault: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let scene = Scene::begin(case, "pod", |pod, evidence| {
        pod.container(evidence.container("a", HELD)).spec("restartPolicy", policy).grace(GRACE)
    })
    .await?;
    let before = scene.running("a").await?;
    let asked = scene.ask("disturbed", &Ask::new("pod", &["a"])).await?;
    hook_runs(&scene).await?;
    fault().await?;
    scene.evidence.let_go()?;
    asked.succeeded(LONG).await?;
    scene.replaced_once("a", &before, 1).await
}

#[tokio::test]
async fn recreate_berthd_killed_in_the_hook() -> Result<()> {
    run_alone("recreate_berthd_killed_in_the_hook", async |case: &Case| {
        in_the_middle(case, "Always", async || case.node.berthd()?.crash().await).await
    })
    .await
}

#[tokio::test]
async fn recreate_berthd_killed_in_the_hook_never() -> Result<()> {
    run_alone("recreate_berthd_killed_in_the_hook_never", async |case: &Case| {
        in_the_middle(case, "Never", async || case.node.berthd()?.crash().await).await
    })
    .await
}

#[tokio::test]
async fn recreate_kubelet_restarted_in_the_hook() -> Result<()> {
    run_alone("recreate_kubelet_restarted_in_the_hook", async |case: &Case| {
        in_the_middle(case, "Always", async || case.node.kubelet()?.restart().await).await
    })
    .await
}

#[tokio::test]
async fn recreate_api_server_away() -> Result<()> {
    run_alone("recreate_api_server_away", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", HELD)).grace(GRACE)
        })
        .await?;
        let before = scene.running("a").await?;
        let asked = scene.ask("disturbed", &Ask::new("pod", &["a"])).await?;
        hook_runs(&scene).await?;
        crate::faults::without_api_server(case, async || {
            scene.evidence.let_go()?;
            await_condition("the container is replaced while the API server is away", PATIENCE, async || {
                ensure!(scene.running("a").await?.id != before.id, "it is not");
                Ok(())
            })
            .await?;
            crate::faults::is_missed(case).await
        })
        .await?;
        asked.succeeded(LONG).await?;
        scene.replaced_once("a", &before, 1).await
    })
    .await
}

/// Kills berthd at one point of a request.
async fn killed_at(scene: &Scene<'_>, point: Point) -> Result<Asked> {
    let berthd = scene.case.node.berthd()?;
    berthd.die_at(point.name())?;
    let asked = scene.ask(&format!("killed-{}", point.name()), &Ask::new(&scene.pod, &["a"])).await?;
    dies_and_comes_back(scene.case, point, PATIENCE, async || {
        let status = asked.now().await?.and_then(|request| request.status);
        Ok(status.and_then(|status| status.phase) == Some(RecreatePhase::Completed))
    })
    .await?;
    Ok(asked)
}

/// Recreates the container until there is an old instance to remove, and says how often; `hooks` have run
/// before. Once is not always enough: the kubelet's garbage collector keeps one instance of those that do not
/// run, and while the next one is created and not started, that is the next one.
async fn has_old_instance(scene: &Scene<'_>, hooks: usize) -> Result<usize> {
    for recreated in 0..5 {
        if scene.instances("a").await?.len() > 1 {
            return Ok(recreated);
        }
        let before = scene.running("a").await?;
        let name = format!("after-{}", before.attempt);
        scene.ask(&name, &Ask::new(&scene.pod, &["a"])).await?.succeeded(PATIENCE).await?;
        scene.replaced_once("a", &before, hooks + recreated + 1).await?;
    }
    bail!("no old instance stays: {:?}", scene.instances("a").await?)
}

async fn at_every_point(case: &Case, policy: &str) -> Result<()> {
    let scene = Scene::begin(case, "pod", |pod, evidence| {
        pod.container(evidence.container("a", "sleep 0.3")).spec("restartPolicy", policy)
    })
    .await?;
    let (mut starts, mut hooks) = (1, 0);
    for point in Point::on(Way::Recreate) {
        if matches!(point, Point::Removing | Point::Removed) {
            let recreated = has_old_instance(&scene, hooks).await?;
            (starts, hooks) = (starts + recreated, hooks + recreated);
        }
        let before = scene.running("a").await?;
        let asked = killed_at(&scene, point).await.with_context(|| point.name().to_owned())?;
        let done = async {
            asked.succeeded(LONG).await?;
            // Whether a command that was about to go had begun cannot be known; then it is not begun again.
            let lost = point == Point::Hooked;
            hooks += usize::from(!lost);
            starts += 1;
            // One that was created and not started leaves its number behind.
            let now = scene.running("a").await?;
            ensure!(now.id != before.id, "it was not replaced");
            scene.evidence.has("a", "start", starts).await?;
            let seen = scene.evidence.count("a", "hook")?;
            ensure!(seen == hooks, "{seen} hooks instead of {hooks}");
            scene.shown("a", &now).await
        };
        done.await.with_context(|| format!("berthd killed at {}, restartPolicy {policy}", point.name()))?;
        eprintln!("killed at {} ({policy}): replaced once", point.name());
    }
    Ok(())
}

#[tokio::test]
async fn recreate_berthd_killed_at_every_step_always() -> Result<()> {
    run_alone("recreate_berthd_killed_at_every_step_always", async |case: &Case| {
        at_every_point(case, "Always").await
    })
    .await
}

#[tokio::test]
async fn recreate_berthd_killed_at_every_step_never() -> Result<()> {
    run_alone("recreate_berthd_killed_at_every_step_never", async |case: &Case| {
        at_every_point(case, "Never").await
    })
    .await
}
