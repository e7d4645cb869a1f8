//! The sockets that outlive a process.

use std::{
    fmt,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    path::Path,
};

use serde::{Deserialize, Serialize};

/// Which socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    /// The one the kubelet connects to.
    Cri,
    /// The one `berthctl` connects to.
    Admin,
    /// Health and metrics.
    Http,
    /// The one a successor connects to.
    Handover,
    /// One that a later version has; it is closed.
    #[serde(other)]
    Unknown,
}

/// Sockets that listen already, by name.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Vec<(Name, OwnedFd)>);

impl Sockets {
    /// One more.
    pub(crate) fn add(&mut self, name: Name, socket: OwnedFd) {
        self.0.push((name, socket));
    }

    /// Names of the sockets, as [`Sockets::descriptors`] has them.
    pub(super) fn names(&self) -> Vec<Name> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// Descriptors to be sent.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(|(_, socket)| socket.as_fd()).collect()
    }

    /// Pairs sockets that were received with their names. `None` if there are more names than sockets, or the
    /// other way round.
    pub(super) fn received(names: Vec<Name>, sockets: Vec<OwnedFd>) -> Option<Self> {
        (names.len() == sockets.len()).then(|| Self(names.into_iter().zip(sockets).collect()))
    }

    /// The socket of this name, if it is bound to this path: the configuration may have changed.
    pub(crate) fn take_unix(&mut self, name: Name, path: &Path) -> Option<UnixListener> {
        let socket = UnixListener::from(self.take(name)?);
        let bound = socket.local_addr().ok()?;
        (bound.as_pathname() == Some(path)).then_some(socket)
    }

    /// The same, at an address. Where any port is wanted, any is right.
    pub(crate) fn take_tcp(&mut self, name: Name, address: SocketAddr) -> Option<TcpListener> {
        let socket = TcpListener::from(self.take(name)?);
        let bound = socket.local_addr().ok()?;
        (bound.ip() == address.ip() && (address.port() == 0 || bound.port() == address.port()))
            .then_some(socket)
    }

    fn take(&mut self, name: Name) -> Option<OwnedFd> {
        let at = self.0.iter().position(|(this, _)| *this == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

impl fmt::Display for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.names())
    }
}
