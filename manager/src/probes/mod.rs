//! The pure core for probes: PodProbeMarkers, pods and NodePodProbes in, writes that are owed out.
//!
//! ```text
//!  watches ── apply / remove / pod_changed / list_ended ──▶ ProbeIndex ──▶ Vec<Effect> ──▶ writer
//!  clock ──── time_passed, at next_deadline ─────────▶
//!  lease ──── leads: from now on; rests: no more ─────▶
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients: `now` is an argument, a write
//! is a value. It says what each node is to probe and what each outcome is to write; the node's agent does
//! both, and the manager never touches a pod.
//!
//! - `spec`, `handler`, `names`: what a marker asks for, and whether that can be done;
//! - `marker`, `pods`, `node`: what is remembered;
//! - `queue`: which markers of a namespace are carried out; `room`: which probes a node has, if not all of
//!   them fit;
//! - `resolve`: what markers come to on a pod;
//! - `pace`: how fast the statuses of a namespace's markers are written;
//! - `objects` takes facts in, `settle` says what is owed, `status` what a marker says.
//!
//! Costs: an event of a pod evaluates the selectors of its namespace, and nothing if nothing that counts has
//! changed. A marker that comes, goes or changes looks at the pods of its namespace. A NodePodProbe is
//! compared with what is wanted of its node. Nothing costs markers × pods but the start.
//!
//! Invariants:
//! - nothing is decided before all kinds have been listed once, or while this replica does not lead;
//! - a marker that cannot be carried out asks nothing of any node, takes nothing from other markers, and says
//!   why;
//! - what one probe has on a pod, a condition, a label or an annotation, no other writes there: the marker
//!   made first has it, then the first by name, and in a marker the first of its probes;
//! - neither a namespace with too many markers nor one with too large ones takes from another what fits there
//!   (`room`); a marker that waits says so, and comes in when there is room, a large one by the next list;
//! - a write is asked for once for each version of an object and content, and again only if it was lost or
//!   the lease came anew. A NodePodProbe is written to once in [`SETTLE`] at the most, a marker once in
//!   [`WRITTEN_EVERY`], the first time at once;
//! - the markers of one namespace are written to as fast as `pace` says: thousands of them leave the API
//!   server to others.

mod handler;
mod marker;
mod names;
mod node;
mod objects;
mod pace;
mod pods;
mod queue;
mod resolve;
mod room;
mod settle;
mod spec;
mod status;
mod write;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use self::{marker::Serial, node::Node, pods::Space, resolve::Resolver};
pub use self::{
    node::ProbedPod,
    write::{MarkerWrite, NodeAct, NodeProbesWrite},
};
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    store::{Key, Kind, Now, Object, PodChange, Pods, Texts, Views},
    time::later,
    timers::Timers,
    write::{Target, Write},
};

/// A NodePodProbe is written once in it at the most: the pods of a rollout come one after the other.
pub const SETTLE: Duration = Duration::from_millis(200);
/// The status of a marker is written once in it at the most.
pub const WRITTEN_EVERY: Duration = Duration::from_millis(500);
/// Time to wait for the effect of a write, which is seen in the next version of its object. A write of which
/// nothing is seen for so long had no effect.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);

/// The kinds by which probes are decided.
const KINDS: &[Kind] = &[Kind::Pod, Kind::PodProbeMarker, Kind::NodePodProbe];

