//! Path `takeover`: berthd in the runtime's place, at the runtime's own socket path, where the kubelet's
//! endpoint cannot be changed.
//!
//! A listening socket keeps working under whatever names its file has. So the runtime's socket is moved to
//! another name in the same directory, in one step with a second name of berthd's own being put there:
//!
//! ```text
//!   containerd.sock              what everybody dials: berthd's socket while it serves, else the runtime's
//!   containerd.sock.berth        berthd's socket, by its own name; it is removed when the place is left on purpose
//!   containerd.sock.runtime      the runtime's, which berthd dials
//!   containerd.sock.berth.next   what is about to change places; there for a moment
//!   containerd.sock.berth.locks  root's alone, with the lock of whoever changes the names
//! ```
//!
//! What is the case is seen from the files and from who answers at them, never from a note that may be old.
//! `decide` says what to do about what is seen, one step of the file system at a time, so that after any
//! interruption the next who looks goes on. A runtime that restarts binds its own path anew: [`RuntimePlace`]
//! sees that and takes the place again. The [`guardian`] is a process of its own that puts the runtime's
//! socket back when nobody answers in its place, whatever became of berthd.
//!
//! With two programs it is a `berth-shim` that listens and is in the place, a process outside of berthd's
//! container and pod. berthd starts it, keeps the names, and goes without a word: the guardian guards the
//! shim. It gives the place back where it is told to (`bypass`), and where no berthd has come for long.
//!
//! ```text
//!   containerd.sock.berth.bypass there as long as the place is to be the runtime's
//! ```

pub mod bypass;
mod copied;
mod decide;
pub mod guardian;
pub mod host;
mod look;
pub mod outside;
mod place;
mod shim;
mod start;
mod steps;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use self::{
    place::{Leaving, RuntimePlace},
    shim::ShimSettings,
};

/// How long a socket's path may be, without the final zero.
const LONGEST: usize = 107;

/// The names, all in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    front: PathBuf,
}

/// The runtime's path leaves no room for the names beside it.
#[derive(Debug, thiserror::Error)]
#[error("runtimeEndpoint {0:?} is too long for path takeover: at most {max} bytes", max = LONGEST - ".runtime".len())]
pub struct TooLong(PathBuf);

impl Paths {
    /// Makes those for the runtime that listens there.
    pub fn of(front: &Path) -> Result<Self, TooLong> {
        let paths = Self { front: front.to_owned() };
        if paths.aside().as_os_str().len() > LONGEST {
            return Err(TooLong(paths.front));
        }
        Ok(paths)
    }

    /// Returns where everybody dials.
    pub fn front(&self) -> &Path {
        &self.front
    }

    /// Returns where berthd listens.
    pub fn own(&self) -> PathBuf {
        self.with(".berth")
    }

    /// Returns where the runtime is meanwhile.
    pub fn aside(&self) -> PathBuf {
        self.with(".runtime")
    }

    fn next(&self) -> PathBuf {
        self.with(".berth.next")
    }

    /// Locked by the guardian as long as there is one.
    fn guardian(&self) -> PathBuf {
        self.with(".berth.guardian")
    }

    /// Wish of whoever runs `berthctl bypass`.
    fn bypass(&self) -> PathBuf {
        self.with(".berth.bypass")
    }

    /// A directory that only root may enter, for the lock of those who change the names. The directory of the
    /// sockets is often open to everybody, and whoever may open a directory or a file may lock it.
    fn locks(&self) -> PathBuf {
        self.with(".berth.locks")
    }

    fn with(&self, end: &str) -> PathBuf {
        let mut path = self.front.as_os_str().to_owned();
        path.push(end);
        path.into()
    }
}
