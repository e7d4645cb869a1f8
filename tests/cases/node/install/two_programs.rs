//! The data path as a service of its own: whatever becomes of berthd's, no call fails; and both are taken
//! away together.

use anyhow::{Context, Result, ensure};
use berth_tests::observe::Caller;
use berth_tests::wait::await_condition;

use super::pods::Pods;
use super::{LONG, is_as_before};
use crate::case::PATIENCE;

#[tokio::test]
async fn two_programs_are_installed_and_removed() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;
    let said = node.ctl(&["install", LONG]).await?;
    ensure!(said.contains("through Berth"), "{said}");
    pods.untouched("web", &web).await?;
    pods.ordered("ordered").await?;
    let doctor = node.ctl(&["doctor"]).await?;
    ensure!(!doctor.lines().any(|line| line.starts_with("fail")), "{doctor}");
    ensure!(doctor.contains("berth-shim.service is enabled and active"), "{doctor}");
    ensure!(doctor.contains("of them the kubelet's"), "{doctor}");
    let score =
        node.systemd().succeed("systemd-analyze", &["security", "--no-pager", "berth-shim.service"]).await?;
    ensure!(score.lines().last().context("a score")?.contains("SAFE"), "{score}");

    // Killed, restarted and upgraded, each under calls: the kubelet's connection stays where it is.
    let main = async |unit: &str| node.systemd().property(unit, "MainPID").await;
    let (shim, kubelet) = (main("berth-shim.service").await?, main("kubelet.service").await?);
    let caller = Caller::start(&node.systemd().path("/run/berth/cri.sock"))?;
    for how in ["kill", "restart"] {
        let old = main("berthd.service").await?;
        match how {
            "kill" => node.systemd().systemctl(&["kill", "--signal=SIGKILL", "berthd.service"]).await?,
            _ => node.systemd().systemctl(&["restart", "berthd.service"]).await?,
        };
        await_condition("another berthd is connected", PATIENCE, async || {
            let now = main("berthd.service").await?;
            ensure!(now != old && now != "0", "{now}");
            let said = node.ctl(&["status"]).await?;
            ensure!(said.contains("berthd is connected"), "{said}");
            ensure!(said.contains("system calls filtered"), "{said}");
            Ok(())
        })
        .await?;
    }
    ensure!(main("berth-shim.service").await? == shim, "berth-shim was restarted");
    node.ctl(&["upgrade", "--shim"]).await?;
    caller.all_answered().await?;
    await_condition("berth-shim has another main process", PATIENCE, async || {
        let now = main("berth-shim.service").await?;
        ensure!(now != shim && now != "0", "{now}");
        Ok(())
    })
    .await?;
    ensure!(node.systemd().property("berth-shim.service", "NRestarts").await? == "0", "it was restarted");

    // Both end with their last call; systemd starts them again, as it does after a drain of one.
    node.ctl(&["drain", "--shim"]).await?;
    await_condition("both serve again", PATIENCE, async || {
        let said = node.ctl(&["status"]).await?;
        ensure!(said.contains("berthd is connected"), "{said}");
        Ok(())
    })
    .await?;
    pods.ordered("ordered-again").await?;

    // No flag is needed any more, and nothing is left to be done.
    node.ctl(&["install", LONG]).await?;
    ensure!(main("kubelet.service").await? == kubelet, "the kubelet was restarted for nothing");
    pods.untouched("web", &web).await?;

    let said = node.ctl(&["uninstall", "--purge", LONG]).await?;
    ensure!(said.contains("Berth is removed"), "{said}");
    is_as_before(&node).await?;
    pods.untouched("web", &web).await?;
    node.down()
}
