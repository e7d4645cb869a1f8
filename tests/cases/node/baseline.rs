//! The node without Berth: what the other tests stand on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Recorder;
use berth_tests::wait::{START_UP, await_condition};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use crate::case::{PATIENCE, is_ready};

/// A kubelet directly on containerd runs a plain pod, and starts its containers as they are listed: the order
/// of the other tests, which list the lowest first, is Berth's doing.
#[tokio::test]
async fn plain_pod_on_a_node_without_berth() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().berth(false).start().await?;
    // Another run may take the number, and with it the path, as soon as it is free.
    let (dir, opened) = (node.run().dir().to_owned(), File::open(node.run().dir())?);
    let pods: Api<Pod> = Api::namespaced(node.client().await?, "default");
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", "plain");
    let manifest = PodManifest::new("default", "plain")
        .container(Container::new("c").priority(1))
        .container(Container::new("b").priority(2))
        .container(Container::new("a").priority(3));
    pods.create(&PostParams::default(), &manifest.pod()?).await?;
    await_condition("the pod is Ready", PATIENCE, async || is_ready(&pods.get("plain").await?)).await?;
    recorder.finish().await?.check_start_order(&["c", "b", "a"], Duration::ZERO)?;

    node.down()?;
    ensure!(opened.metadata()?.nlink() == 0, "{} is still there", dir.display());
    Ok(())
}

/// The owner of a run may die in any way: nothing of the run stays, not its processes and not its directory.
#[tokio::test]
async fn killed_owner_leaves_nothing() -> Result<()> {
    crate::slots::take().await;
    let mut owner = Command::new(env!("CARGO_BIN_EXE_berth-node"))
        .args(["up", "--no-berth", "--standalone"])
        .stdout(Stdio::piped())
        .spawn()
        .context("start berth-node")?;
    let mut dir = None;
    for line in BufReader::new(owner.stdout.take().context("its output")?).lines() {
        let line = line.context("its output")?;
        if let Some(path) = line.strip_prefix("export BERTH_NODE_DIR=") {
            dir = Some(PathBuf::from(path));
        }
        if line.contains("Ctrl-C") {
            break;
        }
    }
    let dir = dir.context("it does not say where its run is")?;
    ensure!(dir.join("containerd.sock").exists(), "{} is not the run", dir.display());

    // Another run may take the number, and with it the path, as soon as it is free: so the directory is told
    // by its descriptor, and the processes by the time at which they began.
    let opened = File::open(&dir).context("open its directory")?;
    let processes = processes_of(&dir)?;
    ensure!(!processes.is_empty(), "nothing runs in {}", dir.display());
    owner.kill().context("kill it")?;
    owner.wait().context("wait for it")?;
    await_condition("the run is gone", START_UP, async || {
        ensure!(opened.metadata()?.nlink() == 0, "{} is still there", dir.display());
        Ok(())
    })
    .await?;
    let left: Vec<_> =
        processes_of(&dir)?.into_iter().filter(|process| processes.contains(process)).collect();
    ensure!(left.is_empty(), "still run: {left:?}");
    Ok(())
}

/// Identity and command line of every process that names a file of this run.
fn processes_of(dir: &Path) -> Result<Vec<(String, String)>> {
    let run = format!("{}/", dir.display());
    let mut processes = Vec::new();
    for process in std::fs::read_dir("/proc").context("/proc")? {
        let process = process.context("/proc")?.path();
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // proc(5): the name in brackets may have blanks; the start time is the 20th field behind it.
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        let begun = stat.rsplit(')').next().and_then(|fields| fields.split_whitespace().nth(19));
        if let Some(begun) = begun.filter(|_| line.contains(&run)) {
            processes.push((format!("{} begun at {begun}", process.display()), line));
        }
    }
    Ok(processes)
}
