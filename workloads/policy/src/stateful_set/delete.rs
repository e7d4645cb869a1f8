//! Deletions: pods without a slot, those that a label names, and those that a hook has held before theirs.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Member, Pass};
use crate::{
    action::Action,
    lifecycle::{State, entering, holds},
    pod::Phase,
};

impl<'a> Pass<'a> {
    /// Deletes the pods of slots that were held before their deletion and are not any more. What is begun
    /// goes on: whoever let go of the pod expects it gone, though nobody would choose it now.
    pub(super) fn finish(&mut self) {
        let is_held = |one: &Member<'_>| holds(self.rules.pre_delete, one.pod);
        let in_slot = |one: &Member<'_>| self.slots.binary_search(&one.ordinal).is_ok();
        let free: Vec<Member<'a>> = self
            .members
            .values()
            .filter(|one| one.pod.is_active() && one.is_going() && in_slot(one) && !is_held(one))
            .copied()
            .collect();
        free.iter().for_each(|one| self.delete(one));
    }

    /// Pods without a slot go, the highest first.
    pub(super) fn condemn(&mut self) {
        let slots: BTreeSet<i64> = self.slots.iter().copied().collect();
        let condemned: Vec<Member<'a>> =
            self.members.values().rev().filter(|one| !slots.contains(&one.ordinal)).copied().collect();
        // One after the other, and none while another one is on its way.
        if self.rules.ordered && condemned.iter().any(|one| one.pod.terminating) {
            return;
        }
        let lowest = self.members.values().find(|one| !self.serves(one)).map(|one| one.ordinal);
        for member in condemned {
            // Nor while several do not serve: what is wrong with them may be mended, and they go in order.
            let waits = !self.serves(&member) && lowest != Some(member.ordinal);
            if self.rules.ordered && waits && !member.is_going() && member.pod.phase != Phase::Ended {
                return;
            }
            if !member.pod.terminating {
                self.delete(&member);
                if self.rules.ordered {
                    return;
                }
            }
        }
    }

    /// Deletes pods with slots that somebody wants made anew, from the highest number down: as many as may be
    /// `out` of service, and those that are. Which revision they have, and whether updates rest, is all one.
    /// `is_off`: those that could not be written to, or the others.
    pub(super) fn delete_specified(
        &mut self,
        all: &[Member<'a>],
        is_off: bool,
        out: &mut usize,
        most: usize,
    ) {
        let is_next = |one: &&Member<'_>| one.specified && one.pod.is_active() && !one.is_going();
        for member in all.iter().rev().filter(is_next) {
            if self.is_off(member) != is_off || self.unkept.contains_key(&member.ordinal) {
                continue;
            }
            if member.available {
                if *out >= most {
                    continue;
                }
                *out = out.saturating_add(1);
            }
            self.delete(member);
        }
    }

    /// Tells whether a pod has served for long enough, whatever is done with it.
    fn serves(&self, member: &Member<'_>) -> bool {
        member.pod.is_active() && member.pod.is_ready_for(self.rules.min_ready_seconds, self.now)
    }

    /// Deletes a pod, after the update of it that is asked for, and when its claims say what they go with.
    pub(super) fn discard(&mut self, member: &Member<'a>) {
        if self.unkept.contains_key(&member.ordinal) {
            return;
        }
        if let Some(known) = member.in_place {
            let (node, uid) = (known.node.clone(), member.pod.uid.clone());
            self.plan.actions.push(Action::ForgetInPlace { node, uid });
        }
        self.plan.actions.push(Action::DeletePod(member.pod.target()));
    }

    /// Deletes a pod, or has it wait for its hook.
    pub(super) fn delete(&mut self, member: &Member<'a>) {
        if !holds(self.rules.pre_delete, member.pod) {
            self.discard(member);
        } else if State::of(member.pod) != State::PreparingDelete {
            let patch = json!({ "metadata": entering(State::PreparingDelete, self.now) });
            self.plan.actions.push(Action::PatchPod(member.pod.target(), patch));
        }
    }
}
