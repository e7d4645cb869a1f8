//! Advanced DaemonSet: the next writes that bring a pod of it to each node that it fits.
//!
//! ```text
//!   revisions ▶ each node: make, delete, one too many ▶ update, names descending ▶ status, history
//! ```
//!
//! Both templates count. OpenKruise makes every pod of the newest one, so a pod that is lost on a node which
//! the partition holds back comes back new; here it comes back as the others that are held back are. The
//! budget counts every node without an available pod, pods are taken in the order of their nodes, and a share
//! of the burst is never none. An update waits for pods that are to be made or deleted first, but not for
//! those that could not be: their nodes count as out of service, and come last.

pub(crate) mod build;
pub(crate) mod fit;
mod held;
mod manage;
mod nodes;
mod rests;
mod rules;
mod status;
mod update;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::crd::{AdvancedDaemonSet, AdvancedDaemonSetStatus};
use jiff::Timestamp;

use self::{
    fit::Fit,
    held::earlier,
    nodes::{Member, Place, places},
};
pub use self::{held::Held, rests::Rests, rules::Rules};
use crate::{
    adopt::{Adopting, Unadopted},
    agents::Agents,
    hash::{Suffixes, is_suffix},
    in_place::{self, Changes, InPlaceState, Settled},
    names::REVISION_LABEL,
    plan::{self, Failures, LateWrites, NodeView, Nodes, most_created, release},
    pod::PodView,
    predownload::{self, Ahead},
    revision::{Live, Owner, Revision, settle, surplus},
    time::until,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "DaemonSet";

/// A DaemonSet, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The set.
    pub set: &'a AdvancedDaemonSet,
    /// Revisions that it owns, and those of its name that nothing decides on.
    pub revisions: &'a [&'a Revision],
    /// Pods that it owns, and those of its name that nothing decides on.
    pub pods: &'a [&'a PodView],
    /// All nodes.
    pub nodes: &'a Nodes,
    /// Updates in place of its pods, by UID.
    pub in_place: &'a BTreeMap<String, InPlaceState>,
    /// Agents of the nodes.
    pub agents: Agents<'a>,
    /// Pulls ahead of its updates.
    pub ahead: Ahead<'a>,
    /// Nodes whose pods have ended again and again, and when they may have another one.
    pub rests_until: &'a BTreeMap<String, Timestamp>,
    /// Revisions that nodes behind the partition had when they were last looked at, by node.
    pub held: &'a Held,
    /// Failures of the last writes.
    pub failures: &'a Failures,
    /// How often the name of a new revision was taken, as far as the status does not say so yet.
    pub collisions: i32,
    /// Seed of new names.
    pub seed: u64,
    /// Pods and revisions that it could not adopt.
    pub unadopted: &'a Unadopted,
    /// Nodes whose pods could not be made, and pods that could not be written to: they come after all others.
    pub put_off: &'a BTreeSet<String>,
}

/// Writes that are due.
pub type Plan = plan::Plan<AdvancedDaemonSetStatus>;

/// State of a pass.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    owner: Owner<'a>,
    live: Live<'a>,
    places: BTreeMap<String, Place<'a>>,
    /// Nodes that should have a pod.
    desired: i64,
    surge: i64,
    now: Timestamp,
    suffixes: Suffixes,
    plan: Plan,
    /// Nodes that this pass makes pods on.
    made: BTreeSet<String>,
    creates_left: i64,
    deletes_left: i64,
    /// Updates in place that may be forgotten.
    settled: Settled,
    /// Changes between revisions, as far as they were looked at.
    changes: Changes,
    /// Labels of pods that could not be written to.
    late_labels: LateWrites,
    /// Why the update does not go on.
    update_waits: Option<String>,
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    let set = input.set;
    // As upstream: one that is going is left to the garbage collector.
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let rules = match Rules::of(set) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, &fault, now),
    };
    let owner = Owner::of(&set.metadata, API_VERSION, KIND);
    let counted = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let mut plan = Plan::default();
    let is_named = |pod: &str| is_named(owner.name, pod);
    let (selector, unadopted) = (&rules.selector, input.unadopted);
    let adopting = Adopting { selector, owner, is_going: false, unadopted, now };
    let split = adopting.split(input.pods, input.revisions, is_named);
    plan.actions = split.adopts;
    if split.comes_first {
        return plan;
    }
    plan.begin_part();
    let gone = in_place::of_gone(input.in_place, input.pods);
    let input = &Input { pods: &split.pods, revisions: &split.revisions, ..*input };
    // Pods that are not selected any more are given free.
    let left = input.pods.iter().filter(|pod| !rules.selector.takes(&pod.labels));
    plan.actions.extend(left.map(|pod| release(pod, owner.uid)));
    let selected = || input.pods.iter().copied().filter(|pod| rules.selector.takes(&pod.labels));
    let mut gates = input.agents.open_gates(selected(), input.in_place, now);
    gates.extend(rules.hooks().mark(selected(), now));
    let live = match settle(owner, rules.template, input.revisions, None, counted.max(input.collisions)) {
        Ok(live) => Live { current: earlier(input, live.update), ..live },
        Err(action) => {
            plan.actions.push(*action);
            plan.status = status::unsettled(input, now);
            plan.begin_part();
            plan.actions.extend(gates);
            return plan;
        }
    };
    let mut places = places(input, &rules, live, now);
    nodes::take(&mut places, &split.orphans, rules.min_ready_seconds, now);
    let desired = places.values().filter(|place| place.should_run).count();
    let desired = i64::try_from(desired).unwrap_or(i64::MAX);
    let burst = rules.burst.up(desired);
    let mut pass = Pass {
        input,
        rules: &rules,
        owner,
        live,
        places,
        desired,
        surge: rules.max_surge.up(desired),
        now,
        suffixes: Suffixes::new(input.seed),
        plan,
        made: BTreeSet::new(),
        creates_left: burst.min(most_created(rules.template, &[])),
        deletes_left: burst,
        settled: Settled::new(),
        changes: Changes::default(),
        late_labels: LateWrites::default(),
        update_waits: split.refused,
    };
    let ahead = pass.pulls_ahead();
    pass.plan.notes.extend(ahead.notes);
    pass.manage();
    let busy = pass.busy();
    if !pass.refresh(&busy) && pass.may_update() {
        pass.update(&busy);
    }
    pass.settled.extend(gone);
    pass.forget_settled();
    let late_labels = std::mem::take(&mut pass.late_labels);
    pass.plan.add_late(late_labels);
    pass.plan.put_first(ahead.create);
    pass.plan.begin_part();
    in_place::open(gates, &mut pass.plan.actions);
    pass.plan.actions.extend(ahead.delete);
    pass.shorten_history();
    pass.plan.again = [pass.again(), ahead.again, split.again].into_iter().flatten().min();
    let status = pass.status();
    let mut plan = pass.plan;
    plan.status = (set.status.as_ref() != Some(&status)).then_some(status);
    plan
}

