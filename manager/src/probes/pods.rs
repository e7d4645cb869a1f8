//! The pods that count: scheduled, Initialized, not finished, not being deleted. By namespace, with its
//! markers: neither sees those of another.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use super::{
    marker::Marker,
    node::ProbedPod,
    pace::{Line, Pace},
    resolve::Selecting,
    shape::{Shape, Shapes},
    turns::Turns,
};
use crate::seen::{LabelSets, Labels, PodSeen, PodStage, Texts, Uid};

/// A namespace.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// By name.
    pub(super) pods: HashMap<Box<str>, Pod>,
    /// By name.
    pub(super) markers: BTreeMap<Arc<str>, Marker>,
    pub(super) turns: Turns,
    pub(super) pace: Pace,
    /// Markers whose status is owed.
    pub(super) line: Line,
}

/// A pod that counts. One of tens of thousands: nearly all of it is shared.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) uid: Uid,
    pub(super) node: Arc<str>,
    pub(super) labels: Labels,
    pub(super) shape: Arc<Shape>,
    pub(super) ip: Option<IpAddr>,
    /// Probes that its node is to have for it, if markers select it.
    pub(super) wanted: Option<Arc<ProbedPod>>,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

impl Pod {
    /// `None` for one that does not count.
    pub(super) fn new(
        seen: &PodSeen,
        list: u32,
        texts: &mut Texts,
        sets: &mut LabelSets,
        shapes: &mut Shapes,
    ) -> Option<Self> {
        let counts = seen.initialized && seen.stage == PodStage::Active;
        let node = seen.node.as_deref().filter(|node| counts && !node.is_empty())?;
        Some(Self {
            uid: seen.uid.as_str().into(),
            node: texts.one(node),
            labels: sets.one(&seen.labels, texts),
            shape: shapes.one(&seen.containers, texts),
            ip: seen.ip,
            wanted: None,
            list,
        })
    }

    /// Nothing that counts differs.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        // Both sets and shapes are there once.
        self.uid == other.uid
            && self.node == other.node
            && Arc::ptr_eq(&self.labels, &other.labels)
            && Arc::ptr_eq(&self.shape, &other.shape)
            && self.ip == other.ip
    }
}

impl Space {
    /// The markers that select these labels, the first made first.
    pub(super) fn selecting(&self, labels: &Labels) -> Vec<Selecting> {
        let matches = |marker: &&Marker| marker.active().is_some_and(|plan| plan.selector.matches(labels));
        let carried = self.turns.carried().filter_map(|(_, name)| self.markers.get(name));
        carried.filter(matches).filter_map(Marker::selecting).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.markers.is_empty()
    }
}
