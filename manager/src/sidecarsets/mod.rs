//! The pure core for sidecars: SidecarSets, pods, namespaces and NodePodUpdates in, writes that are owed out.
//!
//! ```text
//!  watches ── apply / remove / pod_changed / list_ended ──▶ SidecarIndex ──▶ Vec<Effect> ──▶ writer
//!  clock ──── time_passed, at next_deadline ─────────▶
//!  lease ──── leads: from now on; rests: no more ─────▶
//! ```
//!
//! But for `adapter`, this module never reads a clock, never awaits and knows nothing of clients: `now` is an
//! argument, a write is a value. It counts a set's pods, files its revisions, and says which pods get the
//! newest one when; the agent of a node changes the pods there. The manager touches none.
//!
//! - `spec`, `strategy`: what a set asks for;
//! - `standing`: what one pod is to one set; `set`: all pods of a set, counted;
//! - `accepted`: whether new pods get it;
//! - `revise`: its revisions; `status`, `progress`: what its status says;
//! - `filing`: ControllerRevisions that its status waits for; `adapter`: the watch of them;
//! - `plan`, `order`: which pods are next; `entry`: what a pod is to be;
//! - `objects` takes facts in, `settle` says what is owed.
//!
//! Costs: an event of a pod moves the counters of the sets that the pod has, and its selectors are
//! evaluated only when its labels or its stage change. A set that changes looks at the pods of its
//! namespaces. A plan looks at the pods of its set, once in [`PLANNED_EVERY`]. Where many sets are owed a
//! plan, as at the start, one call makes as many as have some ten thousand pods together. A sign of life of
//! an agent, which each gives every two minutes, is compared with the one before, and no set is looked at
//! for it.
//!
//! Invariants:
//! - nothing is decided before all kinds have been listed once, or while this replica does not lead; and who
//!   begins to lead lists the sets first: the leader before it may have asked for pods by an edit that no
//!   watch has shown here, and they would get the sidecars of before;
//! - no pod is asked for before the revision that it is to get stands in the set's status;
//! - what has been asked for stands in the objects of the nodes: the next leader goes on from there;
//! - a set's status is written once in [`WRITTEN_EVERY`] at the most, or in [`ANSWERED_EVERY`] when its spec
//!   or its revisions are others, and a node's object once in [`SETTLE`].

mod accepted;
mod adapter;
mod entry;
mod filing;
mod objects;
mod order;
mod plan;
mod progress;
mod revise;
mod set;
mod settle;
mod spec;
mod standing;
mod status;
mod strategy;
mod write;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_base::silence::Silence;

pub use self::{adapter::follow_filed, filing::FiledEvent, write::SetWrite};
use self::{filing::Filing, set::Known};
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    pod_updates::PodUpdates,
    store::{Key, Kind, LabelSets, Labels, Now, Object, PodChange, Pods, Texts, Views, Webhooks},
    time::later,
    timers::Timers,
    write::Target,
};

/// The status of a set is written once in it at the most.
pub const WRITTEN_EVERY: Duration = Duration::from_secs(1);
/// The status of a set with a new spec is written once in it at the most: clients wait for that. So does
/// who files its ControllerRevisions, for which clients look then.
const ANSWERED_EVERY: Duration = Duration::from_millis(100);
/// The objects of nodes are written once in it at the most: the pods of an upgrade come one after the other.
pub const SETTLE: Duration = Duration::from_millis(200);
/// The pods of a small set are looked at once in it at the most.
const PLANNED_EVERY: Duration = Duration::from_millis(100);
/// Longer pauses of large sets, for each pod.
const PLANNED_FOR_POD: Duration = Duration::from_micros(30);
/// The pods of the largest sets are looked at that often while there is news of them.
const PLANNED_AT_LEAST: Duration = Duration::from_secs(1);
/// Time to wait for the effect of a write, which is seen in the next version of its object.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);
/// Ability of an agent to carry out entries of several owners, and those of sets among them.
const FEATURE: &str = "owners/v1";
/// Ability of an agent to swap twins.
const SWAPS: &str = "swaps/v1";

/// Ability of an agent to write the condition `SidecarSetUpgradable` of pods.
const UPGRADABLE: &str = "upgradable/v1";

/// The kinds by which sidecars are decided.
const KINDS: &[Kind] = &[Kind::Pod, Kind::Namespace, Kind::SidecarSet, Kind::NodePodUpdate];

