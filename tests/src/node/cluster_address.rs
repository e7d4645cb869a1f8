//! The address by which pods reach the API server, in place of a kube-proxy: one address on the run's bridge,
//! one port, and every connection handed on to loopback. The host's firewall stays as it is.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::run_dir::{Port, Run};

/// Hands connections on while it lives, and the runtime it was started in.
#[derive(Debug)]
pub struct ClusterAddress {
    task: JoinHandle<()>,
}

impl ClusterAddress {
    /// Makes the bridge, which goes with the run, and listens at the address of the service `kubernetes`.
    pub async fn serve(run: &Arc<Run>) -> Result<Self> {
        let address = run.service_address();
        take(run, &address)?;
        let listener = TcpListener::bind((address.as_str(), 443)).await.context("the cluster address")?;
        let server = run.address(Port::Api);
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // An end without a word is what a proxy has for a server that is away.
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Ok(Self { task })
    }
}

impl Drop for ClusterAddress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Gives the run's bridge an address of the services, and makes the bridge where there is none. It goes with
/// the run.
pub fn take(run: &Run, address: &str) -> Result<()> {
    let bridge = run.names().bridge;
    if !Path::new("/sys/class/net").join(&bridge).exists() {
        // One of its own: else it takes that of a port, another one with each pod, and pods lose their
        // gateway.
        let mac = format!("02:be:27:00:00:{:02x}", run.number());
        ip(&["link", "add", &bridge, "address", &mac, "type", "bridge"])?;
    }
    // First the one that CNI gives it: a bridge with only another one it would not take.
    ip(&["address", "replace", &run.gateway(), "dev", &bridge])?;
    ip(&["address", "replace", &format!("{address}/32"), "dev", &bridge])?;
    ip(&["link", "set", &bridge, "up"])
}

fn ip(args: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(args).output().context("ip")?;
    if !done.status.success() {
        bail!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}
