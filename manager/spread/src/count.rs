//! The status of a WorkloadSpread as its pods are. Pure.
//!
//! An entry of a pod that is on its way ends when its pod is seen. One that nothing came of ends after a
//! while, counted from when this replica saw it first, and not by the clock of who wrote it: clocks differ,
//! and a place that is taken back too early would be given twice.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use berth_proto::crd::{SpreadSubsetCondition, SpreadSubsetStatus, WorkloadSpreadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    SCHEDULABLE, Spread,
    choose::{seconds, settle},
};

/// A pod that was let in and is not seen within it does not come.
const CREATED_WITHIN: Duration = Duration::from_secs(30);
/// A pod whose deletion was let through and that is still there after it does not go.
const DELETED_WITHIN: Duration = Duration::from_secs(15);
/// Seconds for which a subset takes no new pods after one could not be scheduled in it.
const RESTS: i64 = 300;

/// A pod of the WorkloadSpread.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name that it was let in by, where it had none of its own.
    pub entry: &'a str,
    /// Its subset.
    pub subset: &'a str,
    /// It has not ended, and is not going.
    pub active: bool,
    /// The scheduler finds no node for it.
    pub unschedulable: bool,
    /// When it was made, in seconds.
    pub created: i64,
}

/// Entries of pods that are on their way, and since when this replica knows them.
#[derive(Debug, Default)]
pub struct Ages {
    known: HashMap<(Map, String), (Time, Instant)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Map {
    Creating,
    Deleting,
}

/// Facts that a status is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Pods that the workload wants; 0 if it is gone.
    pub replicas: i32,
    /// Its pods.
    pub pods: &'a [Member<'a>],
}

/// A status, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// All of the status.
    pub status: WorkloadSpreadStatus,
    /// When to count again, if nothing happens.
    pub again: Option<Duration>,
    /// Told to people.
    pub notes: Vec<Note>,
}

/// News of a WorkloadSpread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// For programs.
    pub reason: &'static str,
    /// Whether something is wrong.
    pub warning: bool,
    /// For people.
    pub text: String,
}

/// Says whether a subset takes new pods.
pub fn is_open(entry: &SpreadSubsetStatus) -> bool {
    !entry.conditions.iter().any(|one| one.type_ == SCHEDULABLE && one.status == "False")
}

/// Says whether a pod has waited for a node for too long; or when it will have.
pub(crate) fn waited(unschedulable: bool, created: i64, limit: i64, now: Timestamp) -> Option<i64> {
    unschedulable.then(|| limit.saturating_sub(now.as_second().saturating_sub(created)).max(0))
}

/// Counts the pods of a WorkloadSpread.
pub fn count(
    spread: &Spread,
    status: &WorkloadSpreadStatus,
    ages: &mut Ages,
    facts: &Facts,
    (instant, now): (Instant, Timestamp),
) -> Counted {
    let mut soonest: Option<Duration> = None;
    let mut notes = Vec::new();
    let mut again =
        |left: Duration| soonest = Some(soonest.map_or(left, |soonest: Duration| soonest.min(left)));
    let known = |name: &str| status.subset_statuses.iter().find(|entry| entry.name == name);
    ages.forget(status);
    let last = spread.subsets.len().saturating_sub(1);
    let mut entries = Vec::with_capacity(spread.subsets.len());
    for (at, subset) in spread.subsets.iter().enumerate() {
        let mut entry = known(&subset.name).cloned().unwrap_or_default();
        entry.name.clone_from(&subset.name);
        let members = || facts.pods.iter().filter(|pod| pod.subset == subset.name);
        let active: BTreeSet<&str> = members().filter(|pod| pod.active).map(|pod| pod.name).collect();
        // Whatever became of it: it was seen.
        let seen: BTreeSet<&str> = members().flat_map(|pod| [pod.name, pod.entry]).collect();
        entry.replicas = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let mut stays = |map: Map, name: &str, given: &Time, within: Duration| {
            let age = ages.age(map, name, given, instant);
            let stays = age < within;
            if stays {
                again(within.saturating_sub(age));
            }
            stays
        };
        entry.creating_pods.retain(|name, given| {
            if seen.contains(name.as_str()) {
                return false;
            }
            let stays = stays(Map::Creating, name, given, CREATED_WITHIN);
            if !stays {
                notes.push(told(
                    "CreatePodFailed",
                    format!("pod {name} was let into subset {} and did not come", subset.name),
                ));
            }
            stays
        });
        entry.deleting_pods.retain(|name, given| {
            if !active.contains(name.as_str()) {
                return false;
            }
            let stays = stays(Map::Deleting, name, given, DELETED_WITHIN);
            if !stays {
                notes.push(told(
                    "DeletePodFailed",
                    format!(
                        "the deletion of pod {name} of subset {} was let through, and it is still there",
                        subset.name
                    ),
                ));
            }
            stays
        });
        if spread.adaptive {
            let waiting = members()
                .filter(|pod| pod.active)
                .filter_map(|pod| waited(pod.unschedulable, pod.created, spread.reschedule?, now));
            let left = waiting.min().filter(|_| at != last);
            if let Some(left) = left.filter(|left| *left > 0) {
                again(Duration::from_secs(left.unsigned_abs()));
            }
            if let Some(rest) = schedulable(&mut entry, left == Some(0), now, &mut notes) {
                again(rest);
            }
        } else {
            entry.conditions.retain(|one| one.type_ != SCHEDULABLE);
        }
        entries.push(entry);
    }
    let mut next = status.clone();
    next.observed_generation = facts.generation;
    next.observed_replicas = spread.is_by_share().then_some(facts.replicas.max(0));
    next.subset_statuses = entries;
    settle(&mut next, &spread.limits(facts.replicas));
    Counted { status: next, again: soonest, notes }
}

