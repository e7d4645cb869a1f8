//! Work that `berth-workloads` does for a WorkloadSpread: costs of deletion, pods that were there before, and
//! pods that move on. Pure.

use std::cmp::{Ordering, Reverse};

use berth_proto::crd::WorkloadSpreadStatus;
use jiff::Timestamp;

use crate::{
    Spread,
    count::{is_open, waited},
    inject::Matched,
};

/// One subset further costs this.
const STEP: i32 = 100;

/// A pod of the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSeen {
    /// Its UID.
    pub uid: String,
    /// Its subset, and the WorkloadSpread that it names.
    pub matched: Option<Matched>,
    /// It has not ended, and is not going.
    pub active: bool,
    /// It has a node.
    pub assigned: bool,
    /// Phase: Pending, Unknown, then Running.
    pub phase: u8,
    /// It is ready.
    pub ready: bool,
    /// Since when it is ready, in seconds.
    pub ready_since: Option<i64>,
    /// The most restarts of one of its containers.
    pub restarts: i32,
    /// When it was made, in seconds.
    pub created: i64,
    /// The scheduler finds no node for it.
    pub unschedulable: bool,
    /// Its cost as it is.
    pub cost: Option<String>,
}

/// A pod, its position among those given, and what is to become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// It gets this cost.
    Cost(usize, i32),
    /// It waits for a node in a subset that takes no more: it is deleted, and its workload makes another one.
    Delete(usize),
}

/// Work to be done for a WorkloadSpread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpreadPlan {
    /// Costs first, then deletions.
    pub moves: Vec<Move>,
    /// Pods of no subset that have a node: each may be of one.
    pub strangers: Vec<usize>,
    /// Places that are left for them.
    pub room: Room,
    /// When to look again, in seconds.
    pub again: Option<i64>,
}

/// Places that the subsets still have, in their order; those without a limit have as many as come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room(Vec<Option<i32>>);

/// Fit of a pod into one subset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Its node is one of the subset.
    pub holds: bool,
    /// Weights of the preferred rules that hold.
    pub weight: i64,
    /// The patch changes nothing of it.
    pub merged: bool,
    /// The subset has room.
    pub room: bool,
}

/// Chooses the subset of a pod that was there before: the best one, the first of equals.
pub fn adopt(fits: &[Fit]) -> Option<usize> {
    let score = |fit: &Fit| {
        fit.weight
            .saturating_mul(100)
            .saturating_add(if fit.merged { 10 } else { 0 })
            .saturating_add(i64::from(fit.room))
    };
    let holding = fits.iter().enumerate().filter(|(_, fit)| fit.holds);
    holding.max_by_key(|(at, fit)| (score(fit), Reverse(*at))).map(|(at, _)| at)
}