/// Index of sidecars: the manager's knowledge of them, and the writes that follow from it.
#[derive(Debug)]
pub struct SidecarIndex {
    views: Views,
    /// Since when this replica may write.
    leads: Option<Instant>,
    /// Everything was looked at since then.
    begun: bool,
    texts: Texts,
    label_sets: LabelSets,
    /// By name.
    sets: BTreeMap<Arc<str>, Known>,
    /// Sets of one namespace each.
    narrow: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// All others.
    wide: BTreeSet<Arc<str>>,
    spaces: HashMap<Arc<str>, Space>,
    updates: PodUpdates,
    /// The number of the list that showed a NodePodUpdate last.
    nodes: HashMap<Arc<str>, u32>,
    /// Agents that have given no sign of life for too long.
    silence: Silence,
    /// Until when no agent could be heard: silence before it means nothing.
    deaf: Option<Instant>,
    /// Whether new pods get the sets.
    webhooks: Webhooks,
    /// ControllerRevisions of the sets.
    filing: Filing,
    timers: Timers<Wake>,
    /// Sets to look at before the call returns, or in calls soon after it.
    touched: BTreeSet<Arc<str>>,
    /// The one that was looked at last.
    looked_at: Option<Arc<str>>,
    /// Nodes whose entries are compared with what is wanted.
    unsure: BTreeSet<Arc<str>>,
    /// When the objects of nodes were last asked to be written.
    flushed_at: Option<Instant>,
    orders: Vec<Effect>,
    /// Times that a pod was judged, for the tests of what an event costs.
    #[cfg(test)]
    judged: usize,
    /// Times that the pods of a set were looked at, for them too.
    #[cfg(test)]
    planned: usize,
}

/// A namespace.
#[derive(Debug)]
struct Space {
    labels: Labels,
    /// The number of the list that showed it last.
    list: u32,
}

/// Object to look at again although nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wake {
    Set(Arc<str>),
    /// The objects of nodes are owed something.
    Flush,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// SidecarSets.
    pub sets: usize,
    /// Sets among them that cannot be carried out.
    pub refused: usize,
    /// Namespaces.
    pub namespaces: usize,
    /// NodePodUpdates.
    pub nodes: usize,
    /// Pods with sidecars, once for each set.
    pub members: usize,
}

impl Default for SidecarIndex {
    fn default() -> Self {
        Self {
            views: Views::default(),
            leads: None,
            begun: false,
            texts: Texts::default(),
            label_sets: LabelSets::default(),
            sets: BTreeMap::new(),
            narrow: HashMap::new(),
            wide: BTreeSet::new(),
            spaces: HashMap::new(),
            updates: PodUpdates::of(entry::KIND),
            nodes: HashMap::new(),
            silence: Silence::default(),
            deaf: None,
            webhooks: Webhooks::default(),
            filing: Filing::default(),
            timers: Timers::default(),
            touched: BTreeSet::new(),
            looked_at: None,
            unsure: BTreeSet::new(),
            flushed_at: None,
            orders: Vec::new(),
            #[cfg(test)]
            judged: 0,
            #[cfg(test)]
            planned: 0,
        }
    }
}

impl Index for SidecarIndex {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, change: &PodChange, _: &Pods, _: Now) {
        self.pod_changed(change);
    }

    fn apply(&mut self, object: &Object, pods: &Pods, now: Now) {
        match object {
            Object::SidecarSet(seen) => self.apply_set(seen, pods),
            Object::Namespace(seen) => self.apply_namespace(seen, pods),
            Object::NodePodUpdate(seen) => self.apply_updates(seen, now),
            // It is told of no other kinds.
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, _: &str, name: &str, pods: &Pods, _: Now) {
        match kind {
            Kind::SidecarSet => self.remove_set(name, pods),
            Kind::Namespace => self.remove_namespace(name, pods),
            Kind::NodePodUpdate => self.remove_updates(name),
            _ => {}
        }
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        self.vanished(kind)
    }

    /// Nothing: who leads looks at everything when all has been listed.
    fn list_ended(&mut self, _: bool, _: &Pods, _: Now) {}

    fn time_passed(&mut self, _: &Pods, now: Now) {
        while let Some(wake) = self.timers.due(now.instant) {
            match wake {
                Wake::Set(name) => drop(self.touched.insert(name)),
                // Whether something is owed is asked anyway.
                Wake::Flush => {}
            }
        }
        self.listen(now.instant);
    }

    fn leads(&mut self, _: &Pods, now: Now) {
        (self.leads, self.begun) = (Some(now.instant), false);
        self.silence.begin(now.instant);
        self.forget_orders();
        self.updates.leads();
    }

    fn rests(&mut self, _: &Pods, _: Now) {
        self.leads = None;
        self.forget_orders();
        self.forget_wishes();
    }

    fn lost(&mut self, target: &Target, now: Now) {
        let at = Some(later(now.instant, LOST_PAUSE));
        let name = &target.key.name;
        if target.kind == Kind::NodePodUpdate {
            self.updates.lost(name);
            self.flushed_at = at;
            self.timers.set(Wake::Flush, at);
        } else if let Some(known) = self.sets.get_mut(name) {
            known.sent = None;
            self.timers.set(Wake::Set(name.clone()), at);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next().into_iter().chain(self.silence.next()).min()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        self.settle(now)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.sidecarsets(self.size());
    }
}

impl SidecarIndex {
    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        Size {
            sets: self.sets.len(),
            refused: self.sets.values().filter(|known| known.rules.is_err()).count(),
            namespaces: self.spaces.len(),
            nodes: self.nodes.len(),
            members: self.sets.values().map(|known| known.pods.members.len()).sum(),
        }
    }
}