/// Says whether the subset takes new pods; and how long it does not yet.
fn schedulable(
    entry: &mut SpreadSubsetStatus,
    full: bool,
    now: Timestamp,
    notes: &mut Vec<Note>,
) -> Option<Duration> {
    let known = entry.conditions.iter().find(|one| one.type_ == SCHEDULABLE);
    let closed = known.filter(|one| one.status == "False");
    let since = closed.and_then(|one| one.last_transition_time.as_ref());
    let rested = since.map_or(0, |since| now.as_second().saturating_sub(since.0.as_second()).max(0));
    let left = RESTS.saturating_sub(rested).max(0);
    let open = !full && (closed.is_none() || left == 0);
    if closed.is_some() && open {
        notes.push(Note {
            reason: "RecoverSchedulable",
            warning: false,
            text: format!("subset {} takes new pods again", entry.name),
        });
    }
    let is_news = known.is_none_or(|one| (one.status == "True") != open);
    if is_news {
        entry.conditions.retain(|one| one.type_ != SCHEDULABLE);
        entry.conditions.push(SpreadSubsetCondition {
            type_: SCHEDULABLE.to_owned(),
            status: if open { "True" } else { "False" }.to_owned(),
            last_transition_time: Some(seconds(now)),
            reason: None,
            message: (!open).then(|| "pods of it find no node; it takes no new ones for a while".to_owned()),
        });
        return (!open).then(|| Duration::from_secs(RESTS.unsigned_abs()));
    }
    // One that stays full is told of by its pods.
    (!open && left > 0).then(|| Duration::from_secs(left.unsigned_abs()))
}

fn told(reason: &'static str, text: String) -> Note {
    Note { reason, warning: true, text }
}

impl Ages {
    /// Returns how long this replica has known an entry.
    fn age(&mut self, map: Map, name: &str, given: &Time, now: Instant) -> Duration {
        let known = self.known.entry((map, name.to_owned())).or_insert_with(|| (given.clone(), now));
        if known.0 != *given {
            *known = (given.clone(), now);
        }
        now.saturating_duration_since(known.1)
    }

    /// Forgets the entries that the status does not have any more.
    fn forget(&mut self, status: &WorkloadSpreadStatus) {
        let mut there = BTreeSet::new();
        for entry in &status.subset_statuses {
            there.extend(entry.creating_pods.keys().map(|name| (false, name.as_str())));
            there.extend(entry.deleting_pods.keys().map(|name| (true, name.as_str())));
        }
        self.known.retain(|(map, name), _| there.contains(&(*map == Map::Deleting, name.as_str())));
    }
}
