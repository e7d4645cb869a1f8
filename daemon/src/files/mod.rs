//! Desired state from files, of whatever kind.
//!
//! - `follow`: which files of a directory came, changed and went; `notify`: when to look.
//! - [`store`]: reading, writing and removing one; `directory`: how a file is there whole or not at all.
//! - [`fields`]: which fields there are; [`node_image`]: a file that is a `NodeImage`; `name`: names of what
//!   comes without one.

mod directory;
pub(crate) mod fields;
mod follow;
mod name;
pub(crate) mod node_image;
mod notify;
pub(crate) mod store;

#[cfg(test)]
mod tests;

use std::{io, path::PathBuf};

pub(crate) use self::{
    directory::status_of,
    follow::{Follower, Look},
    name::{Submitted, new_name},
};

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
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Keeps something in a file to its end, also when whoever asked goes away meanwhile: what is in a file is
/// known, too.
///
/// # Errors
/// Those of `work`, and its panic as one of writing `path`.
pub(crate) async fn kept_whole(
    path: PathBuf,
    work: impl Future<Output = Result<(), FileError>> + Send + 'static,
) -> Result<(), FileError> {
    let kept = tokio::spawn(work).await;
    kept.unwrap_or_else(|error| Err(FileError::Write { path, source: io::Error::other(error) }))
}
