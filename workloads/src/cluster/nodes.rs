//! Nodes of the picture, and the workloads that a change of one concerns.

use std::collections::BTreeSet;

use berth_workloads_policy::{plan::NodeView, store::Stored};

use super::Cluster;
use crate::{owned::Concerned, watch::Shown};

impl Cluster {
    /// Takes in what the watch of nodes shows.
    pub(super) fn take_node(&mut self, shown: Shown<(String, NodeView)>) -> Concerned {
        match shown {
            Shown::ListBegins => self.listed_nodes = Some(BTreeSet::new()),
            Shown::ListEnds => {
                let listed = self.listed_nodes.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.node_names.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| drop(self.forget_node(uid)));
                self.nodes_listed = true;
                return Concerned::All;
            }
            Shown::Applied((uid, node)) => {
                if let Some(listed) = &mut self.listed_nodes {
                    listed.insert(uid.clone());
                }
                self.node_names.insert(uid, node.name.clone());
                let before = self.nodes.insert(node.name.clone(), node.clone());
                // Most changes of a node say how it is, not what it is. At the end of the first list all sets
                // are due: before it each of thousands of nodes would be held against each set.
                if self.nodes_listed && before.as_ref() != Some(&node) {
                    return self.minding(before.as_ref(), Some(&node));
                }
            }
            Shown::Gone(uid) => {
                if let Some(before) = self.forget_node(&uid) {
                    return self.minding(Some(&before), None);
                }
            }
        }
        Concerned::None
    }

    /// Workloads for which a change of a node changes anything.
    fn minding(&self, before: Option<&NodeView>, after: Option<&NodeView>) -> Concerned {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let minding = all.filter(|filed| filed.object.minds(before, after));
        Concerned::Some(minding.map(|filed| filed.uid().to_owned()).collect())
    }

    fn forget_node(&mut self, uid: &str) -> Option<NodeView> {
        let name = self.node_names.remove(uid)?;
        let is_there = self.node_names.values().any(|other| *other == name);
        if is_there { None } else { self.nodes.remove(&name) }
    }
}
