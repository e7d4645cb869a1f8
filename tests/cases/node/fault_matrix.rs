//! Some cells of the fault matrix; `berth-faults` runs all of them.

use anyhow::{Result, ensure};
use berth_tests::faults;
use berth_tests::faults::matrix::{Fault, Row, rows};
use berthd::agent::fault::Point;

/// On a node of its own: its store is on a small disk.
#[tokio::test]
async fn fault_matrix_sample() -> Result<()> {
    let points = [Point::Marked, Point::Shown, Point::Latching];
    let mut sample = rows(&points, &[Fault::Kill, Fault::BrokenStore], false);
    // `berthctl swap`, of a pod that no SidecarSet knows.
    for swap in rows(&[Point::SwapFinishing], &[Fault::Kill], false) {
        sample.push(Row { number: sample.len(), ..swap });
    }
    let outcomes = faults::run(&sample, |outcome| {
        eprintln!("{}", outcome.line());
        Ok(())
    })
    .await?;
    ensure!(outcomes.len() == 7, "{} cells", outcomes.len());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).map(|it| it.line()).collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
