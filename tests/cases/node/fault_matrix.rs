//! Some cells of the fault matrix; `berth-faults` runs all of them.

use anyhow::{Result, ensure};
use berth_tests::faults;
use berth_tests::faults::matrix::{Fault, rows};
use berthd::agent::fault::Point;

/// On a node of its own: its store is on a small disk.
#[tokio::test]
async fn fault_matrix_sample() -> Result<()> {
    let points = [Point::Marked, Point::Shown, Point::Latching];
    let rows = rows(&points, &[Fault::Kill, Fault::BrokenStore], false);
    let outcomes = faults::run(&rows, |outcome| {
        eprintln!("{}", outcome.line());
        Ok(())
    })
    .await?;
    ensure!(outcomes.len() == 6, "{} cells", outcomes.len());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).map(|it| it.line()).collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
