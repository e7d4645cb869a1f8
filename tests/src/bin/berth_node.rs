//! Brings a test node up for a person to look at, and takes down what crashed runs left.

use anyhow::{Result, ensure};
use berth_tests::node::{Node, down, guard, programs};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Brings a node up and keeps it until Ctrl-C.
    Up {
        /// The kubelet speaks to containerd directly.
        #[arg(long)]
        no_berth: bool,
        /// No API server: the kubelet runs static pods.
        #[arg(long)]
        standalone: bool,
        /// No kubelet either: for clients that speak CRI themselves.
        #[arg(long)]
        no_kubelet: bool,
        /// With kube-controller-manager and kube-scheduler.
        #[arg(long)]
        controllers: bool,
    },
    /// Removes what is left of runs whose owner is gone.
    Down,
    /// Waits for the end of its owner and removes its run; started by the harness.
    #[command(hide = true)]
    Guard { number: u8 },
}

#[tokio::main]
async fn main() -> Result<()> {
    match Args::parse().command {
        Command::Up { no_berth, standalone, no_kubelet, controllers } => {
            let builder = Node::builder()
                .berth(!no_berth)
                .api(!standalone && !no_kubelet)
                .kubelet(!no_kubelet)
                .controllers(controllers);
            up(builder.start().await?).await
        }
        Command::Down => {
            for number in down::leftovers()? {
                println!("removed run {number}");
            }
            Ok(())
        }
        Command::Guard { number } => guard::stand(number),
    }
}

async fn up(node: Node) -> Result<()> {
    println!("# logs: {}", node.run().path("log").display());
    println!("alias ctr='ctr --address {} -n k8s.io'", node.containerd().socket().display());
    println!("export CONTAINER_RUNTIME_ENDPOINT=unix://{}", node.cri_socket().display());
    if let Ok(kubeconfig) = node.kubeconfig() {
        println!("export KUBECONFIG={}", kubeconfig.display());
        println!("alias kubectl={}", programs::kubernetes("kubectl")?.display());
    }
    if node.kubelet().is_ok() && node.api().is_err() {
        println!("# static pods: {}", node.run().path("static-pods").display());
    }
    if let Ok(berthd) = node.berthd() {
        println!("export BERTH_ADMIN_SOCKET={}", berthd.admin_socket().display());
        println!("alias berthctl={}", programs::berth("berthctl")?.display());
    }
    println!("# Ctrl-C ends it");
    tokio::signal::ctrl_c().await?;
    let dir = node.run().dir().to_owned();
    node.down()?;
    ensure!(!dir.exists(), "{} is still there", dir.display());
    Ok(())
}
