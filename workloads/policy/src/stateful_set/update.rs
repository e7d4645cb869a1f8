//! Updates of a StatefulSet: from the highest number down, as many at once as may be out of service.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::{KIND, Member, Pass, status::FAILED_UPDATE};
use crate::{
    action::Action,
    clone_set::{Priority, UpdateType},
    in_place::{Change, InPlacePhase, Obstacle, Own, Update, end_grace},
    lifecycle::{State, entering, has_all, held_again, holds, updating},
    names::REVISION_LABEL,
    revision::Revision,
    time::until,
    update_order,
};

/// Time that a pod whose probe fails has to be Ready again before an update replaces it, in seconds.
/// People and programs that mend it do several things one after the other, some of which look at it once in
/// ten seconds.
const MENDED_SECONDS: i64 = 60;

/// Twice that time: the clock of a node may be ahead by some seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Time that pods whose probes fail are waited for in sum, in seconds: some cease to be Ready again and
/// again.
const WAITED_SECONDS: i64 = 120;

/// Words for it, always the same: their condition tells since when it is so.
pub(super) const WAITS_FOR_PROBE: &str = "an old pod is not Ready any more, as its probe fails: it may be mended, and is \
                                          waited for, one minute each and two minutes in sum";

impl<'a> Pass<'a> {
    pub(super) fn update(&mut self) {
        let going = self.plan.written();
        if self.name_pods(&going) {
            return;
        }
        let (is_first, leaving) = self.refresh(&going);
        if is_first {
            return;
        }
        let in_slots = |one: &&Member<'_>| self.slots.binary_search(&one.ordinal).is_ok();
        let all: Vec<Member<'a>> = self.members.values().filter(in_slots).copied().collect();
        let most = usize::try_from(self.rules.max_unavailable).unwrap_or(usize::MAX);
        // Numbers without a pod are out of service as well, but for those of pods that are not the set's.
        let serves = |slot: &&i64| self.orphans.get(slot).is_some_and(|is_available| *is_available);
        let there = all.len().saturating_add(self.slots.iter().filter(serves).count());
        let empty = self.slots.len().saturating_sub(there);
        let out = all.iter().filter(|one| !one.available).count();
        let mut out = out.saturating_add(empty).saturating_add(leaving);
        self.delete_specified(&all, false, &mut out, most);
        self.take_from_silent_agents(&all, &going);
        self.update_slots(&all, &going, &mut out, most);
        // Others do not wait for those that could not be deleted.
        self.delete_specified(&all, true, &mut out, most);
    }

