//! Which containerd a node has: the distribution's, or a newer one that is built from its public module.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::node::programs::package_dir;

/// Names the containerd of the nodes. Without it, it is the distribution's.
pub(crate) const CONTAINERD: &str = "BERTH_TESTS_CONTAINERD";

/// A containerd with what belongs to it: its client must be as new as it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Release {
    /// The distribution's, by the names its packages give it. Its configuration is that of 1.6.
    Distribution,
    /// 2.x, with all its programs in one folder.
    Two {
        /// The folder of the release.
        dir: PathBuf,
    },
}

impl Release {
    /// The one that the environment names; built when it is not there yet, which takes a minute or two.
    pub(crate) fn asked_for() -> Result<Self> {
        match env::var(CONTAINERD).ok().as_deref() {
            None | Some("1.6") => Ok(Self::Distribution),
            Some("2.2") => Ok(Self::Two { dir: built("2.2")? }),
            Some(other) => bail!("{CONTAINERD}={other}: no such containerd: 1.6 or 2.2"),
        }
    }

    /// `containerd` itself.
    pub(crate) fn daemon(&self) -> PathBuf {
        match self {
            Self::Distribution => "/usr/bin/containerd".into(),
            Self::Two { dir } => dir.join("containerd"),
        }
    }

    /// Its client.
    pub(crate) fn ctr(&self) -> PathBuf {
        match self {
            Self::Distribution => "ctr".into(),
            Self::Two { dir } => dir.join("ctr"),
        }
    }
}

fn built(release: &str) -> Result<PathBuf> {
    let script = package_dir().join("containerd/build.sh");
    let done = Command::new(&script).arg(release).output().with_context(|| script.display().to_string())?;
    if !done.status.success() {
        bail!("{} {release}: {}", script.display(), String::from_utf8_lossy(&done.stderr).trim());
    }
    let dir = String::from_utf8(done.stdout).context("the folder build.sh names")?;
    Ok(Path::new(dir.trim()).to_owned())
}
