//! Something comes in the middle of an update: another one, the way back, the pod's end; berthd dies at each
//! of its steps, the kubelet is restarted, the API server is away. In the end the pod is exactly what was
//! asked for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::UpdatePhase;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::recreate::HELD;
use berth_tests::update::Update;
use berth_tests::wait::await_condition;
use berthd::agent::fault::{Point, Way};
use kube::api::DeleteParams;

use super::{A_WHILE, Scene, container, gate, image};
use crate::case::{Case, is_ready, run_updating, run_updating_alone};
use crate::faults::{dies_and_comes_back, kubelet_is};

/// `high` takes its time to stop, and reads an annotation; `low` is below it.
async fn begin<'a>(case: &'a Case, hook: &str) -> Result<Scene<'a>> {
    Scene::begin(case, "pod", |pod, evidence| {
        let value = serde_json::json!({
            "name": "VALUE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['value']" } }
        });
        let high = evidence.container("high", hook).env_entry(value).priority(5);
        let pod = if hook == HELD { pod.grace(GRACE) } else { pod };
        pod.annotation("value", "one").container(high).container(container(evidence, "low", &[]).priority(1))
    })
    .await
}

/// Grace of a pod whose hook is held, in seconds: longer than what happens in the middle.
const GRACE: i64 = 60;
/// Objects know the second in which they were made: of two in one nobody can tell which is the newer.
const NEWER: Duration = Duration::from_millis(1100);

