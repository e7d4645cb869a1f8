//! The node's own key, to which credentials are sealed: made at the first start, kept in a file that root
//! alone can read.
//!
//! It is not in the store: a store that is damaged is set aside and begun anew, and a key that changed would
//! make every seal worthless until the manager has sealed again. Whoever has the file opens what is sealed to
//! this node.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_proto::sealing::NodeKey;
use tempfile::NamedTempFile;
use tracing::info;

/// So that whoever finds the file knows what it is.
const HEADER: &str = "# Berth: the private key of this node. Keep it secret; without it a new one is made.";
const NAME: &str = "node.key";
/// A key and its header are smaller by far.
const LIMIT: u64 = 4 << 10;

/// Reason why there is no key. `Display` names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeKeyError {
    /// It cannot be read.
    #[error("cannot read the node's key {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Others may have read it.
    #[error(
        "others can read the node's key {path:?} (mode {mode:04o}, owner {owner}): remove it, and a new one is made at the \
         next start"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The number of its owner.
        owner: u32,
    },
    /// There is something else in it.
    #[error("{0:?} does not hold a node's key: remove it, and a new one is made at the next start")]
    NoKey(PathBuf),
    /// It cannot be written.
    #[error("cannot write the node's key {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The key in the state directory; a new one the first time.
pub(crate) fn load(directory: &Path) -> Result<NodeKey, NodeKeyError> {
    let path = directory.join(NAME);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    let key = NodeKey::generate();
    if write(directory, &path, &key)? {
        info!(file = %path.display(), "Key of this node made");
        return Ok(key);
    }
    // Somebody was faster; theirs is the one that stays.
    read(&path)?.ok_or(NodeKeyError::NoKey(path))
}

/// `None` when there is none.
fn read(path: &Path) -> Result<Option<NodeKey>, NodeKeyError> {
    let failed = |source| NodeKeyError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Of the file that is read, not of the one that has its name by then.
    let metadata = file.metadata().map_err(failed)?;
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if mode & 0o077 != 0 || owner != nix::unistd::geteuid().as_raw() {
        return Err(NodeKeyError::Open { path: path.to_owned(), mode, owner });
    }
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text).map_err(failed)?;
    let no_key = || NodeKeyError::NoKey(path.to_owned());
    let line = text.lines().find(|line| !line.starts_with('#')).ok_or_else(no_key)?;
    let bytes = STANDARD.decode(line.trim()).map_err(|_| no_key())?;
    NodeKey::from_bytes(&bytes).map(Some).map_err(|_| no_key())
}

/// Whole or not at all, and never over another one: `false` when there is one by now.
fn write(directory: &Path, path: &Path, key: &NodeKey) -> Result<bool, NodeKeyError> {
    let failed = |source| NodeKeyError::Write { path: path.to_owned(), source };
    // Made with mode 0600.
    let mut file: NamedTempFile =
        tempfile::Builder::new().prefix(".node-key-").tempfile_in(directory).map_err(failed)?;
    writeln!(file, "{HEADER}\n{}", STANDARD.encode(key.to_bytes())).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error.error)),
    }
    // The name is durable, too: what is sealed to this key must find it after a crash.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn made_once() {
        let dir = tempfile::tempdir().unwrap();
        let key = load(dir.path()).unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().starts_with("# Berth: "));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        assert!(load(dir.path()).unwrap().to_bytes() == key.to_bytes());
        assert!(!write(dir.path(), &path, &NodeKey::generate()).unwrap());
        assert!(load(dir.path()).unwrap().to_bytes() == key.to_bytes());
    }

    #[test]
    fn what_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        load(dir.path()).unwrap();
        let path = dir.path().join(NAME);
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = load(dir.path()).err().unwrap().to_string();
            assert!(error.contains("node.key") && error.contains("remove it"), "{error}");
        }
    }

    #[test]
    fn another_owner_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        load(dir.path()).unwrap();
        let path = dir.path().join(NAME);
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            assert!(load(dir.path()).err().unwrap().to_string().contains("owner 12345"));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        for text in ["", "# only a header\n", "AAAA\n", "not base64\n"] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(load(dir.path()), Err(NodeKeyError::NoKey(_))), "{text:?}");
        }
        let error = load(&dir.path().join("missing")).err().unwrap().to_string();
        assert!(error.starts_with("cannot write the node's key"), "{error}");
    }
}
