//! Brings a test node up for a person to look at or for a command to use, and takes down what crashed runs
//! left.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use berth_tests::node::{Node, down, guard, programs};
use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Real nodes for tests: containerd, berthd, kubelet, API server.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Brings a node up and keeps it until Ctrl-C.
    Up(Parts),
    /// Brings a node up, runs a command that finds it in its environment, takes the node down.
    With {
        #[command(flatten)]
        parts: Parts,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Removes what is left of runs whose owner is gone.
    Down,
    /// Waits for the end of its owner and removes its run; started by the harness.
    #[command(hide = true)]
    Guard { number: u8 },
}

/// Components of the node.
#[derive(Args)]
struct Parts {
    /// The kubelet speaks to containerd directly.
    #[arg(long)]
    no_berth: bool,
    /// No API server: the kubelet runs static pods.
    #[arg(long)]
    standalone: bool,
    /// No kubelet and no API server: for clients that speak CRI themselves.
    #[arg(long)]
    no_kubelet: bool,
    /// With kube-controller-manager and kube-scheduler.
    #[arg(long)]
    controllers: bool,
}

impl Parts {
    async fn start(&self) -> Result<Node> {
        Node::builder()
            .berth(!self.no_berth)
            .api(!self.standalone && !self.no_kubelet)
            .kubelet(!self.no_kubelet)
            .controllers(self.controllers)
            .start()
            .await
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Up(parts) => up(parts.start().await?).await?,
        Command::With { parts, command } => return with(parts.start().await?, &command).await,
        Command::Down => {
            for number in down::leftovers()? {
                println!("removed run {number}");
            }
        }
        Command::Guard { number } => guard::stand(number)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(node: Node) -> Result<()> {
    for (name, value) in environment(&node)? {
        println!("export {name}={}", value.display());
    }
    println!("alias ctr='ctr --address {} -n k8s.io'", node.containerd().socket().display());
    if node.kubelet().is_ok() {
        println!("# static pods: {}", node.run().path("static-pods").display());
    }
    println!("# logs: {}", node.run().path("log").display());
    println!("# Ctrl-C ends it");
    tokio::signal::ctrl_c().await.context("wait for Ctrl-C")?;
    node.down()
}

async fn with(node: Node, command: &[OsString]) -> Result<ExitCode> {
    let (program, args) = command.split_first().context("no command")?;
    let mut running = tokio::process::Command::new(program)
        .args(args)
        .envs(environment(&node)?)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("run {}", program.display()))?;
    // Ctrl-C reaches the command by itself, being in the same terminal; what is left to do is the same either
    // way.
    let ended = tokio::select! {
        ended = running.wait() => Some(ended.context("wait for the command")?),
        interrupted = tokio::signal::ctrl_c() => { interrupted.context("wait for Ctrl-C")?; None }
    };
    node.down()?;
    let code = ended.and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Where kubectl and berthctl find the node, and where they are themselves.
fn environment(node: &Node) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut found = vec![(
        "CONTAINER_RUNTIME_ENDPOINT",
        PathBuf::from(format!("unix://{}", node.cri_socket().display())),
    )];
    found.push(("BERTH_NODE_DIR", node.run().dir().to_owned()));
    let mut folders = Vec::new();
    if let Ok(berthd) = node.berthd() {
        found.push(("BERTH_ADMIN_SOCKET", berthd.admin_socket().to_owned()));
        folders.push(programs::berth("berthctl")?);
    }
    if node.api().is_ok() {
        found.push(("KUBECONFIG", node.kubeconfig()?));
        folders.push(programs::kubernetes("kubectl")?);
    }
    let own = folders.iter().filter_map(|program| program.parent()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).context("PATH")?;
    found.push(("PATH", path.into()));
    Ok(found)
}
