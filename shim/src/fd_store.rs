//! Connections to the runtime that outlive this process.
//!
//! The runtime takes the end of a connection for the end of its calls. When this process is killed, whatever
//! the kubelet had asked for would be broken off in the middle: a container that is being started, a hook
//! that runs, a stop that waits for the end of its grace. With a second descriptor of the connection in other
//! hands the runtime goes on to the end of what it was asked; only the answer is lost. So calls that are to
//! last have a connection of their own.

use std::{any::Any, fmt::Debug, os::fd::BorrowedFd};

/// Store of second descriptors of connections, in other hands.
pub trait FdStore: Debug + Send + Sync + 'static {
    /// Keeps a second descriptor until what is returned is dropped. `None` where that cannot be: the
    /// connection then ends with this process.
    fn store(&self, connection: BorrowedFd<'_>) -> Option<StoredFd>;
}

/// A connection that is stored, until this is dropped.
pub type StoredFd = Box<dyn Any + Send>;
