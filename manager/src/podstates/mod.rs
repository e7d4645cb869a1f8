//! PersistentPodStates: where the pods of StatefulSets run, recorded for those that are made anew.
//!
//! ```text
//!  watches ── states, sets, pods, nodes ──▶ PodStateIndex ──▶ Step ──▶ adapter ──▶ status
//!                                               ▲                       │
//!                                               └───── Annotated ◀──────┘ annotations of pods
//!  API server ── new pods ──▶ admission/podstates ──▶ berth-pod-state (pure), by the same status
//! ```
//!
//! The leader records; every replica sends new pods back. What is recorded is decided in `berth-pod-state`.
//! Pods are kept without the annotations that somebody may ask for: those of a pod are read once, when it is
//! recorded on its node for the first time.
//!
//! Costs: an event of a pod touches the PersistentPodStates of its StatefulSet, each of which then looks at
//! the pods of its namespace, once in [`RECORDED_EVERY`]. One of a node touches those of the StatefulSets
//! with a pod on it.
//!
//! Invariants:
//! - nothing is recorded before the kinds have been listed once, or while this replica does not lead;
//! - a StatefulSet that is not there ends the records, so those of a kind that is not listed are left alone.

mod adapter;
mod settle;
mod targets;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_pod_state::{Labels, Rules, TargetName};
use berth_proto::crd::{PersistentPodStateSpec, PersistentPodStateStatus};

pub use self::adapter::{Annotated, PodStateStep, PodStateWrite, carry_out};
use self::targets::Targets;
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    observed::Observed,
    store::{
        self, Key, Kind, LabelSets, Now, Object, Pod, PodChange, PodStateSeen, Pods, SetSeen, Texts, Views,
    },
    work::WorkQueue,
};

/// A PersistentPodState is written once in it at the most.
pub const RECORDED_EVERY: Duration = Duration::from_secs(1);
/// Annotations that could not be read are asked for again after it.
const AGAIN: Duration = Duration::from_secs(5);
/// Pods whose annotations are asked for at once.
const MOST_READ: usize = 64;

/// The kinds that states are recorded by. Those of a StatefulSet's own kind are in [`of_set`].
const KINDS: &[Kind] = &[Kind::Pod, Kind::Node, Kind::PodState, Kind::StatefulSet, Kind::AdvancedSet];

/// Index of PersistentPodStates: the manager's knowledge of them, and the steps that follow from it.
#[derive(Debug, Default)]
pub struct PodStateIndex {
    views: Views,
    /// Whether this replica may write.
    leads: bool,
    texts: Texts,
    labels: LabelSets,
    states: BTreeMap<Key, Known>,
    targets: Targets,
    /// StatefulSets of both groups, by whether it is an advanced one.
    sets: [HashMap<Key, KnownSet>; 2],
    nodes: HashMap<Arc<str>, KnownNode>,
    queue: WorkQueue,
    effects: Vec<Effect>,
}

/// One PersistentPodState, as it is known.
#[derive(Debug)]
struct Known {
    object: Observed<PersistentPodStateSpec, PersistentPodStateStatus>,
    /// The spec, checked, or why it cannot be carried out.
    rules: Result<Rules, String>,
    /// Annotations that were read of pods that are not recorded yet, by name, with the pod's UID.
    annotations: BTreeMap<String, (String, Labels)>,
    /// Time from which annotations may be asked for again.
    asked: Option<Instant>,
    /// When it was looked at last.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct KnownSet {
    seen: SetSeen,
    list: u32,
}

#[derive(Debug)]
struct KnownNode {
    labels: store::Labels,
    list: u32,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// PersistentPodStates.
    pub states: usize,
    /// PersistentPodStates among them that cannot be carried out.
    pub refused: usize,
    /// StatefulSets of Kubernetes.
    pub sets: usize,
    /// Advanced StatefulSets.
    pub advanced: usize,
}

impl Known {
    fn new(seen: &PodStateSeen, list: u32) -> Self {
        let rules = |spec| Rules::of(spec).map_err(|fault| fault.to_string());
        Self {
            object: Observed::new(seen, list),
            rules: seen.spec.as_ref().map_err(Clone::clone).and_then(rules),
            annotations: BTreeMap::new(),
            asked: None,
            looked: None,
        }
    }
}

