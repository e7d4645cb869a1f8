//! The node as `berthctl` touches it: files below a root, and `systemctl`.
//!
//! Nothing is decided here. Every write is complete or has not happened: a reader never sees half of a unit.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berthd::base::durable;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// How the names of files begin that are being written.
const UNFINISHED: &str = ".berthctl-";

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    root: PathBuf,
    systemctl: PathBuf,
}

/// State of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "camelCase")]
pub(crate) enum Before {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Base64.
        content: String,
        /// Permission bits.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// Where to.
        target: PathBuf,
    },
}

impl Host {
    /// The node whose files are below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self::with_systemctl(root, Path::new("systemctl"))
    }

    /// The same with another `systemctl`.
    pub(crate) fn with_systemctl(root: &Path, systemctl: &Path) -> Self {
        Self { root: root.to_owned(), systemctl: systemctl.to_owned() }
    }

    /// Tells whether this is the machine we run on.
    pub(crate) fn is_this(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns where `path` of the node is for us.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file; `None` where there is none.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>> {
        match fs::read(self.path(path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {path}")),
        }
    }

    /// Tells whether there is a file.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The names in a folder, sorted; none where there is no folder.
    pub(crate) fn list(&self, dir: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(dir)) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("read {dir}")),
        };
        let names: std::io::Result<Vec<String>> = entries
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect();
        let mut names = names.with_context(|| format!("read {dir}"))?;
        names.sort();
        Ok(names)
    }

    /// Reads the state of a path, to be put back later.
    pub(crate) fn before(&self, path: &str) -> Result<Before> {
        let file = self.path(path);
        let look = || -> std::io::Result<Before> {
            let metadata = file.symlink_metadata()?;
            if metadata.file_type().is_symlink() {
                return Ok(Before::Link { target: fs::read_link(&file)? });
            }
            let content = BASE64_STANDARD.encode(fs::read(&file)?);
            let mode = metadata.mode() & 0o7777;
            Ok(Before::File { content, mode, uid: metadata.uid(), gid: metadata.gid() })
        };
        match look() {
            Err(error) if is_missing(&error) => Ok(Before::Absent),
            other => other.with_context(|| format!("look at {path}")),
        }
    }

    /// Puts back what was at a path.
    pub(crate) fn restore(&self, path: &str, before: &Before) -> Result<()> {
        match before {
            Before::Absent => self.remove(path),
            Before::File { content, mode, uid, gid } => {
                let content =
                    BASE64_STANDARD.decode(content).with_context(|| format!("kept copy of {path}"))?;
                self.write(path, &content, *mode)?;
                chown(self.path(path), Some(*uid), Some(*gid)).with_context(|| format!("give {path} back"))
            }
            Before::Link { target } => {
                self.remove(path)?;
                symlink(target, self.path(path)).with_context(|| format!("link {path}"))
            }
        }
    }

    /// Writes a file, whatever was there; its folder must be there.
    pub(crate) fn write(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let file = self.path(path);
        durable::write(&file, content, mode, UNFINISHED).with_context(|| format!("write {path}"))
    }

    /// Copies a program to the node.
    pub(crate) fn copy(&self, from: &Path, path: &str, mode: u32) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("read {}", from.display()))?;
        self.write(path, &content, mode)
    }

    /// Tells whether a program is on the node as it is here.
    pub(crate) fn is_same(&self, here: &Path, path: &str) -> Result<bool> {
        let own = fs::read(here).with_context(|| format!("read {}", here.display()))?;
        match fs::read(self.path(path)) {
            Ok(there) => Ok(own == there),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("read {path}")),
        }
    }

    /// Removes a file; that it is gone already is fine.
    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        match fs::remove_file(self.path(path)) {
            Err(error) if !is_missing(&error) => Err(error).with_context(|| format!("remove {path}")),
            _ => Ok(()),
        }
    }

    /// Makes one folder; that it is there already is fine.
    pub(crate) fn make_dir(&self, path: &str, mode: u32) -> Result<()> {
        let dir = self.path(path);
        match fs::create_dir(&dir) {
            Ok(()) => fs::set_permissions(&dir, Permissions::from_mode(mode)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
        .with_context(|| format!("make {path}"))
    }

    /// Removes a folder if nothing is in it.
    pub(crate) fn remove_empty_dir(&self, path: &str) -> Result<()> {
        match fs::remove_dir(self.path(path)) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty || is_missing(&error) => Ok(()),
            other => other.with_context(|| format!("remove {path}")),
        }
    }

    /// Removes a folder with all that is in it.
    pub(crate) fn remove_tree(&self, path: &str) -> Result<()> {
        match fs::remove_dir_all(self.path(path)) {
            Err(error) if !is_missing(&error) => Err(error).with_context(|| format!("remove {path}")),
            _ => Ok(()),
        }
    }

    /// Runs `systemctl`, which must succeed within `limit`; what it printed.
    pub(crate) async fn systemctl(&self, args: &[&str], limit: Duration) -> Result<String> {
        let output = self.ask_systemctl(args, limit).await?;
        let words = args.join(" ");
        if !output.status.success() {
            bail!("systemctl {words}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a `systemctl` whose failure is an answer, such as `is-active`.
    pub(crate) async fn ask_systemctl(&self, args: &[&str], limit: Duration) -> Result<std::process::Output> {
        let mut command = Command::new(&self.systemctl);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let words = args.join(" ");
        let output = tokio::time::timeout(limit, command.output()).await;
        output
            .with_context(|| format!("systemctl {words}: not done within {limit:?}"))?
            .with_context(|| format!("run {} {words}", self.systemctl.display()))
    }
}

/// Tells whether neither the file nor the folder it would be in is there.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
