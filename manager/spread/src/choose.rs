//! The subset of a new pod, and what a deletion gives back. Pure.
//!
//! The answer is a status to be written at the version that it was decided on: of two pods that come at once
//! one is decided anew. A status that nobody has counted yet is begun here, so a pod that comes with its
//! WorkloadSpread is placed too.

use berth_proto::crd::{SpreadSubsetStatus, WorkloadSpreadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{MOST_ENTRIES, Spread, count::is_open};

/// A pod that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its name, or what stands for it while it has none.
    pub pod: &'a str,
    /// Its number, of a workload that counts its pods.
    pub ordinal: Option<i64>,
    /// How many pods the workload wants at this moment.
    pub replicas: i32,
    /// The clock.
    pub now: Timestamp,
}

/// Subset of a new pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// This one, by its position, and nothing is written.
    Take(usize),
    /// This one, when the status has been written.
    Enter(usize, Box<WorkloadSpreadStatus>),
    /// None of them has room: the pod is made as it is.
    Nowhere,
    /// Too many pods are on their way: it is to be asked again.
    Crowded,
}

/// Chooses the subset of a new pod by the newest status.
pub fn choose(spread: &Spread, status: &WorkloadSpreadStatus, question: &Question) -> Choice {
    let Question { pod, ordinal, replicas, now } = *question;
    if spread.is_unlimited() {
        return Choice::Take(0);
    }
    let limits = spread.limits(replicas);
    let entry = |at: usize| {
        let name = &spread.subsets.get(at)?.name;
        status.subset_statuses.iter().find(|entry| entry.name == *name)
    };
    let takes = |at: usize| entry(at).is_none_or(is_open);
    if spread.target.is_ordered() {
        return by_number(&limits, ordinal, takes);
    }
    // A request that is tried again, or a pod of the same name as one that was let in a moment ago.
    if let Some(at) =
        (0..limits.len()).find(|at| entry(*at).is_some_and(|one| one.creating_pods.contains_key(pod)))
    {
        return Choice::Take(at);
    }
    let back = (0..limits.len()).find(|at| entry(*at).is_some_and(|one| one.deleting_pods.contains_key(pod)));
    let has_room = |at: &usize| {
        takes(*at)
            && match limits.get(*at).copied().flatten() {
                None => true,
                Some(limit) => missing(limit, entry(*at)) > 0,
            }
    };
    let Some(at) = back.or_else(|| (0..limits.len()).find(has_room)) else { return Choice::Nowhere };
    if limits.get(at).copied().flatten().is_none() {
        return Choice::Take(at);
    }
    if entry(at).is_some_and(|entry| entry.creating_pods.len() >= MOST_ENTRIES) {
        return Choice::Crowded;
    }
    let mut next = whole(spread, status, &limits);
    if let Some(entry) = next.subset_statuses.get_mut(at) {
        entry.deleting_pods.remove(pod);
        entry.creating_pods.insert(pod.to_owned(), seconds(now));
    }
    settle(&mut next, &limits);
    if spread.is_by_share() {
        next.observed_replicas = Some(replicas);
    }
    Choice::Enter(at, Box::new(next))
}

/// Gives a place back before the pod is seen to go: `None` if nothing is to be written.
pub fn release(
    spread: &Spread,
    status: &WorkloadSpreadStatus,
    (subset, pod): (&str, &str),
    now: Timestamp,
) -> Option<WorkloadSpreadStatus> {
    let at = spread.position(subset)?;
    if spread.target.is_ordered() || spread.subsets.get(at)?.limit.is_none() {
        return None;
    }
    let known = status.subset_statuses.iter().find(|entry| entry.name == subset)?;
    if known.deleting_pods.contains_key(pod) || known.deleting_pods.len() >= MOST_ENTRIES {
        return None;
    }
    // Nobody has counted of how many the shares are.
    if spread.is_by_share() && status.observed_replicas.is_none() {
        return None;
    }
    let limits = spread.limits(status.observed_replicas.unwrap_or(0));
    let mut next = whole(spread, status, &limits);
    next.subset_statuses.get_mut(at)?.deleting_pods.insert(pod.to_owned(), seconds(now));
    settle(&mut next, &limits);
    Some(next)
}

/// Chooses by its number: the first subset up to which there is room for so many.
fn by_number(limits: &[Option<i32>], ordinal: Option<i64>, takes: impl Fn(usize) -> bool) -> Choice {
    let Some(ordinal) = ordinal else { return Choice::Nowhere };
    let mut sum = 0_i64;
    for (at, limit) in limits.iter().enumerate().filter(|(at, _)| takes(*at)) {
        let Some(limit) = limit else { return Choice::Take(at) };
        sum = sum.saturating_add((*limit).into());
        if ordinal < sum {
            return Choice::Take(at);
        }
    }
    Choice::Nowhere
}

/// Places that a subset still has: never those of a number that was right once.
pub(crate) fn missing(limit: i32, entry: Option<&SpreadSubsetStatus>) -> i32 {
    let Some(entry) = entry else { return limit };
    let number = |map: usize| i32::try_from(map).unwrap_or(i32::MAX);
    let (creating, deleting) = (number(entry.creating_pods.len()), number(entry.deleting_pods.len()));
    let left = limit.saturating_sub(entry.replicas).saturating_add(deleting).saturating_sub(creating);
    left.clamp(0, limit.max(0))
}

/// The status with an entry for each subset, in their order, and none for others.
fn whole(spread: &Spread, status: &WorkloadSpreadStatus, limits: &[Option<i32>]) -> WorkloadSpreadStatus {
    let entry = |(at, subset): (usize, &crate::Subset)| {
        let known = status.subset_statuses.iter().find(|entry| entry.name == subset.name);
        known.cloned().unwrap_or_else(|| SpreadSubsetStatus {
            name: subset.name.clone(),
            missing_replicas: limits.get(at).copied().flatten().unwrap_or(-1),
            ..SpreadSubsetStatus::default()
        })
    };
    let subset_statuses = spread.subsets.iter().enumerate().map(entry).collect();
    WorkloadSpreadStatus { subset_statuses, ..status.clone() }
}

/// Writes what is missing into each entry.
pub(crate) fn settle(status: &mut WorkloadSpreadStatus, limits: &[Option<i32>]) {
    for (entry, limit) in status.subset_statuses.iter_mut().zip(limits) {
        entry.missing_replicas = limit.map_or(-1, |limit| missing(limit, Some(entry)));
    }
}

/// Times of the API are of whole seconds.
pub(crate) fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
