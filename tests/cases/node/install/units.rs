//! The units as they are, with all of their sandbox, under a real systemd.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_tests::manifest::Container;
use berth_tests::observe::{Caller, Cri};
use berth_tests::wait::{Standstill, await_condition};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::json;

use super::LONG;
use super::pods::Pods;
use crate::case::PATIENCE;

const SOCKET: &str = "/run/berth/cri.sock";

#[tokio::test]
async fn the_sandbox_lets_it_do_its_work() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    node.ctl(&["install", "--one-program", LONG]).await?;
    let web = pods.plain("web").await?;

    // The kubelet is known among the clients by its process: only it can be asked to restart a container.
    node.ctl(&["recreate", "web", "one"]).await?;
    let after = pods.instances("web").await?;
    let others: Vec<_> = after.iter().filter(|instance| !web.contains(instance)).collect();
    let [(name, ..)] = others.as_slice() else { bail!("not one new instance: {after:?}") };
    ensure!(name == "one", "{after:?}");

    // berthd probes in the network of the pod: what is waited for is Ready before the kubelet says so, and
    // nobody is refused.
    let get = json!({ "httpGet": { "port": 8080, "path": "/" }, "periodSeconds": 1, "failureThreshold": 60 });
    let serves = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n' | nc -l -p 8080; done & sleep 1";
    let probed = Container::new("a").shell(serves).priority(2).field("readinessProbe", get);
    let manifest = Pods::manifest("probed").container(probed).container(Container::new("b").priority(1));
    let still = Standstill::watch();
    pods.play("probed", manifest).await?;
    let lost = still.lost();
    let events: Api<Event> = Api::namespaced(node.client().await?, "default");
    let told = events.list(&Default::default()).await?.items;
    let refused: Vec<_> = told
        .into_iter()
        .filter(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some("probed"))
        .filter_map(|event| event.note)
        .filter(|note| note.contains("launch order"))
        .collect();
    // A call is held for five seconds, of which this one needs some two.
    ensure!(refused.is_empty() || lost > Duration::from_secs(1), "{refused:?}; {lost:?} were lost");

    let score =
        node.systemd().succeed("systemd-analyze", &["security", "--no-pager", "berthd.service"]).await?;
    let last = score.lines().last().context("a score")?;
    ensure!(last.contains("OK"), "{last}");
    node.down()
}

#[tokio::test]
async fn a_restart_is_not_seen_through_the_socket() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    node.ctl(&["install", "--one-program", LONG]).await?;
    let web = pods.plain("web").await?;
    let outside = node.systemd().path(SOCKET);
    let inode = std::fs::metadata(&outside).context(SOCKET)?.ino();
    let kubelet = node.systemd().property("kubelet.service", "MainPID").await?;
    let client = Cri::connect(&outside)?;
    client.version().await?;

    // One call after another while it is restarted, each on whatever connection there is.
    let caller = Caller::start(&outside)?;
    node.systemd().systemctl(&["restart", "berthd.service"]).await?;
    caller.all_answered().await.context("calls during the restart")?;
    client.version().await?;
    ensure!(std::fs::metadata(&outside)?.ino() == inode, "another socket");

    // One that is killed, too: systemd keeps the socket, and who waits is served by the next one.
    let old = node.systemd().property("berthd.service", "MainPID").await?;
    node.systemd().systemctl(&["kill", "--signal=SIGKILL", "berthd.service"]).await?;
    await_condition("another berthd serves", PATIENCE, async || {
        let now = node.systemd().property("berthd.service", "MainPID").await?;
        ensure!(now != old && now != "0", "{now}");
        tokio::time::timeout(Duration::from_secs(10), client.version()).await??;
        Ok(())
    })
    .await?;
    ensure!(std::fs::metadata(&outside)?.ino() == inode, "another socket");
    node.ready().await?;
    ensure!(
        node.systemd().property("kubelet.service", "MainPID").await? == kubelet,
        "the kubelet was restarted"
    );
    pods.untouched("web", &web).await?;
    pods.ordered("ordered").await?;

    // The runtime's restart does not stop it.
    let berthd = node.systemd().property("berthd.service", "MainPID").await?;
    node.systemd().systemctl(&["restart", "containerd.service"]).await?;
    pods.ordered("ordered-again").await?;
    ensure!(node.systemd().property("berthd.service", "MainPID").await? == berthd, "it was restarted");
    pods.untouched("web", &web).await?;
    node.down()
}

/// The new process is the unit's main process from then on; the old one ends by itself, and systemd has
/// nothing to mend.
#[tokio::test]
async fn an_upgrade_changes_the_main_process() -> Result<()> {
    let node = super::node().await?;
    let pods = Pods::of(&node).await?;
    node.ctl(&["install", "--one-program", LONG]).await?;
    let web = pods.plain("web").await?;
    let main = async || node.systemd().property("berthd.service", "MainPID").await;
    for _ in 0..2 {
        let old = main().await?;
        let caller = Caller::start(&node.systemd().path(SOCKET))?;
        node.ctl(&["upgrade", "--watch=2s", "--ready-within=120s"]).await?;
        caller.all_answered().await.context("calls during the upgrade")?;
        await_condition("the unit has another main process, and no other", PATIENCE, async || {
            let now = main().await?;
            ensure!(now != old && now != "0", "it is {now}");
            let all = node.systemd().succeed("sh", &["-c", "grep -lx berthd /proc/[0-9]*/comm"]).await?;
            ensure!(all.trim() == format!("/proc/{now}/comm"), "these run: {all}");
            Ok(())
        })
        .await?;
        for (property, expected) in [("ActiveState", "active"), ("SubState", "running"), ("NRestarts", "0")] {
            let value = node.systemd().property("berthd.service", property).await?;
            ensure!(value == expected, "{property} is {value}");
        }
    }
    pods.ordered("ordered").await?;
    pods.untouched("web", &web).await?;

    // It is watched like one that systemd has started.
    let old = main().await?;
    node.systemd().systemctl(&["kill", "--signal=SIGKILL", "berthd.service"]).await?;
    await_condition("another berthd serves", PATIENCE, async || {
        let now = main().await?;
        ensure!(now != old && now != "0", "{now}");
        Cri::connect(&node.systemd().path(SOCKET))?.version().await?;
        Ok(())
    })
    .await?;
    pods.untouched("web", &web).await?;
    node.down()
}
