//! Advanced StatefulSet: the next writes that bring its pods to what its spec says.
//!
//! ```text
//!   revisions ▶ slots, ascending ▶ pods without a slot, descending ▶ update ▶ status, history
//! ```
//!
//! A slot is the number of a pod that there is to be; reserved numbers are none, nor those below the first
//! one. A pod that cannot be written to comes last, unless pods are updated one after the other.
//!
//! Three things are done other than in OpenKruise 1.4:
//! - The budget of an update counts every pod that is not available, wherever it stands in the order.
//! - A broken pod is updated though others are waited for: a set could not get out of a broken template. With
//!   `OrderedReady` one whose probe fails has a while to be mended, and nothing is done meanwhile.
//! - Claims count as scaled away by slot, not by number: those of a pod beyond a reserved number are kept.

mod build;
mod claims;
mod delete;
mod fill;
mod identity;
mod rules;
mod status;
mod update;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::crd::{AdvancedStatefulSet, AdvancedStatefulSetStatus};
use jiff::Timestamp;

pub use self::rules::Rules;
use crate::{
    action::Action,
    adopt::{Adopting, Unadopted},
    agents::Agents,
    clone_set::{ClaimView, UpdateType},
    in_place::{self, Changes, InPlaceState, Settled},
    lifecycle::{State, is_available, is_ready_anew},
    names::{REVISION_LABEL, SPECIFIED_DELETE_LABEL},
    plan::{self, Failures, LateWrites, most_created, release},
    pod::PodView,
    predownload::{self, Ahead},
    revision::{Live, Owner, Revision, settle, surplus},
    time::until,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";
/// The kind.
pub const KIND: &str = "StatefulSet";

/// A StatefulSet, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The set.
    pub set: &'a AdvancedStatefulSet,
    /// Revisions that it owns, and those of its name that nothing decides on.
    pub revisions: &'a [&'a Revision],
    /// Pods that it owns, and those of its name and a number that nothing decides on.
    pub pods: &'a [&'a PodView],
    /// Claims with names of the set's.
    pub claims: &'a [&'a ClaimView],
    /// Updates in place of its pods, by UID.
    pub in_place: &'a BTreeMap<String, InPlaceState>,
    /// Agents of the nodes.
    pub agents: Agents<'a>,
    /// Pulls ahead of its updates.
    pub ahead: Ahead<'a>,
    /// Pods that have ended again and again, by name, and when each may be made anew.
    pub rests_until: &'a BTreeMap<String, Timestamp>,
    /// Failures of the last writes.
    pub failures: &'a Failures,
    /// Pods and claims that could not be written to: they come after all others.
    pub put_off: &'a BTreeSet<String>,
    /// How often the name of a new revision was taken, as far as the status does not say so yet.
    pub collisions: i32,
    /// Pods and revisions that it could not adopt.
    pub unadopted: &'a Unadopted,
}

/// Writes that are due.
pub type Plan = plan::Plan<AdvancedStatefulSetStatus>;

/// A pod with a number.
#[derive(Clone, Copy, Debug)]
struct Member<'a> {
    pod: &'a PodView,
    ordinal: i64,
    /// It has the newest revision, or is being brought to it.
    updated: bool,
    available: bool,
    /// Somebody wants it deleted, and made anew.
    specified: bool,
    /// It serves with the newest revision.
    ready_anew: bool,
    in_place: Option<&'a InPlaceState>,
}

/// State of a pass.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    owner: Owner<'a>,
    live: Live<'a>,
    slots: Vec<i64>,
    /// Pods of slots that have not the newest revision, those that this pass makes included, where their
    /// number counts and not which ones.
    old_in_slots: Option<i64>,
    members: BTreeMap<i64, Member<'a>>,
    /// Numbers of pods that are not the set's, though they are to be: each is taken. Whether it is available.
    orphans: BTreeMap<i64, bool>,
    /// Claims by name.
    claims: BTreeMap<&'a str, &'a ClaimView>,
    now: Timestamp,
    plan: Plan,
    /// Pods that this pass may still make, or make the claims of.
    creates_left: i64,
    /// Slots without a pod that are next: this pass makes one, or claims are in its way.
    filled: usize,
    /// Why a pod is not made.
    create_waits: Option<String>,
    /// Claims that their templates would not make any more.
    claims_differ: Option<String>,
    /// Why the update does not go on.
    update_waits: Option<String>,
    /// Time until a pod whose probe fails is not waited for any more.
    mended_in: Option<Duration>,
    /// Updates in place that may be forgotten.
    settled: Settled,
    /// Changes between revisions, as far as they were looked at.
    changes: Changes,
    /// Numbers of pods whose claims do not yet say what they go with: whether that could not be written. To
    /// delete such a pod could delete its claims, or leave them for good.
    unkept: BTreeMap<i64, bool>,
    /// Labels and states of pods that could not be written to.
    late_states: LateWrites,
}

