//! Another berthd takes the place of the one that runs. Where it dies on the way, the old program goes on.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use berthd::agent::fault::Point;

use super::super::bed::Bed;
use super::super::matrix::{Fault, Row};
use super::super::site::PATIENCE;
use crate::wait::await_condition;

pub(super) async fn play(bed: &Bed, row: &Row) -> Result<Instant> {
    let berthd = bed.berthd()?;
    let (before, program) = (berthd.service().pid(), berthd.program()?);
    bed.arm(row)?;
    // How long `berthctl` looks after the new one: where it is killed, until that is noticed.
    let killed = matches!(row.fault, Fault::Kill | Fault::BrokenStore);
    let watch = [if killed { "--watch=60s" } else { "--watch=3s" }];
    let (upgraded, struck) = tokio::join!(berthd.upgrade(&program, &watch), bed.strike(row));
    let healed = struck?;
    match (row.fault, upgraded) {
        (Fault::Kill | Fault::BrokenStore, Ok(())) => bail!("it was killed, and nobody noticed"),
        (Fault::Kill | Fault::BrokenStore, Err(_)) => {}
        // Without room it may not be able to begin; that it says so is all that is asked of it.
        (Fault::DiskFull, Err(error)) => eprintln!("disk-full at {:?}: {error:#}", row.points),
        // It serves already, and while it stands still nobody answers `berthctl`, which says so.
        (Fault::Stop, Err(error)) if row.points == [Point::Succeeded] => {
            eprintln!("stop at succeeded: {error:#}");
        }
        (_, upgraded) => upgraded?,
    }
    ensure!(berthd.service().pid() != before, "the same process answers");
    berthd.serving().await?;
    // For a while it looks after the new one. What happens to that then is another cell than those that
    // follow.
    let old = PathBuf::from(format!("/proc/{}", before.context("no process")?));
    await_condition("the old berthd has ended", PATIENCE, async || {
        ensure!(!old.exists(), "it is there");
        Ok(())
    })
    .await?;
    Ok(healed)
}
