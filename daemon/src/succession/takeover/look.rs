//! Look at the names: which file each shows, and whether somebody answers there.

use std::{
    fs::Metadata,
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};

use super::{
    Paths,
    decide::{Shown, View},
};

/// A file, whatever its names are. It is not another one's as long as the file or its socket is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Socket of berthd.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnSocket {
    /// This one, and this process listens on it.
    Held(FileId),
    /// Whichever has berthd's name; nobody may listen on it any more.
    Named,
}

impl FileId {
    /// The file of this name; `None` where there is none.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        Ok(metadata(path)?.map(|metadata| Self::from(&metadata)))
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Looks at all names.
pub(super) fn look(paths: &Paths, own: OwnSocket) -> io::Result<View> {
    let named = match own {
        OwnSocket::Held(id) => Some(id),
        OwnSocket::Named => FileId::of(&paths.own())?,
    };
    let shown = |path: &Path| -> io::Result<Shown> {
        let Some(metadata) = metadata(path)? else { return Ok(Shown::Nothing) };
        if !metadata.file_type().is_socket() {
            return Ok(Shown::Other);
        }
        let ours = named == Some(FileId::from(&metadata));
        if ours && matches!(own, OwnSocket::Held(_)) {
            return Ok(Shown::Ours);
        }
        Ok(match (answers(path)?, ours) {
            (false, _) => Shown::Dead,
            (true, true) => Shown::Ours,
            (true, false) => Shown::Runtime,
        })
    };
    Ok(View { front: shown(paths.front())?, aside: shown(&paths.aside())?, next: shown(&paths.next())? })
}

/// Tells whether somebody listens there, however slowly: this never waits.
pub(super) fn answers(path: &Path) -> io::Result<bool> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(socket.as_raw_fd(), &UnixAddr::new(path)?) {
        // EAGAIN: its backlog is full.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads the metadata of the name itself; a link is not followed.
pub(super) fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
