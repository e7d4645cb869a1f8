//! Updates of a DaemonSet: node by node, their names descending, as far as the partition lets go; those last
//! whose pods could not be made or written to.

use std::collections::BTreeSet;

use serde_json::json;

use super::{KIND, Member, Pass, Place};
use crate::{
    action::Action,
    in_place::{self, Change, InPlacePhase, InPlaceState, Obstacle, Own, Update},
    names::{IN_PLACE_GATE, REVISION_LABEL},
    plan::count,
};

impl<'a> Pass<'a> {
    /// Nodes in the order in which they get the newest template: those that have it, those that are getting
    /// it, then the others that are selected; as many as the partition lets go.
    pub(super) fn let_go(&self) -> Vec<&str> {
        let selected = |place: &Place<'_>| match (&self.rules.nodes, place.node) {
            (Some(selector), Some(node)) => selector.takes(&node.labels),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let rank = |place: &Place<'_>| {
            if place.active().any(|one| one.updated) {
                return Some(0);
            }
            // Without a pod it is nobody's yet: the partition says whose it will be.
            if !place.members.is_empty() && place.active().all(Member::is_going) {
                return Some(1);
            }
            selected(place).then_some(2)
        };
        let counts = |place: &&Place<'_>| place.should_run || !place.members.is_empty();
        let total = self.places.values().filter(counts).count();
        let mut ranked: Vec<(i32, &str)> = self
            .places
            .iter()
            .rev()
            .filter(|(_, place)| counts(place))
            .filter_map(|(name, place)| Some((rank(place)?, name.as_str())))
            .collect();
        // Stable: names stay descending.
        ranked.sort_by_key(|(rank, _)| *rank);
        let partition = self.rules.partition.up(self.desired);
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        ranked.truncate(usize::try_from((total - partition).max(0)).unwrap_or(usize::MAX));
        ranked.into_iter().map(|(_, name)| name).collect()
    }

    /// Updates pods, but of none of the `busy` nodes, which count as out of service: this pass writes to
    /// their pods already.
    pub(super) fn update(&mut self, busy: &BTreeSet<String>) {
        if self.rules.paused || self.rules.on_delete {
            return;
        }
        let late = self.late_labels.pods();
        let is_free = |name: &&str| {
            let mut pods = self.places.get(*name).into_iter().flat_map(Place::active);
            !busy.contains(*name) && !pods.any(|one| late.contains(&one.pod.uid))
        };
        let mut names: Vec<String> = self.let_go().into_iter().filter(is_free).map(str::to_owned).collect();
        names.sort_by_key(|name| self.is_off(name));
        self.take_from_silent_agents(busy);
        if self.surge > 0 {
            return self.update_surging(&names);
        }
        let most = self.rules.max_unavailable.up(self.desired).max(1);
        // Nodes that are to get their first pod later are not out of service: their author wants it so.
        let later = if self.progress().is_some() { self.held_back() } else { BTreeSet::new() };
        let is_out = |(name, place): &(&String, &Place<'_>)| {
            let comes_later = place.members.is_empty() && later.contains(*name);
            !comes_later && (place.is_out() || place.should_run && busy.contains(*name))
        };
        let mut out = count(self.places.iter().filter(is_out).count());
        // A node that gets no pod is none whose pod is on its way.
        let is_arriving = |(name, place): &(&String, &Place<'_>)| match place.active().next() {
            Some(_) => place.active().all(|one| one.updated),
            None => !self.is_off(name),
        };
        let mut taken = count(self.places.iter().filter(is_out).filter(is_arriving).count());
        for name in names {
            let Some(place) = self.places.get(&name).filter(|place| place.should_run) else { continue };
            let is_old = |one: &&Member<'_>| !one.updated && !one.is_going();
            let old: Vec<Member<'a>> = place.active().filter(is_old).copied().collect();
            if old.is_empty() {
                continue;
            }
            if taken >= most {
                return;
            }
            if !place.is_out() {
                if out >= most {
                    // One that is broken may still be mended: it costs nothing.
                    continue;
                }
                out += 1;
            }
            taken += 1;
            old.iter().for_each(|one| self.update_one(one));
        }
    }

    /// Deletes pods that a silent agent keeps out of service in the midst of an update which is not wanted
    /// any more, as the partition was raised: nothing else would end that.
    fn take_from_silent_agents(&mut self, busy: &BTreeSet<String>) {
        let agents = self.input.agents;
        let is_left = |one: &&Member<'_>| !one.is_going() && agents.is_left(one.in_place);
        let places = self.places.iter().filter(|(name, place)| place.should_run && !busy.contains(*name));
        let left: Vec<(&str, Member<'a>)> = places
            .flat_map(|(name, place)| place.active().filter(is_left).map(move |one| (name.as_str(), *one)))
            .collect();
        if left.is_empty() {
            return;
        }
        let held = self.held_back();
        let left: Vec<Member<'a>> =
            left.into_iter().filter(|(name, _)| held.contains(*name)).map(|(_, one)| one).collect();
        left.iter().for_each(|one| self.delete(one));
    }

    /// New pods beside the old ones; an old one goes once the new one is available.
    fn update_surging(&mut self, names: &[String]) {
        let both = |place: &&Place<'_>| {
            place.active().any(|one| one.updated) && place.active().any(|one| !one.updated)
        };
        let surging = self.places.values().filter(both).count();
        let mut left = self.surge - i64::try_from(surging).unwrap_or(i64::MAX);
        for name in names {
            let Some(place) = self.places.get(name).filter(|place| place.should_run) else { continue };
            let is_old = place.active().any(|one| !one.updated) && !place.active().any(|one| one.updated);
            if is_old && left > 0 {
                left -= 1;
                self.create(name, self.live.update);
            }
        }
    }

    fn update_one(&mut self, member: &Member<'a>) {
        match self.possible(member) {
            Ok(change) => {
                let target = self.live.update;
                let own = Own { revision: target.hash(), others: &[], by_node: true };
                let generation = self.input.set.metadata.generation;
                let (pod, known, now) = (member.pod, member.in_place, self.now);
                let update = Update { pod, known, target, generation, now };
                update.carry_out(&change, own, None, None, &mut self.plan);
            }
            Err(why @ Obstacle::Stays(_)) => {
                self.update_waits.get_or_insert_with(|| why.waits(member.pod));
            }
            Err(Obstacle::NewPod(_) | Obstacle::Unscheduled) => self.delete(member),
        }
    }

    /// Change that the pod can follow in place, or why it follows none.
    fn possible(&self, member: &Member<'a>) -> Result<Change, Obstacle> {
        let (pod, target) = (member.pod, self.live.update);
        if !self.rules.in_place || !pod.has_gate(IN_PLACE_GATE) {
            return Err(Obstacle::NewPod("its template or the pod has no updates in place".to_owned()));
        }
        let from = self.input.revisions.iter().find(|one| one.is_of(pod.label(REVISION_LABEL))).copied();
        let generation = self.input.set.metadata.generation;
        let update = Update { pod, known: member.in_place, target, generation, now: self.now };
        let revisions = (self.input.revisions, &self.changes);
        update.possible(revisions, from, &self.input.agents, KIND)
    }

    /// Labels of pods that their nodes have updated, but not of `busy` nodes; then the updates may be
    /// forgotten. True: updates wait for what is written. They do not for pods that could not be written to.
    pub(super) fn refresh(&mut self, busy: &BTreeSet<String>) -> bool {
        let (mut actions, mut settled) = (Vec::new(), Vec::new());
        let places = self.places.iter().filter(|(name, _)| !busy.contains(*name));
        for member in places.flat_map(|(_, place)| place.active()) {
            if let Some(action) = in_place::end_grace(member.pod, member.in_place) {
                actions.push(action);
                continue;
            }
            let Some(known) = member.in_place.filter(|known| known.phase == InPlacePhase::Done) else {
                continue;
            };
            let hash = crate::revision::short(&known.revision);
            let pod = member.pod;
            if crate::revision::short(pod.label(REVISION_LABEL)) == hash {
                settled.push((known.node.clone(), pod.uid.clone()));
            } else {
                let patch = json!({ "metadata": { "labels": { REVISION_LABEL: hash } } });
                actions.push(Action::PatchPod(pod.target(), patch));
            }
        }
        self.settled = settled;
        self.plan.add_but(self.input.put_off, actions, &mut self.late_labels)
    }

    /// Forgets updates that are over, some of them later.
    pub(super) fn forget_settled(&mut self) {
        let mut members = self.places.values().flat_map(|place| place.active());
        let goes_on = members.any(|one| one.in_place.is_some_and(InPlaceState::is_pending));
        in_place::forget(std::mem::take(&mut self.settled), goes_on, &mut self.plan.actions);
    }
}