/// Index of probes: the manager's knowledge of them, and the writes that follow from it.
#[derive(Debug, Default)]
pub struct ProbeIndex {
    views: Views,
    /// Since when this replica may write.
    leads: Option<Instant>,
    /// It knows enough to decide, and has looked at everything since.
    decides: bool,
    texts: Texts,
    resolver: Resolver,
    serial: Serial,
    spaces: HashMap<Arc<str>, Space>,
    nodes: HashMap<Arc<str>, Node>,
    timers: Timers<Wake>,
    /// Markers and nodes to look at before the call returns.
    touched: BTreeSet<Key>,
    dirty: BTreeSet<Arc<str>>,
    /// Namespaces with markers whose turn it may be.
    turns: BTreeSet<Arc<str>>,
    /// Markers have their turn whose plan was not kept.
    misses_plans: bool,
    orders: Vec<Write>,
    /// Evaluations of selectors on pods, for the tests of what an event costs.
    #[cfg(test)]
    evaluations: usize,
    /// Markers whose status was worked out, for the same.
    #[cfg(test)]
    looked_at: usize,
}

/// Object to look at again although nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wake {
    Marker(Key),
    Node(Arc<str>),
    /// The markers of a namespace that wait for their turn.
    Turn(Arc<str>),
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// PodProbeMarkers.
    pub markers: usize,
    /// Markers among them that cannot be carried out, or wait.
    pub refused: usize,
    /// NodePodProbes.
    pub nodes: usize,
    /// Pods that are probed.
    pub probed: usize,
}

impl Index for ProbeIndex {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, change: &PodChange, pods: &Pods, _: Now) {
        self.pod_changed(change, pods);
    }

    fn apply(&mut self, object: &Object, pods: &Pods, _: Now) {
        match object {
            Object::PodProbeMarker(seen) => self.apply_marker(seen, pods),
            Object::NodePodProbe(seen) => self.apply_node_probes(seen),
            // It is told of no other kinds.
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, pods: &Pods, _: Now) {
        match kind {
            Kind::PodProbeMarker => self.remove_marker(namespace, name, pods),
            Kind::NodePodProbe => self.remove_node_probes(name),
            _ => {}
        }
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        self.vanished(kind)
    }

    fn list_ended(&mut self, _: bool, _: &Pods, _: Now) {}

    fn time_passed(&mut self, _: &Pods, now: Now) {
        while let Some(wake) = self.timers.due(now.instant) {
            match wake {
                Wake::Marker(key) => drop(self.touched.insert(key)),
                Wake::Node(name) => drop(self.dirty.insert(name)),
                Wake::Turn(namespace) => drop(self.turns.insert(namespace)),
            }
        }
    }

    fn leads(&mut self, _: &Pods, now: Now) {
        (self.leads, self.decides) = (Some(now.instant), false);
        self.forget_orders();
    }

    fn rests(&mut self, _: &Pods, _: Now) {
        (self.leads, self.decides) = (None, false);
        self.forget_orders();
    }

    fn lost(&mut self, target: &Target, now: Now) {
        let at = Some(later(now.instant, LOST_PAUSE));
        let Target { kind, key } = target;
        if *kind == Kind::NodePodProbe {
            if let Some(shown) = self.nodes.get_mut(&key.name).and_then(|node| node.shown.as_mut()) {
                shown.sent = None;
                self.timers.set(Wake::Node(key.name.clone()), at);
            }
        } else if let Some(space) = self.spaces.get_mut(&key.namespace)
            && let Some(marker) = space.markers.get_mut(&key.name)
        {
            marker.sent = None;
            self.timers.set(Wake::Marker(key.clone()), at);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        self.settle(now).into_iter().map(Effect::Write).collect()
    }

    fn count(&self, metrics: &Metrics) {
        metrics.probes(self.size());
    }
}

impl ProbeIndex {
    /// Tells whether markers have got their turn since this was asked last of which all is to be shown again.
    pub(crate) fn takes_list(&mut self) -> bool {
        std::mem::take(&mut self.misses_plans)
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let markers = || self.spaces.values().flat_map(|space| space.markers.values());
        Size {
            markers: markers().count(),
            refused: markers().filter(|marker| marker.plan.is_err() || marker.waits).count(),
            nodes: self.nodes.values().filter(|node| node.shown.is_some()).count(),
            probed: self.nodes.values().map(|node| node.wanted.len()).sum(),
        }
    }
}
