//! A PodProbeMarker, and what is counted of the pods it selects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use berth_proto::crd::PodProbeMarkerStatus;
use jiff::Timestamp;

use super::{
    pace::Ticket,
    queue::Rank,
    resolve::{Problem, Selecting},
    spec::Plan,
};

/// Number of a spec with its place in the order: no two have the same, so a result that was worked out for
/// one counts for no other.
pub(super) type Serial = u64;

/// The plan of one that waits is kept if it takes no more.
const SMALL: usize = 8 << 10;

/// A marker.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) name: Arc<str>,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) generation: Option<i64>,
    /// Creation time. Of two markers that name the same thing, the one made first has it.
    pub(super) created: Option<Timestamp>,
    /// Its deletion has begun: it asks for nothing any more.
    pub(super) deleting: bool,
    /// The plan, or what is wrong with the spec.
    pub(super) plan: Result<Arc<Plan>, Box<str>>,
    pub(super) serial: Serial,
    /// Bytes of memory that its plan takes, about.
    pub(super) weight: usize,
    /// There are too many before it in its namespace, or its plan is not known yet.
    pub(super) waits: bool,
    /// On how many pods of which node there is no room for its probes.
    pub(super) crowded: BTreeMap<Arc<str>, usize>,
    /// Its status as shown; `None` is none that this manager could have written, and is left alone.
    pub(super) shown: Option<PodProbeMarkerStatus>,
    /// Pods.
    pub(super) matched: usize,
    /// Problems, and the pods they are on.
    pub(super) problems: BTreeMap<Problem, BTreeSet<Box<str>>>,
    /// Status that was last asked to be written, and on which version.
    pub(super) sent: Option<(Box<str>, PodProbeMarkerStatus)>,
    /// When that was.
    pub(super) sent_at: Option<Instant>,
    /// Its place among those that wait for their turn.
    pub(super) ticket: Option<Ticket>,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

impl Marker {
    /// Its plan, if it is to be carried out.
    pub(super) fn active(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref().ok().filter(|_| !self.deleting && !self.waits)
    }

    /// Tells whether its plan was not kept while it waited.
    pub(super) fn is_bare(&self) -> bool {
        self.plan.as_ref().is_ok_and(|plan| plan.probes.is_empty())
    }

    /// Forgets the plan of a large one that waits. It comes with the next list.
    pub(super) fn forget_plan(&mut self) {
        if self.waits && self.weight > SMALL && self.plan.is_ok() {
            self.plan = Ok(Arc::new(Plan::bare()));
        }
    }

    /// Its place among those of its namespace, if it makes sense.
    pub(super) fn rank(&self) -> Option<Rank> {
        (self.plan.is_ok() && !self.deleting).then(|| (self.created, self.name.clone()))
    }

    /// Part of it that a pod needs which it selects.
    pub(super) fn selecting(&self) -> Option<Selecting> {
        let plan = self.active()?.clone();
        Some(Selecting { rank: (self.created, self.name.clone()), serial: self.serial, plan })
    }

    /// A pod is selected from now on, with these problems of this marker.
    pub(super) fn add<'a>(&mut self, pod: &str, problems: impl Iterator<Item = &'a Problem>) {
        self.matched += 1;
        for problem in problems {
            self.problems.entry(problem.clone()).or_default().insert(pod.into());
        }
    }

    /// A pod that was added with these problems is not any more.
    pub(super) fn remove<'a>(&mut self, pod: &str, problems: impl Iterator<Item = &'a Problem>) {
        self.matched = self.matched.saturating_sub(1);
        for problem in problems {
            if let Some(pods) = self.problems.get_mut(problem) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.problems.remove(problem);
                }
            }
        }
    }
}
