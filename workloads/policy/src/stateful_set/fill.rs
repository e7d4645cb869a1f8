//! Slots: pods that are missing are made, ascending, and pods that have ended are replaced.

use super::{Member, Pass, build};
use crate::{
    action::{Action, Note},
    pod::Phase,
    revision::Revision,
};

impl<'a> Pass<'a> {
    /// Goes over the slots: makes what is missing, replaces what has ended. True: what comes after the slots
    /// need not wait for them.
    pub(super) fn fill(&mut self) -> bool {
        let mut ended = Vec::new();
        let may_go_on = self.fill_slots(&mut ended);
        self.plan.begin_part();
        for member in ended {
            if !self.unkept.contains_key(&member.ordinal) {
                self.plan.ended_on.push((member.pod.name.clone(), member.pod.uid.clone()));
            }
            self.discard(&member);
        }
        may_go_on
    }

    /// The same; pods that have ended are left to be deleted.
    fn fill_slots(&mut self, ended: &mut Vec<Member<'a>>) -> bool {
        // A budget of pods that are out while others are made.
        let mut left = self.rules.scale_max_unavailable.unwrap_or(i64::MAX);
        for ordinal in self.slots.clone() {
            if left <= 0 || self.creates_left <= 0 {
                return true;
            }
            let Some(member) = self.members.get(&ordinal).copied() else {
                if let Some(is_available) = self.orphans.get(&ordinal) {
                    if !is_available && self.rules.ordered {
                        return false;
                    }
                    left -= i64::from(!is_available);
                    continue;
                }
                let made = self.create(ordinal);
                self.filled = self.filled.saturating_add(1);
                if self.rules.ordered || !made {
                    return !self.rules.ordered;
                }
                left -= 1;
                continue;
            };
            // One that its node refuses ends as soon as it is there, and would be made anew without end.
            let rests = self.input.rests_until.get(&member.pod.name).is_some_and(|until| *until > self.now);
            if member.pod.phase == Phase::Ended && !member.pod.terminating && !rests {
                let text = format!("pod {} has ended, and is made anew", member.pod.name);
                self.plan.notes.push(Note { warning: true, reason: "RecreatingFailedPod", text });
                ended.push(member);
            }
            if member.pod.phase == Phase::Pending && !member.pod.terminating {
                // It waits for a claim that somebody has deleted.
                let claims = self.missing_claims(ordinal);
                if !claims.is_empty() {
                    self.creates_left -= 1;
                }
                self.plan.actions.extend(claims.into_iter().map(Action::CreateClaim));
            }
            if !member.available {
                if self.rules.ordered {
                    return false;
                }
                left -= 1;
            }
        }
        true
    }

    /// False: something is in its way.
    fn create(&mut self, ordinal: i64) -> bool {
        if let Some(why) = self.claims_in_the_way(ordinal) {
            self.create_waits.get_or_insert(why);
            return false;
        }
        let revision = self.revision_of(ordinal);
        if revision.name != self.live.update.name {
            self.old_in_slots = self.old_in_slots.map(|old| old.saturating_add(1));
        }
        let claims = self.missing_claims(ordinal);
        self.plan.actions.extend(claims.into_iter().map(Action::CreateClaim));
        let pod = build::pod(self.rules, self.owner, revision, ordinal, self.now);
        self.plan.actions.push(Action::CreatePod(pod));
        self.creates_left -= 1;
        true
    }

    /// Revision that a new pod of this number gets, which has none.
    fn revision_of(&self, ordinal: i64) -> &'a Revision {
        if self.rules.on_delete {
            return self.live.update;
        }
        let keeps = match self.old_in_slots {
            Some(old) => old < self.rules.partition,
            None => self.rules.keeps(ordinal),
        };
        if keeps { self.live.current } else { self.live.update }
    }
}
