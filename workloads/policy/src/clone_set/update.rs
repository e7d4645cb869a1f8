//! Updates: which pods get another revision now, and how.

use berth_proto::template_history::TEMPLATE_HISTORY;
use serde_json::json;

use super::{
    KIND, Pass,
    member::Member,
    numbers::Numbers,
    priority,
    rules::UpdateType,
    scale::{Late, enter},
};
use crate::{
    action::Action,
    in_place::{Change, Obstacle, Own, Update},
    lifecycle::{State, held_again, holds, updating},
    names::{REVISION_LABEL, TEMPLATE_HASH_LABEL},
    plan::{Cause, count},
    pod::PodView,
    revision::Revision,
};

impl<'a> Pass<'a> {
    /// Updates pods beside what scaling has written; `late` is written afterwards. Returns the number of
    /// available pods that go out of service by it.
    pub(super) fn update(&mut self, numbers: &Numbers, late: &Late<'_>) -> i64 {
        let going = self.plan.written();
        let (is_first, leaving) = self.refresh(numbers, &going);
        if is_first || self.rules.paused {
            return leaving;
        }
        let to_update = numbers.update > 0;
        let target = if to_update { self.live.update } else { self.live.current };
        let mut waiting: Vec<Member<'a>> = self
            .members
            .iter()
            .filter(|one| one.updated != to_update && !one.is_preparing_delete())
            .copied()
            .collect();
        priority::sort(&mut waiting, &self.members, &self.rules.priority, self.rules.scatter);
        // Those that go keep their place, and those that could not be written to leave theirs to others. What
        // has no revision that anybody knows gets one before others lose theirs.
        waiting.sort_by_key(|one| {
            let leaves = self.is_off(one) && !one.state.awaits_update();
            (!going.contains(&one.pod.uid), leaves, !one.lost)
        });
        waiting.truncate(usize::try_from(numbers.update.unsigned_abs()).unwrap_or(usize::MAX));
        if self.let_serve(&waiting) {
            return leaving;
        }
        waiting.sort_by_key(|one| self.is_off(one));
        let left = self.left_to_silent_agents(&waiting);
        let is_out = |one: &&Member<'_>| !one.available;
        let is_going = |one: &&Member<'_>| one.available && going.contains(&one.pod.uid);
        let mut out = count(self.members.iter().filter(is_out).count()) + leaving;
        out += count(self.members.iter().filter(is_going).count());
        let arriving = self.members.iter().filter(|one| one.updated == to_update).filter(is_out).count();
        let is_late = self.late_states.pods();
        let to_go = late.uids();
        let (mut taken, mut taken_out) = (count(arriving), leaving);
        for member in waiting {
            let uid = &member.pod.uid;
            if is_late.contains(uid) {
                continue;
            }
            if taken >= numbers.update_unavailable {
                break;
            }
            taken += 1;
            if going.contains(uid) {
                continue;
            }
            if member.available {
                if out >= numbers.update_unavailable {
                    break;
                }
                out += 1;
            }
            // It is deleted already, or is to be.
            if !member.specified && !to_go.contains(uid.as_str()) {
                taken_out += i64::from(member.available);
                self.update_one(&member, target);
            }
        }
        for member in left {
            let uid = &member.pod.uid;
            let goes = member.specified || going.contains(uid) || to_go.contains(uid.as_str());
            if !goes && !is_late.contains(uid) {
                self.update_one(&member, self.live.current);
            }
        }
        taken_out
    }

