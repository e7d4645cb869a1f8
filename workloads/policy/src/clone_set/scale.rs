//! Scaling: pods that are missing are made, pods that are too many or not wanted any more are deleted.
//!
//! A pod that is not available may be deleted at any time. One that is available may be, as long as enough
//! others are: the budget counts what it protects, so pods that are ready and not available yet hold nothing
//! up.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Pass, build, claims::Instances, member::Member, numbers::Numbers, order};
use crate::{
    action::{Action, Note},
    lifecycle::{State, entering, holds},
    names::{SPECIFIED_DELETE_LABEL, SURGE_LABEL},
    plan::{count, most_created},
    pod::PodView,
};

/// Deletions that could not be made: they are decided on after all others, and after updates.
#[derive(Debug)]
pub(super) struct Late<'a> {
    members: Vec<Member<'a>>,
    /// Available pods that may still be deleted.
    budget: i64,
}

impl<'a> Late<'a> {
    pub(super) fn uids(&self) -> BTreeSet<&'a str> {
        self.members.iter().map(|late| late.pod.uid.as_str()).collect()
    }
}

impl<'a> Pass<'a> {
    pub(super) fn scale(&mut self, numbers: &Numbers, pods: &[&PodView]) -> Late<'a> {
        let mut late = Late { members: Vec::new(), budget: numbers.delete };
        if self.cancel_deletions() {
            return late;
        }
        let cancelled = self.plan.written();
        if numbers.up > numbers.limit {
            let text = format!(
                "{} pods are missing, and {} are made now: more pods than scaleStrategy.maxUnavailable ({}) would \
                 be unavailable",
                numbers.up, numbers.limit, self.rules.scale_max_unavailable
            );
            self.plan.notes.push(Note { warning: true, reason: "ScaleUpLimited", text });
        }
        let before = self.plan.actions.len();
        self.create(numbers, pods);
        if self.plan.actions.len() > before {
            self.plan.begin_part();
        }
        let is_let_go = |one: &&Member<'_>| {
            one.is_preparing_delete()
                && !holds(self.rules.pre_delete(), one.pod)
                && !cancelled.contains(&one.pod.uid)
        };
        let prepared = self.members.iter().filter(is_let_go);
        let specified = self.members.iter().filter(|one| one.specified && !one.is_preparing_delete());
        let all = prepared.chain(specified).copied().chain(self.victims(numbers));
        let (put_off, now): (Vec<Member<'a>>, Vec<Member<'a>>) = all.partition(|one| self.is_off(one));
        late.members = put_off;
        for member in now {
            self.delete_within(&member, &mut late.budget);
        }
        late
    }

    /// Deletes what could not be deleted. `taken`: available pods that the update takes out of service.
    pub(super) fn delete_late(&mut self, late: Late<'a>, taken: i64) {
        let mut budget = late.budget.saturating_sub(taken);
        for member in late.members {
            self.delete_within(&member, &mut budget);
        }
    }

    /// Pods that wait for their deletion come back when they are needed again. True: some do, and could be
    /// written to.
    fn cancel_deletions(&mut self) -> bool {
        let hook = self.rules.pre_delete();
        // Such a pod was taken out of service for good.
        if hook.is_some_and(|hook| hook.mark_pod_not_ready) {
            return false;
        }
        let going = self.members.iter().filter(|one| one.specified || one.is_preparing_delete()).count();
        let mut missing = self.rules.replicas - count(self.members.len()) + count(going);
        let state = if self.rules.pre_normal().is_some() { State::PreparingNormal } else { State::Normal };
        let (mut cancels, mut some) = (Vec::new(), false);
        for member in self.members.iter().filter(|one| one.is_preparing_delete() && !one.specified) {
            if missing <= 0 {
                break;
            }
            missing -= 1;
            some |= !self.is_off(member);
            cancels.push(enter(member.pod, state, self.now));
        }
        self.plan.actions.extend(cancels);
        some
    }

    fn create(&mut self, numbers: &Numbers, pods: &[&PodView]) {
        if numbers.limit <= 0 {
            return;
        }
        if let Some(why) = &self.short_lived.why {
            let text = why.clone();
            self.plan.notes.push(Note { warning: true, reason: "NewPodsLost", text });
        }
        let limit = numbers.limit - self.short_lived.held;
        let limit = limit.min(most_created(self.rules.template, self.rules.claims));
        if limit <= 0 {
            return;
        }
        let mut instances = self.instances(pods);
        let old = numbers.up_old.min(limit);
        let in_place = self.course().in_place;
        let mut reused = std::mem::take(&mut instances.free).into_iter();
        let fresh = limit - count(reused.len().saturating_add(instances.held));
        let mut fresh = fresh.max(0);
        for at in 0..limit {
            let revision = if at < old { self.live.current } else { self.live.update };
            let instance = match reused.next() {
                Some(instance) => instance,
                None if fresh > 0 => {
                    fresh -= 1;
                    self.free_name(&mut instances, None)
                }
                // The others get the instances of pods that are going.
                None => return,
            };
            let name = self.free_name(&mut instances, Some(&instance));
            let (rules, owner) = (self.rules, self.owner);
            let has = |name: &str| self.claims.has(name);
            let claims = build::claims(rules, owner, &instance, has);
            self.plan.actions.extend(claims.into_iter().map(Action::CreateClaim));
            let names = build::Names { pod: &name, instance: &instance };
            let settings = self.input.settings;
            let mut pod = build::pod(rules, owner, revision, names, settings, self.now);
            // One that goes back to the current revision stays.
            if in_place && at >= old && count(self.members.len()) + at >= rules.replicas {
                pod["metadata"]["labels"][SURGE_LABEL] = "true".into();
            }
            self.plan.actions.push(Action::CreatePod(pod));
        }
    }

    /// An instance that nobody has; or the name of a pod: that of its instance where it is free.
    fn free_name(&mut self, instances: &mut Instances, of: Option<&str>) -> String {
        let name = |suffix: &str| format!("{}-{suffix}", self.owner.name);
        if let Some(instance) = of
            && instances.taken.insert(name(instance))
        {
            return name(instance);
        }
        loop {
            let suffix = self.suffixes.next();
            let wanted = if of.is_some() { name(&suffix) } else { suffix.clone() };
            if !instances.taken.contains(&name(&suffix)) && instances.taken.insert(wanted.clone()) {
                return wanted;
            }
        }
    }

    /// Pods that are too many, beside those that go anyway.
    fn victims(&self, numbers: &Numbers) -> Vec<Member<'a>> {
        let preparing = |old_only: bool| {
            let all = self.members.iter().filter(|one| one.is_preparing_delete());
            // Excluded, they are in none of the numbers.
            let counted = if self.rules.excludes_preparing {
                0
            } else {
                all.filter(|one| !old_only || !one.updated).count()
            };
            count(counted)
        };
        let down = (numbers.down - preparing(false)).max(0);
        let down_old = (numbers.down_old - preparing(true)).clamp(0, down);
        let mut victims = self.first_of(false, down_old);
        victims.extend(self.first_of(true, down - down_old));
        victims
    }

    fn first_of(&self, updated: bool, so_many: i64) -> Vec<Member<'a>> {
        if so_many <= 0 {
            return Vec::new();
        }
        let side = self
            .members
            .iter()
            .filter(|one| one.updated == updated && !one.specified && !one.is_preparing_delete());
        let mut side: Vec<Member<'a>> = side.copied().collect();
        order::victims(&mut side, self.rules.template, self.input.nodes);
        // What was made for the time of an update goes with it.
        side.sort_by_key(|one| !one.pod.labels.contains_key(SURGE_LABEL));
        // Another one may be deleted where this one cannot be.
        side.sort_by_key(|one| self.is_off(one));
        side.truncate(usize::try_from(so_many).unwrap_or(usize::MAX));
        side
    }

    fn delete_within(&mut self, member: &Member<'a>, budget: &mut i64) {
        if member.available {
            if *budget <= 0 {
                return;
            }
            *budget -= 1;
        }
        self.delete(member, false);
    }

    /// Deletes a pod, or has it wait for its hook. `replaced`: though it is not too many.
    pub(super) fn delete(&mut self, member: &Member<'a>, replaced: bool) {
        if !holds(self.rules.pre_delete(), member.pod) {
            return self.delete_now(member, replaced);
        }
        let mut metadata = entering(State::PreparingDelete, self.now);
        if replaced && let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            // Otherwise it would be called back at once.
            labels.insert(SPECIFIED_DELETE_LABEL.to_owned(), "true".into());
        }
        let patch = json!({ "metadata": metadata });
        self.plan.actions.push(Action::PatchPod(member.pod.target(), patch));
    }

    /// Deletes a pod without a node for a new one, which gets its claims where these are used again.
    pub(super) fn replace_unscheduled(&mut self, member: &Member<'a>) {
        if holds(self.rules.pre_delete(), member.pod) || !self.rules.reuses_claims {
            return self.delete(member, true);
        }
        self.forget(member);
        self.plan.actions.push(Action::DeletePod(member.pod.target()));
    }

    fn delete_now(&mut self, member: &Member<'a>, replaced: bool) {
        self.forget(member);
        self.plan.actions.push(Action::DeletePod(member.pod.target()));
        // Of a pod that somebody names, nobody knows yet whether it is replaced: its claims wait for one.
        if !self.rules.keeps_claims || !(replaced || member.specified) {
            self.delete_claims(member.pod);
        }
    }

    /// An update of a pod that goes is taken back first.
    pub(super) fn forget(&mut self, member: &Member<'a>) {
        if let Some(known) = member.in_place {
            let (node, uid) = (known.node.clone(), member.pod.uid.clone());
            self.plan.actions.push(Action::ForgetInPlace { node, uid });
        }
    }
}

/// Brings a pod into a state.
pub(super) fn enter(pod: &PodView, state: State, now: Timestamp) -> Action {
    Action::PatchPod(pod.target(), json!({ "metadata": entering(state, now) }))
}
