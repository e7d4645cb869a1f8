//! Nodes that keep what they have: which revision a pod gets that is made on one of them.
//!
//! A pod that is gone tells nothing. So the program remembers what each of these nodes had, and where it does
//! not know, the pods of the others tell.

use std::collections::{BTreeMap, BTreeSet};

use super::{Input, Member, Pass};
use crate::{
    names::REVISION_LABEL,
    revision::{Live, Revision},
};

/// Hashes of the revisions that nodes have which keep what they have, by node.
pub type Held = BTreeMap<String, String>;

/// Revision that an update comes from, as far as anybody knows: the newest other one that a pod still has, or
/// the one before the newest.
pub(super) fn earlier<'a>(input: &Input<'a>, update: &'a Revision) -> &'a Revision {
    let labels: BTreeSet<&str> = input.pods.iter().map(|pod| pod.label(REVISION_LABEL)).collect();
    let others = input.revisions.iter().copied().filter(|one| one.name != update.name);
    let newest = |one: &&Revision| (labels.iter().any(|label| one.is_of(label)), one.number);
    others.max_by_key(newest).unwrap_or(update)
}

impl<'a> Pass<'a> {
    /// Nodes that keep what they have.
    pub(super) fn held_back(&self) -> BTreeSet<String> {
        let let_go: BTreeSet<&str> = self.let_go().into_iter().collect();
        self.places.keys().filter(|name| !let_go.contains(name.as_str())).cloned().collect()
    }

    /// Revisions that these nodes have, or had as long as anybody knows; `None`: nothing is new.
    pub(super) fn had(&self, held: &BTreeSet<String>) -> Option<Held> {
        let places = self.places.iter().filter(|(name, place)| place.node.is_some() && held.contains(*name));
        let had = places.filter_map(|(name, place)| {
            let hash = match place.active().next().or(place.members.first()) {
                Some(member) => self.revision_of(member)?.hash().to_owned(),
                None => self.input.held.get(name)?.clone(),
            };
            Some((name.clone(), hash))
        });
        Some(had.collect()).filter(|had| had != self.input.held)
    }

    /// Revision that the node had, as far as the program has seen it and the revision is on file.
    pub(super) fn known_of(&self, node: &str) -> Option<&'a Revision> {
        let hash = self.input.held.get(node)?;
        self.input.revisions.iter().copied().find(|one| one.hash() == hash)
    }

    /// Revision of a pod on a held node of which nobody knows what it had: the one that most pods on such
    /// nodes have, the newest included. Of as many the newer one: it is nearer to what the spec asks for, and
    /// never one that its author has taken back.
    pub(super) fn of_held(&self, held: &BTreeSet<String>) -> &'a Revision {
        let mut pods: BTreeMap<(i64, &str), (usize, &'a Revision)> = BTreeMap::new();
        let places = self.places.iter().filter(|(name, _)| held.contains(*name));
        // Those that go or have ended tell as well what their nodes had.
        for member in places.flat_map(|(_, place)| &place.members) {
            if let Some(one) = self.revision_of(member) {
                let count = pods.entry((one.number, one.name.as_str())).or_insert((0, one));
                count.0 = count.0.saturating_add(1);
            }
        }
        // The last one of the largest: numbers ascend.
        let most = pods.into_values().max_by_key(|(count, _)| *count);
        most.map_or_else(|| self.of_nobody(), |(_, one)| one)
    }

    /// Revision where no pod on such a node is left to tell: the one of before the newest, or the newest when
    /// all nodes had it, or when its author went back to it: then it is older than what came between.
    fn of_nobody(&self) -> &'a Revision {
        let Live { current, update } = self.live;
        let had_all = self.input.set.status.as_ref().is_some_and(|status| {
            let (updated, desired) = (status.updated_number_scheduled, status.desired_number_scheduled);
            status.daemon_set_hash.as_deref() == Some(update.hash()) && desired > 0 && updated >= desired
        });
        if had_all || update.created < current.created { update } else { current }
    }

    fn revision_of(&self, member: &Member<'a>) -> Option<&'a Revision> {
        if member.updated {
            return Some(self.live.update);
        }
        let label = member.pod.label(REVISION_LABEL);
        self.input.revisions.iter().copied().find(|one| one.is_of(label))
    }
}
