//! The containers of a pod are started in their declared order, each level only when the one above it is
//! ready.
//!
//! All pods list the lowest priority first: without Berth the kubelet would start them in exactly the wrong
//! order, as the baseline test shows.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_tests::manifest::{Container, probe};
use berth_tests::observe::History;

use crate::case::{Case, container, run};

/// Time that a container takes at least to get ready. One that was started sooner after another cannot have
/// waited for its readiness.
const READY_AFTER: Duration = Duration::from_secs(1);

/// Not ready until [`READY_AFTER`] its start, and another second: the runtime notes a start when it comes to
/// it, which on a busy machine is later than the program's first step.
fn ready_late(name: &str) -> Container {
    Container::new(name).shell("sleep 2; touch /tmp/ready").ready_when("test -f /tmp/ready")
}

/// Nothing was tried twice: no container was created and not started, or started and started again.
fn check_one_instance_each(history: &History, names: &[&str]) -> Result<()> {
    for name in names {
        ensure!(history.of(name).len() == 1, "instances of {name}: {:?}", history.of(name));
    }
    Ok(())
}

#[tokio::test]
async fn lowest_first_with_probes() -> Result<()> {
    run("lowest_first_with_probes", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(ready_late("c").priority(1))
            .container(ready_late("b").priority(2))
            .container(ready_late("a").priority(3));
        case.create(&manifest).await?;
        let pod = case.await_ready("pod").await?;
        let history = recorder.finish().await?;
        history.check_start_order(&["a", "b", "c"], READY_AFTER)?;
        check_one_instance_each(&history, &["a", "b", "c"])?;
        for name in ["a", "b", "c"] {
            ensure!(container(&pod, name)?.restart_count == 0, "{name} was restarted");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn lowest_first_without_probes() -> Result<()> {
    run("lowest_first_without_probes", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(Container::new("c").priority(1))
            .container(Container::new("b").priority(2))
            .container(Container::new("a").priority(3));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        let history = recorder.finish().await?;
        history.check_start_order(&["a", "b", "c"], Duration::ZERO)?;
        check_one_instance_each(&history, &["a", "b", "c"])
    })
    .await
}

/// Listed in the order of their start, so that only the waiting for readiness is Berth's.
#[tokio::test]
async fn ordered_as_listed() -> Result<()> {
    run("ordered_as_listed", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .ordered()
            .container(ready_late("a"))
            .container(ready_late("b"))
            .container(ready_late("c"));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        let history = recorder.finish().await?;
        history.check_start_order(&["a", "b", "c"], READY_AFTER)?;
        check_one_instance_each(&history, &["a", "b", "c"])
    })
    .await
}

/// Equal priorities wait for nobody: all of them run although none ever gets ready.
#[tokio::test]
async fn equal_priorities() -> Result<()> {
    run("equal_priorities", async |case: &Case| {
        let mut manifest = case.manifest("pod");
        for name in ["a", "b", "c"] {
            manifest = manifest.container(Container::new(name).priority(7).ready_when("false"));
        }
        case.create(&manifest).await?;
        case.await_pod("pod", "all run", |pod| {
            for name in ["a", "b", "c"] {
                let status = container(pod, name)?;
                ensure!(status.state.as_ref().is_some_and(|state| state.running.is_some()), "{status:?}");
            }
            Ok(())
        })
        .await?;
        Ok(())
    })
    .await
}

/// A container without a priority has 0. Every container of a level waits for every one of the level above.
#[tokio::test]
async fn mixed_priorities() -> Result<()> {
    run("mixed_priorities", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(ready_late("below").priority(-1))
            .container(ready_late("none"))
            .container(ready_late("top1").priority(10))
            .container(ready_late("zero").priority(0))
            .container(ready_late("top2").priority(10));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        let history = recorder.finish().await?;
        let levels = [vec!["top1", "top2"], vec!["none", "zero"], vec!["below"]];
        for level in levels.windows(2) {
            for before in &level[0] {
                for after in &level[1] {
                    history.check_start_order(&[before, after], READY_AFTER)?;
                }
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn one_container() -> Result<()> {
    run("one_container", async |case: &Case| {
        case.create(&case.manifest("pod").ordered().container(Container::new("a").priority(3))).await?;
        case.await_ready("pod").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn both_ends_of_the_range() -> Result<()> {
    run("both_ends_of_the_range", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(Container::new("lowest").priority(-2_147_483_647))
            .container(Container::new("middle"))
            .container(Container::new("highest").priority(2_147_483_647));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        recorder.finish().await?.check_start_order(&["highest", "middle", "lowest"], Duration::ZERO)
    })
    .await
}

/// The order is among the regular containers: what runs before and beside them has its own place, whatever it
/// says.
#[tokio::test]
async fn init_containers_and_sidecars_are_not_gated() -> Result<()> {
    run("init_containers_and_sidecars_are_not_gated", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .init_container(Container::new("init").only("true").priority(-5))
            .init_container(Container::new("sidecar").priority(-9).field("restartPolicy", "Always"))
            .container(Container::new("b").priority(1))
            .container(Container::new("a").priority(2).field("startupProbe", probe("true")));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        recorder.finish().await?.check_start_order(&["init", "sidecar", "a", "b"], Duration::ZERO)
    })
    .await
}
