//! berthd's store on a disk that is full for a while: it says so, loses nothing, and goes on when there is
//! room.

use anyhow::{Context, Result, ensure};
use berth_policy::Latch;
use berth_tests::node::disk::{self, Ballast};
use berth_tests::node::{Run, down};
use berthd::agent::store::Store;

/// More than fit on the disk.
const MOST: i32 = 20_000;

fn latch(number: i32) -> Latch {
    Latch { sandbox: format!("sandbox-{number}").as_str().into(), priority: number }
}

#[tokio::test]
async fn full_disk_store_goes_on() -> Result<()> {
    crate::slots::take().await;
    let run = Run::claim()?;
    let directory = disk::make(&run, "state", 1).await?;
    let outcome = full_for_a_while(&directory);
    down::remove(run.number())?;
    outcome
}

fn full_for_a_while(directory: &std::path::Path) -> Result<()> {
    let store = Store::open(directory)?;
    let ballast = Ballast::fill(directory)?;
    let refused = (0..MOST).find(|number| store.latch(&latch(*number)).is_err());
    let refused = refused.context("everything found room")?;
    // It is not only the one that was too many.
    ensure!(store.latch(&latch(refused)).is_err(), "there is room");
    drop(ballast);
    store.latch(&latch(refused)).context("there is room again")?;
    let mut kept: Vec<_> = store.latches()?.into_iter().map(|latch| latch.priority).collect();
    kept.sort_unstable();
    ensure!(kept == (0..=refused).collect::<Vec<_>>(), "{refused} were written, there are {kept:?}");
    Ok(())
}
