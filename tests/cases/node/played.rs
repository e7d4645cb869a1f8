//! Without a kubelet: `berthctl play` plays a pod through berthd in its order, `berthctl stop-pod` ends it
//! the other way round.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::PodManifest;
use berth_tests::node::{Node, programs, tool};
use berth_tests::observe::Recorder;
use berth_tests::recreate::Evidence;

/// Less than each container takes to get ready, and what it takes to end.
const SECOND: Duration = Duration::from_secs(1);

/// The demo of the quickstart, but for the building of its programs.
#[tokio::test]
async fn the_demo_is_played() -> Result<()> {
    crate::slots::take().await;
    programs::berth("berthctl")?;
    let play = programs::package_dir().join("demo/play.sh").display().to_string();
    let said = tool::run(programs::own("berth-node")?, &["with", "--no-kubelet", "--", &play]).await?;
    // Timelines, first to last, of the start and of the end; then what explains each of them.
    let order = |from: &str, names: [&str; 3]| {
        let part = said.split(from).nth(1).with_context(|| said.clone())?;
        let at: Vec<Option<usize>> = names.iter().map(|name| part.find(&format!("\n{name} "))).collect();
        ensure!(at.iter().all(Option::is_some) && at.is_sorted(), "{from}: {names:?} at {at:?} in {said}");
        anyhow::Ok(())
    };
    order("berthctl play pod.yaml", ["database", "cache", "web"])?;
    order("berthctl stop-pod shop", ["web", "cache", "database"])?;
    for words in ["Launch order: database (30), then cache (20), then web (10).", "its creation is refused"] {
        ensure!(said.contains(words), "expected {words:?} in {said}");
    }
    Ok(())
}

#[tokio::test]
async fn played_pod_starts_and_stops_in_order() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().api(false).kubelet(false).start().await?;
    let evidence = Evidence::new(node.run(), "default", "pod")?;
    let manifest = evidence.slow_pod(PodManifest::new("default", "pod"));
    let file = node.run().write("pod.json", &manifest.json().to_string())?;
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", "pod");
    let (logs, data) = (node.run().make_dir("pod-logs")?, node.run().make_dir("pods")?);
    let (logs, data) = (format!("--log-dir={}", logs.display()), format!("--data-dir={}", data.display()));
    node.berthd()?.ctl(&["play", &logs, &data, file.to_str().context("path")?]).await?;
    node.berthd()?.ctl(&["stop-pod", "pod"]).await?;

    recorder.finish().await?.check_start_order(&["a", "b", "c"], SECOND)?;
    evidence.check_exit_order(&["c", "b", "a"], SECOND)?;
    let left = node.containerd().cri()?.sandboxes("default", "pod").await?;
    ensure!(left.is_empty(), "stopped and still there: {left:?}");
    node.down()
}
