//! Nodes, and the markers that they have entries of.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Markers of nodes. What a node says is not kept, and a key once for all nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Keys of markers, by the UID of the node's object.
    markers: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Number of nodes that have a marker.
    counts: BTreeMap<Arc<str>, usize>,
    /// UIDs that the list which is coming in has shown.
    listing: Option<BTreeSet<String>>,
}

impl Nodes {
    /// Tells whether a node has entries of a marker.
    pub(super) fn have(&self, marker: &str) -> bool {
        self.counts.contains_key(marker)
    }

    pub(super) fn len(&self) -> usize {
        self.markers.len()
    }

    pub(super) fn list_begins(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// Takes in the markers of a node; those that no node has any more.
    pub(super) fn applied(&mut self, uid: String, markers: &BTreeSet<String>) -> Vec<Arc<str>> {
        if let Some(seen) = &mut self.listing {
            seen.insert(uid.clone());
        }
        let now: BTreeSet<Arc<str>> = markers.iter().map(|key| self.add(key)).collect();
        let before = if now.is_empty() { self.markers.remove(&uid) } else { self.markers.insert(uid, now) };
        self.take_off(before)
    }

    /// The object of a node is gone; the markers that no node has any more.
    pub(super) fn gone(&mut self, uid: &str) -> Vec<Arc<str>> {
        let before = self.markers.remove(uid);
        self.take_off(before)
    }

    /// The list is complete: the nodes that it has not shown are gone.
    pub(super) fn list_ends(&mut self) {
        let Some(seen) = self.listing.take() else { return };
        let gone: Vec<String> = self.markers.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
        for uid in gone {
            self.gone(&uid);
        }
    }

    /// Counts one more node of a marker.
    fn add(&mut self, key: &str) -> Arc<str> {
        let known = self.counts.get_key_value(key).map(|(known, _)| known.clone());
        let key = known.unwrap_or_else(|| key.into());
        let count = self.counts.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        key
    }

    /// Counts one node less of each; those of none.
    fn take_off(&mut self, before: Option<BTreeSet<Arc<str>>>) -> Vec<Arc<str>> {
        let mut none = Vec::new();
        for key in before.into_iter().flatten() {
            let Some(count) = self.counts.get_mut(&key) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&key);
                none.push(key);
            }
        }
        none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes have a marker, and it is free when neither has it.
    #[test]
    fn a_marker_is_free_when_no_node_has_it() {
        let mut nodes = Nodes::default();
        let markers = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<BTreeSet<_>>();
        let free = |freed: Vec<Arc<str>>| freed.iter().map(|key| key.to_string()).collect::<Vec<_>>();
        assert_eq!(free(nodes.applied("a".to_owned(), &markers(&["ns/m", "ns/o"]))), [""; 0]);
        assert_eq!(free(nodes.applied("b".to_owned(), &markers(&["ns/m"]))), [""; 0]);
        assert_eq!(free(nodes.applied("a".to_owned(), &markers(&["ns/m", "ns/o"]))), [""; 0], "the same");
        assert_eq!(free(nodes.applied("a".to_owned(), &markers(&["ns/m"]))), ["ns/o"]);
        assert!(nodes.have("ns/m") && !nodes.have("ns/o"));
        assert_eq!(free(nodes.applied("a".to_owned(), &markers(&[]))), [""; 0], "the other node has it");
        assert_eq!(free(nodes.gone("b")), ["ns/m"]);
        assert_eq!(free(nodes.gone("b")), [""; 0]);
        assert!(!nodes.have("ns/m") && nodes.len() == 0 && nodes.counts.is_empty());
    }

    #[test]
    fn a_list_takes_away_the_nodes_that_it_does_not_have() {
        let mut nodes = Nodes::default();
        let of = BTreeSet::from(["ns/m".to_owned()]);
        nodes.applied("a".to_owned(), &of);
        nodes.applied("b".to_owned(), &BTreeSet::from(["ns/o".to_owned()]));
        nodes.list_begins();
        nodes.applied("a".to_owned(), &of);
        assert!(nodes.have("ns/o"), "it may still come");
        nodes.list_ends();
        assert!(nodes.have("ns/m") && !nodes.have("ns/o"));
        nodes.list_ends();
        assert!(nodes.have("ns/m"), "no list has come in");
    }
}
