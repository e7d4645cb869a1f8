//! Hand-over: a new process takes the place of the old one, and no client notices.
//!
//! ```text
//!   new                                      old
//!    |                                        |  serves
//!    |------ Take ---------------------------->|  ends its own work, closes the store; serves on from memory
//!    |<----- Taken, with the sockets ----------|
//!    |  opens the store, lists, sees the pods |
//!    |  accepts, on the same sockets          |  accepts
//!    |------ Ready --------------------------->|  accepts no more; GOAWAY; stays until its last call has ended
//! ```
//!
//! The kubelet connects anew to the same socket, and its calls that are under way end where they are. One
//! that is held at the gate goes back unprocessed: its library takes it to the new process by itself
//! (`berth_shim::Shutdown`). Between `Taken` and `Ready` the old process decides as before, but makes nothing
//! durable and does nothing of its own accord: what is due the new one finds in the runtime, the API and the
//! store, as after a crash.
//!
//! If the new process is not ready in time the old one ends it and, where the store was given away already,
//! starts its own program anew in its place. So there is one way, forwards and back.
//!
//! They meet in one of two ways. `berthctl upgrade` makes the old process start the new one, in the same
//! cgroup (which is what systemd wants of a new main process) and with the connection as its standard input.
//! A process that somebody else starts, such as a DaemonSet, comes to `handover.sock` beside the admin
//! socket.

mod line;
mod new_process;
mod old_process;
mod program;
mod sockets;
mod stranger;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

pub(crate) use self::{
    new_process::OldProcess,
    old_process::{HandOver, HandOverError, Owned, Stage},
    program::{NotAProgram, Program},
    sockets::{Name, Sockets},
};

/// Says to a new process where its predecessor is; see [`TakeOver`].
pub(crate) const TAKE_OVER: &str = "BERTH_TAKE_OVER";

/// Where the predecessor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// At the other end of the standard input: it started this process.
    Stdin,
    /// It listens there. Where nobody does, there is no predecessor.
    Socket(PathBuf),
}

impl FromStr for TakeOver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "-" => Ok(Self::Stdin),
            path if path.starts_with('/') => Ok(Self::Socket(path.into())),
            _ => Err("the path of a handover.sock, absolute, is wanted".to_owned()),
        }
    }
}

/// Returns where a process that is to be succeeded listens: beside its admin socket.
pub(crate) fn socket_beside(admin_socket: &Path) -> PathBuf {
    admin_socket.with_file_name("handover.sock")
}
