//! The status of a budget as its pods are: who is available, and which permits still stand. Pure.
//!
//! A permit ends when its pod is seen to go. One that nothing came of ends after a while, counted from when
//! this replica saw it first, and not by the clock of who wrote it: clocks differ, and one that is taken back
//! too early would be given twice.

use std::{collections::HashMap, time::Instant};

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    permit::{DISRUPTED_FOR, UPDATED_FOR},
    spec::Budget,
};
use crate::{seen::PodStage, time::later};

/// A pod of the budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) stage: PodStage,
    pub(super) available: bool,
    /// Its containers are being made anew: a permit of it stands until that has ended.
    pub(super) held: bool,
}

/// Permits as this replica has seen them.
#[derive(Debug, Default)]
pub(super) struct Permits {
    known: HashMap<(Map, String), Permit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Map {
    Disrupted,
    Updated,
}

#[derive(Debug)]
struct Permit {
    /// When it was given, as its giver says: one that was given again is another one.
    given: Time,
    /// When this replica saw it first.
    since: Instant,
    /// Its pod was there.
    present: bool,
}

/// Facts that a status is computed from.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) generation: Option<i64>,
    /// Pods that the workloads want.
    pub(super) total: i32,
    /// The view of pods may be behind: no more of them are taken to be available than were.
    pub(super) doubted: bool,
    pub(super) pods: &'a [Member<'a>],
}

/// Computes the status, and when to look again.
pub(super) fn count(
    budget: &Budget,
    status: &Status,
    permits: &mut Permits,
    facts: &Facts,
    now: Instant,
) -> (Status, Option<Instant>) {
    let by_name: HashMap<&str, Member> = facts.pods.iter().map(|pod| (pod.name, *pod)).collect();
    let mut next = status.clone();
    let mut soonest = None;
    permits.known.retain(|(map, name), permit| {
        let given = match map {
            Map::Disrupted => status.disrupted_pods.get(name),
            Map::Updated => status.unavailable_pods.get(name),
        };
        given == Some(&permit.given)
    });
    for (map, entries, lasts) in [
        (Map::Disrupted, &mut next.disrupted_pods, DISRUPTED_FOR),
        (Map::Updated, &mut next.unavailable_pods, UPDATED_FOR),
    ] {
        entries.retain(|name, given| {
            let member = by_name.get(name.as_str());
            let key = (map, name.clone());
            let permit = permits.known.entry(key).or_insert_with(|| Permit {
                given: given.clone(),
                since: now,
                present: false,
            });
            let ends = later(permit.since, lasts);
            let held = map == Map::Updated && member.is_some_and(|member| member.held);
            let stands = (held || now < ends)
                && match member.map(|member| member.stage) {
                    Some(PodStage::Active) => true,
                    // Seen to go.
                    Some(PodStage::Terminating | PodStage::Finished) => false,
                    None => !permit.present,
                };
            permit.present |= member.is_some();
            if stands && now < ends {
                soonest = Some(soonest.map_or(ends, |soonest: Instant| soonest.min(ends)));
            }
            stands
        });
    }
    let counts = |pod: &&Member| {
        pod.available
            && pod.stage == PodStage::Active
            && !next.disrupted_pods.contains_key(pod.name)
            && !next.unavailable_pods.contains_key(pod.name)
    };
    let available = i32::try_from(facts.pods.iter().filter(counts).count()).unwrap_or(i32::MAX);
    let available = if facts.doubted { available.min(status.current_available) } else { available };
    let desired = budget.desired(facts.total);
    next.observed_generation = facts.generation;
    next.total_replicas = facts.total;
    next.desired_available = desired;
    next.current_available = available;
    next.unavailable_allowed = available.saturating_sub(desired).max(0);
    (next, soonest)
}