impl Index for PodStateIndex {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, change: &PodChange, _: &Pods, _: Now) {
        let facts = |pod: &Option<Arc<Pod>>| {
            pod.as_ref().map(|pod| (pod.uid.clone(), pod.node.clone(), pod.stage, pod.ready))
        };
        if facts(&change.before) == facts(&change.after) {
            return;
        }
        for pod in [&change.before, &change.after].into_iter().flatten() {
            let Some(owner) = &pod.owner else { continue };
            let target = TargetName::of(&owner.api_version, &owner.kind, &owner.name);
            if let Some(target) = target {
                self.touch(&change.key.namespace, &target);
            }
        }
    }

    fn apply(&mut self, object: &Object, pods: &Pods, _: Now) {
        match object {
            Object::PodState(seen) => self.apply_state(seen),
            Object::StatefulSet(seen) => {
                let list = self.views.list(object.kind());
                let key = self.texts.key(&seen.namespace, &seen.name);
                let known = self.sets[usize::from(seen.advanced)].get_mut(&key);
                if let Some(known) = known.filter(|known| known.seen == *seen) {
                    known.list = list;
                    return;
                }
                let target = TargetName { advanced: seen.advanced, name: seen.name.clone() };
                self.touch(&key.namespace, &target);
                self.sets[usize::from(seen.advanced)].insert(key, KnownSet { seen: seen.clone(), list });
            }
            Object::Node(seen) => {
                let list = self.views.list(Kind::Node);
                let labels = self.labels.one(&seen.labels, &mut self.texts);
                let name = self.texts.one(&seen.name);
                let before = self.nodes.insert(name, KnownNode { labels: labels.clone(), list });
                if before.is_none_or(|before| before.labels != labels) {
                    self.touch_on(&seen.name, pods);
                }
            }
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, _: &Pods, _: Now) {
        let key = self.texts.key(namespace, name);
        match kind {
            Kind::PodState => {
                if let Some(known) = self.states.remove(&key) {
                    self.targets.remove(&key, &known);
                }
                self.queue.forget(&key);
            }
            Kind::StatefulSet | Kind::AdvancedSet => {
                let advanced = kind == Kind::AdvancedSet;
                self.sets[usize::from(advanced)].remove(&key);
                self.touch(&key.namespace, &TargetName { advanced, name: name.to_owned() });
            }
            // What a node said of its pods stays recorded.
            Kind::Node => drop(self.nodes.remove(name)),
            _ => {}
        }
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        match kind {
            Kind::PodState => {
                let gone = self.states.iter().filter(|(_, known)| known.object.list != list);
                gone.map(|(key, _)| key.clone()).collect()
            }
            Kind::StatefulSet | Kind::AdvancedSet => {
                let sets = &self.sets[usize::from(kind == Kind::AdvancedSet)];
                sets.iter().filter(|(_, known)| known.list != list).map(|(key, _)| key.clone()).collect()
            }
            Kind::Node => {
                let gone = self.nodes.iter().filter(|(_, known)| known.list != list);
                gone.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn list_ended(&mut self, _: bool, _: &Pods, _: Now) {
        // Each target waits for its own kind alone: the other one may not be installed.
        self.look_at_all();
    }

    fn time_passed(&mut self, pods: &Pods, now: Now) {
        self.advance(pods, now);
    }

    fn leads(&mut self, _: &Pods, _: Now) {
        self.leads = true;
        self.look_at_all();
    }

    fn rests(&mut self, _: &Pods, _: Now) {
        self.leads = false;
        for known in self.states.values_mut() {
            (known.looked, known.asked) = (None, None);
            known.object.rests();
            known.annotations.clear();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.next()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        // Pods are looked at when the time of a state has come, which may be now.
        self.queue.put_off(now.instant);
        std::mem::take(&mut self.effects)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.pod_states(self.size());
    }
}

impl PodStateIndex {
    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let refused = self.states.values().filter(|known| known.rules.is_err()).count();
        let [sets, advanced] = [0, 1].map(|at| self.sets[at].len());
        Size { states: self.states.len(), refused, sets, advanced }
    }

    fn apply_state(&mut self, seen: &PodStateSeen) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        let mut next = Known::new(seen, self.views.list(Kind::PodState));
        if let Some(known) = self.states.get_mut(&key).filter(|known| known.object.uid == next.object.uid) {
            if !next.object.follow(&mut known.object) {
                return;
            }
            next.looked = known.looked;
            if known.object.generation == next.object.generation {
                (next.asked, next.annotations) = (known.asked, std::mem::take(&mut known.annotations));
            }
        }
        if let Some(before) = self.states.remove(&key) {
            self.targets.remove(&key, &before);
        }
        self.targets.insert(&key, &next);
        self.states.insert(key.clone(), next);
        self.queue.touch(key);
    }

    /// Touches the states of a StatefulSet.
    fn touch(&mut self, namespace: &Arc<str>, target: &TargetName) {
        for name in self.targets.of(namespace, target) {
            self.queue.touch(Key { namespace: namespace.clone(), name: name.clone() });
        }
    }

    /// Touches the states of the StatefulSets that have a pod on this node. The end of a first list touches
    /// all of them.
    fn touch_on(&mut self, node: &str, pods: &Pods) {
        if self.views.complete_since(&[Kind::Pod, Kind::Node]).is_none() {
            return;
        }
        for namespace in self.targets.namespaces() {
            for (_, pod) in pods.of_namespace(namespace).filter(|(_, pod)| pod.node.as_deref() == Some(node))
            {
                let Some(owner) = &pod.owner else { continue };
                let target = TargetName::of(&owner.api_version, &owner.kind, &owner.name);
                for name in target.iter().flat_map(|target| self.targets.of(namespace, target)) {
                    self.queue.touch(Key { namespace: namespace.clone(), name: name.clone() });
                }
            }
        }
    }

    fn look_at_all(&mut self) {
        self.queue.touch_all(self.states.keys());
    }
}

/// The kinds that are to be listed before pods of a StatefulSet are recorded.
fn of_set(advanced: bool) -> [Kind; 4] {
    let set = if advanced { Kind::AdvancedSet } else { Kind::StatefulSet };
    [Kind::Pod, Kind::Node, Kind::PodState, set]
}
