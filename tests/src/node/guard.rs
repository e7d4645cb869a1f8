//! Takes a run down when the process that made it has ended, however it ended.
//!
//! A test binary keeps its node in a static and never drops it; a benchmark is interrupted; a CI job is
//! killed. So the run does not depend on its owner's last act: a process of its own waits for the end of a
//! pipe that only the owner holds open.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::run_dir::{RUNS, lock};
use super::{down, programs};

/// Time in which the kernel lets the lock go of an owner whose end of the pipe is closed: it closes what a
/// killed process had open one by one, and may have other work to do.
const LET_GO_WITHIN: Duration = Duration::from_secs(60);

/// Alive as long as the run is owned; its end is the guard's signal.
#[derive(Debug)]
pub struct Guard {
    _pipe: ChildStdin,
}

impl Guard {
    /// Sets a guard on the run with this number.
    pub fn set(number: u8) -> Result<Self> {
        let mut child = Command::new(programs::own("berth-node")?)
            .args(["guard", &number.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the guard")?;
        let pipe = child.stdin.take().context("pipe to the guard")?;
        // It outlives us by intention, so nobody waits for it.
        drop(child);
        Ok(Self { _pipe: pipe })
    }
}

/// The guard's whole life.
pub fn stand(number: u8) -> Result<()> {
    let dir = Path::new(RUNS).join(number.to_string());
    // While it is open no other directory can be taken for it.
    let Ok(own) = File::open(&dir) else { return Ok(()) };
    let inode = own.metadata().context("the run's directory")?.ino();
    // Nothing is ever written to the pipe: a read returns when the last writer is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the owner")?;
    let until = Instant::now() + LET_GO_WITHIN;
    // Its owner may have removed it, and the next run may have the number already. Without the lock somebody
    // else is about to remove it.
    while Instant::now() < until && fs::metadata(&dir).is_ok_and(|now| now.ino() == inode) {
        if let Some(_owner) = lock(&dir)? {
            return down::remove(number);
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}
