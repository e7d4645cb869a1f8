//! The owners of entries of this node's `NodePodUpdate`, of all kinds, and their word on what is done in
//! their name.

use berth_policy::in_place_update::Failure;
use berth_proto::crd::DesiredPod;

use super::{sidecar_sets::SidecarSets, workloads::Workloads};
use crate::cluster::client::Connection;

/// Owners of all kinds. Each kind has no objection to the entries of the others.
#[derive(Debug, Default)]
pub(super) struct Owners {
    sidecar_sets: SidecarSets,
    workloads: Workloads,
}

impl Owners {
    /// The word on an entry; `None` before its owner was read.
    pub(super) fn word(&self, entry: &DesiredPod) -> Option<Result<(), Failure>> {
        // A word for a pod is judged with the pod: see `super::upgradable`.
        if entry.upgradable.is_some() {
            return Some(Ok(()));
        }
        let sidecars = self.sidecar_sets.word(entry)?.map_err(|why| Failure::invalid(why.to_string()));
        let workloads = self.workloads.word(entry)?.map_err(Failure::from);
        Some(sidecars.and(workloads))
    }

    /// Reads the owners of these entries.
    pub(super) async fn judge(&self, connection: &Connection, entries: &[DesiredPod]) {
        tokio::join!(self.sidecar_sets.judge(connection, entries), self.workloads.judge(connection, entries));
    }

    /// Forgets the words on entries that are not there any more.
    pub(super) fn keep(&self, entries: &[DesiredPod]) {
        self.sidecar_sets.keep(entries);
        self.workloads.keep(entries);
    }
}
