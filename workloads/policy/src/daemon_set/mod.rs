//! Advanced DaemonSet: the next writes that bring a pod of it to each node that it fits.
//!
//! ```text
//!   revisions ▶ each node: make, delete, one too many ▶ update, names descending ▶ status, history
//! ```
//!
//! Both templates count. OpenKruise makes every pod of the newest one, so a pod that is lost on a node which
//! the partition holds back comes back new; here it comes back as the others that are held back are. The
//! budget counts every node without an available pod, pods are taken in the order of their nodes, and a share
//! of the burst is never none.

pub(crate) mod build;
pub(crate) mod fit;
mod held;
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
use serde_json::json;

use self::{
    fit::Fit,
    held::earlier,
    nodes::{Member, Place, places},
};
pub use self::{held::Held, rests::Rests, rules::Rules};
use crate::{
    action::{Action, Note},
    adopt::{Adopting, Unadopted},
    agents::Agents,
    hash::{Suffixes, is_suffix},
    in_place::{self, InPlaceState, Settled},
    lifecycle::{State, entering, holds},
    names::REVISION_LABEL,
    plan::{self, Failures, NodeView, Nodes, most_created, release},
    pod::{Phase, PodView},
    predownload::{self, Ahead},
    revision::{Live, Owner, Revision, settle, surplus},
    selector::Labels,
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
    /// Nodes whose pods could not be made: they come after all others.
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
    let none = Labels::new();
    let owner = Owner {
        api_version: API_VERSION,
        kind: KIND,
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        name: set.metadata.name.as_deref().unwrap_or_default(),
        uid: set.metadata.uid.as_deref().unwrap_or_default(),
        annotations: set.metadata.annotations.as_ref().unwrap_or(&none),
    };
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
        update_waits: split.refused,
    };
    let ahead = pass.pulls_ahead();
    pass.plan.notes.extend(ahead.notes);
    pass.manage();
    if !pass.refresh() && pass.plan.actions.is_empty() {
        pass.update();
    }
    pass.forget_settled();
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
    /// Makes and deletes pods, node by node.
    fn manage(&mut self) {
        let held = self.held_back();
        let of_held = self.of_held(&held);
        self.plan.held = self.had(&held);
        let mut progress = self.progress();
        let mut names: Vec<String> = self.places.keys().cloned().collect();
        names.sort_by_key(|name| self.input.put_off.contains(name));
        let before = self.plan.actions.len();
        for name in names {
            let Some(place) = self.places.get(&name) else { continue };
            let is_gone = place.node.is_none();
            let active: Vec<Member<'a>> = place.active().copied().collect();
            let ended: Vec<Member<'a>> = place
                .members
                .iter()
                .filter(|one| one.pod.phase == Phase::Ended && !one.pod.terminating)
                .copied()
                .collect();
            let terminating = place.members.iter().any(|one| one.pod.terminating);
            let (should_run, may_go_on) = (place.should_run, place.may_go_on);
            let is_taken = place.orphan.is_some() || !active.is_empty() || !ended.is_empty();
            if !may_go_on {
                // A node that is gone may come back: its pods are the garbage collector's, as of Kubernetes.
                let is_ours = |one: &&Member<'_>| !is_gone || one.pod.node.is_empty();
                active.iter().chain(&ended).filter(is_ours).for_each(|one| self.delete(one));
                continue;
            }
            let rests = self.input.rests_until.get(&name).is_some_and(|until| *until > self.now);
            for one in ended.iter().filter(|_| !rests) {
                let text = format!("pod {} on node {name} has ended, and is made anew", one.pod.name);
                self.plan.notes.push(Note { warning: true, reason: "FailedDaemonPod", text });
                self.plan.ended_on.push(name.clone());
                self.delete(one);
            }
            // One that is going is waited for, unless there may be two.
            let is_empty = !is_taken && (!terminating || self.surge > 0);
            if should_run && is_empty && !rests {
                let is_held = held.contains(&name);
                if progress.is_none_or(|left| left > 0 && !is_held) {
                    let known = is_held.then(|| self.known_of(&name).unwrap_or(of_held));
                    self.create(&name, known.unwrap_or(self.live.update));
                    progress = progress.map(|left| left - 1);
                }
            }
            // What is begun goes on: whoever let go of the pod expects it gone, though nobody would choose it
            // now.
            let (free, rest): (Vec<Member<'a>>, Vec<Member<'a>>) =
                active.iter().partition(|one| one.is_going() && !holds(self.rules.pre_delete, one.pod));
            free.iter().for_each(|one| self.delete(one));
            self.delete_surplus(&rest);
        }
        let all = self.plan.actions.split_off(before);
        let (new, rest): (Vec<Action>, Vec<Action>) =
            all.into_iter().partition(|action| matches!(action, Action::CreatePod(_)));
        self.plan.actions.extend(new);
        self.plan.begin_part();
        self.plan.actions.extend(rest);
    }

    /// Leaves one of several pods on a node; while pods surge, one of each template.
    fn delete_surplus(&mut self, active: &[Member<'a>]) {
        let (new, old): (Vec<Member<'a>>, Vec<Member<'a>>) = active.iter().partition(|one| one.updated);
        if self.surge == 0 {
            active.iter().skip(1).for_each(|one| self.delete(one));
            return;
        }
        new.iter().skip(1).chain(old.iter().skip(1)).for_each(|one| self.delete(one));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (new.available || !old.pod.is_ready())
        {
            self.delete(old);
        }
    }

    /// Pods that may be made while they are made progressively; `None`: as many as are missing.
    fn progress(&self) -> Option<i64> {
        let partition = self.rules.partition.up(self.desired).min(self.desired);
        if !self.rules.progressive || partition == 0 {
            return None;
        }
        let new = self.places.values().filter(|place| place.active().any(|one| one.updated)).count();
        Some((self.desired - i64::try_from(new).unwrap_or(i64::MAX) - partition).max(0))
    }

    /// Makes a pod of a node.
    fn create(&mut self, node: &str, revision: &Revision) {
        if self.creates_left <= 0 {
            return;
        }
        self.creates_left -= 1;
        let taken = |name: &str| self.input.pods.iter().any(|pod| pod.name == name);
        let name = loop {
            let name = format!("{}-{}", self.owner.name, self.suffixes.next());
            if !taken(&name) {
                break name;
            }
        };
        self.made.insert(node.to_owned());
        let pod = build::pod(self.rules, self.owner, revision, &name, node);
        self.plan.actions.push(Action::CreatePod(pod));
    }

    /// Deletes a pod, or has it wait for its hook.
    fn delete(&mut self, member: &Member<'a>) {
        if self.deletes_left <= 0 {
            return;
        }
        let is_held = holds(self.rules.pre_delete, member.pod);
        if is_held && member.is_going() {
            // It is waited for; the others are not.
            return;
        }
        self.deletes_left -= 1;
        if !is_held {
            if let Some(known) = member.in_place {
                let (node, uid) = (known.node.clone(), member.pod.uid.clone());
                self.plan.actions.push(Action::ForgetInPlace { node, uid });
            }
            self.plan.actions.push(Action::DeletePod(member.pod.target()));
        } else {
            let patch = json!({ "metadata": entering(State::PreparingDelete, self.now) });
            self.plan.actions.push(Action::PatchPod(member.pod.target(), patch));
        }
    }

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
