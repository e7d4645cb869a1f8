//! CloneSet: the next writes that bring its pods to what its spec says.
//!
//! ```text
//!   claims nobody uses ▶ pods that left ▶ revisions ▶ scale ▶ update ▶ status, podsToDelete, history
//! ```
//!
//! A pass that makes or deletes pods updates none: the numbers are calculated anew first. Unless that could
//! not be done the last time: a quota that is used up, or a budget that holds a deletion back, keeps no
//! template from the pods that are there. Pods that could not be written to come last: others do not wait for
//! them, and they get what others leave of a budget. Everything else is independent: a pod that a hook holds
//! stops no other one.

mod build;
mod claims;
mod member;
mod numbers;
mod order;
mod priority;
mod refresh;
mod rules;
mod scale;
mod short_lived;
mod status;
mod update;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::crd::{CloneSet, CloneSetStatus};
use jiff::Timestamp;

pub use self::{
    claims::ClaimView,
    rules::{Priority, Rules, UpdateType},
};
use self::{
    claims::Claims,
    member::Member,
    numbers::{Course, Numbers, goes_back, numbers},
    short_lived::ShortLived,
};
pub(crate) use self::{
    rules::template_labels,
    status::{condition, unsettled_conditions},
};
use crate::{
    action::Action,
    agents::Agents,
    hash::Suffixes,
    in_place::{self, Changes, InPlaceState, Settled},
    plan::{self, Failures, LateWrites, Nodes, count, release},
    pod::PodView,
    predownload::{self, Ahead},
    revision::{Live, Owner, Revision, settle, surplus},
    time::until,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "CloneSet";

/// Choices of the installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Images are pulled ahead of updates in place.
    pub predownload: bool,
    /// Images are pulled ahead of updates of DaemonSets.
    pub predownload_daemon_sets: bool,
    /// A partition that is raised brings pods back to the current revision.
    pub partition_rollback: bool,
    /// Pods are labelled with the hash of their revision alone.
    pub short_hash: bool,
    /// An update makes a pod anew whose claims are not what their templates say.
    pub recreate_on_claim_changes: bool,
    /// Pods that wait for their deletion do not count, whatever their set's label says.
    pub excludes_preparing: bool,
}

/// A CloneSet, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The set.
    pub set: &'a CloneSet,
    /// Revisions that it owns.
    pub revisions: &'a [&'a Revision],
    /// Pods that it owns.
    pub pods: &'a [&'a PodView],
    /// Claims that it owns.
    pub claims: &'a [&'a ClaimView],
    /// Updates in place of its pods, by UID.
    pub in_place: &'a BTreeMap<String, InPlaceState>,
    /// Nodes, as far as their labels count.
    pub nodes: &'a Nodes,
    /// Agents of the nodes.
    pub agents: Agents<'a>,
    /// Choices of the installation.
    pub settings: Settings,
    /// Pulls ahead of its updates.
    pub ahead: Ahead<'a>,
    /// Failures of the last writes.
    pub failures: &'a Failures,
    /// Pods that could not be written to: they come after all others.
    pub put_off: &'a BTreeSet<String>,
    /// How often the name of a new revision was taken, as far as the status does not say so yet.
    pub collisions: i32,
    /// Seed of new names.
    pub seed: u64,
}

/// Writes that are due.
pub type Plan = plan::Plan<CloneSetStatus>;

