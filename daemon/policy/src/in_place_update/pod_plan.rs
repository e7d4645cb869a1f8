//! All open requests of one pod are one update: where two name the same container or key, the newer one counts.
//!
//! ```text
//!   open requests --> one Update --next--> the one step, and what each request's status is to say
//! ```
//!
//! So a request that comes while another one is carried out replaces it where they differ, and what only the older one
//! asks for is carried out with it: no half of an update is left. They succeed and fail together, the newest last. One of
//! which nothing is left ends at once. What somebody asks for goes over what a workload wants.
//!
//! Nothing is done to the pod before it was reported what the pod was, and no way back is begun before that was reported:
//! whoever takes over after a crash reads it there.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    in_place_update::{
        Before, ContainerUpdate, ContainerUpdatePhase, Failure, Metadata, Next, Observed, Presence, Reason,
        Update, UpdateOutcome, UpdatePhase, UpdateReport, UpdateRequest, decide, diff::Diff,
    },
    model::{ContainerName, RequestId},
};

/// What is known of a pod that is to be updated.
#[derive(Clone, Debug)]
pub enum Sight {
    /// Nothing, yet.
    Unknown,
    /// There is no such pod any more.
    Gone,
    /// The agent may not write to it; why, and what to do about that.
    Forbidden(String),
    /// This. `before` need not be filled in.
    Seen(Box<Observed>),
}

/// What is owed to a pod and to those who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPlan {
    /// What the status of these requests is to say, and does not.
    pub reports: Vec<(RequestId, UpdateReport)>,
    /// The step to take; `None` as long as something has to be reported first, or nothing is asked for.
    pub next: Option<Next>,
}

/// What is owed now. `requests` are all of this pod; those that have ended count no more.
pub fn plan(requests: &[UpdateRequest], sight: &Sight, now: Instant, wall: i64) -> PodPlan {
    let mut open: Vec<&UpdateRequest> = requests.iter().filter(|request| request.ended.is_none()).collect();
    open.sort_by_key(|request| request.age());
    let failed = |reason, message: &str| {
        let failure = Failure { reason, message: message.to_owned() };
        PodPlan {
            reports: open.iter().map(|request| end(request, Err(&failure), None)).collect(),
            next: None,
        }
    };
    let seen = match sight {
        Sight::Unknown => return PodPlan::default(),
        Sight::Gone => return failed(Reason::PodGone, "pod has gone"),
        Sight::Forbidden(why) => return failed(Reason::NotPermitted, why),
        Sight::Seen(seen) => seen,
    };
    let Some(newest) = open.last() else { return PodPlan::default() };
    let overdue = |request: &UpdateRequest| request.limit().is_some_and(|limit| limit <= now);
    // Its own time is over, and the newer ones go on without it.
    let (late, open): (Vec<&UpdateRequest>, Vec<&UpdateRequest>) =
        open.iter().partition(|request| request.id != newest.id && overdue(request));
    let mut reports: Vec<_> = late
        .into_iter()
        .map(|request| {
            let message = format!(
                "the update has exceeded its deadline while request {} was carried out with it",
                newest.key
            );
            end(request, Err(&Failure { reason: Reason::DeadlineExceeded, message }), Some(seen))
        })
        .collect();

    let update = merge(&open);
    if open.iter().any(|request| request.reported.previous.is_none()) {
        reports.extend(take_up(&open, &update, seen));
        return PodPlan { reports, next: None };
    }
    let (replaced, open): (Vec<&UpdateRequest>, Vec<&UpdateRequest>) =
        open.iter().partition(|request| is_replaced(request, &open));
    reports.extend(replaced.into_iter().map(|request| {
        let message = format!("replaced by request {}", newest.key);
        end(request, Err(&Failure { reason: Reason::Replaced, message }), Some(seen))
    }));

    let seen = Observed { before: newest.reported.previous.clone(), ..(**seen).clone() };
    let (update, skipped) =
        if newest.ignore_failures { reduced(update, &seen) } else { (update, BTreeMap::new()) };
    let next = decide::next(&update, &seen, now, wall);
    let each = |report: &dyn Fn(&UpdateRequest) -> (RequestId, UpdateReport)| -> Vec<_> {
        open.iter().map(|request| report(request)).collect()
    };
    // The newest last: without it the others would want again what it has replaced.
    let ending = match &open[..] {
        [_newest] => &open[..],
        [older @ .., _newest] => older,
        [] => &[],
    };
    let ended = |result: Result<&BTreeMap<ContainerName, String>, &Failure>| {
        ending.iter().map(|request| end(request, result, Some(&seen))).collect()
    };
    let (told, next) = match next {
        Next::Done => (ended(Ok(&skipped)), None),
        Next::Failed(failure) => (ended(Err(&failure)), None),
        Next::RollBack(_, failure) => (each(&|request| turn_back(request, &failure, now)), None),
        next => (each(&|request| going_on(request, &next, &seen, &skipped)), Some(next)),
    };
    reports.extend(told);
    let reported = |(id, report): &(RequestId, UpdateReport)| {
        open.iter().any(|request| request.id == *id && request.reported == *report)
    };
    reports.retain(|report| !reported(report));
    PodPlan { reports, next }
}

