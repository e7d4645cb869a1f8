//! The way past a `berth-shim` in the runtime's place, and back: a file beside the sockets says that the
//! place is to be the runtime's. The guardian sees it and gives the place back, whatever state berthd is in;
//! berthd sees it and does not take the place.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
};

use super::{Paths, look::FileId};

/// Words for whoever asks how the place is.
pub(super) const WORDS: &str = "the runtime has its place back until berthctl bypass --takeover --undo";

/// Tells whether the place is to be the runtime's.
pub(super) fn wanted(paths: &Paths) -> bool {
    paths.bypass().symlink_metadata().is_ok()
}

/// Wishes that the place be the runtime's.
pub fn want(paths: &Paths) -> io::Result<()> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(paths.bypass()).map(drop)
}

/// Takes the wish back; whether there was one.
pub fn undo(paths: &Paths) -> io::Result<bool> {
    match fs::remove_file(paths.bypass()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells whether a socket of Berth's has the runtime's path, as far as the names show.
pub fn is_taken(paths: &Paths) -> io::Result<bool> {
    let own = FileId::of(&paths.own())?;
    Ok(own.is_some() && own == FileId::of(paths.front())?)
}
