//! Berth on a node whose programs are services of a real systemd: `berthctl install`, `uninstall`, `bypass`,
//! `doctor`, and the units themselves. Each test has a node of its own, and ends it.

mod from_pod;
mod interrupted;
mod kept_calls;
mod lifecycle;
mod pods;
mod rolled_back;
mod token;
mod two_programs;
mod units;

use anyhow::{Result, ensure};
use berth_tests::node::SystemdNode;

use crate::slots;

/// Leads the kubelet to Berth.
const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/90-berth.conf";
const FLAG: &str = "--container-runtime-endpoint=unix:///run/berth/cri.sock";
/// Paths that `install` writes, but for the state of berthd.
const WRITTEN: [&str; 10] = [
    DROP_IN,
    "/etc/berth",
    "/etc/systemd/system/berth-shim.service",
    "/etc/systemd/system/berthd.service",
    "/etc/systemd/system/berthd.socket",
    "/etc/systemd/system/berthd.socket.d",
    "/usr/local/bin/berth-shim",
    "/usr/local/bin/berthctl",
    "/usr/local/bin/berthd",
    "/var/lib/berth/install.json",
];
/// Far more than anything here takes on a machine with other work to do.
const LONG: &str = "--timeout=300s";

/// Brings up a node, when there is a place for one more test.
pub(crate) async fn node() -> Result<SystemdNode> {
    slots::take().await;
    SystemdNode::start().await
}

/// Nothing of an installation is left, and the kubelet speaks to its runtime.
async fn is_as_before(node: &SystemdNode) -> Result<()> {
    for path in WRITTEN {
        ensure!(node.systemd().path(path).symlink_metadata().is_err(), "{path} is left");
    }
    for unit in ["berthd.service", "berth-shim.service", "berthd.socket"] {
        let state = node.systemd().property(unit, "ActiveState").await?;
        ensure!(state == "inactive" || state == "failed", "{unit} is {state}");
    }
    ensure!(!node.systemd().path("/run/berth").exists(), "the sockets are left");
    let command = node.kubelet_command().await?;
    ensure!(!command.contains(FLAG), "{command}");
    node.ready().await
}
