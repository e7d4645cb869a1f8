//! Some cells of the fault matrix; `berth-faults` runs all of them.

use anyhow::{Result, ensure};
use berth_tests::faults;
use berth_tests::faults::matrix::{Fault, Programs, Row, rows};
use berthd::agent::fault::Point;

/// On a node of its own: its store is on a small disk.
#[tokio::test]
async fn fault_matrix_sample() -> Result<()> {
    let points = [Point::Marked, Point::Shown, Point::Latching];
    let mut sample = rows(&points, &[Fault::Kill, Fault::BrokenStore], Programs::One, false);
    // `berthctl swap`, of a pod that no SidecarSet knows.
    for swap in rows(&[Point::SwapFinishing], &[Fault::Kill], Programs::One, false) {
        sample.push(Row { number: sample.len(), ..swap });
    }
    all_pass(&sample, Programs::One, 7).await
}

/// Either of two programs is killed: where one decides about the other's calls, and where a hook begins.
#[tokio::test]
async fn fault_matrix_sample_of_two_programs() -> Result<()> {
    let points = [Point::Reported, Point::Hooked, Point::Refusing];
    let sample = rows(&points, &[Fault::Kill, Fault::KillShim], Programs::Two, false);
    all_pass(&sample, Programs::Two, 6).await
}

async fn all_pass(rows: &[Row], programs: Programs, cells: usize) -> Result<()> {
    crate::slots::take().await;
    let outcomes = faults::run(rows, programs, |outcome| {
        eprintln!("{}", outcome.line());
        Ok(())
    })
    .await?;
    ensure!(outcomes.len() == cells, "{} cells", outcomes.len());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).map(|it| it.line()).collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
