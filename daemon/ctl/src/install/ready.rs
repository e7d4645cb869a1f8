//! Waits until berthd serves, and until a restarted kubelet has called its node Ready through it.
//!
//! The proof:
//! - The process of the kubelet is another one than before, and its command line names our socket (where the
//!   kubelet is a process of its own).
//! - It says that it is healthy, and berthd has an open connection.
//! - Its Lease was renewed after the restart. The Ready condition is True, and was reported after the restart
//!   began.
//!
//! The kubelet writes these times by the clock of this machine, which is ours too.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_proto::admin::{StatusRequest, StatusResponse};
use berthd::base::deadline::later;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::admin;
use super::super::cli::Global;
use super::facts::Kubelet;
use super::host::Host;

const POLL: Duration = Duration::from_millis(500);
/// One question to somebody on this machine, or to the API server.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Where the kubelets' Leases are.
const LEASES: &str = "kube-node-lease";

/// A kubelet to be restarted.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    host: &'a Host,
    kubelet: &'a Kubelet,
    old_process: Option<u32>,
    began: Timestamp,
}

impl<'a> Watch<'a> {
    /// Looks at it just before it is restarted.
    pub(crate) async fn begin(host: &'a Host, kubelet: &'a Kubelet) -> Self {
        let old_process = process(host, kubelet.flavour.unit()).await.ok().flatten();
        Self { host, kubelet, old_process, began: Timestamp::now() }
    }

    /// Waits until it is Ready, after it was restarted; `through` is the socket of Berth it must have come
    /// through, with how berthd is asked, and the path of the socket.
    pub(crate) async fn ready(&self, through: Option<(&Global, &str)>, limit: Duration) -> Result<()> {
        let restarted = Timestamp::now();
        until(limit, async || {
            if let Some((_, socket)) = through {
                self.is_led_to(socket).await?;
            }
            self.is_healthy().await?;
            if let Some((global, _)) = through {
                self.came_through(global).await?;
            }
            self.is_ready(restarted).await
        })
        .await
    }

    /// Waits until it runs and says of itself that it is healthy, which needs neither berthd nor an API
    /// server.
    pub(crate) async fn healthy(&self, limit: Duration) -> Result<()> {
        until(limit, async || self.is_healthy().await).await
    }

    async fn is_healthy(&self) -> Result<()> {
        let unit = self.kubelet.flavour.unit();
        let process = process(self.host, unit).await?.with_context(|| format!("{unit} does not run"))?;
        ensure!(Some(process) != self.old_process, "{unit} was not restarted");
        let Some(address) = &self.kubelet.healthz else { return Ok(()) };
        let answer = timeout(CALL_TIMEOUT, get(address, "/healthz")).await;
        let answer = answer.map_err(|_| anyhow!("no answer")).flatten();
        let answer = answer.with_context(|| format!("the kubelet's http://{address}/healthz"))?;
        ensure!(
            answer.contains(" 200 "),
            "the kubelet is not healthy: {}",
            answer.lines().next().unwrap_or_default()
        );
        Ok(())
    }

    async fn is_led_to(&self, socket: &str) -> Result<()> {
        if self.kubelet.flavour.rancher().is_none()
            && let Some(process) = process(self.host, self.kubelet.flavour.unit()).await?
            && !super::places::is_ours(&self.kubelet.endpoint)
        {
            let line =
                std::fs::read(format!("/proc/{process}/cmdline")).context("the kubelet's command line")?;
            let line = String::from_utf8_lossy(&line).into_owned();
            ensure!(line.contains(socket), "the kubelet was started without {socket}");
        }
        Ok(())
    }

    async fn came_through(&self, global: &Global) -> Result<()> {
        let status = status(global).await?;
        ensure!(status.client_connections > 0, "the kubelet has no connection to berthd");
        Ok(())
    }

