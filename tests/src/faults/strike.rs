//! Strikes against the node while berthd stands at a point, and how the node is made whole again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::sleep;

use super::bed::Bed;
use super::matrix::{Fault, Row};
use super::site::PATIENCE;
use crate::node::disk::Ballast;
use crate::wait::await_condition;

/// How long berthd stands still.
const STILL: Duration = Duration::from_secs(10);
/// How long the disk is full.
const FULL: Duration = Duration::from_secs(4);
/// How long the API server is away, besides the time that it takes to start.
const AWAY: Duration = Duration::from_secs(5);

/// Length in bytes of the rest of a store that was cut off: its head, and a part of what everything hangs on.
/// Half a store may still hold all that counts, and that is sound.
const BEGINNING: usize = 6000;

/// Lets it happen to the process that stands still.
pub(super) async fn strike(bed: &Bed, row: &Row, pid: u32) -> Result<()> {
    let berthd = bed.berthd()?;
    match row.fault {
        Fault::Kill => crash(bed, pid).await,
        Fault::Stop => {
            sleep(STILL).await;
            go_on(pid)
        }
        Fault::DiskFull => {
            let ballast = Ballast::fill(&berthd.state_dir())?;
            go_on(pid)?;
            sleep(FULL).await;
            drop(ballast);
            // It may have ended with an error, when it could not do without. Then whoever started it starts
            // it again.
            if berthd.service().pid() == Some(pid) && berthd.service().has_ended()? {
                eprintln!("{} of {:?}: berthd has ended by itself", row.fault.name(), row.points);
                berthd.service().start()?;
                serves_or_stands(bed).await?;
            }
            Ok(())
        }
        Fault::BrokenStore => {
            let aside = berthd.state_dir().join("store.redb.damaged");
            if aside.exists() {
                fs::remove_file(&aside).context("remove the last damaged store")?;
            }
            spoil(&berthd.state_dir().join("store.redb"), row.number)?;
            crash(bed, pid).await?;
            await_condition("the damaged store is set aside", PATIENCE, async || {
                ensure!(aside.exists(), "it is not");
                Ok(())
            })
            .await
        }
        Fault::ApiCut => {
            let api = bed.node.api()?;
            // Asked to end, it would first wait for its watches to end.
            api.service().kill()?;
            go_on(pid)?;
            sleep(AWAY).await;
            api.service().start()?;
            api.ready().await
        }
        Fault::KillShim => {
            berthd.replace_shim()?;
            go_on(pid)?;
            serves_or_stands(bed).await
        }
        Fault::ContainerdRestart => {
            bed.node.containerd().restart().await?;
            go_on(pid)
        }
    }
}

/// Lets a process that stands still go on.
pub(super) fn go_on(pid: u32) -> Result<()> {
    send(pid, Signal::SIGCONT)
}

/// Kills the process and starts it again; a successor that is killed is the old berthd's business.
async fn crash(bed: &Bed, pid: u32) -> Result<()> {
    let berthd = bed.berthd()?;
    if berthd.service().pid() != Some(pid) {
        return send(pid, Signal::SIGKILL);
    }
    berthd.service().kill()?;
    berthd.service().start()?;
    serves_or_stands(bed).await
}

/// A berthd that was started may be at its next point at once.
async fn serves_or_stands(bed: &Bed) -> Result<()> {
    let berthd = bed.berthd()?;
    await_condition("berthd serves, or stands at its next point", PATIENCE, async || {
        if berthd.at_point().is_ok() {
            return Ok(());
        }
        // While it stands still nobody answers: then the other look decides, next time.
        tokio::time::timeout(Duration::from_secs(2), berthd.serving()).await.context("no answer")?
    })
    .await
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(i32::try_from(pid)?), signal).with_context(|| format!("{signal} to {pid}"))
}

/// Garbage one time, nothing but its beginning the other time.
fn spoil(store: &Path, number: usize) -> Result<()> {
    let bytes = fs::read(store).context("read the store")?;
    let spoilt: Vec<u8> = match number % 2 {
        // No two bytes are what they were, and no two cells write the same.
        0 => bytes.iter().enumerate().map(|(at, byte)| byte ^ ((at * 7 + number) % 255 + 1) as u8).collect(),
        _ => bytes.into_iter().take(BEGINNING).collect(),
    };
    fs::write(store, spoilt).context("spoil the store")
}
