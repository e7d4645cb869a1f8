//! The status of a budget as its pods are: who is available, and which permits still stand. Pure.
//!
//! A permit ends when its pod is seen to go: later than the permit was written, as the versions say, or it
//! was one of the same name before it. (Both kinds are in one etcd; where they are not, permits end a little
//! later or, as without versions, a little early.) One that nothing came of ends after a while. That is
//! counted from when this replica saw it first, not by the clock of who wrote it: clocks differ. One that is
//! taken back too early would be given twice.

use std::{collections::HashMap, time::Instant};

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    permit::{DISRUPTED_FOR, UPDATED_FOR},
    spec::Budget,
};
use crate::{store::PodStage, time::later};

/// A pod of the budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) stage: PodStage,
    /// Version that showed it to go first; 0 while none has.
    pub(super) ends: u64,
    pub(super) available: bool,
    /// Its containers are being made anew: a permit of it stands until that has ended.
    pub(super) held: bool,
}

/// Permits as this replica has seen them, by pod.
#[derive(Debug, Default)]
pub(super) struct Permits {
    disrupted: HashMap<String, Permit>,
    updated: HashMap<String, Permit>,
}

#[derive(Debug)]
struct Permit {
    /// When it was given, as its giver says: one that was given again is another one.
    given: Time,
    /// Version of the budget that showed it first.
    version: u64,
    /// When this replica counted it first.
    since: Option<Instant>,
    /// Its pod was there.
    present: bool,
}

impl Permits {
    /// Takes note of the permits of a version of the budget, and forgets those that are not in it.
    pub(super) fn note(&mut self, status: &Status, version: u64) {
        for (known, entries) in
            [(&mut self.disrupted, &status.disrupted_pods), (&mut self.updated, &status.unavailable_pods)]
        {
            known.retain(|name, permit| entries.get(name) == Some(&permit.given));
            for (name, given) in entries {
                if !known.contains_key(name) {
                    let permit = Permit { given: given.clone(), version, since: None, present: false };
                    known.insert(name.clone(), permit);
                }
            }
        }
    }
}

impl Permit {
    /// Tells whether it stands by what its pod does, which may not be seen yet.
    fn stands(&mut self, member: Option<&Member>) -> bool {
        let Some(member) = member else { return !self.present };
        // One of its name that went before it was given.
        let is_another = member.stage != PodStage::Active && member.ends > 0 && member.ends < self.version;
        self.present = !is_another;
        is_another || member.stage == PodStage::Active
    }
}

/// Facts that a status is computed from.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) generation: Option<i64>,
    /// Version of the budget.
    pub(super) version: u64,
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
    permits.note(status, facts.version);
    let Permits { disrupted, updated } = permits;
    for (known, entries, lasts, may_be_held) in [
        (disrupted, &mut next.disrupted_pods, DISRUPTED_FOR, false),
        (updated, &mut next.unavailable_pods, UPDATED_FOR, true),
    ] {
        entries.retain(|name, _| {
            let member = by_name.get(name.as_str());
            let Some(permit) = known.get_mut(name) else { return true };
            let ends = later(*permit.since.get_or_insert(now), lasts);
            let held = may_be_held && member.is_some_and(|member| member.held);
            let stands = permit.stands(member) && (held || now < ends);
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
