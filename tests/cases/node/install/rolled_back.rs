//! When the node does not get Ready through Berth, everything is put back without being asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use berth_tests::node::SystemdNode;

use super::pods::Pods;
use super::{DROP_IN, is_as_before};

/// It fails within this time, says why, and everything is as it was. Each step that puts something back has
/// as much time.
async fn fails(node: &SystemdNode, within: &str, words: &[&str]) -> Result<()> {
    let done = node.berthctl(&["install", within]).await?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.code() == Some(1), "{}: {said}", done.status);
    for word in words.iter().chain(&["everything is as it was before"]) {
        ensure!(said.contains(word), "expected {word:?} in\n{said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_berthd_that_does_not_serve() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;
    let kubelet = node.systemd().property("kubelet.service", "MainPID").await?;

    // A configuration of the administrator's that is wrong: it stays, and the log says what is wrong with it.
    let config = node.systemd().path("/etc/berth/berthd.yaml");
    fs::create_dir(config.parent().context("folder")?)?;
    fs::write(&config, "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\nno: such field\n")?;
    fails(&node, "--timeout=20s", &["berthd does not serve", "unknown field"]).await?;
    ensure!(config.exists(), "it is the administrator's");
    fs::remove_file(&config)?;
    let desired = config.with_file_name("desired");
    ensure!(!desired.exists(), "made for berthd, and left");
    fs::remove_dir(config.parent().context("folder")?)?;
    is_as_before(&node).await?;

    // A program that says nothing.
    let program = node.programs().join("berthd");
    fs::remove_file(&program)?;
    fs::write(&program, "#!/bin/sh\ncase $1 in config) exit 0;; esac\nexec sleep 1000000\n")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    fails(&node, "--timeout=20s", &["berthd does not serve"]).await?;
    is_as_before(&node).await?;

    ensure!(
        node.systemd().property("kubelet.service", "MainPID").await? == kubelet,
        "the kubelet had no reason to be restarted"
    );
    pods.untouched("web", &web).await?;
    node.down()
}

#[tokio::test]
async fn a_kubelet_that_does_not_come_through() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    let web = pods.plain("web").await?;
    // A drop-in that counts more than Berth's: the kubelet is restarted and goes where it went before.
    let command = node.kubelet_command().await?;
    let own = format!("[Service]\nExecStart=\nExecStart={command}\n");
    let dir = node.systemd().path("/etc/systemd/system/kubelet.service.d");
    fs::create_dir(&dir)?;
    fs::write(dir.join("99-own.conf"), own)?;
    node.systemd().systemctl(&["daemon-reload"]).await?;
    let kubelet = node.systemd().property("kubelet.service", "MainPID").await?;
    // The kubelet is restarted a second time, and has to be Ready.
    let words = ["not Ready through Berth", "was started without /run/berth/cri.sock", DROP_IN];
    fails(&node, "--timeout=60s", &words).await?;
    ensure!(node.systemd().property("kubelet.service", "MainPID").await? != kubelet, "restarted twice");
    ensure!(dir.join("99-own.conf").exists(), "it is the administrator's");
    is_as_before(&node).await?;
    pods.untouched("web", &web).await?;
    pods.plain("after").await?;
    node.down()
}