/// State of a pass.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    owner: Owner<'a>,
    live: Live<'a>,
    members: Vec<Member<'a>>,
    claims: Claims<'a>,
    now: Timestamp,
    suffixes: Suffixes,
    plan: Plan,
    /// Why the update does not go on.
    waits: Option<String>,
    /// Claims that their templates would not make any more.
    claims_differ: Option<String>,
    /// Updates in place that may be forgotten.
    settled: Settled,
    /// Changes between revisions, as far as they were looked at.
    changes: Changes,
    /// States of pods that could not be written to.
    late_states: LateWrites,
    /// New pods that it has lost, and does not make anew yet.
    short_lived: ShortLived,
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    let set = input.set;
    let mut rules = match Rules::of(set) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, &fault, now),
    };
    rules.excludes_preparing |= input.settings.excludes_preparing;
    let owner = Owner::of(&set.metadata, API_VERSION, KIND);
    let is_going = set.metadata.deletion_timestamp.is_some();
    let mut plan = Plan::default();
    // Pods that are not selected any more are given free, unless all are about to go.
    let (ours, left): (Vec<&PodView>, Vec<&PodView>) =
        input.pods.iter().copied().partition(|pod| is_going || rules.selector.takes(&pod.labels));
    let short_lived = ShortLived::of(&ours, rules.replicas, now);
    plan.actions.extend(left.into_iter().map(|pod| release(pod, owner.uid)));
    let status = set.status.as_ref();
    let counted = status.and_then(|status| status.collision_count).unwrap_or(0);
    let live = settle(
        owner,
        rules.template,
        input.revisions,
        status.and_then(|status| status.current_revision.as_deref()),
        counted.max(input.collisions),
    );
    let live = match live {
        Ok(live) => live,
        Err(_) if is_going => return plan,
        Err(action) => {
            plan.actions.push(*action);
            plan.status = status::unsettled(input, now);
            plan.begin_part();
            plan.actions.extend(input.agents.open_gates(ours.iter().copied(), input.in_place, now));
            plan.actions.extend(rules.hooks().mark(ours.iter().copied(), now));
            return plan;
        }
    };
    let active = ours.iter().copied().filter(|pod| pod.is_active());
    let members: Vec<Member<'_>> = active.map(|pod| Member::of(pod, &rules, live, input, now)).collect();
    let suffixes = Suffixes::new(input.seed);
    let mut pass = Pass {
        input,
        rules: &rules,
        owner,
        live,
        members,
        claims: Claims::of(input.claims),
        now,
        suffixes,
        plan,
        waits: None,
        claims_differ: None,
        settled: Settled::new(),
        changes: Changes::default(),
        late_states: LateWrites::default(),
        short_lived,
    };
    if !is_going {
        pass.decide(&ours);
    }
    pass.plan.again = [pass.again(), pass.plan.again].into_iter().flatten().min();
    let status = pass.status();
    let mut plan = pass.plan;
    plan.status = (set.status.as_ref() != Some(&status)).then_some(status);
    plan
}

