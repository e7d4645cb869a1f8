//! Upgrades that go well: by `berthctl upgrade`, and by a process that somebody else starts.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::observe::{Caller, Cri, complaints};
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;

use super::{QUICKLY, check_node_ready_since};
use crate::case::{Case, PATIENCE, container, run_alone};

/// Calls of other clients go on, a long command that was begun before the upgrade ends after it, a pod that
/// starts in the middle starts in its order, one that stops does so in its order and with its grace.
#[tokio::test]
async fn three_in_a_row() -> Result<()> {
    run_alone("three_in_a_row", async |case: &Case| {
        // A test before this one may have had the kubelet without its runtime.
        case.node.registered_and_ready().await?;
        let began = jiff::Timestamp::now();
        let berthd = case.node.berthd()?;
        let cri = Cri::connect(berthd.socket())?;
        let stays = case.manifest("stays").container(Container::new("main"));
        case.create(&stays).await?;
        let id = case.await_ready("stays").await.and_then(|pod| {
            let id = container(&pod, "main")?.container_id.clone().unwrap_or_default();
            Ok(id.trim_start_matches("containerd://").to_owned())
        })?;
        let caller = Caller::start(berthd.socket())?;
        for round in 0..3 {
            let (starts, stops) = (format!("starts-{round}"), format!("stops-{round}"));
            // They say it themselves: who looks now and then may miss the end of one that is removed.
            let evidence = Evidence::new(case.node.run(), &case.namespace, &stops)?;
            let slow = "trap 'sleep 2; touch /evidence/b.ended; exit 0' TERM; while :; do sleep 0.1; done";
            let pod = evidence
                .mount(case.manifest(&stops).grace(120))
                .container(evidence.mounted(Container::new("b").only(slow)).priority(1))
                .container(evidence.container("a", "").priority(2));
            case.create(&pod).await?;
            case.await_ready(&stops).await?;
            let starting = case.record(&starts);
            let pod = case.manifest(&starts).container(Container::new("b").priority(1)).container(
                Container::new("a").shell("sleep 1; touch /tmp/up").ready_when("test -f /tmp/up").priority(2),
            );
            let before = berthd.service().pid();
            let long = tokio::spawn({
                let (cri, id) = (cri.clone(), id.clone());
                async move { cri.exec(&id, &["/bin/sh", "-c", "sleep 4; echo done"]).await }
            });
            // Nobody waits for it: it stops in the middle.
            case.pods.delete(&stops, &Default::default()).await?;
            case.create(&pod).await?;
            berthd.upgrade(&berthd.program()?, QUICKLY).await?;
            ensure!(berthd.service().pid() != before, "the same process answers");
            case.await_ready(&starts).await?;
            case.await_gone(&stops).await?;
            starting.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)?;
            evidence.check_exit_order(&["b", "a"], Duration::ZERO)?;
            let (code, output) = long.await??;
            ensure!(code == 0 && output.contains("done"), "exit {code}: {output}");
            let old = before.unwrap_or_default();
            await_condition("the old berthd ends", PATIENCE, async || {
                ensure!(!std::path::Path::new(&format!("/proc/{old}/exe")).exists(), "it runs");
                Ok(())
            })
            .await?;
        }
        caller.all_answered().await?;
        for pod in case.pods.list(&Default::default()).await?.items {
            for status in pod.status.and_then(|status| status.container_statuses).unwrap_or_default() {
                ensure!(status.restart_count == 0, "{status:?}");
            }
        }
        let complaints = complaints(&case.pods.clone().into_client(), &case.namespace).await?;
        ensure!(complaints.is_empty(), "{complaints:?}");
        check_node_ready_since(case, began).await
    })
    .await
}

/// While the old process still looks after it, the new one is succeeded itself, and the one after it is told
/// to end: nobody may take that for a crash and start another.
#[tokio::test]
async fn told_to_end_at_once() -> Result<()> {
    run_alone("told_to_end_at_once", async |case: &Case| {
        let berthd = case.node.berthd()?;
        let mut processes = Vec::new();
        for _ in 0..2 {
            processes.extend(berthd.service().pid());
            berthd.upgrade(&berthd.program()?, &["--watch=0s"]).await?;
        }
        let last = berthd.service().pid();
        berthd.service().stop()?;
        for old in processes.into_iter().chain(last) {
            await_condition(format!("berthd {old} ends"), PATIENCE, async || {
                ensure!(!std::path::Path::new(&format!("/proc/{old}/exe")).exists(), "it runs");
                Ok(())
            })
            .await?;
        }
        // With the last of them the last descriptor of the socket was closed.
        let nobody = tokio::net::UnixStream::connect(berthd.admin_socket()).await.is_err();
        // The tests after this one have one, whatever comes.
        berthd.service().start()?;
        berthd.ready().await?;
        ensure!(nobody, "somebody answers");
        Ok(())
    })
    .await
}

/// As a DaemonSet's new pod does it.
#[tokio::test]
async fn by_a_process_that_comes_by_itself() -> Result<()> {
    run_alone("by_a_process_that_comes_by_itself", async |case: &Case| {
        let berthd = case.node.berthd()?;
        let caller = Caller::start(berthd.socket())?;
        let before = berthd.service().pid();
        berthd.succeed_by_itself().await?;
        ensure!(berthd.service().pid() != before, "the same process answers");
        let pod = case
            .manifest("pod")
            .container(Container::new("b").priority(1))
            .container(Container::new("a").priority(2));
        let recorder = case.record("pod");
        case.create(&pod).await?;
        case.await_ready("pod").await?;
        recorder.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)?;
        caller.all_answered().await?;
        Ok(())
    })
    .await
}
