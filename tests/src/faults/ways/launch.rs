//! A pod of three ordered containers is started: the first listed is refused, the last one held.

use std::time::Instant;

use anyhow::Result;

use super::super::bed::Bed;
use super::super::matrix::Row;
use super::super::site::ordered;

const CONTAINERS: &[&str] = &["a", "b", "c"];

/// Pods that come and go pass these points, too: whoever comes first meets the fault, and all are judged
/// alike.
pub(super) async fn play(bed: &Bed, row: &Row) -> Result<Instant> {
    let name = row.object("launch");
    bed.arm(row)?;
    bed.site.create(&ordered(&name, CONTAINERS)).await?;
    let healed = bed.strike(row).await?;
    let pod = bed.site.ready(&name).await?;
    bed.site.started_in_order(&pod, CONTAINERS).await?;
    bed.site.delete(&name).await?;
    Ok(healed)
}
