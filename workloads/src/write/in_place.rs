//! Updates in place: entries in the objects of nodes. What follows each other in a plan is one write for each
//! node, and nodes are written to beside each other. A write names the version of the object that it was made
//! on. Mostly that is the one which the watch has shown, and nothing is read.

use std::collections::BTreeMap;

use berth_proto::crd::{NodePodUpdate, Partly};
use berth_workloads_policy::action::{Action, InPlaceUpdate};
use futures::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};

use super::{
    End, Work, Writer, Wrote,
    failure::Failure,
    params::FIELD_MANAGER,
    run::{MOST_ERRORS, Outcome},
};
use crate::{
    kinds::Set,
    node_updates::{self, Change, Changed, NodeUpdates},
};

/// How often a change of the entries of a node is tried on its newest version, as it is read.
const WRITE_TRIES: usize = 5;
/// Nodes that are written to at once.
const AT_ONCE: usize = 8;

/// Changes of the entries of a node.
#[derive(Debug, Default)]
struct Node {
    changes: Vec<Change>,
    /// Pods that are updated.
    updates: Vec<Update>,
    /// UIDs of all pods that it is about.
    pods: Vec<String>,
}

/// A pod that is updated.
#[derive(Debug)]
struct Update {
    name: String,
    uid: String,
    revision: String,
}

impl Work {
    /// Changes entries, those of a node together. After some errors of the API server no other node is begun:
    /// each may be a webhook that does not answer for half a minute. Those that are left are the next plan's.
    pub(super) async fn in_place(&mut self, actions: Vec<Action>) -> Outcome {
        let mut nodes = by_node(actions, &self.set, Timestamp::now()).into_iter();
        let before = self.errors;
        let most = MOST_ERRORS.saturating_sub(before).max(1);
        let mut under_way = FuturesUnordered::new();
        let (mut end, mut late) = (End::Done, Vec::new());
        loop {
            while under_way.len() < AT_ONCE && self.errors.saturating_sub(before) < most {
                let Some((node, of)) = nodes.next() else { break };
                let (writer, known) = (self.writer.clone(), self.node_updates.remove(&node));
                under_way.push(async move {
                    let answer = writer.node_updates(&node, known, &of.changes).await;
                    (answer, of, node)
                });
            }
            // Cancel-safe: it is awaited to its end.
            let Some((answer, of, node)) = under_way.next().await else { break };
            let failure = match answer {
                Ok((node_updates, waiting)) => {
                    self.wrote.push(Wrote::NodeUpdates(node_updates));
                    for Update { name, uid, revision } in of.updates {
                        if waiting.contains(&name) {
                            late.push(uid);
                            continue;
                        }
                        let text = format!("update pod {name} in place (revision {revision})");
                        self.tell("SuccessfulUpdatePodInPlace", text);
                    }
                    let Some(failure) = without_room(&node, &waiting) else { continue };
                    failure
                }
                Err(failure) => {
                    late.extend(of.pods);
                    failure
                }
            };
            let failed = self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
            // One that says why counts more than one that is to be tried again.
            end = if end == End::Done { failed } else { end.or(failed) };
        }
        Outcome { end, failed: late }
    }
}

impl Writer {
    /// Changes the entries of a node, on its object as it is now: as it is `known`, or as it is read where it
    /// has changed since. Returns it, and the names of the pods whose entries have no room in it yet.
    async fn node_updates(
        &self,
        node: &str,
        mut known: Option<NodeUpdates>,
        changes: &[Change],
    ) -> Result<(NodeUpdates, Vec<String>), Failure> {
        let api = Api::<Partly<NodePodUpdate>>::all(self.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let tries = WRITE_TRIES.saturating_add(usize::from(known.is_some()));
        for _ in 0..tries {
            let (node_updates, is_newest) = match known.take() {
                Some(known) => (known, false),
                None => (NodeUpdates::of(self.fetch("nodepodupdate_read", api.get(node)).await?), true),
            };
            let Changed { body, waiting } = node_updates.changed(changes);
            let Some(body) = body else {
                // The plan was made on the same and asks for something: nobody relies on that it is there.
                if is_newest {
                    return Ok((node_updates, waiting));
                }
                continue;
            };
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

/// Changes by the nodes whose objects they are about, in the order in which the nodes come first: what was
/// put off is last.
fn by_node(actions: Vec<Action>, set: &Set, now: Timestamp) -> Vec<(String, Node)> {
    let (mut nodes, mut places) = (Vec::<(String, Node)>::new(), BTreeMap::<String, usize>::new());
    for action in actions {
        let (name, uid, change, update) = match action {
            Action::UpdateInPlace(update) => {
                let entry = node_updates::entry(&update, set.as_ref(), now);
                let InPlaceUpdate { node, name, uid, revision, .. } = update;
                let update = Update { name, uid: uid.clone(), revision };
                (node, uid, Change::Put(Box::new(entry)), Some(update))
            }
            Action::ForgetInPlace { node, uid } => {
                (node, uid.clone(), Change::Take { uid, owner: set.entry_owner() }, None)
            }
            _ => continue,
        };
        let place = *places.entry(name.clone()).or_insert(nodes.len());
        if place == nodes.len() {
            nodes.push((name, Node::default()));
        }
        let Some((_, node)) = nodes.get_mut(place) else { continue };
        node.changes.push(change);
        node.updates.extend(update);
        node.pods.push(uid);
    }
    nodes
}
