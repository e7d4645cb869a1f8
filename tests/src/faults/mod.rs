//! The fault matrix: at every point of berthd's way (`berthd::agent::fault`), everything that can happen to a
//! node.
//!
//! There is one real node, and pods come and go on it all the time. Work is begun that leads berthd to the
//! point; there it stands still, as a whole, and the fault happens; the node is made whole, and berthd goes
//! on to the next point, where it happens again. In the end what came of the work and of the pods is judged
//! by what containerd and the API server say, and by what the containers themselves wrote down. A point that
//! is not reached is a failure, and a row of points of which one fails has failed at all.

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
use self::matrix::{Programs, Row};
use self::report::Outcome;
use self::ways::Ways;

/// Runs these rows one after another on a node of their own with these programs, and tells of their cells as
/// each ends.
pub async fn run(
    rows: &[Row],
    programs: Programs,
    mut tell: impl FnMut(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let bed = Bed::start(programs).await?;
    let mut ways = Ways::default();
    // Before the first fault everything works.
    bed.whole(Instant::now()).await.context("the node before the first cell")?;
    let mut all = Vec::new();
    for row in rows {
        let (began, refused) = (Instant::now(), bed.store_failures().await);
        let played = async {
            let healed = ways.play(&bed, row).await?;
            ensure!(bed.berthd()?.at_point().is_err(), "berthd still stands at a point");
            bed.whole(healed).await
        };
        let played = played.await;
        if played.is_err() {
            ways.anew(row.way);
            if let Err(error) = bed.mend().await {
                eprintln!("after {} at {:?}: {error:#}", row.fault.name(), row.points);
            }
        }
        let (before, after) = (refused.unwrap_or(0), bed.store_failures().await.unwrap_or(0));
        if after > before {
            eprintln!("{} at {:?}: the store failed {} times", row.fault.name(), row.points, after - before);
        }
        let outcomes = Outcome::of(row, played, began.elapsed());
        outcomes.iter().try_for_each(&mut tell)?;
        all.extend(outcomes);
        bed.berthd()?.pass_all_points()?;
    }
    eprintln!("{} pods came and went well beside the cells", bed.churn.pods());
    let Bed { node, churn, .. } = bed;
    drop(churn);
    node.down()?;
    Ok(all)
}
