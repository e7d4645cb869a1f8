//! Takes a run down when the process that made it has ended, however it ended.
//!
//! A test binary keeps its node in a static and never drops it; a benchmark is interrupted; a CI job is
//! killed. So the run does not depend on its owner's last act: a process of its own waits for the end of a
//! pipe that only the owner holds open.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::run_dir::{RUNS, lock};
use super::{down, programs};

/// Time in which the kernel lets the lock go of an owner whose end of the pipe is closed: it closes what a
/// killed process had open one by one.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);

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
    // Nothing is ever written to the pipe: a read returns when the last writer is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the owner")?;
    let (dir, until) = (Path::new(RUNS).join(number.to_string()), Instant::now() + LET_GO_WITHIN);
    loop {
        if let Some(_owner) = lock(&dir)? {
            return down::remove(number);
        }
        // Without the lock the next run has the number already, or somebody else removes this one.
        if Instant::now() > until {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
}
