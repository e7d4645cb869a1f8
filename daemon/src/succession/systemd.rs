//! Talk between berthd and systemd: the sockets it passes, readiness, and the watchdog.

use std::{
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    sync::Arc,
    time::Duration,
};

use berth_shim::{Shutdown, own};
use sd_notify::NotifyState;
use tracing::{debug, warn};

use crate::succession::heartbeat::Heartbeat;

/// `FileDescriptorName=` of the CRI socket in `berthd.socket`.
const CRI_SOCKET: &str = "cri";

/// How the names of the runtime's connections begin that are kept.
pub const RUNTIME: &str = "runtime-";

/// Descriptors that systemd passed.
#[derive(Debug, Default)]
pub struct Passed {
    /// The CRI socket. It listens already, so a kubelet that connects while berthd restarts waits in the
    /// kernel instead of failing.
    pub socket: Option<UnixListener>,
    /// Connections to the runtime of a berthd that was killed.
    pub connections: Vec<OwnedFd>,
}

/// Takes what systemd passed.
pub fn passed() -> Passed {
    let passed: Vec<_> = match sd_notify::listen_fds_with_names() {
        Ok(passed) => passed.collect(),
        Err(error) => {
            warn!(%error, "Sockets passed by systemd not understood, binding our own");
            return Passed::default();
        }
    };
    let (connections, sockets): (Vec<_>, Vec<_>) =
        passed.into_iter().partition(|(_, name)| name.starts_with(RUNTIME));
    let named = sockets.iter().find(|(_, name)| name == CRI_SOCKET);
    // A socket unit without FileDescriptorName= names its socket after itself.
    let socket = named.or_else(|| sockets.first().filter(|_| sockets.len() == 1));
    Passed {
        socket: socket.map(|(fd, _)| own(*fd).into()),
        connections: connections.into_iter().map(|(fd, _)| own(fd)).collect(),
    }
}

/// Gives systemd a descriptor of the CRI socket to keep, for one that was bound by berthd itself: after a
/// crash it comes back as one that was passed, and connections have waited in it.
pub fn keep_socket(socket: BorrowedFd<'_>) {
    keep(CRI_SOCKET, socket);
}

/// Gives systemd a second descriptor to keep, and to pass under this name after a crash. Whether it was told;
/// never without systemd, and without `FileDescriptorStoreMax=` it does not listen.
pub(crate) fn keep(name: &str, descriptor: BorrowedFd<'_>) -> bool {
    let told = sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(name)], &[descriptor]);
    told.inspect_err(|error| debug!(%error, name, "Descriptor not kept by systemd")).is_ok()
}

/// Has systemd close what it keeps under this name.
pub(crate) fn forget(name: &str) {
    notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// Tells systemd, where there is one.
pub fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "systemd not notified");
    }
}

/// Pings the watchdog while both threads of the agent turn, and for no other reason: a runtime or an API
/// server that is away must not get the agent restarted.
pub async fn watchdog(heartbeat: Arc<Heartbeat>, shutdown: Shutdown) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval((limit / 3).max(Duration::from_millis(100)));
    while shutdown.token.run_until_cancelled(tick.tick()).await.is_some() {
        if heartbeat.is_alive(limit) {
            notify(&[NotifyState::Watchdog]);
        } else {
            warn!("Data path does not turn, watchdog not pinged");
        }
    }
    if shutdown.succeeded.is_cancelled() {
        return; // the successor is the main process now, and pings
    }
    // During a drain the streams that are left decide when it is over, not the watchdog.
    let mut tick = tokio::time::interval(limit / 3);
    loop {
        tick.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}
