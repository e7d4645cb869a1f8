//! Another berthd takes the place of the one that runs. Where it dies on the way, the old program goes on.

use anyhow::{Result, ensure};

use super::super::bed::Bed;
use super::super::matrix::{Cell, Fault};

/// How long `berthctl` looks after the new one.
const FLAGS: &[&str] = &["--watch=3s", "--ready-within=60s"];

pub(super) async fn play(bed: &Bed, cell: &Cell) -> Result<()> {
    let berthd = bed.berthd()?;
    let (before, program) = (berthd.service().pid(), berthd.program()?);
    bed.arm(cell)?;
    let (upgraded, struck) = tokio::join!(berthd.upgrade(&program, FLAGS), bed.strike(cell));
    struck?;
    match (cell.fault, upgraded) {
        (Fault::Kill | Fault::BrokenStore, Ok(())) => anyhow::bail!("it was killed, and nobody noticed"),
        (Fault::Kill | Fault::BrokenStore, Err(_)) => {}
        // Without room it may not be able to begin; that it says so is all that is asked of it.
        (Fault::DiskFull, Err(error)) => eprintln!("disk-full at {}: {error:#}", cell.point),
        (_, upgraded) => upgraded?,
    }
    ensure!(berthd.service().pid() != before, "the same process answers");
    berthd.serving().await
}