    /// Updates pods with slots, as many as may be `out` of service, and those that are.
    fn update_slots(&mut self, all: &[Member<'a>], going: &BTreeSet<String>, out: &mut usize, most: usize) {
        if self.rules.on_delete || self.rules.paused {
            return;
        }
        let mut waiting = self.order(all.to_vec());
        if waiting.iter().all(|one| one.updated) || self.waits_for_probe(all) {
            return;
        }
        let arriving = all.iter().filter(|one| (one.updated || one.is_going()) && !one.available).count();
        // Those that wait for others to serve are not on their way: the others may be mended by this update.
        let mut taken = arriving.saturating_add(self.filled);
        let late = self.late_states.pods();
        if !self.rules.ordered {
            waiting.sort_by_key(|one| self.is_off(one));
        }
        for member in waiting {
            if taken >= most {
                return;
            }
            if member.updated || member.pod.terminating || member.is_going() || member.specified {
                continue;
            }
            if going.contains(&member.pod.uid) {
                taken = taken.saturating_add(1);
                continue;
            }
            let unkept = self.unkept.get(&member.ordinal);
            if late.contains(&member.pod.uid) || unkept == Some(&true) {
                if self.rules.ordered {
                    return;
                }
                continue;
            }
            if unkept.is_some() {
                // Its claims are written by this pass, and it is next.
                return;
            }
            if member.available {
                if *out >= most {
                    // One that is broken may still be mended: it costs nothing.
                    continue;
                }
                *out = out.saturating_add(1);
            }
            taken = taken.saturating_add(1);
            self.update_one(&member, self.live.update);
        }
    }

    /// Has pods serve again that a silent agent keeps out of service in the midst of an update which is not
    /// wanted any more, as the partition was raised: nothing else would end that.
    fn take_from_silent_agents(&mut self, all: &[Member<'a>], going: &BTreeSet<String>) {
        let agents = self.input.agents;
        let is_left = |one: &&Member<'_>| {
            let is_free = one.pod.is_active() && !one.is_going() && !one.specified;
            is_free && agents.is_left(one.in_place)
        };
        let left: Vec<Member<'a>> = all.iter().filter(is_left).copied().collect();
        if left.is_empty() || self.rules.on_delete {
            return;
        }
        let Some(wanted) = self.wanted() else { return };
        let late = self.late_states.pods();
        for member in left {
            let (ordinal, uid) = (member.ordinal, &member.pod.uid);
            let waits = going.contains(uid) || late.contains(uid) || self.unkept.contains_key(&ordinal);
            if !waits && !wanted.contains(&ordinal) {
                self.update_one(&member, self.live.current);
            }
        }
    }

    /// Tells whether the update waits for an old pod whose probe fails.
    fn waits_for_probe(&mut self, all: &[Member<'_>]) -> bool {
        let Some(left) = self.mended_in(all) else { return false };
        let conditions = self.input.set.status.as_ref().map(|status| status.conditions.as_slice());
        let known = conditions.unwrap_or_default().iter().find(|one| {
            one.type_ == FAILED_UPDATE
                && one.status == "True"
                && one.message.as_deref() == Some(WAITS_FOR_PROBE)
        });
        // The condition stays when that time is over: it does not begin anew.
        self.update_waits = Some(WAITS_FOR_PROBE.to_owned());
        let since = known.and_then(|known| known.last_update_time.as_ref()).map_or(self.now, |time| time.0);
        let left = left.min(until(since, WAITED_SECONDS, self.now));
        self.mended_in = Some(left).filter(|left| !left.is_zero());
        self.mended_in.is_some()
    }

    /// Time that an old pod still has to be Ready again, where pods are waited for one after the other: its
    /// probe fails, and who mends it expects it to be there, and no other one to go meanwhile.
    fn mended_in(&self, all: &[Member<'_>]) -> Option<Duration> {
        let is_awaited = |one: &&Member<'_>| {
            !one.updated && one.pod.is_active() && !one.is_being_updated() && State::of(one.pod).serves()
        };
        let failing = all.iter().filter(is_awaited).filter_map(|one| one.pod.failing_since);
        let left = failing.map(|since| until(since, MENDED_SECONDS, self.now));
        // A node whose clock is far ahead must not hold an update up.
        let left = left.filter(|left| !left.is_zero() && *left <= LONGEST_WAIT);
        left.max().filter(|_| self.rules.ordered)
    }

    /// Pods that are to have the newest revision, in the order in which they get it.
    fn order(&self, mut all: Vec<Member<'a>>) -> Vec<Member<'a>> {
        all.sort_by_key(|one| std::cmp::Reverse(one.ordinal));
        let Some(priority) = &self.rules.unordered else {
            all.retain(|one| !self.rules.keeps(one.ordinal));
            return all;
        };
        match priority {
            Priority::None => {}
            Priority::Weights(terms) => all.sort_by_cached_key(|one| {
                let weights = terms.iter().filter(|(_, selector)| selector.takes(&one.pod.labels));
                weights.map(|(weight, _)| i64::from(*weight)).fold(0, i64::saturating_add).saturating_neg()
            }),
            Priority::Labels(keys) => all.sort_by_cached_key(|one| {
                update_order::rank(keys.iter().map(|key| one.pod.labels.get(key).map(String::as_str)))
            }),
        }
        // Those that have it already are of the number that is to have it, and those that are held for it.
        all.sort_by_key(|one| match State::of(one.pod) {
            _ if one.updated || one.pod.terminating => 0,
            state if state.awaits_update() => 1,
            // It leaves its place to others.
            _ if self.is_off(one) => 3,
            _ => 2,
        });
        // As many old ones are left as the partition says: those that are missing come back by that count.
        let updated = i64::try_from(all.iter().filter(|one| one.updated).count()).unwrap_or(i64::MAX);
        let most =
            updated.saturating_add(self.old_in_slots.unwrap_or(0)).saturating_sub(self.rules.partition);
        all.truncate(usize::try_from(most).unwrap_or(0));
        all
    }

    /// Numbers of the pods that are to have the newest revision; `None` while the update rests.
    fn wanted(&self) -> Option<BTreeSet<i64>> {
        if self.rules.on_delete {
            return Some(BTreeSet::new());
        }
        let all = self.members.values().filter(|one| self.slots.binary_search(&one.ordinal).is_ok());
        let all = all.copied().collect();
        (!self.rules.paused).then(|| self.order(all).iter().map(|one| one.ordinal).collect())
    }

    /// Brings states and labels up to date, but of no pod that is `going`. Returns whether updates wait for
    /// that, and the number of available pods that go out of service by it.
    fn refresh(&mut self, going: &BTreeSet<String>) -> (bool, usize) {
        let (mut actions, mut settled, mut leaving) = (Vec::new(), Vec::new(), 0_usize);
        let wanted = self.wanted();
        let mut written = going.clone();
        written.extend(self.late_states.pods());
        // One that is held before its deletion is not called back into service by the end of its update.
        for member in self.members.values().filter(|one| one.pod.is_active() && !one.is_going()) {
            let (pod, state) = (member.pod, State::of(member.pod));
            if written.contains(&pod.uid) {
                continue;
            }
            if let Some(action) = end_grace(pod, member.in_place) {
                actions.push(action);
                continue;
            }
            let after = if has_all(self.rules.in_place_update, pod) { State::Normal } else { State::Updated };
            match member.in_place.map(|known| (&known.phase, known)) {
                Some((InPlacePhase::Done, known)) => {
                    let is_labelled = pod.label(REVISION_LABEL) == known.revision
                        && (state == after || state == State::None);
                    let is_kept = self.rules.in_place_update.is_none()
                        && self.rules.pre_delete.is_none()
                        && known.revision == self.live.update.name;
                    if is_labelled && is_kept {
                        settled.push((known.node.clone(), pod.uid.clone()));
                        continue;
                    }
                    if !is_labelled && member.available && !after.serves() {
                        leaving = leaving.saturating_add(1);
                    }
                    actions.push(if is_labelled {
                        Action::ForgetInPlace { node: known.node.clone(), uid: pod.uid.clone() }
                    } else {
                        let mut metadata = entering(after, self.now);
                        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                            labels.insert(REVISION_LABEL.to_owned(), known.revision.as_str().into());
                        }
                        Action::PatchPod(pod.target(), json!({ "metadata": metadata }))
                    });
                }
                _ => {
                    // The partition was raised: nobody wants the update any more.
                    let is_kept = || wanted.as_ref().is_some_and(|all| !all.contains(&member.ordinal));
                    let next = match state {
                        _ if member.is_being_updated() => None,
                        State::PreparingNormal if has_all(self.rules.pre_normal, pod) => Some(State::Normal),
                        State::Updated if after == State::Normal => Some(State::Normal),
                        State::Updating | State::PreparingUpdate if member.updated || is_kept() => {
                            Some(after)
                        }
                        _ => None,
                    };
                    actions.extend(next.map(|next| {
                        Action::PatchPod(pod.target(), json!({ "metadata": entering(next, self.now) }))
                    }));
                }
            }
        }
        self.settled = settled;
        (self.write_states(actions), leaving)
    }

    /// Writes labels and states, those of pods that could not be written to after all others. True: there are
    /// others.
    pub(super) fn write_states(&mut self, actions: Vec<Action>) -> bool {
        self.plan.add_but(self.input.put_off, actions, &mut self.late_states)
    }

    fn update_one(&mut self, member: &Member<'a>, target: &Revision) {
        let in_place = match self.rules.update_type {
            UpdateType::ReCreate => Err(Obstacle::NewPod(String::new())),
            UpdateType::InPlaceIfPossible | UpdateType::InPlaceOnly => self.possible(member, target),
        };
        match in_place {
            Ok(change) => self.update_in_place(member, target, change),
            // Claims of a StatefulSet are not the pod's.
            Err(Obstacle::Unscheduled) => self.delete(member),
            Err(Obstacle::NewPod(_)) if self.rules.update_type != UpdateType::InPlaceOnly => {
                self.delete(member);
            }
            Err(why) => drop(self.update_waits.get_or_insert_with(|| why.waits(member.pod))),
        }
    }

    fn possible(&self, member: &Member<'a>, target: &Revision) -> Result<Change, Obstacle> {
        let pod = member.pod;
        // One that rests before it is made anew.
        if !pod.is_active() {
            return Err(Obstacle::NewPod("it has ended".to_owned()));
        }
        let label = pod.label(REVISION_LABEL);
        let from = self.input.revisions.iter().find(|one| one.name == label).copied();
        let generation = self.input.set.metadata.generation;
        let update = Update { pod, known: member.in_place, target, generation, now: self.now };
        let revisions = (self.input.revisions, &self.changes);
        update.possible(revisions, from, &self.input.agents, KIND)
    }

    fn update_in_place(&mut self, member: &Member<'a>, target: &Revision, change: Change) {
        let pod = member.pod;
        if State::of(pod) == State::Updated
            && let Some(metadata) = held_again(self.rules.in_place_update, pod, self.now)
        {
            self.plan.actions.push(Action::PatchPod(pod.target(), json!({ "metadata": metadata })));
            return;
        }
        if holds(self.rules.in_place_update, pod) {
            if State::of(pod) != State::PreparingUpdate {
                let patch = json!({ "metadata": entering(State::PreparingUpdate, self.now) });
                self.plan.actions.push(Action::PatchPod(pod.target(), patch));
            }
            return;
        }
        let own = Own { revision: &target.name, others: &[], by_node: true };
        let generation = self.input.set.metadata.generation;
        let update = Update { pod, known: member.in_place, target, generation, now: self.now };
        let state = updating(self.rules.in_place_update, pod, self.now);
        update.carry_out(&change, own, state.as_ref(), self.rules.grace_seconds, &mut self.plan);
    }
}