/// Number at the end of a pod's name, if it is a pod of the set.
fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_plain { digits.parse().ok() } else { None }
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    let set = input.set;
    let rules = match Rules::of(set) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, &fault, now),
    };
    let owner = Owner::of(&set.metadata, API_VERSION, KIND);
    let name = owner.name;
    let is_going = set.metadata.deletion_timestamp.is_some();
    let status = set.status.as_ref();
    let counted = status.and_then(|status| status.collision_count).unwrap_or(0);
    let current = status.and_then(|status| status.current_revision.as_deref());
    let mut plan = Plan::default();
    let is_named = |pod: &str| ordinal(name, pod).is_some();
    let (selector, unadopted) = (&rules.selector, input.unadopted);
    let adopting = Adopting { selector, owner, is_going, unadopted, now };
    let split = adopting.split(input.pods, input.revisions, is_named);
    plan.actions = split.adopts;
    if split.comes_first {
        return plan;
    }
    plan.begin_part();
    let input = &Input { revisions: &split.revisions, ..*input };
    // Pods that are not selected any more are given free, unless all are about to go.
    let (ours, left): (Vec<&PodView>, Vec<&PodView>) =
        split.pods.into_iter().partition(|pod| is_going || rules.selector.takes(&pod.labels));
    plan.actions.extend(left.into_iter().map(|pod| release(pod, owner.uid)));
    let mut gates = input.agents.open_gates(ours.iter().copied(), input.in_place, now);
    gates.extend(rules.hooks().mark(ours.iter().copied(), now));
    let live = match settle(owner, rules.template, input.revisions, current, counted.max(input.collisions)) {
        Ok(live) => live,
        Err(_) if is_going => return plan,
        Err(action) => {
            plan.actions.push(*action);
            plan.status = status::unsettled(input, now);
            plan.begin_part();
            plan.actions.extend(gates);
            return plan;
        }
    };
    let members = ours.into_iter().filter_map(|pod| {
        let ordinal = ordinal(name, &pod.name)?;
        Some((ordinal, Member::of(pod, ordinal, &rules, live, input, now)))
    });
    let members: BTreeMap<i64, Member<'_>> = members.collect();
    let is_up = |pod: &PodView| is_available(pod, None, rules.min_ready_seconds, now);
    let orphans = split.orphans.iter().filter_map(|pod| Some((ordinal(name, &pod.name)?, is_up(pod))));
    let slots = rules.slots();
    let is_old = |slot: &&i64| members.get(slot).is_some_and(|member| !member.updated);
    let old_in_slots = rules.unordered.is_some().then(|| slots.iter().filter(is_old).count());
    let old_in_slots = old_in_slots.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let mut pass = Pass {
        input,
        rules: &rules,
        owner,
        live,
        slots,
        old_in_slots,
        members,
        orphans: orphans.collect(),
        claims: input.claims.iter().map(|claim| (claim.name.as_str(), *claim)).collect(),
        now,
        plan,
        creates_left: most_created(rules.template, rules.claims),
        filled: 0,
        create_waits: None,
        claims_differ: None,
        update_waits: split.refused,
        mended_in: None,
        settled: Settled::new(),
        changes: Changes::default(),
        unkept: BTreeMap::new(),
        late_states: LateWrites::default(),
    };
    if !is_going {
        pass.decide(gates);
    }
    pass.plan.again = [pass.again(), pass.plan.again, split.again].into_iter().flatten().min();
    let status = pass.status();
    let mut plan = pass.plan;
    plan.status = (set.status.as_ref() != Some(&status)).then_some(status);
    plan
}

