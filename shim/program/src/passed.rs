//! Sockets that systemd passes: they listen already, so that a client that comes while this program is not
//! there waits in the kernel instead of failing.

use std::{os::unix::net::UnixListener, path::Path};

use berth_shim::own;
use tracing::warn;

/// Sockets that systemd passed. Each is known by where it is bound: one unit has both under one name.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<UnixListener>);

impl Passed {
    /// The socket that is bound to this path.
    pub(crate) fn take(&mut self, path: &Path) -> Option<UnixListener> {
        let is_it = |socket: &UnixListener| {
            socket.local_addr().is_ok_and(|address| address.as_pathname() == Some(path))
        };
        let at = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(at))
    }
}

/// Takes what systemd passed.
pub(crate) fn passed() -> Passed {
    match sd_notify::listen_fds() {
        Ok(passed) => Passed(passed.map(|descriptor| own(descriptor).into()).collect()),
        Err(error) => {
            warn!(%error, "Sockets passed by systemd not understood, binding our own");
            Passed::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_by_its_path_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one.sock"), dir.path().join("other.sock"));
        let bound = [&one, &other].map(|path| UnixListener::bind(path).unwrap());
        let mut passed = Passed(bound.into());
        assert!(passed.take(&dir.path().join("third.sock")).is_none());
        assert!(passed.take(&other).is_some() && passed.take(&other).is_none());
        assert!(passed.take(&one).is_some());
    }
}
