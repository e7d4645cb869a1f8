//! Sockets that systemd passes: they listen already, so that a client that comes while this program is not
//! there waits in the kernel instead of failing.

use std::os::{
    fd::{FromRawFd, OwnedFd, RawFd},
    unix::net::UnixListener,
};

use tracing::warn;

/// `FileDescriptorName=` of the kubelet's socket, and of the one for berthd.
const CRI: &str = "cri";
const AGENT: &str = "shim";

/// Sockets that systemd passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The one the kubelet connects to.
    pub(crate) cri: Option<UnixListener>,
    /// The one berthd connects to.
    pub(crate) agent: Option<UnixListener>,
}

/// Takes what systemd passed.
pub(crate) fn passed() -> Passed {
    let passed = match sd_notify::listen_fds_with_names() {
        Ok(passed) => passed,
        Err(error) => {
            warn!(%error, "Sockets passed by systemd not understood, binding our own");
            return Passed::default();
        }
    };
    let mut sockets = Passed::default();
    for (descriptor, name) in passed {
        let socket = UnixListener::from(own(descriptor));
        match name.as_str() {
            CRI => sockets.cri = Some(socket),
            AGENT => sockets.agent = Some(socket),
            _ => warn!(name, "systemd passes a socket that is not wanted"),
        }
    }
    sockets
}

#[expect(unsafe_code, reason = "a passed descriptor is a number; there is no safe way to own it")]
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: systemd has given this number to this process (LISTEN_PID is ours) and to nobody else; it is
    // taken once, before any thread is started.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
