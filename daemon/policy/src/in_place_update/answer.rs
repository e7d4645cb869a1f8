//! Answers to a request: how far it is, that it goes back, how it ended.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    in_place_update::{
        ContainerUpdate, ContainerUpdatePhase, Failure, FailureReason, Next, Observed, SwapReport,
        UpdateOutcome, UpdatePhase, UpdateReport, UpdateRequest, diff::Diff, pod_plan::merge,
    },
    model::{ContainerName, RequestId},
};

/// The next step, and the containers that are left out.
pub(super) type Judged = (Next, BTreeMap<ContainerName, String>);

pub(super) fn going_on(
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
        Next::Stop(containers) => {
            let names: Vec<&str> = containers.keys().map(ContainerName::as_str).collect();
            Some(format!("{} is stopped, so that its hook ends", names.join(", ")))
        }
        // Over in a moment, if it is let.
        Next::SetNotReady | Next::Patch(_) | Next::SetReady => seen.held_back(),
        _ => None,
    };
    let back = request.reported.rolling_back.as_ref();
    let message = what.map(|what| match back {
        Some((failure, _)) => format!("{}; the pod returns to what it was: {what}", failure.message),
        None if request.rests() => format!("nobody asks for it any more, its twins come to rest: {what}"),
        None => what,
    });
    let report = UpdateReport {
        phase: Some(if back.is_some() { UpdatePhase::RollingBack } else { UpdatePhase::Updating }),
        message: message.unwrap_or_else(|| request.reported.message.clone()),
        containers: containers(request, seen, skipped),
        swaps: swaps(request, seen),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

/// Report of a request that turns back. Where it is on its way back already, the first failure stands.
pub(super) fn turn_back(
    request: &UpdateRequest,
    failure: &Failure,
    since: Instant,
) -> (RequestId, UpdateReport) {
    if request.is_going_back() {
        return (request.id.clone(), request.reported.clone());
    }
    let report = UpdateReport {
        phase: Some(UpdatePhase::RollingBack),
        message: format!("{}; the pod returns to what it was", failure.message),
        rolling_back: Some((failure.clone(), since)),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

/// Reports of requests whose update came to this end, or goes back.
pub(super) fn told(
    open: &[&UpdateRequest],
    (next, skipped): &Judged,
    seen: &Observed,
    now: Instant,
) -> Vec<(RequestId, UpdateReport)> {
    // The newest last: without it the others would want again what it has replaced.
    let ending = match open {
        [_newest] => open,
        [older @ .., _newest] => older,
        [] => &[],
    };
    let ended = |result: Result<&BTreeMap<ContainerName, String>, &Failure>| {
        ending.iter().map(|request| end(request, result, Some(seen))).collect()
    };
    match next {
        Next::Failed(failure) => ended(Err(failure)),
        Next::RollBack(_, failure) => {
            let back = open.iter().filter(|request| !request.is_one_way());
            back.map(|request| turn_back(request, failure, now)).collect()
        }
        _ => ended(Ok(skipped)),
    }
}

/// Returns how it ended. `Ok` has the containers that were left out.
pub(super) fn end(
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
        (Ok(skipped), Some((failure, _))) => {
            let names: Vec<&str> = skipped.keys().map(ContainerName::as_str).collect();
            let but = if names.is_empty() { String::new() } else { format!(" but for {}", names.join(", ")) };
            let message = format!("{}; the pod is what it was before{but}", failure.message);
            (UpdateOutcome::Failed(failure.reason), message)
        }
        (Err(failure), None) => (UpdateOutcome::Failed(failure.reason), failure.message.clone()),
        (Err(failure), Some((first, _))) if failure.reason == FailureReason::Replaced => (
            UpdateOutcome::Failed(first.reason),
            format!("{}; {} on the way back", first.message, failure.message),
        ),
        (Err(failure), Some((first, _))) => (
            UpdateOutcome::Failed(first.reason),
            format!("{}; the way back failed too: {}", first.message, failure.message),
        ),
    };
    // What is not Ready when all is as wanted has run to its end before.
    let settled = match result {
        Ok(_) => ContainerUpdatePhase::Succeeded,
        Err(_) => ContainerUpdatePhase::Failed,
    };
    for state in states.iter_mut().filter(|state| state.phase == ContainerUpdatePhase::Updating) {
        state.phase = settled;
    }
    let report = UpdateReport {
        phase: Some(UpdatePhase::Ended),
        message,
        containers: states,
        swaps: seen.map_or_else(|| request.reported.swaps.clone(), |seen| swaps(request, seen)),
        outcome: Some(outcome),
        ..request.reported.clone()
    };
    (request.id.clone(), report)
}

/// Says where the swaps of a request stand.
pub(super) fn swaps(request: &UpdateRequest, seen: &Observed) -> Vec<SwapReport> {
    request.stages(seen).into_iter().filter_map(|staged| staged.report).collect()
}

/// Says where the containers stand that this request changes, and last those that are not there.
pub(super) fn containers(
    request: &UpdateRequest,
    seen: &Observed,
    skipped: &BTreeMap<ContainerName, String>,
) -> Vec<ContainerUpdate> {
    let wanted = merge(&[request], seen, request);
    let diff = Diff::of(&wanted, seen);
    let is_asked = |name: &ContainerName| wanted.images.contains_key(name);
    let absent = skipped
        .iter()
        .filter(|(name, _)| {
            is_asked(name) && seen.containers.iter().all(|container| container.name != **name)
        })
        .map(|(name, why)| {
            let phase = ContainerUpdatePhase::Failed;
            ContainerUpdate { name: name.clone(), phase, message: why.clone() }
        });
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
        .chain(absent)
        .collect()
}
