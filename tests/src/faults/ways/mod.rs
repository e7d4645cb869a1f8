//! The work that leads berthd to its points, and what is to come of it in the end.

mod handover;
mod job;
mod launch;
mod pull;
mod recreate;
mod swap;
mod update;

use std::time::Instant;

use anyhow::Result;

use self::job::JobRuns;
use self::pull::Pulls;
use self::recreate::Recreated;
use self::swap::SwappedPod;
use self::update::UpdatedPod;
use super::bed::Bed;
use super::matrix::{Row, Way};
use crate::recreate::Evidence;

/// State that is kept from one cell to the next.
#[derive(Default)]
pub(super) struct Ways {
    recreate: Option<Recreated>,
    update: Option<UpdatedPod>,
    swap: Option<SwappedPod>,
    job: Option<JobRuns>,
    pull: Option<Pulls>,
}

impl Ways {
    /// Begins the work, lets the fault happen at the points, and judges what came of the work. Tells since
    /// when the node is whole again.
    pub(super) async fn play(&mut self, bed: &Bed, row: &Row) -> Result<Instant> {
        match row.way {
            Way::Recreate => {
                let pod = match self.recreate.take() {
                    Some(pod) => pod,
                    None => Recreated::start(bed, row).await?,
                };
                self.recreate.insert(pod).play(bed, row).await
            }
            Way::Update => {
                let pod = match self.update.take() {
                    Some(pod) => pod,
                    None => UpdatedPod::start(bed, row).await?,
                };
                self.update.insert(pod).play(bed, row).await
            }
            Way::Swap | Way::SwapBack => {
                let pod = match self.swap.take() {
                    Some(pod) => pod,
                    None => SwappedPod::start(bed, row).await?,
                };
                self.swap.insert(pod).play(bed, row).await
            }
            Way::Job => {
                let jobs = match self.job.take() {
                    Some(jobs) => jobs,
                    None => JobRuns::start(bed).await?,
                };
                self.job.insert(jobs).play(bed, row).await
            }
            Way::Pull => {
                let pulls = match self.pull.take() {
                    Some(pulls) => pulls,
                    None => Pulls::start(bed).await?,
                };
                self.pull.insert(pulls).play(bed, row).await
            }
            Way::Launch => launch::play(bed, row).await,
            Way::HandOver => handover::play(bed, row).await,
        }
    }

    /// After a row that failed the next one has a pod of its own.
    pub(super) fn anew(&mut self, way: Way) {
        match way {
            Way::Recreate => self.recreate = None,
            Way::Update => self.update = None,
            Way::Swap | Way::SwapBack => self.swap = None,
            Way::Job | Way::Pull | Way::Launch | Way::HandOver => {}
        }
    }
}

/// Reads the counts that a container wrote down: how often its hook began, and how often it was started.
fn written(evidence: &Evidence, container: &str) -> Result<(usize, usize)> {
    Ok((evidence.count(container, "hook")?, evidence.count(container, "start")?))
}