    /// Checks that the Node is Ready again; without a kubeconfig there is none.
    async fn is_ready(&self, restarted: Timestamp) -> Result<()> {
        let Some(path) = &self.kubelet.kubeconfig else { return Ok(()) };
        let name = node_name(self.kubelet)?;
        let look = async {
            let client = client(&self.host.path(path)).await?;
            let lease = Api::<Lease>::namespaced(client.clone(), LEASES).get(&name).await;
            let lease = lease.with_context(|| format!("Lease {LEASES}/{name}"))?;
            let renewed = lease.spec.and_then(|spec| spec.renew_time).map(|time| time.0);
            ensure!(
                renewed.is_some_and(|time| time > restarted),
                "the kubelet has not renewed the Lease {LEASES}/{name} since its restart"
            );
            let node = Api::<Node>::all(client).get(&name).await.with_context(|| format!("Node {name}"))?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
            let ready = ready.with_context(|| format!("Node {name} has no condition Ready"))?;
            let message = ready.message.unwrap_or_default();
            ensure!(ready.status == "True", "Node {name} is not Ready: {message}");
            // Kept in whole seconds.
            let reported = ready.last_heartbeat_time.map(|time| time.0.as_second());
            ensure!(
                reported.is_some_and(|second| second >= self.began.as_second()),
                "the kubelet has not reported the status of Node {name} since its restart"
            );
            Ok(())
        };
        timeout(CALL_TIMEOUT * 2, look).await.map_err(|_| anyhow!("the API server does not answer"))?
    }
}

/// Waits until berthd serves on this socket and reaches its runtime.
pub(crate) async fn berthd(global: &Global, socket: &str, limit: Duration) -> Result<()> {
    until(limit, async || {
        let status = status(global).await?;
        ensure!(
            status.socket == socket,
            "berthd listens on {}, and not on {socket}; set socket in its configuration",
            status.socket
        );
        match status.runtime {
            Some(runtime) if runtime.reachable => Ok(()),
            Some(runtime) => {
                bail!("berthd does not reach the runtime at {}: {}", runtime.endpoint, runtime.error)
            }
            None => bail!("berthd knows no runtime"),
        }
    })
    .await
}

/// Waits until `berth-shim` answers on its socket, and berthd is connected to it.
pub(crate) async fn shim(socket: &Path, limit: Duration) -> Result<()> {
    until(limit, async || {
        let state = berth_shim::remote::look(socket).await;
        let state = state.with_context(|| format!("berth-shim at {}", socket.display()))?;
        ensure!(state.agent, "berthd is not connected to berth-shim");
        Ok(())
    })
    .await
}

/// Asks berthd for its status.
pub(crate) async fn status(global: &Global) -> Result<StatusResponse> {
    let mut client = admin::connect(global).await?;
    let answer = client.status(admin::request(global, StatusRequest {})).await;
    Ok(answer.map_err(|status| admin::failed("Status", &status))?.into_inner())
}

/// A client with the identity of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    // A second installation changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = || format!("kubeconfig {}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig).with_context(failed)?;
    let config =
        Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.with_context(failed)?;
    Client::try_from(config).with_context(failed)
}

/// The node's name as it is configured, or else as the kubelet finds it.
pub(crate) fn node_name(kubelet: &Kubelet) -> Result<String> {
    if let Some(name) = kubelet.named() {
        return Ok(name.to_owned());
    }
    let name = nix::unistd::gethostname().context("the host name")?;
    Ok(name.to_string_lossy().trim().to_lowercase())
}

/// The main process of a unit, while there is one.
async fn process(host: &Host, unit: &str) -> Result<Option<u32>> {
    let said = host.systemctl(&["show", "--property=MainPID", "--value", unit], CALL_TIMEOUT).await?;
    Ok(said.trim().parse().ok().filter(|pid| *pid != 0))
}

/// An answer to HTTP/1.0, all of it.
pub(crate) async fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asks again and again; the last reason why not is the error.
async fn until(limit: Duration, mut probe: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let end = later(Instant::now(), limit);
    let mut last = anyhow!("no answer");
    loop {
        match timeout_at(end, probe()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = error,
            // The reason before says more than that this look was cut short.
            Err(_) => {}
        }
        if later(Instant::now(), POLL) >= end {
            return Err(last.context(format!("not within {}", super::super::duration::short(limit))));
        }
        sleep(POLL).await;
    }
}