    /// Pods that a silent agent keeps out of service in the midst of an update which is not wanted any more,
    /// as the partition was raised: none of those that are `waiting`, so nothing else would end that.
    fn left_to_silent_agents(&self, waiting: &[Member<'_>]) -> Vec<Member<'a>> {
        let agents = self.input.agents;
        let is_left = |one: &&Member<'_>| agents.is_left(one.in_place);
        let left = self.members.iter().filter(is_left).filter(|one| !one.is_preparing_delete());
        let waits = |one: &Member<'_>| waiting.iter().any(|other| other.pod.uid == one.pod.uid);
        left.filter(|one| !waits(one)).copied().collect()
    }

    fn update_one(&mut self, member: &Member<'a>, target: &Revision) {
        let in_place = match self.rules.update_type {
            UpdateType::ReCreate => Err(Obstacle::NewPod("the update strategy is ReCreate".to_owned())),
            UpdateType::InPlaceIfPossible | UpdateType::InPlaceOnly => self.possible(member, target),
        };
        match in_place {
            Ok(change) => self.update_in_place(member, target, change),
            Err(Obstacle::Unscheduled) => {
                self.plan.causes.insert(member.pod.uid.clone(), Cause::Update);
                // It may have no node because of its claim: a new pod with the same one would have none
                // either.
                let anew = self.rules.update_type != UpdateType::InPlaceOnly;
                if anew && self.needs_other_claims(member.pod).is_some() {
                    self.delete(member, true);
                } else {
                    self.replace_unscheduled(member);
                }
            }
            Err(Obstacle::NewPod(_)) if self.rules.update_type != UpdateType::InPlaceOnly => {
                self.plan.causes.insert(member.pod.uid.clone(), Cause::Update);
                self.delete(member, true);
            }
            Err(why) => drop(self.waits.get_or_insert_with(|| why.waits(member.pod))),
        }
    }

    /// Finds out whether the pod can be updated in place, or why not.
    fn possible(&self, member: &Member<'a>, target: &Revision) -> Result<Change, Obstacle> {
        let pod = member.pod;
        let label = pod.label(REVISION_LABEL);
        let from = self.input.revisions.iter().find(|one| one.is_of(label)).copied();
        let generation = self.input.set.metadata.generation;
        let update = Update { pod, known: member.in_place, target, generation, now: self.now };
        let revisions = (self.input.revisions, &self.changes);
        let change = update.possible(revisions, from, &self.input.agents, KIND)?;
        if target.name != self.live.update.name && !change.is_metadata_alone(&target.template) {
            self.may_go_back(pod, target, &change)?;
        }
        match self.needs_other_claims(pod) {
            Some(why) => Err(Obstacle::NewPod(why)),
            None => Ok(change),
        }
    }

    /// Finds out whether the agent of the pod takes a change to a revision that is not the template's: all of
    /// it has to be noted on the set.
    fn may_go_back(&self, pod: &PodView, target: &Revision, change: &Change) -> Result<(), Obstacle> {
        let history = self.owner.annotations.get(TEMPLATE_HISTORY).map_or("", String::as_str);
        let why = if !self.input.agents.recalls(&pod.node) {
            format!("the agent of node {:?} takes images of the template alone", pod.node)
        } else if !change.parts().all(|part| part.is_in(history)) {
            format!("the annotation {TEMPLATE_HISTORY} of the set does not have what it gets")
        } else {
            return Ok(());
        };
        Err(Obstacle::NewPod(format!(
            "it goes back to revision {}, and {why}: delete it, and it is made anew with that revision",
            target.name
        )))
    }

    fn update_in_place(&mut self, member: &Member<'a>, target: &Revision, change: Change) {
        let pod = member.pod;
        let hook = self.rules.in_place_update();
        if member.state == State::Updated
            && let Some(metadata) = held_again(hook, pod, self.now)
        {
            self.plan.actions.push(Action::PatchPod(pod.target(), json!({ "metadata": metadata })));
            return;
        }
        if holds(hook, pod) {
            if member.state != State::PreparingUpdate {
                self.plan.actions.push(enter(pod, State::PreparingUpdate, self.now));
            }
            return;
        }
        let label = if self.input.settings.short_hash { target.hash() } else { &target.name };
        let others = &[(TEMPLATE_HASH_LABEL, target.hash())];
        // Set with the image, the hash is no write of its own afterwards.
        let own = Own { revision: label, others, by_node: self.input.agents.labels(&pod.node) };
        let generation = self.input.set.metadata.generation;
        let update = Update { pod, known: member.in_place, target, generation, now: self.now };
        let state = updating(hook, pod, self.now);
        update.carry_out(&change, own, state.as_ref(), self.rules.grace_seconds, &mut self.plan);
    }
}
