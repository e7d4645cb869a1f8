//! Files of desired state, and what is written of it: one at a time, whole or not at all, beside the thread
//! of the tasks.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use super::{FileError, blocking, directory};

/// Makes a directory that may be there already, and those above it.
pub(crate) async fn make(directory: &Path, mode: u32) -> Result<(), FileError> {
    let path = directory.to_owned();
    let made = blocking(move || DirBuilder::new().recursive(true).mode(mode).create(path)).await;
    made.map_err(|source| FileError::Write { path: directory.to_owned(), source })
}

/// Reads a file; `None` when there is none.
pub(crate) async fn read(path: &Path) -> Result<Option<String>, FileError> {
    let from = path.to_owned();
    let read = blocking(move || directory::read_if_there(&from)).await;
    read.map_err(|source| FileError::Read { path: path.to_owned(), source })
}

/// Writes a file; durable on return. Whoever looks meanwhile sees the old one or the new one.
pub(crate) async fn write(path: &Path, text: String) -> Result<(), FileError> {
    let to = path.to_owned();
    let written = blocking(move || directory::write(&to, &text)).await;
    written.map_err(|source| FileError::Write { path: path.to_owned(), source })
}

/// Removes a file; whether it was there.
pub(crate) async fn remove(path: &Path) -> Result<bool, FileError> {
    let from = path.to_owned();
    let removed = blocking(move || directory::remove(&from)).await;
    removed.map_err(|source| FileError::Remove { path: path.to_owned(), source })
}

/// Removes what an agent left in these directories that was killed while it wrote.
pub(crate) async fn tidy(directories: Vec<PathBuf>) {
    let tidied = blocking(move || {
        directories.iter().for_each(|directory| directory::tidy(directory));
        Ok(())
    });
    // There is nothing in it that could fail.
    let _ = tidied.await;
}

/// All files of a directory whose names end so, with the content of each of at most so many bytes. A
/// directory that is missing has none.
pub(crate) async fn read_all(
    directory: &Path,
    suffix: &'static str,
    longest: u64,
) -> Result<Vec<(PathBuf, io::Result<String>)>, FileError> {
    let path = directory.to_owned();
    let read = blocking(move || {
        let paths = directory::paths(&path)?;
        let own =
            paths.into_iter().filter(|path| path.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes()));
        Ok(own.map(|path| (path.clone(), directory::read_up_to(&path, longest))).collect())
    });
    read.await.map_err(|source| FileError::Read { path: directory.to_owned(), source })
}
