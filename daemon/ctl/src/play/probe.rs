//! Startup and readiness probes, run from the node while `run` is in the foreground.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_proto::cri::ContainerState;
use berthd::base::deadline::later;
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::cri::Cri;
use crate::manifest::env::Facts;
use crate::manifest::scalar::IntOrName;
use crate::manifest::types::{Container, HttpHeader, Probe};

/// A container on its way to being ready.
pub(crate) struct Watch {
    /// The runtime.
    pub cri: Cri,
    /// The container.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its startup probe.
    pub startup: Result<Option<Check>>,
    /// Its readiness probe.
    pub readiness: Result<Option<Check>>,
    /// Message of the latest failed probe; for the error when time is up.
    pub last: Arc<Mutex<String>>,
}

/// A probe with everything known that it needs.
pub(crate) struct Check {
    action: Action,
    initial_delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

enum Action {
    Exec(Vec<String>),
    Http { host: String, port: u16, path: String, headers: Vec<HttpHeader> },
    Tcp { host: String, port: u16 },
}

/// The port of a probe that dials; none for exec.
pub(crate) fn port(probe: &Probe, container: &Container) -> Result<Option<u16>> {
    let wanted = match (&probe.http_get, &probe.tcp_socket) {
        (Some(get), _) => &get.port,
        (None, Some(socket)) => &socket.port,
        (None, None) => return Ok(None),
    };
    let number = match wanted {
        IntOrName::Int(number) => *number,
        IntOrName::Name(name) => {
            let port = container.ports.iter().find(|port| port.name.as_deref() == Some(name));
            port.map(|port| port.container_port.into()).with_context(|| {
                format!(
                    "a probe of container {:?} wants the port {name:?}, which is not among its ports",
                    container.name
                )
            })?
        }
    };
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.map(Some).with_context(|| format!("a probe of container {:?}: {number} is no port", container.name))
}

impl Check {
    /// Makes a probe ready to run; absent stays absent.
    pub(crate) fn new(probe: Option<&Probe>, container: &Container, facts: &Facts) -> Result<Option<Self>> {
        let Some(probe) = probe else { return Ok(None) };
        let port = port(probe, container)?.unwrap_or_default();
        let pod = || facts.pod_ips.first().cloned().unwrap_or_default();
        let action = match (&probe.exec, &probe.http_get, &probe.tcp_socket) {
            (Some(exec), ..) => Action::Exec(exec.command.clone()),
            (None, Some(get), _) => Action::Http {
                host: get.host.clone().unwrap_or_else(pod),
                port,
                path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
                headers: get.http_headers.clone(),
            },
            (None, None, Some(socket)) => Action::Tcp { host: socket.host.clone().unwrap_or_else(pod), port },
            (None, None, None) => bail!("a probe of container {:?} has no action", container.name),
        };
        let seconds = |value: Option<u32>, default: u32| Duration::from_secs(value.unwrap_or(default).into());
        Ok(Some(Self {
            action,
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: probe.success_threshold.unwrap_or(1),
            failures: probe.failure_threshold.unwrap_or(3),
        }))
    }
}

impl Watch {
    /// Comes back when the container is ready, with the moment; an error when it cannot become so.
    pub(crate) async fn until_ready(self) -> Result<Instant> {
        let (startup, readiness) = (self.startup?, self.readiness?);
        let target = Target { cri: &self.cri, id: &self.id, name: &self.name, last: &self.last };
        let started = Instant::now();
        if let Some(check) = &startup {
            target.succeed(check, started, Some(check.failures)).await?;
        }
        if let Some(check) = &readiness {
            target.succeed(check, started, None).await?;
        }
        Ok(Instant::now())
    }
}

/// Target of a probe.
struct Target<'a> {
    cri: &'a Cri,
    id: &'a str,
    name: &'a str,
    last: &'a Mutex<String>,
}

impl Target<'_> {
    /// Probes until it succeeds often enough in a row; `give_up` after so many failures in a row.
    async fn succeed(&self, check: &Check, started: Instant, give_up: Option<u32>) -> Result<()> {
        tokio::time::sleep_until(later(started, check.initial_delay)).await;
        let (mut good, mut bad) = (0, 0);
        loop {
            let next = later(Instant::now(), check.period);
            match timeout(check.timeout, self.once(check)).await {
                Ok(Ok(())) => (good, bad) = (good + 1, 0),
                failed => {
                    (good, bad) = (0, bad + 1);
                    let why = match failed {
                        Ok(Err(error)) => format!("{error:#}"),
                        _ => format!("no answer within {:?}", check.timeout),
                    };
                    if let Ok(mut last) = self.last.lock() {
                        *last = format!("the latest probe failed: {why}");
                    }
                    self.still_runs().await?;
                    if give_up == Some(bad) {
                        bail!("the startup probe of container {:?} failed {bad} times: {why}", self.name);
                    }
                }
            }
            if good >= check.successes {
                return Ok(());
            }
            sleep(next.saturating_duration_since(Instant::now())).await;
        }
    }

    async fn once(&self, check: &Check) -> Result<()> {
        match &check.action {
            Action::Exec(command) => {
                let done = self.cri.exec(self.id, command.clone(), Some(check.timeout), self.name).await?;
                if done.exit_code != 0 {
                    let said = [done.stdout, done.stderr].concat();
                    bail!("exit code {} {}", done.exit_code, String::from_utf8_lossy(&said).trim());
                }
                Ok(())
            }
            Action::Http { host, port, path, headers } => get(host, *port, path, headers).await,
            Action::Tcp { host, port } => {
                let connected = TcpStream::connect((host.as_str(), *port)).await;
                connected.map(drop).with_context(|| format!("connect to {host}:{port}"))
            }
        }
    }

    /// A container that has ended never becomes ready; nobody restarts it.
    async fn still_runs(&self) -> Result<()> {
        let status = match self.cri.status(self.id, self.name).await {
            Ok(status) => status,
            // Whoever serves the socket is being restarted; the container runs on meanwhile, and so do the
            // probes.
            Err(error) if error.code() == Code::Unavailable => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if status.state() == ContainerState::ContainerExited {
            bail!(
                "container {:?} ended with exit code {} ({}) before it was ready, and nobody restarts it",
                self.name,
                status.exit_code,
                status.reason
            );
        }
        Ok(())
    }
}

/// Any status from 200 to 399 is a success, as for the kubelet.
async fn get(host: &str, port: u16, path: &str, headers: &[HttpHeader]) -> Result<()> {
    let at = format!("{host}:{port}");
    let stream = TcpStream::connect((host, port)).await.with_context(|| format!("connect to {at}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.context("HTTP")?;
    // Ends with this function, whatever way that goes.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = http::Request::get(&path).header("User-Agent", "berthctl").header("Accept", "*/*");
    if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
        request = request.header("Host", &at);
    }
    for header in headers {
        request = request.header(&header.name, &header.value);
    }
    let request = request.body(Empty::<Bytes>::new()).context("HTTP request of the probe")?;
    let response = sender.send_request(request).await.with_context(|| format!("GET http://{at}{path}"))?;
    let status = response.status();
    if !status.is_success() && !status.is_redirection() {
        bail!("GET http://{at}{path}: {status}");
    }
    Ok(())
}