/// What all of them together want.
fn merge(open: &[&UpdateRequest]) -> Update {
    let mut update = Update {
        revision: String::new(),
        images: BTreeMap::new(),
        metadata: Metadata::new(),
        grace: Default::default(),
        rollback_on_failure: false,
        deadline: None,
    };
    for request in open {
        let (images, metadata) = request.wanted();
        update.images.extend(images);
        update.metadata.extend(metadata);
        let back = request.reported.rolling_back.is_some();
        // One way back is enough, and it is told from the way there.
        update.revision = if back { format!("{}-back", request.revision) } else { request.revision.clone() };
        update.rollback_on_failure = request.rollback_on_failure && !back;
        update.grace = request.grace;
        update.deadline = request.limit();
    }
    update
}

/// Nothing of what it wants is left: newer ones want something else of all of it.
fn is_replaced(request: &UpdateRequest, open: &[&UpdateRequest]) -> bool {
    let (images, metadata) = request.wanted();
    let newer: Vec<_> =
        open.iter().filter(|other| other.age() > request.age()).map(|other| other.wanted()).collect();
    !newer.is_empty()
        && images.keys().all(|name| newer.iter().any(|(images, _)| images.contains_key(name)))
        && metadata.keys().all(|key| newer.iter().any(|(_, metadata)| metadata.contains_key(key)))
}

/// Writes down what the pod is, for those for whom that was not done yet.
fn take_up(open: &[&UpdateRequest], update: &Update, seen: &Observed) -> Vec<(RequestId, UpdateReport)> {
    let replaced = open.iter().rev().find_map(|request| request.reported.previous.as_ref());
    let before = Before::of(update, seen, replaced);
    open.iter()
        .filter(|request| request.reported.previous.is_none())
        .map(|request| {
            let report = UpdateReport {
                phase: Some(UpdatePhase::Updating),
                containers: containers(request, seen, &BTreeMap::new()),
                previous: Some(before.clone()),
                ..UpdateReport::default()
            };
            (request.id.clone(), report)
        })
        .collect()
}

/// Without the containers that cannot be updated, and why they cannot.
fn reduced(mut update: Update, seen: &Observed) -> (Update, BTreeMap<ContainerName, String>) {
    let mut skipped = BTreeMap::new();
    update.images.retain(|name, image| {
        let Some(container) = seen.containers.iter().find(|container| container.name == *name) else {
            skipped.insert(name.clone(), format!("the pod has no container {name}"));
            return false;
        };
        if container.has_ended() {
            skipped.insert(name.clone(), "it has ended, and its restart policy leaves it so".to_owned());
            return false;
        }
        match seen.images.get(image) {
            Some(Presence::Failed(why)) if container.image != *image => {
                skipped.insert(name.clone(), format!("image {image} could not be pulled: {why}"));
                false
            }
            _ => true,
        }
    });
    (update, skipped)
}

