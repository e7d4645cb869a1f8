//! What berthd and systemd say to each other: the sockets it passes, readiness, and the watchdog.

use std::{os::unix::net::UnixListener, sync::Arc, time::Duration};

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::heartbeat::Heartbeat;

/// `FileDescriptorName=` of the CRI socket in `berthd.socket`.
const CRI_SOCKET: &str = "cri";

/// The CRI socket, if systemd passed one. It listens already, so a kubelet that connects while berthd restarts waits in
/// the kernel instead of failing.
pub fn passed_socket() -> Option<UnixListener> {
    let passed: Vec<_> = match sd_notify::listen_fds_with_names() {
        Ok(passed) => passed.collect(),
        Err(error) => {
            warn!(%error, "Sockets passed by systemd not understood, binding our own");
            return None;
        }
    };
    let named = passed.iter().find(|(_, name)| name == CRI_SOCKET);
    // A socket unit without FileDescriptorName= names its socket after itself.
    let (fd, _) = named.or_else(|| passed.first().filter(|_| passed.len() == 1))?;
    Some(adopt(*fd))
}

#[expect(unsafe_code, reason = "a passed descriptor is a number; there is no safe way to own it")]
fn adopt(fd: std::os::fd::RawFd) -> UnixListener {
    use std::os::fd::FromRawFd;
    // SAFETY: systemd passed this descriptor to this process (LISTEN_PID is ours) and nobody else in it has taken it:
    // this is called once, before any thread is started. That it is a listening unix socket shows at the first accept.
    unsafe { UnixListener::from_raw_fd(fd) }
}

/// Tells systemd, where there is one.
pub fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "systemd not notified");
    }
}

/// Pings the watchdog while both threads of the agent turn, and for no other reason: a runtime or an API server that is
/// away must not get the agent restarted.
pub async fn watchdog(heartbeat: Arc<Heartbeat>, shutdown: CancellationToken) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval((limit / 3).max(Duration::from_millis(100)));
    while shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        if heartbeat.is_alive(limit) {
            notify(&[NotifyState::Watchdog]);
        } else {
            warn!("Data path does not turn, watchdog not pinged");
        }
    }
    // During a drain the streams that are left decide when it is over, not the watchdog.
    let mut tick = tokio::time::interval(limit / 3);
    loop {
        tick.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}
