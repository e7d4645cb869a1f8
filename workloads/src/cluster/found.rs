//! Objects that a reading has found.

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::store::Stored;

use super::Cluster;
use crate::{
    kinds::{Kind, Set},
    owned::Listed,
    reading::{Found, FoundSet, KnownSets},
    room::uids,
};

impl Cluster {
    /// Workloads of these namespaces, as far as a reading of them has to know.
    pub(crate) fn known_sets(&self, namespaces: &BTreeSet<String>) -> KnownSets {
        let mut all = KnownSets::new();
        for shelf in &self.shelves {
            let mut here: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
            for filed in shelf.sets.iter().filter(|filed| namespaces.contains(filed.object.namespace())) {
                let versions = here.entry(filed.object.namespace()).or_default();
                versions.insert(filed.uid().to_owned(), filed.version());
            }
            for (namespace, versions) in here {
                all.entry(namespace.to_owned()).or_default().push((shelf.kind, versions));
            }
        }
        all
    }

    /// Takes in all objects of a namespace with these workloads, as they were read at once. UIDs of those
    /// that something new was found for.
    pub(crate) fn found(&mut self, sets: &[String], found: Found) -> Vec<String> {
        let (uids, revisions) = (uids(&found.revisions), self.all_fitting(found.revisions));
        let of_sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let mut keys = self.pods.found(&of_sets, found.pods);
        let (mut concerned, named) = self.claims.found(&of_sets, found.claims);
        keys.extend(self.revisions.found(&of_sets, revisions));
        concerned.extend(keys.into_iter().flat_map(|key| self.keyed(key)));
        concerned.extend(named.iter().flat_map(|named| self.sets_of(named)));
        self.answered(&uids);
        for (kind, listed) in found.sets {
            concerned.extend(self.found_sets(sets, kind, listed));
        }
        concerned.extend(self.make_room());
        concerned
    }

    /// Takes in the workloads of a kind that there are in a namespace, of which these are known. One that is
    /// not known comes by the watch.
    fn found_sets(&mut self, known: &[String], kind: &Kind, listed: Listed<FoundSet>) -> Vec<String> {
        let Some(shelf) = self.shelves.iter_mut().find(|shelf| shelf.kind.plural == kind.plural) else {
            return Vec::new();
        };
        let there: BTreeSet<&str> = listed.objects.iter().map(|(uid, _)| uid.as_str()).collect();
        let missing = known.iter().filter(|uid| !there.contains(uid.as_str()));
        let missing = missing.filter_map(|uid| shelf.sets.get(uid));
        let missing = missing.filter(|filed| filed.version() <= listed.version);
        let gone: Vec<Set> = missing.map(|filed| filed.object.clone()).collect();
        gone.iter().for_each(|set| shelf.sets.missing(set.uid(), listed.version));
        let mut concerned: Vec<String> = gone.iter().map(|set| set.uid().to_owned()).collect();
        for (uid, newer) in listed.objects {
            let Some(filed) = newer else { continue };
            if shelf.sets.get(&uid).is_some_and(|known| known.version() < filed.version()) {
                shelf.sets.wrote(filed);
                concerned.push(uid);
            }
        }
        gone.iter().for_each(|set| self.unname(set, set.uid()));
        concerned
    }
}

#[cfg(test)]
mod tests;