impl Pass<'_> {
    /// Decides on the writes for a set that stays, in their order; these pods are its own.
    fn decide(&mut self, ours: &[&PodView]) {
        self.plan.begin_part();
        self.tidy_claims(ours);
        self.plan.begin_part();
        let ahead = self.pulls_ahead();
        self.plan.actions.extend(ahead.create);
        self.plan.notes.extend(ahead.notes);
        let written = self.plan.actions.len();
        let numbers = self.numbers();
        let late = self.scale(&numbers, ours);
        let taken = if self.may_update(written) { self.update(&numbers, &late) } else { 0 };
        self.delete_late(late, taken);
        self.forget_settled();
        let late_states = std::mem::take(&mut self.late_states);
        self.plan.add_late(late_states);
        self.plan.begin_part();
        let gates = self.input.agents.open_gates(ours.iter().copied(), self.input.in_place, self.now);
        in_place::open(gates, &mut self.plan.actions);
        self.plan.actions.extend(self.rules.hooks().mark(ours.iter().copied(), self.now));
        self.keep_pods_to_delete();
        self.tell_of_claims();
        self.plan.actions.extend(ahead.delete);
        self.shorten_history(ours);
        self.plan.again = ahead.again;
    }

    /// Tells whether pods may be updated beside what scaling has written since, though it is not done yet. It
    /// is never too much: pods that are not there count as unavailable, and so do those that go.
    fn may_update(&self, since: usize) -> bool {
        let mut written = self.plan.actions.iter().skip(since);
        self.input.failures.scale.is_some() || written.all(|action| action.is_about(self.input.put_off))
    }

    /// Tells whether the pod could not be written to.
    fn is_off(&self, member: &Member<'_>) -> bool {
        self.input.put_off.contains(&member.pod.uid)
    }

    /// Calculates the numbers. Where no pods are to go back, those of which nobody knows what they have are
    /// to be updated.
    fn numbers(&mut self) -> Numbers {
        let course = self.course();
        let any_lost = self.members.iter().any(|one| one.lost);
        if any_lost && !goes_back(self.rules, &self.members, course) {
            let update = &self.live.update.name;
            for member in self.members.iter_mut().filter(|one| one.lost) {
                member.updated = false;
                // One that could not be given the newest revision keeps no others from it.
                member.lost = member.in_place.is_none_or(|known| known.revision != *update);
            }
        }
        numbers(self.rules, &self.members, course)
    }

    fn course(&self) -> Course {
        let Live { current, update } = self.live;
        let is_other = current.name != update.name;
        let in_place = self.rules.update_type != UpdateType::ReCreate;
        Course {
            rolls_back: self.input.settings.partition_rollback && is_other,
            in_place: in_place && is_other && self.changes.of(current, update).is_some(),
        }
    }

    /// Decides on images that are pulled ahead.
    fn pulls_ahead(&self) -> predownload::Writes {
        let (rules, live) = (self.rules, self.live);
        let at_once = rules.partition == 0 && rules.max_unavailable >= rules.replicas;
        let kind = match rules.update_type {
            UpdateType::ReCreate => predownload::Kind::None,
            UpdateType::InPlaceIfPossible | UpdateType::InPlaceOnly => predownload::Kind::InPlace { at_once },
        };
        let ready = self.members.iter().filter(|one| one.ready_anew).count();
        let rollout = predownload::Rollout {
            owner: self.owner,
            selector: &self.input.set.spec.selector,
            current: live.current,
            update: live.update,
            ended: live.current.name == live.update.name,
            replicas: rules.replicas,
            updated_ready: count(ready),
        };
        self.input.ahead.writes(&rollout, kind)
    }

    /// Names of pods that are gone need not be named any longer.
    fn keep_pods_to_delete(&mut self) {
        let scale = self.input.set.spec.scale_strategy.as_ref();
        let named = scale.map(|scale| scale.pods_to_delete.as_slice()).unwrap_or_default();
        let there: BTreeSet<&str> = self.members.iter().map(|member| member.pod.name.as_str()).collect();
        let kept: Vec<String> = named.iter().filter(|name| there.contains(name.as_str())).cloned().collect();
        if kept.len() < named.len() {
            self.plan.actions.push(Action::KeepPodsToDelete(kept));
        }
    }

    fn shorten_history(&mut self, pods: &[&PodView]) {
        let live = self.live;
        let labels: BTreeSet<&str> = pods.iter().map(|pod| pod.label(crate::names::REVISION_LABEL)).collect();
        let wanted: BTreeSet<&str> =
            self.input.in_place.values().map(|known| known.revision.as_str()).collect();
        let is_live = |one: &Revision| {
            one.name == live.current.name
                || one.name == live.update.name
                || labels.iter().any(|label| one.is_of(label))
                || wanted.contains(one.name.as_str())
        };
        self.plan.actions.extend(surplus(self.input.revisions, self.rules.history_limit, is_live));
    }

    /// Time until the next pod has served for long enough, is asked for again, or is new no longer.
    fn again(&self) -> Option<Duration> {
        let seconds = self.rules.min_ready_seconds;
        let waiting = self.members.iter().filter(|member| member.ready && !member.available);
        waiting
            .filter_map(|member| Some(until(member.pod.ready_since?, seconds, self.now)))
            .filter(|left| !left.is_zero())
            .chain(self.input.in_place.values().filter_map(|known| known.asked_again_in(self.now)))
            .chain(self.short_lived.again)
            .min()
    }
}