/// Waits until the old instance of `high` is being stopped.
async fn hook_runs(scene: &Scene<'_>, hooks: usize) -> Result<()> {
    await_condition("the hook runs", A_WHILE, async || {
        ensure!(scene.evidence.count("high", "hook")? >= hooks, "no hook yet");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_replaced_in_the_middle() -> Result<()> {
    run_updating("update_replaced_in_the_middle", async |case: &Case| {
        const SAME: &str = "berth.test/busybox:replaced";
        case.node.containerd().ctr(&["images", "tag", "--force", BUSYBOX, SAME]).await?;
        let scene = begin(case, HELD).await?;
        let first = Update::new("pod").image("high", BUSYBOX_NEXT).image("low", BUSYBOX_NEXT);
        let first = scene.ask("first", &first).await?;
        hook_runs(&scene, 1).await?;
        tokio::time::sleep(NEWER).await;
        // It wants something else of `low`, and of `high` what the first one does not touch.
        let second = Update::new("pod").image("low", SAME).annotation("value", "two");
        let second = scene.ask("second", &second).await?;
        scene.evidence.let_go()?;
        second.succeeded().await?;
        first.succeeded().await?;
        let now = scene.now().await?;
        ensure!(
            image(&now, "high")? == BUSYBOX_NEXT && image(&now, "low")? == SAME,
            "half of an update is left"
        );
        ensure!(scene.env("high", "VALUE").await? == "two", "old env");
        ensure!(scene.restarts("low").await? == 1, "low went by way of the first one's image");
        ensure!(gate(&now)? == "True", "the gate is closed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_rolled_back_in_the_middle() -> Result<()> {
    run_updating("update_rolled_back_in_the_middle", async |case: &Case| {
        let scene = begin(case, HELD).await?;
        let there = Update::new("pod")
            .image("high", BUSYBOX_NEXT)
            .image("low", BUSYBOX_NEXT)
            .annotation("value", "two");
        let there = scene.ask("there", &there).await?;
        hook_runs(&scene, 1).await?;
        tokio::time::sleep(NEWER).await;
        let back = Update::new("pod").image("high", BUSYBOX).image("low", BUSYBOX).annotation("value", "one");
        let back = scene.ask("back", &back).await?;
        scene.evidence.let_go()?;
        back.succeeded().await?;
        there.failed("Replaced").await?;
        if kubelet_is("1.33") {
            // It does not say which generation its status is of, so nobody knows that it still stops a
            // container, nor sees to it that this one gets the old env.
            return await_condition("the stop that had begun is over", A_WHILE, async || {
                // There alone, or there and back.
                ensure!((1..=2).contains(&scene.restarts("high").await?), "not yet");
                ensure!(image(&scene.now().await?, "high")? == BUSYBOX, "an image stayed");
                Ok(())
            })
            .await;
        }
        let now = scene.now().await?;
        ensure!(image(&now, "high")? == BUSYBOX && image(&now, "low")? == BUSYBOX, "an image stayed");
        ensure!(scene.env("high", "VALUE").await? == "one", "new env");
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        ensure!(scene.restarts("high").await? <= 2, "high was restarted more often than there and back");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_of_a_pod_that_is_deleted() -> Result<()> {
    run_updating("update_of_a_pod_that_is_deleted", async |case: &Case| {
        let scene = begin(case, HELD).await?;
        let asked = scene.ask("gone", &Update::new("pod").image("high", BUSYBOX_NEXT)).await?;
        hook_runs(&scene, 1).await?;
        case.pods.delete("pod", &DeleteParams::default()).await?;
        scene.evidence.let_go()?;
        asked.failed("PodGone").await?;
        case.await_gone("pod").await
    })
    .await
}

/// Checks that a begun update stays as it is, and that the pod goes back into service.
#[tokio::test]
async fn update_called_off() -> Result<()> {
    run_updating("update_called_off", async |case: &Case| {
        let scene = begin(case, HELD).await?;
        let update = Update::new("pod").image("high", BUSYBOX_NEXT).image("low", BUSYBOX_NEXT);
        let asked = scene.ask("off", &update).await?;
        hook_runs(&scene, 1).await?;
        asked.delete().await?;
        scene.evidence.let_go()?;
        case.await_pod("pod", "Ready again", |pod| {
            ensure!(crate::case::container(pod, "high")?.restart_count == 1, "not restarted yet");
            is_ready(pod)
        })
        .await?;
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        ensure!(image(&scene.now().await?, "low")? == BUSYBOX, "low was changed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_kubelet_restarted_in_the_middle() -> Result<()> {
    run_updating_alone("update_kubelet_restarted_in_the_middle", async |case: &Case| {
        let scene = begin(case, HELD).await?;
        let update = Update::new("pod").annotation("value", "two").image("low", BUSYBOX_NEXT);
        let asked = scene.ask("restart", &update).await?;
        hook_runs(&scene, 1).await?;
        case.node.kubelet()?.restart().await?;
        scene.evidence.let_go()?;
        asked.succeeded().await?;
        ensure!(scene.env("high", "VALUE").await? == "two", "old env");
        ensure!(scene.restarts("high").await? == 1, "high was not restarted once");
        ensure!(scene.running("low").await?.attempt == 1, "low was not restarted once");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_api_server_away() -> Result<()> {
    run_updating_alone("update_api_server_away", async |case: &Case| {
        let scene = begin(case, HELD).await?;
        let update = Update::new("pod").annotation("value", "two").image("low", BUSYBOX_NEXT);
        let before = scene.running("high").await?;
        let asked = scene.ask("away", &update).await?;
        hook_runs(&scene, 1).await?;
        crate::faults::without_api_server(case, async || {
            scene.evidence.let_go()?;
            await_condition("the container is replaced while the API server is away", A_WHILE, async || {
                ensure!(scene.running("high").await?.id != before.id, "it is not");
                Ok(())
            })
            .await?;
            crate::faults::is_missed(case).await
        })
        .await?;
        asked.succeeded().await?;
        ensure!(scene.env("high", "VALUE").await? == "two", "old env");
        for name in ["high", "low"] {
            ensure!(scene.restarts(name).await? == 1, "{name} was not restarted once");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_berthd_killed_at_every_step() -> Result<()> {
    run_updating_alone("update_berthd_killed_at_every_step", async |case: &Case| {
        let scene = begin(case, "sleep 0.2").await?;
        let berthd = case.node.berthd()?;
        let mut lost = 0;
        for (round, point) in Point::on(Way::Update).enumerate() {
            berthd.die_at(point.name())?;
            let next = if round % 2 == 0 { BUSYBOX_NEXT } else { BUSYBOX };
            let value = format!("killed at {}", point.name());
            let update = Update::new("pod").annotation("value", &value).image("low", next);
            let asked = scene.ask(point.name(), &update).await?;
            dies_and_comes_back(case, point, A_WHILE, async || {
                let status = asked.now().await?.and_then(|request| request.status);
                Ok(status.and_then(|status| status.phase) == Some(UpdatePhase::Completed))
            })
            .await?;
            let done = async {
                asked.succeeded().await?;
                ensure!(scene.env("high", "VALUE").await? == value, "old env");
                ensure!(image(&scene.now().await?, "low")? == next, "old image");
                // Whether a command that was about to go had begun cannot be known; then it is not begun
                // again.
                lost += usize::from(point == Point::Hooked);
                let hooks = scene.evidence.count("high", "hook")?;
                ensure!(hooks == round + 1 - lost, "{hooks} hooks in {} updates", round + 1);
                for name in ["high", "low"] {
                    // Attempts are not counted: one whose creation was lost on the way never ran.
                    scene.evidence.has(name, "start", round + 2).await?;
                }
                ensure!(gate(&scene.now().await?)? == "True", "the gate is closed");
                anyhow::Ok(())
            };
            done.await.with_context(|| format!("berthd killed at {}", point.name()))?;
            eprintln!("killed at {}: updated once", point.name());
        }
        Ok(())
    })
    .await
}
