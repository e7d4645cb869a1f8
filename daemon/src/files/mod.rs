//! Desired state from a directory, of whatever kind: its files, their names, and strict YAML.

pub(crate) mod directory;
mod name;
pub(crate) mod node_image;
pub(crate) mod yaml;

use std::{io, path::PathBuf};

pub(crate) use self::name::Submitted;
pub(crate) use self::name::new_name;

/// A file could not be read or written. `Display` names it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// Reading.
    #[error("reading {path:?}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Writing.
    #[error("writing {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Removing.
    #[error("removing {path:?}")]
    Remove {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Works on the disk beside the thread of the tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
