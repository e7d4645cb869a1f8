//! The fault matrix: at every point of berthd's way (`berthd::fault`), everything that can happen to a node.
//!
//! There is one real node, and pods come and go on it all the time. For each cell work is begun that leads berthd to the
//! point; there it stands still, as a whole, and the fault happens; then the node is made whole, and what came of the work
//! and of the pods is judged by what containerd and the API server say, and by what the containers themselves wrote down. A
//! point that is not reached is a failure.

mod bed;
mod churn;
pub mod matrix;
pub mod report;
mod site;
mod store;
mod strike;
mod ways;

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use self::bed::Bed;
use self::matrix::Cell;
use self::report::Outcome;
use self::ways::Ways;

/// Runs these cells one after another on a node of their own, and tells of each as it ends.
pub async fn run(cells: &[Cell], mut tell: impl FnMut(&Outcome) -> Result<()>) -> Result<Vec<Outcome>> {
    let bed = Bed::start().await?;
    let mut ways = Ways::default();
    // Before the first fault everything works.
    bed.whole().await.context("the node before the first cell")?;
    let mut outcomes = Vec::new();
    for cell in cells {
        let began = Instant::now();
        let played = async {
            ways.play(&bed, cell).await?;
            ensure!(bed.berthd()?.at_point().is_err(), "berthd still stands at the point");
            bed.whole().await
        };
        let outcome = Outcome::new(cell, played.await, began.elapsed());
        if !outcome.passed() {
            ways.anew(cell.way);
            if let Err(error) = bed.mend().await {
                eprintln!("after {} at {}: {error:#}", cell.fault.name(), cell.point);
            }
        }
        bed.berthd()?.pass_all_points()?;
        tell(&outcome)?;
        outcomes.push(outcome);
    }
    eprintln!("{} pods came and went well beside the cells", bed.churn.pods());
    let Bed { node, churn, .. } = bed;
    drop(churn);
    node.down()?;
    Ok(outcomes)
}