/// Decides on the pods of one workload. `replicas`: how many it wants, where a share follows from it.
pub fn plan(
    name: &str,
    spread: &Spread,
    status: &WorkloadSpreadStatus,
    pods: &[PodSeen],
    replicas: Option<i32>,
    now: Timestamp,
) -> SpreadPlan {
    let mut plan = SpreadPlan::default();
    let subset = |pod: &PodSeen| {
        let matched = pod.matched.as_ref().filter(|matched| matched.name == name)?;
        Some(spread.position(&matched.subset))
    };
    // Without the number that shares are of nobody can be too many, and nobody knows where there is room.
    let known = !spread.is_by_share() || replicas.is_some();
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); spread.subsets.len()];
    let mut lost = Vec::new();
    for (at, pod) in pods.iter().enumerate().filter(|(_, pod)| pod.active) {
        match subset(pod) {
            Some(Some(position)) => groups.get_mut(position).into_iter().for_each(|group| group.push(at)),
            // Its subset is gone.
            Some(None) => lost.push(at),
            None if pod.assigned && known => plan.strangers.push(at),
            // It waits for a node: all controllers let such pods go first.
            None => {}
        }
    }
    let limits = spread.limits(replicas.unwrap_or(0));
    let left = |(limit, group): (&Option<i32>, &Vec<usize>)| {
        limit.map(|limit| limit.saturating_sub(i32::try_from(group.len()).unwrap_or(i32::MAX)))
    };
    plan.room = Room(limits.iter().zip(&groups).map(left).collect());
    let mut costs = Vec::new();
    if spread.target.obeys_costs() && known {
        for ((position, group), limit) in groups.iter().enumerate().zip(limits) {
            let mut group = group.clone();
            // Those that stay come first.
            group.sort_by(|one, other| order(pods.get(*one), pods.get(*other)));
            let stay = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
            let [cost, over] = [true, false].map(|stays| of_subset(spread, position, stays));
            costs.extend(
                group.iter().enumerate().map(|(rank, at)| (*at, if rank < stay { cost } else { over })),
            );
        }
        costs.extend(lost.iter().map(|at| (*at, of_nobody(spread))));
    }
    for (at, cost) in costs {
        if pods.get(at).is_some_and(|pod| pod.cost.as_deref() != Some(&cost.to_string())) {
            plan.moves.push(Move::Cost(at, cost));
        }
    }
    let last = spread.subsets.len().saturating_sub(1);
    let Some(limit) = spread.reschedule.filter(|_| spread.adaptive) else { return plan };
    for (position, group) in groups.iter().enumerate().filter(|(position, _)| *position != last) {
        let name = spread.subsets.get(position).map(|subset| subset.name.as_str());
        let closed =
            status.subset_statuses.iter().any(|entry| Some(entry.name.as_str()) == name && !is_open(entry));
        for at in group {
            let Some(pod) = pods.get(*at) else { continue };
            match waited(pod.unschedulable && !pod.assigned, pod.created, limit, now) {
                // Not before its subset takes no more: the next one would be put there again.
                Some(0) if closed => plan.moves.push(Move::Delete(*at)),
                Some(left) if left > 0 => plan.again = Some(plan.again.map_or(left, |again| again.min(left))),
                _ => {}
            }
        }
    }
    plan
}

/// Decides on a pod of a subset: one that is over its limit goes before all that stay.
fn of_subset(spread: &Spread, at: usize, stays: bool) -> i32 {
    let [n, position] = [spread.subsets.len(), at].map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    if stays {
        STEP.saturating_mul(n.saturating_sub(position))
    } else {
        STEP.saturating_mul(position.saturating_add(1)).saturating_neg()
    }
}

/// Decides on a pod of no subset: one that fits none goes before all others.
pub(crate) fn of_nobody(spread: &Spread) -> i32 {
    let n = i32::try_from(spread.subsets.len()).unwrap_or(i32::MAX);
    STEP.saturating_mul(n.saturating_add(1)).saturating_neg()
}

impl Room {
    /// Says whether a subset has a place.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|left| left.is_none_or(|left| left > 0))
    }

    /// Takes a place of a subset: the next pod is asked about with one less.
    pub fn take(&mut self, at: usize) {
        if let Some(Some(left)) = self.0.get_mut(at) {
            *left = left.saturating_sub(1);
        }
    }
}

impl Spread {
    /// Cost of a pod that a subset gets, which has room for it or has not; `None` where costs count for
    /// nothing.
    pub fn cost_of(&self, at: usize, has_room: bool) -> Option<i32> {
        self.target.obeys_costs().then(|| of_subset(self, at, has_room))
    }

    /// Cost of a pod that fits no subset; `None` where costs count for nothing.
    pub fn cost_of_nobody(&self) -> Option<i32> {
        self.target.obeys_costs().then(|| of_nobody(self))
    }
}

/// Order of those that stay: the contrary of that in which pods are deleted.
fn order(one: Option<&PodSeen>, other: Option<&PodSeen>) -> Ordering {
    let (Some(one), Some(other)) = (one, other) else { return Ordering::Equal };
    // No time says that it has just become ready.
    let ready = |pod: &PodSeen| pod.ready_since.unwrap_or(i64::MAX);
    other
        .assigned
        .cmp(&one.assigned)
        .then(other.phase.cmp(&one.phase))
        .then(other.ready.cmp(&one.ready))
        .then_with(|| if one.ready { ready(one).cmp(&ready(other)) } else { Ordering::Equal })
        .then(one.restarts.cmp(&other.restarts))
        .then(one.created.cmp(&other.created))
        .then_with(|| one.uid.cmp(&other.uid))
}
