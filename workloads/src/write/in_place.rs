//! Updates in place: entries in the objects of nodes. What follows each other in a plan is one write for each
//! node, and nodes are written to beside each other.

use std::collections::BTreeMap;

use berth_proto::crd::NodePodUpdate;
use berth_workloads_policy::action::{Action, InPlaceUpdate};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};

use super::{End, Work, Writer, Wrote, failure::Failure, params::FIELD_MANAGER};
use crate::{
    kinds::Set,
    node_updates::{self, Change, Changed, NodeUpdates},
};

/// How often a change of the entries of a node is tried on its newest version.
const WRITE_TRIES: usize = 5;
/// Nodes that are written to at once.
const AT_ONCE: usize = 8;

/// Changes of the entries of a node.
#[derive(Debug, Default)]
struct Node {
    changes: Vec<Change>,
    /// Pods that are updated, and to which revisions.
    updates: Vec<(String, String)>,
}

impl Work {
    /// Changes entries, those of a node together.
    pub(super) async fn in_place(&mut self, actions: Vec<Action>) -> End {
        let nodes = by_node(actions, &self.set, Timestamp::now());
        let writer = self.writer.clone();
        let each = nodes.into_iter().map(|(node, of)| {
            let writer = writer.clone();
            async move { (writer.node_updates(&node, &of.changes).await, of.updates, node) }
        });
        // Cancel-safe: it is awaited to its end.
        let answers: Vec<_> = stream::iter(each).buffer_unordered(AT_ONCE).collect().await;
        let mut end = End::Done;
        for (answer, updates, node) in answers {
            let failure = match answer {
                Ok((node_updates, waiting)) => {
                    self.wrote.push(Wrote::NodeUpdates(node_updates));
                    for (name, revision) in updates.into_iter().filter(|(name, _)| !waiting.contains(name)) {
                        let text = format!("update pod {name} in place (revision {revision})");
                        self.tell(false, "SuccessfulUpdatePodInPlace", text);
                    }
                    let Some(failure) = without_room(&node, &waiting) else { continue };
                    failure
                }
                Err(failure) => failure,
            };
            let failed = self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
            // One that says why counts more than one that is to be tried again.
            if matches!(end, End::Done | End::Changed) {
                end = failed;
            }
        }
        end
    }
}

impl Writer {
    /// Changes the entries of a node, on its object as it is now. Returns it, and the names of the pods whose
    /// entries have no room in it yet.
    async fn node_updates(
        &self,
        node: &str,
        changes: &[Change],
    ) -> Result<(NodeUpdates, Vec<String>), Failure> {
        let api = Api::<NodePodUpdate>::all(self.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        for _ in 0..WRITE_TRIES {
            let node_updates = NodeUpdates::of(self.fetch("nodepodupdate_read", api.get(node)).await?);
            let Changed { body, waiting } = node_updates.changed(changes);
            let Some(body) = body else { return Ok((node_updates, waiting)) };
            let body = Patch::Apply(&body);
            match self.ask("nodepodupdate", api.patch_status(node, &params, &body)).await {
                Ok(object) => return Ok((NodeUpdates::of(object), waiting)),
                // Its agent or another set was faster.
                Err(Failure::Changed) => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Changed)
    }
}

/// The reason why the updates of these pods wait; `None`: none does.
fn without_room(node: &str, waiting: &[String]) -> Option<Failure> {
    let first = waiting.first()?;
    let count = waiting.len();
    Some(Failure::Held(format!(
        "NodePodUpdate {node} has no room for the updates of {count} pods yet, one of them {first}: they wait until \
         others are done"
    )))
}

/// Changes by the nodes whose objects they are about, in their order.
fn by_node(actions: Vec<Action>, set: &Set, now: Timestamp) -> BTreeMap<String, Node> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for action in actions {
        match action {
            Action::UpdateInPlace(update) => {
                let entry = node_updates::entry(&update, set.as_ref(), now);
                let InPlaceUpdate { node, name, revision, .. } = update;
                let of = nodes.entry(node).or_default();
                of.changes.push(Change::Put(Box::new(entry)));
                of.updates.push((name, revision));
            }
            Action::ForgetInPlace { node, uid } => {
                nodes.entry(node).or_default().changes.push(Change::Take { uid, owner: set.entry_owner() });
            }
            _ => {}
        }
    }
    nodes
}