fn going_on(
    request: &UpdateRequest,
    next: &Next,
    seen: &Observed,
    skipped: &BTreeMap<ContainerName, String>,
) -> (RequestId, UpdateReport) {
    let what = match next {
        Next::Pull(images) => {
            let images: Vec<&str> = images.iter().map(|image| &**image).collect();
            Some(format!("pulling {} before anything is stopped", images.join(", ")))
        }
        Next::Wait { why, .. } => Some(why.to_string()),
        Next::Recreate(containers) => {
            let names: Vec<&str> = containers.keys().map(ContainerName::as_str).collect();
            Some(format!("{} is restarted to read the new values", names.join(", ")))
        }
        // Over in a moment.
        _ => None,
    };
    let back = request.reported.rolling_back.as_ref();
    let message = what.map(|what| match back {
        Some((failure, _)) => format!("{}; the pod returns to what it was: {what}", failure.message),
        None => what,
    });
    let report = UpdateReport {
        phase: Some(if back.is_some() { UpdatePhase::RollingBack } else { UpdatePhase::Updating }),
        message: message.unwrap_or_else(|| request.reported.message.clone()),
        containers: containers(request, seen, skipped),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

fn turn_back(request: &UpdateRequest, failure: &Failure, now: Instant) -> (RequestId, UpdateReport) {
    let report = UpdateReport {
        phase: Some(UpdatePhase::RollingBack),
        message: format!("{}; the pod returns to what it was", failure.message),
        rolling_back: Some((failure.clone(), now)),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

/// How it ended. `Ok` has the containers that were left out.
fn end(
    request: &UpdateRequest,
    result: Result<&BTreeMap<ContainerName, String>, &Failure>,
    seen: Option<&Observed>,
) -> (RequestId, UpdateReport) {
    let nothing = BTreeMap::new();
    let mut states = match seen {
        Some(seen) => containers(request, seen, result.unwrap_or(&nothing)),
        None => request.reported.containers.clone(),
    };
    let (outcome, message) = match (result, &request.reported.rolling_back) {
        (Ok(_), None) => (UpdateOutcome::Complete, String::new()),
        (Ok(_), Some((failure, _))) => (
            UpdateOutcome::Failed(failure.reason),
            format!("{}; the pod is what it was before", failure.message),
        ),
        (Err(failure), None) => (UpdateOutcome::Failed(failure.reason), failure.message.clone()),
        (Err(failure), Some((first, _))) => (
            UpdateOutcome::Failed(first.reason),
            format!("{}; the way back failed too: {}", first.message, failure.message),
        ),
    };
    if matches!(outcome, UpdateOutcome::Failed(_)) {
        for state in states.iter_mut().filter(|state| state.phase == ContainerUpdatePhase::Updating) {
            state.phase = ContainerUpdatePhase::Failed;
        }
    }
    let report = UpdateReport {
        phase: Some(UpdatePhase::Ended),
        message,
        containers: states,
        outcome: Some(outcome),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

/// Where the containers stand that this request changes.
fn containers(
    request: &UpdateRequest,
    seen: &Observed,
    skipped: &BTreeMap<ContainerName, String>,
) -> Vec<ContainerUpdate> {
    let wanted = merge(&[request]);
    let diff = Diff::of(&wanted, seen);
    let is_asked = |name: &ContainerName| wanted.images.contains_key(name);
    seen.containers
        .iter()
        .filter(|container| {
            is_asked(&container.name) || container.reads.iter().any(|key| wanted.metadata.contains_key(key))
        })
        .map(|container| {
            let name = container.name.clone();
            let (phase, message) = match skipped.get(&name) {
                Some(why) => (ContainerUpdatePhase::Failed, why.clone()),
                None if diff.changes.contains_key(&name) => (ContainerUpdatePhase::Pending, String::new()),
                None if container.is_image_stale() || container.is_env_stale() || !container.is_ready() => {
                    (ContainerUpdatePhase::Updating, String::new())
                }
                None => (ContainerUpdatePhase::Succeeded, String::new()),
            };
            ContainerUpdate { name, phase, message }
        })
        .collect()
}