impl<'a> Member<'a> {
    fn of(
        pod: &'a PodView,
        ordinal: i64,
        rules: &Rules<'_>,
        live: Live<'_>,
        input: &Input<'a>,
        now: Timestamp,
    ) -> Self {
        let in_place = input.in_place.get(&pod.uid);
        let labelled = pod.label(REVISION_LABEL) == live.update.name && !pod.is_in_grace(in_place);
        let updated = input.agents.is_updated(pod, in_place, &live.update.name, labelled);
        let available = is_available(pod, in_place, rules.min_ready_seconds, now);
        let ready_anew = is_ready_anew(pod, in_place, updated);
        let specified = pod.labels.contains_key(SPECIFIED_DELETE_LABEL);
        Self { pod, ordinal, updated, available, specified, ready_anew, in_place }
    }

    /// An update in place of it goes on.
    fn is_being_updated(&self) -> bool {
        self.in_place.is_some_and(InPlaceState::is_pending)
    }

    /// Tells whether it is held before its deletion.
    fn is_going(&self) -> bool {
        State::of(self.pod) == State::PreparingDelete
    }
}

impl Pass<'_> {
    /// Decides on the writes for a set that stays, in their order; these gates are opened after its pods were
    /// seen to.
    fn decide(&mut self, gates: Vec<Action>) {
        self.plan.begin_part();
        self.keep_claims();
        self.tell_of_claims();
        self.plan.begin_part();
        let ahead = self.pulls_ahead();
        self.plan.actions.extend(ahead.create);
        self.plan.notes.extend(ahead.notes);
        let may_go_on = self.fill();
        self.finish();
        if may_go_on {
            self.condemn();
        }
        self.update();
        let goes_on = self.members.values().any(Member::is_being_updated);
        let mut settled = std::mem::take(&mut self.settled);
        settled.extend(in_place::of_gone(self.input.in_place, self.input.pods));
        in_place::forget(settled, goes_on, &mut self.plan.actions);
        let late_states = std::mem::take(&mut self.late_states);
        self.plan.add_late(late_states);
        self.plan.begin_part();
        in_place::open(gates, &mut self.plan.actions);
        self.plan.actions.extend(ahead.delete);
        self.shorten_history();
        self.plan.again = ahead.again;
    }

    /// Tells whether the pod could not be written to.
    fn is_off(&self, member: &Member<'_>) -> bool {
        self.input.put_off.contains(&member.pod.uid)
    }

    /// Decides on images that are pulled ahead.
    fn pulls_ahead(&self) -> predownload::Writes {
        let (rules, live) = (self.rules, self.live);
        let at_once = rules.partition == 0 && rules.max_unavailable >= rules.replicas;
        let in_place = rules.update_type != UpdateType::ReCreate && !rules.on_delete;
        let kind = if in_place { predownload::Kind::InPlace { at_once } } else { predownload::Kind::None };
        let ready = self.members.values().filter(|one| one.ready_anew).count();
        let rollout = predownload::Rollout {
            owner: self.owner,
            selector: &self.input.set.spec.selector,
            current: live.current,
            update: live.update,
            ended: live.current.name == live.update.name,
            replicas: rules.replicas,
            updated_ready: i64::try_from(ready).unwrap_or(i64::MAX),
        };
        self.input.ahead.writes(&rollout, kind)
    }

    fn shorten_history(&mut self) {
        let live = self.live;
        let labels: BTreeSet<&str> =
            self.members.values().map(|member| member.pod.label(REVISION_LABEL)).collect();
        let is_live = |one: &Revision| {
            one.name == live.current.name
                || one.name == live.update.name
                || labels.contains(one.name.as_str())
                || self.input.in_place.values().any(|known| known.revision == one.name)
        };
        self.plan.actions.extend(surplus(self.input.revisions, self.rules.history_limit, is_live));
    }

    /// Time until the next pod has served for long enough, is asked for again, or has rested.
    fn again(&self) -> Option<Duration> {
        let waiting = self.members.values().filter(|member| member.pod.is_ready() && !member.available);
        waiting
            .filter_map(|member| Some(until(member.pod.ready_since?, self.rules.min_ready_seconds, self.now)))
            .chain(self.input.rests_until.values().map(|at| until(*at, 0, self.now)))
            .filter(|left| !left.is_zero())
            .chain(self.input.in_place.values().filter_map(|known| known.asked_again_in(self.now)))
            .chain(self.mended_in)
            .min()
    }
}
