//! Small disks of a run, and what fills them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::run_dir::Run;
use super::tool::run as tool;

/// Written at once.
const BLOCK: [u8; 4096] = [1; 4096];

/// A folder of the run on a filesystem of so many MiB. Below the run's directory, so that whatever ends the
/// run finds it.
pub async fn make(run: &Run, name: &str, mebibytes: u32) -> Result<PathBuf> {
    let root = run.make_dir(name)?;
    let size = format!("size={mebibytes}m");
    tool("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", root.to_str().context("path")?]).await?;
    Ok(root)
}

/// A file that takes all that is free. The room is there again when it is dropped.
#[derive(Debug)]
pub struct Ballast {
    file: PathBuf,
}

impl Ballast {
    /// Fills the disk that this folder is on, which must be a small one.
    pub fn fill(folder: &Path) -> Result<Self> {
        let ballast = Self { file: folder.join("ballast") };
        let mut file = File::create(&ballast.file).context("ballast")?;
        loop {
            match file.write_all(&BLOCK) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(ballast),
                Err(error) => return Err(error).with_context(|| ballast.file.display().to_string()),
            }
        }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.file) {
            eprintln!("{}: {error}", self.file.display());
        }
    }
}
