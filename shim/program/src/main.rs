//! `berth-shim`: has the kubelet's socket and passes the bytes. What it does not know itself it asks a
//! `berthd`, which connects to it and may be killed, changed or stopped at any time.
//!
//! One thread, no credential, no network, no file but its two sockets. It is changed rarely; then a new
//! process takes the place of the old one ([`handover`]).

mod confine;
mod handover;
mod passed;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use berth_malloc::growth::keep_small;
use berth_shim::{
    Clients, Confined, Listener, Metrics, RuntimeEndpoint, Shutdown,
    remote::{Line, LineEnds, RemoteGate, UpgradeAsk},
};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::interval,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use self::{
    handover::{OldProcess, Place},
    passed::Passed,
};

/// sysexits(3): the command line is wrong. Nothing was bound.
const EX_USAGE: u8 = 64;
/// Time from the start until its pages are returned: by then a kubelet and a berthd that waited are
/// connected.
const RETURN_TEXT: Duration = Duration::from_secs(2);

/// Berth's data path: passes the kubelet's calls to the container runtime, and asks a berthd about those that
/// have to be decided.
#[derive(Debug, Parser)]
#[command(name = "berth-shim", version)]
struct Flags {
    /// CRI socket to listen on
    #[arg(long, env = "BERTH_SOCKET", default_value = "/run/berth/cri.sock")]
    socket: PathBuf,
    /// Socket for berthd, which has it as shimSocket
    #[arg(long, env = "BERTH_SHIM_SOCKET", default_value = "/run/berth/shim.sock")]
    shim_socket: PathBuf,
    /// Endpoint of the runtime
    #[arg(long, short = 'r', env = "BERTH_RUNTIME_ENDPOINT")]
    runtime_endpoint: RuntimeEndpoint,
    /// Process that is, or contains, the kubelet, as in /proc/PID/comm
    #[arg(
        long,
        value_delimiter = ',',
        default_values = ["kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent", "rke2"]
    )]
    kubelet_processes: Vec<String>,
    /// Namespace of berthd's own pod, where it is one: its containers are created while there is no berthd
    #[arg(long, env = "BERTH_AGENT_NAMESPACE")]
    agent_namespace: Option<String>,
    /// Seconds that open calls may go on after a stop was asked for
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(..=3600))]
    drain_timeout: u64,
    /// Log level or filter
    #[arg(long, env = "BERTH_LOG_LEVEL", default_value = "info")]
    log_level: Targets,
}

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            let code = if error.use_stderr() { EX_USAGE } else { 0 };
            // Nothing is left to be done if even this cannot be written.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let settled = berth_malloc::settle();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(layer).with(flags.log_level.clone()).init();
    if let Err(error) = settled {
        warn!(%error, "Allocator not set up, running with the system's settings");
    }
    // No core file has our memory: env values of pods are in it.
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        warn!(%error, "Core files not switched off");
    }
    raise_open_files();
    // Before any thread is started: it reads the environment and owns bare descriptors.
    let passed = passed::passed();
    let confined = confine::confine();
    match run(flags, passed, confined) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "berth-shim ended");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: Flags, passed: Passed, confined: Confined) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(flags, passed, confined))
}

async fn serve(flags: Flags, mut passed: Passed, confined: Confined) -> anyhow::Result<()> {
    // Before anything is taken: a stop that is asked for during the start is a clean one too.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let endpoint = flags.runtime_endpoint;
    anyhow::ensure!(
        endpoint.path() != flags.socket && flags.shim_socket != flags.socket,
        "--socket, --shim-socket and --runtime-endpoint must be three sockets"
    );
    let program = handover::installed().context("which program is this?")?;
    let mut old = OldProcess::meet()?;
    let (cri, agent) = match &mut old {
        Some(old) => {
            let [cri, agent] = old.take().await?;
            (Listener::adopt(cri, &endpoint)?, Listener::adopt(agent, &endpoint)?)
        }
        None => {
            let cri = match passed.take(&flags.socket) {
                Some(socket) => Listener::adopt(socket, &endpoint)?,
                None => berth_shim::bind(&flags.socket, &endpoint).await.context("--socket")?,
            };
            let agent = match passed.take(&flags.shim_socket) {
                Some(socket) => Listener::adopt(socket, &endpoint)?,
                None => berth_shim::bind(&flags.shim_socket, &endpoint).await.context("--shim-socket")?,
            };
            (cri, agent)
        }
    };
    let sockets = [cri.descriptor()?, agent.descriptor()?];
    info!(
        version = env!("CARGO_PKG_VERSION"),
        socket = %flags.socket.display(),
        agent = %flags.shim_socket.display(),
        runtime = %endpoint,
        confined.filtered,
        confined.memory_limit,
        "berth-shim serves"
    );
    let ((metrics, exported), shutdown) =
        (Metrics::exported(confined), Shutdown::new(Duration::from_secs(flags.drain_timeout)));
    let gate = RemoteGate::of_pods(metrics.clone(), flags.agent_namespace);
    // Answers to the end of the last call.
    let ends = LineEnds::default();
    let (upgrades, asks) = mpsc::channel(1);
    let drain = CancellationToken::new();
    let line = Line::new(agent).upgrading(upgrades.clone()).exporting(exported).draining(drain.clone());
    let line = line.confined(confined);
    let line = tokio::spawn(line.serve(gate.clone(), ends.clone()));
    let place =
        Place { program, sockets, gate: gate.clone(), shutdown: shutdown.clone(), line: ends.clone() };
    let handing_over = tokio::spawn(Arc::new(place).serve(asks));
    let clients = Clients { kubelet: flags.kubelet_processes };
    let serving = berth_shim::serve(cri, endpoint, gate, clients, metrics, shutdown.clone(), None);
    let mut serving = std::pin::pin!(serving);
    if let Some(old) = old {
        old.ready().await?;
    }
    notify(&[NotifyState::Ready]);
    tokio::spawn(watchdog());
    tokio::spawn(keep_small(RETURN_TEXT));
    let mut told = false;
    loop {
        // Cancel-safe: a signal that comes while another one is handled stays pending.
        tokio::select! {
            () = &mut serving => break,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            // Once: who asks again is told how far it is.
            () = drain.cancelled(), if !told => info!("Drain asked for"),
            // systemctl reload.
            _ = hangup.recv() => {
                if upgrades.try_send(UpgradeAsk::unheard()).is_err() {
                    warn!("An upgrade is under way");
                }
                continue;
            }
        }
        if std::mem::replace(&mut told, true) {
            warn!("Second signal, open calls are cut");
            break;
        }
        // Where there is a successor its calls have all the time they need.
        if !shutdown.token.is_cancelled() {
            notify(&[NotifyState::Stopping]);
            shutdown.token.cancel();
        }
    }
    if shutdown.succeeded.is_cancelled() && !told {
        // Until the successor is well, and whoever has asked for it knows that it serves. The calls of this
        // process have ended by then, so whoever tells it to end breaks none off.
        let stop = async {
            // Cancel-safe: they are signals.
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        if handover::looked_after(handing_over, stop).await?.is_break() {
            info!("Told to end, the successor is not looked after any more");
        }
    }
    ends.all.cancel();
    line.await?;
    info!("berth-shim stopped");
    Ok(())
}

/// Pings the watchdog while this thread turns, and for no other reason.
async fn watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut tick = interval((limit / 3).max(Duration::from_millis(100)));
    loop {
        tick.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

/// Each connection takes two descriptors, and the usual limit is 1024.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        warn!(%error, "Limit of open files not raised");
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "systemd not notified");
    }
}
