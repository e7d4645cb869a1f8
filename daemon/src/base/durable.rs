//! A file that is replaced as a whole.

use std::{
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Writes a file with this mode, whatever the umask; durable on return. Whoever looks meanwhile sees the old
/// one or the new one, and beside it one whose name begins with `unfinished`.
pub fn write(path: &Path, content: &[u8], mode: u32, unfinished: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(unfinished).tempfile_in(directory)?;
    file.write_all(content)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)
}

/// Makes durable which files are in a directory: one that was moved is else back under its old name after a
/// power cut.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
