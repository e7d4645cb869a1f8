//! From a node without Berth to one with it, past it, to it again, and back; the pods go on all the time.

use anyhow::{Result, ensure};

use super::pods::Pods;
use super::{DROP_IN, FLAG, LONG, WRITTEN, is_as_before};
use crate::node_labels::{await_labels, labels};

#[tokio::test]
async fn installed_bypassed_and_removed() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;
    let old_kubelet = node.systemd().property("kubelet.service", "MainPID").await?;

    let doctor = node.berthctl(&["doctor"]).await?;
    let said = String::from_utf8_lossy(&doctor.stdout);
    ensure!(doctor.status.code() == Some(1), "Berth is not there: {said}");
    ensure!(said.contains("kubelet.service goes past Berth"), "{said}");

    let planned = node.ctl(&["install", "--dry-run"]).await?;
    for word in [FLAG, "podView:", "systemctl restart kubelet.service", "$KUBELET_EXTRA_ARGS --container"] {
        ensure!(planned.contains(word), "expected {word:?} in\n{planned}");
    }
    is_as_before(&node).await?;

    let said = node.ctl(&["install", LONG]).await?;
    ensure!(said.contains("through Berth"), "{said}");
    let client = node.client().await?;
    await_labels(&client, "inline", "true").await?;
    let command = node.kubelet_command().await?;
    ensure!(command.contains(FLAG) && command.contains("--v=2"), "{command}");
    ensure!(node.systemd().property("kubelet.service", "MainPID").await? != old_kubelet, "not restarted");
    pods.untouched("web", &web).await?;
    pods.ordered("ordered").await?;
    let said = node.ctl(&["doctor"]).await?;
    ensure!(!said.lines().any(|line| line.starts_with("fail")), "{said}");
    ensure!(said.contains("kubelet.service is led to Berth"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&node.ctl(&["doctor", "-o", "json"]).await?)?;
    ensure!(json["checks"].as_array().is_some_and(|checks| checks.len() > 10), "{json}");

    // Again: nothing is left to be done, and no kubelet is restarted for it.
    let kubelet = node.systemd().property("kubelet.service", "MainPID").await?;
    node.ctl(&["install", LONG]).await?;
    ensure!(node.systemd().property("kubelet.service", "MainPID").await? == kubelet, "restarted for nothing");

    // Past it, with neither berthd nor a journal.
    node.systemd().systemctl(&["kill", "--signal=SIGSTOP", "berthd.service"]).await?;
    let journal = node.systemd().path("/var/lib/berth/install.json");
    let kept = std::fs::read(&journal)?;
    std::fs::write(&journal, "rubbish")?;
    node.ctl(&["bypass", LONG]).await?;
    let command = node.kubelet_command().await?;
    ensure!(!command.contains(FLAG), "{command}");
    ensure!(!node.systemd().path(DROP_IN).exists(), "{DROP_IN} is left");
    node.ready().await?;
    pods.untouched("web", &web).await?;
    let state = node.systemd().property("berthd.service", "ActiveState").await?;
    // The watchdog may have replaced it meanwhile.
    ensure!(state != "inactive" && state != "failed", "berthd was stopped: {state}");
    let again = node.berthctl(&["uninstall"]).await?;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    ensure!(!again.status.success() && said.contains("--force"), "{said}");
    std::fs::write(&journal, kept)?;
    node.systemd().systemctl(&["kill", "--signal=SIGCONT", "berthd.service"]).await?;

    node.ctl(&["bypass", "--undo", LONG]).await?;
    ensure!(node.kubelet_command().await?.contains(FLAG));
    pods.untouched("web", &web).await?;
    pods.ordered("ordered-again").await?;

    let said = node.ctl(&["uninstall", "--purge", LONG]).await?;
    ensure!(said.contains("Berth is removed"), "{said}");
    is_as_before(&node).await?;
    ensure!(labels(&client).await? == [None, None], "labels are left: {said}");
    ensure!(!node.systemd().path("/var/lib/berth").exists(), "the state is left");
    pods.untouched("web", &web).await?;
    pods.plain("after").await?;
    ensure!(WRITTEN.iter().all(|path| !node.systemd().path(path).exists()));
    node.down()
}
