//! Nodes as a set sees them: whether a pod of it should run there, and which ones do.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Input, Rules, fit::Fit};
use crate::{
    in_place::InPlaceState,
    lifecycle::{State, is_available, is_ready_anew},
    names::REVISION_LABEL,
    plan::NodeView,
    pod::PodView,
    revision::Live,
};

/// A pod of the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a PodView,
    /// It has the newest revision, or is being brought to it.
    pub(super) updated: bool,
    pub(super) available: bool,
    /// It serves with the newest revision.
    pub(super) ready_anew: bool,
    pub(super) in_place: Option<&'a InPlaceState>,
}

/// A node and the pods on it, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Place<'a> {
    pub(super) node: Option<&'a NodeView>,
    pub(super) should_run: bool,
    pub(super) may_go_on: bool,
    pub(super) members: Vec<Member<'a>>,
    /// A pod that is not the set's, though it is to be, keeps the node for itself. Whether it is available.
    pub(super) orphan: Option<bool>,
}

/// Pods of the set by their nodes, and all nodes.
pub(super) fn places<'a>(
    input: &Input<'a>,
    rules: &Rules<'_>,
    live: Live<'_>,
    now: Timestamp,
) -> BTreeMap<String, Place<'a>> {
    let fit = Fit::of(rules.template);
    let mut places: BTreeMap<String, Place<'a>> = BTreeMap::new();
    for node in input.nodes.values() {
        let (should_run, may_go_on) = fit.on(node);
        let place = Place { node: Some(node), should_run, may_go_on, ..Place::default() };
        places.insert(node.name.clone(), place);
    }
    for pod in input.pods.iter().filter(|pod| rules.selector.takes(&pod.labels)) {
        let in_place = input.in_place.get(&pod.uid);
        let labelled = live.update.is_of(pod.label(REVISION_LABEL)) && !pod.is_in_grace(in_place);
        let updated = input.agents.is_updated(pod, in_place, &live.update.name, labelled);
        let available = is_available(pod, in_place, rules.min_ready_seconds, now);
        let ready_anew = is_ready_anew(pod, in_place, updated);
        let member = Member { pod, updated, available, ready_anew, in_place };
        places.entry(pod.wanted_node().to_owned()).or_default().members.push(member);
    }
    for place in places.values_mut() {
        place.members.sort_by(|one, other| {
            let key = |member: &Member<'a>| (member.pod.node.is_empty(), member.pod.created);
            key(one).cmp(&key(other)).then_with(|| one.pod.name.cmp(&other.pod.name))
        });
    }
    places
}

/// Takes in pods that are to be the set's and are not.
pub(super) fn take(
    places: &mut BTreeMap<String, Place<'_>>,
    orphans: &[&PodView],
    min_ready_seconds: i64,
    now: Timestamp,
) {
    for pod in orphans.iter().filter(|pod| pod.is_active()) {
        if let Some(place) = places.get_mut(pod.wanted_node()) {
            let is_up = is_available(pod, None, min_ready_seconds, now);
            place.orphan = Some(is_up || place.orphan == Some(true));
        }
    }
}

impl Member<'_> {
    /// Tells whether it is held before its deletion.
    pub(super) fn is_going(&self) -> bool {
        State::of(self.pod) == State::PreparingDelete
    }
}

impl<'a> Place<'a> {
    pub(super) fn active(&self) -> impl Iterator<Item = &Member<'a>> {
        self.members.iter().filter(|member| member.pod.is_active())
    }

    /// Tells whether it should have an available pod, and has none.
    pub(super) fn is_out(&self) -> bool {
        let serves = self.orphan == Some(true) || self.active().any(|member| member.available);
        self.should_run && !serves
    }
}
