//! Some cells of the fault matrix (`berth-faults` runs all of them), and that the matrix has every point there is.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use berth_tests::faults;
use berth_tests::faults::matrix::{Fault, POINTS, rows};
use berthd::fault::Point;

#[test]
fn the_matrix_has_every_point() {
    let groups: [&[Point]; 8] = [
        &Point::RECREATE,
        &Point::PULL,
        &Point::UPDATE,
        &Point::SIDECAR,
        &Point::HANDOVER,
        &Point::ANSWER,
        &Point::GATE,
        &Point::STORE,
    ];
    let there: BTreeSet<_> = groups.into_iter().flatten().map(|point| point.name()).collect();
    let listed: Vec<_> = POINTS.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), there);
    assert_eq!(listed.len(), there.len(), "a point stands there twice");
}

/// On a node of its own: its store is on a small disk.
#[tokio::test]
async fn fault_matrix_sample() -> Result<()> {
    let points = ["marked", "shown", "latching"].map(str::to_owned);
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