/// Tells whether a pod of this name may be one of the set.
fn is_named(set: &str, pod: &str) -> bool {
    pod.strip_prefix(set).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_suffix)
}

/// Tells whether a change of a node changes anything for the set.
pub fn minds(set: &AdvancedDaemonSet, before: Option<&NodeView>, after: Option<&NodeView>) -> bool {
    let Ok(rules) = Rules::of(set) else { return false };
    let fit = Fit::of(rules.template);
    let seen = |node: Option<&NodeView>| {
        let selected = |node: &NodeView| rules.nodes.as_ref().is_some_and(|one| one.takes(&node.labels));
        node.map_or(((false, false), false), |node| (fit.on(node), selected(node)))
    };
    seen(before) != seen(after)
}

impl<'a> Pass<'a> {
    /// Decides on images that are pulled ahead. There is no current revision of a DaemonSet: its rollout has
    /// ended when no pod is left that is to be updated.
    fn pulls_ahead(&self) -> predownload::Writes {
        let (rules, live) = (self.rules, self.live);
        let partition = rules.partition.up(self.desired);
        let at_once = partition == 0 && rules.max_unavailable.down(self.desired) >= self.desired;
        let kind =
            if rules.on_delete { predownload::Kind::None } else { predownload::Kind::Nodes { at_once } };
        let members = || self.places.values().flat_map(|place| place.active());
        let ready = members().filter(|one| one.ready_anew).count();
        let rollout = predownload::Rollout {
            owner: self.owner,
            selector: &self.input.set.spec.selector,
            current: live.current,
            update: live.update,
            ended: live.current.name == live.update.name || members().all(|one| one.updated),
            replicas: self.desired,
            updated_ready: i64::try_from(ready).unwrap_or(i64::MAX),
        };
        self.input.ahead.writes(&rollout, kind)
    }

    fn shorten_history(&mut self) {
        let live = self.live;
        let labels: BTreeSet<&str> = self.input.pods.iter().map(|pod| pod.label(REVISION_LABEL)).collect();
        let is_live = |one: &Revision| {
            one.name == live.current.name
                || one.name == live.update.name
                || labels.iter().any(|label| one.is_of(label))
                || self.input.in_place.values().any(|known| known.revision == one.name)
        };
        self.plan.actions.extend(surplus(self.input.revisions, self.rules.history_limit, is_live));
    }

    /// Time until the next pod has served for long enough or is asked for again, or a node has rested.
    fn again(&self) -> Option<Duration> {
        let members = self.places.values().flat_map(|place| place.active());
        let waiting = members.filter(|member| member.pod.is_ready() && !member.available);
        let ready = waiting.filter_map(|member| {
            Some(until(member.pod.ready_since?, self.rules.min_ready_seconds, self.now))
        });
        let rested = self.input.rests_until.values().map(|at| until(*at, 0, self.now));
        let asked = self.input.in_place.values().filter_map(|known| known.asked_again_in(self.now));
        ready.chain(rested).filter(|left| !left.is_zero()).chain(asked).min()
    }
}
