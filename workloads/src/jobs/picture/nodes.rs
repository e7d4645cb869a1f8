//! Nodes of the picture, and the BroadcastJobs that a change of one concerns.

use std::collections::BTreeSet;

use berth_proto::crd::BroadcastJob;
use berth_workloads_policy::{
    broadcast_job::{self, NodeView},
    store::Stored,
};

use super::{
    super::object::{AnyJob, Filed},
    Jobs,
};
use crate::{owned::Concerned, watch::Shown};

/// A node, as it was and as it is.
type Change = (Option<NodeView>, Option<NodeView>);

impl Jobs {
    /// Takes in what the watch of nodes shows.
    pub(super) fn take_node(&mut self, shown: Shown<(String, NodeView)>) -> Concerned {
        let changes: Vec<Change> = match shown {
            Shown::ListBegins => {
                self.listed_nodes = Some(BTreeSet::new());
                Vec::new()
            }
            Shown::ListEnds => {
                let listed = self.listed_nodes.take().unwrap_or_default();
                let (stay, gone) =
                    std::mem::take(&mut self.nodes).into_iter().partition(|(uid, _)| listed.contains(uid));
                self.nodes = stay;
                if !std::mem::replace(&mut self.nodes_listed, true) {
                    return self.minding(|_| true);
                }
                gone.into_values().map(|node| (Some(node), None)).collect()
            }
            Shown::Applied((uid, node)) => {
                if let Some(listed) = &mut self.listed_nodes {
                    listed.insert(uid.clone());
                }
                let before = self.nodes.insert(uid, node.clone());
                // Most changes of a node say how it is, not what it is.
                let is_known = before.as_ref() == Some(&node);
                if is_known { Vec::new() } else { vec![(before, Some(node))] }
            }
            Shown::Gone(uid) => self.nodes.remove(&uid).map(|node| (Some(node), None)).into_iter().collect(),
        };
        // At the end of the first list all are.
        if changes.is_empty() || !self.nodes_listed {
            return Concerned::None;
        }
        self.minding(|job| changes.iter().any(|change| self.minds(job, change)))
    }

    /// BroadcastJobs that have not ended and mind a change: they may have a node more, or less.
    fn minding(&self, minds: impl Fn(&BroadcastJob) -> bool) -> Concerned {
        let is_minding = |filed: &&Filed| match &filed.object {
            AnyJob::Broadcast(job) => is_open(job) && minds(job),
            AnyJob::Cron(_) => false,
        };
        let minding = self.broadcast_jobs.iter().filter(is_minding);
        Concerned::Some(minding.map(|filed| filed.uid().to_owned()).collect())
    }

    fn minds(&self, job: &BroadcastJob, (before, after): &Change) -> bool {
        let (uid, node) =
            (job.metadata.uid.as_deref().unwrap_or_default(), after.as_ref().map(NodeView::name));
        let has_pod = || self.pods.of(uid).any(|pod| pod.is_alive() && Some(pod.node.as_str()) == node);
        broadcast_job::minds(job, before.as_ref(), after.as_ref(), has_pod)
    }
}

/// Tells whether nodes still matter for it.
fn is_open(job: &BroadcastJob) -> bool {
    let phase = job.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("completed" | "failed"))
}
