//! Verdict on the requests of a pod that are carried out as one update: on all of them, and where it is an
//! end or a way back on those of each owner, which succeed and fail for themselves.

use std::{collections::BTreeMap, time::Instant};

use super::{before, merge};
use crate::{
    in_place_update::{
        ContainerView, FailureReason, Next, Observed, Presence, Record, Update, UpdateReport, UpdateRequest,
        answer::{Judged, going_on, told},
        apart::{Alone, apart, is_blamed},
        decide,
        diff::Diff,
        groups::{by_owner, by_way},
        records,
    },
    model::{ContainerName, RequestId},
};

/// Decides on the next step of an update; where failures are ignored, without the containers that cannot be
/// updated.
pub(super) fn judge(update: Update, ignore_failures: bool, seen: &Observed, now: Instant) -> Judged {
    let (update, judged, skipped) = match ignore_failures {
        true => reduced(update, seen),
        false => (update, seen.clone(), BTreeMap::new()),
    };
    (decide::next(&update, &judged, now), skipped)
}

/// Returns the reports that the verdict on all of them makes, and the step to take; `None` where some end or
/// go back first.
pub(super) fn outcome(
    open: &[&UpdateRequest],
    (next, skipped): Judged,
    pod: &Observed,
    seen: &Observed,
    now: Instant,
) -> (Vec<(RequestId, UpdateReport)>, Option<Next>) {
    let is_whole = next == Next::Done && skipped.is_empty();
    let goes_back = matches!(next, Next::RollBack(..)) || open.iter().any(|request| request.is_going_back());
    let owners = if goes_back { by_way(open) } else { by_owner(open) };
    if owners.len() > 1 && !is_whole {
        let judged = owners.iter().map(|open| (open, alone(open, pod, now))).collect();
        return outcome_of_several(open, (next, skipped), judged, seen, now);
    }
    match next {
        Next::Done | Next::Failed(_) | Next::RollBack(..) => (told(open, &(next, skipped), seen, now), None),
        next => {
            let told = open.iter().map(|request| going_on(request, &next, seen, &skipped)).collect();
            (told, Some(records::parted(next, open, seen)))
        }
    }
}

/// The same where there are several owners, with the verdict on each of them.
fn outcome_of_several(
    open: &[&UpdateRequest],
    (next, skipped): Judged,
    judged: Vec<Alone<'_>>,
    seen: &Observed,
    now: Instant,
) -> (Vec<(RequestId, UpdateReport)>, Option<Next>) {
    let blamed = is_blamed(&judged);
    match next {
        Next::Failed(ref failure) | Next::RollBack(_, ref failure)
            if failure.reason == FailureReason::CrashLoop && !blamed =>
        {
            apart(judged, seen, now)
        }
        // One owner's failure is not that of the others, and what one leaves out another need not bear.
        Next::Done | Next::Failed(_) | Next::RollBack(..) => {
            let of_all = (next, skipped);
            let told = judged.iter().flat_map(|(open, alone)| match (&alone.0, blamed) {
                (Next::Failed(_) | Next::RollBack(..), true) => told(open, alone, seen, now),
                (_, true) => Vec::new(),
                (_, false) => told(open, &of_all, seen, now),
            });
            (told.collect(), None)
        }
        next => {
            // One that is as wanted does not wait for the others.
            let told = judged.iter().flat_map(|(open, alone)| match &alone.0 {
                Next::Done => told(open, alone, seen, now),
                _ => open.iter().map(|request| going_on(request, &next, seen, &skipped)).collect(),
            });
            let told: Vec<_> = told.collect();
            let ends = told.iter().any(|(_, report)| report.outcome.is_some());
            (told, (!ends).then(|| records::parted(next, open, seen)))
        }
    }
}

/// The next step if these requests, of one owner, were the only ones.
fn alone(open: &[&UpdateRequest], pod: &Observed, now: Instant) -> Judged {
    let Some(newest) = open.last() else { return (Next::Done, BTreeMap::new()) };
    let seen = Observed { before: before(open), ..records::view(open, pod) };
    judge(merge(open, &seen, newest), newest.ignore_failures, &seen, now)
}

/// Takes out the containers that cannot be updated: returns what is wanted then, of which pod, and why they
/// cannot.
fn reduced(mut update: Update, seen: &Observed) -> (Update, Observed, BTreeMap<ContainerName, String>) {
    let own = seen.record.as_ref().filter(|record| record.is_of(&update.revision));
    let moved = |name: &ContainerName| own.is_some_and(|record: &Record| record.has_moved(name));
    let diff = Diff::of(&update, seen);
    let ended = |container: &&ContainerView| {
        container.has_ended() && (diff.changes.contains_key(&container.name) || moved(&container.name))
    };
    let mut skipped: BTreeMap<ContainerName, String> = seen
        .containers
        .iter()
        .filter(ended)
        .map(|container| {
            (container.name.clone(), "it has ended, and its restart policy leaves it so".to_owned())
        })
        .collect();
    update.images.retain(|name, image| {
        let Some(container) = seen.containers.iter().find(|container| container.name == *name) else {
            skipped.insert(name.clone(), format!("the pod has no container {name}"));
            return false;
        };
        match seen.images.get(image) {
            _ if container.has_ended() => false,
            Some(Presence::Failed(why)) if container.image != *image => {
                skipped.insert(name.clone(), format!("image {image} could not be pulled: {why}"));
                false
            }
            _ => true,
        }
    });
    let mut judged = seen.clone();
    judged.containers.retain(|container| !container.has_ended());
    (update, judged, skipped)
}
