//! Calls that the kubelet had made come to their end when berthd is killed.

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::Container;
use berth_tests::wait::await_condition;
use kube::api::DeleteParams;

use super::LONG;
use super::pods::Pods;
use crate::case::PATIENCE;

const GRACE: i64 = 20;

#[tokio::test]
async fn a_stop_goes_on_when_berthd_is_killed() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    node.ctl(&["install", "--one-program", LONG]).await?;
    let deaf = Container::new("deaf").only("trap 'touch /tmp/told' TERM; while :; do sleep 1; done");
    let deaf = pods.play("deaf", Pods::manifest("deaf").container(deaf).grace(GRACE)).await?;
    let (_, deaf, _) = deaf.first().context("no container")?;
    let kept = async || -> Result<usize> {
        Ok(node.systemd().property("berthd.service", "NFileDescriptorStore").await?.parse()?)
    };
    ensure!(kept().await? > 0, "systemd keeps nothing");

    pods.api.delete("deaf", &DeleteParams::default()).await.context("delete")?;
    await_condition("the kubelet's StopContainer is with the runtime", PATIENCE, async || {
        ensure!(
            pods.cri.exec(deaf, &["test", "-f", "/tmp/told"]).await?.0 == 0,
            "the container was not told to end"
        );
        Ok(())
    })
    .await?;
    // Frozen, it asks nobody again: what goes on now goes on by itself.
    let signal = async |unit: &str, signal: &str| {
        node.systemd().systemctl(&["kill", &format!("--signal={signal}"), unit]).await
    };
    signal("kubelet.service", "SIGSTOP").await?;
    let main = async || node.systemd().property("berthd.service", "MainPID").await;
    let old = main().await?;
    signal("berthd.service", "SIGKILL").await?;
    await_condition("another berthd serves", PATIENCE, async || {
        let now = main().await?;
        ensure!(now != old && now != "0", "it is {now}");
        node.ctl(&["status"]).await
    })
    .await?;
    await_condition("the container ended, and nobody had asked again", PATIENCE, async || {
        let states = pods.cri.states("default", "deaf").await?;
        let ended = states.iter().all(|(_, state)| *state == ContainerState::ContainerExited);
        ensure!(ended, "{states:?}");
        Ok(())
    })
    .await?;
    signal("kubelet.service", "SIGCONT").await?;
    pods.gone("deaf").await?;

    // Its own connections are kept, and none of those before it; also when it is replaced without a kill.
    pods.ordered("ordered").await?;
    let before = kept().await?;
    ensure!((1..=4).contains(&before), "{before} connections are kept");
    node.ctl(&["upgrade", "--watch=2s", "--ready-within=120s"]).await?;
    pods.ordered("ordered-again").await?;
    let after = kept().await?;
    ensure!((1..=before).contains(&after), "{after} connections are kept, {before} were before");
    node.down()
}
