//! All open requests of one pod are one update: where two name the same container or key, the newer one
//! counts.
//!
//! ```text
//!   open requests --> one Update --next--> the one step, and what each request's status is to say
//! ```
//!
//! So a request that comes while another one is carried out replaces it where they differ, and what only
//! the older one asks for is carried out with it: no half of an update is left. They succeed and fail
//! together, the newest last. Owners of entries beside each other (a workload, SidecarSets) share patches,
//! but each succeeds, fails and goes back for itself, and none replaces another. One of which nothing is
//! left ends at once. What somebody asks for goes over what a workload wants, and what anybody asks for
//! over a way back. One whose own time is over goes back alone.
//!
//! Nothing is done to the pod before it was reported what the pod was, and no way back is begun before that
//! was reported: whoever takes over after a crash reads it there. Only entries of workloads that never go
//! back begin without such a report, while they are alone: the pod and the record in it are all that whoever
//! takes over needs. A request that comes later returns to what it finds, and these never return with it:
//! they go on over its way back, and their failure is not its own.

mod judge;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use self::judge::{judge, outcome};
use crate::{
    in_place_update::{
        Before, Failure, FailureReason, Metadata, Next, Observed, Update, UpdateOutcome, UpdatePhase,
        UpdateReport, UpdateRequest,
        answer::{containers, end, swaps, turn_back},
        groups::{by_owner, grace},
        records,
        resolve::resolve,
    },
    model::{ContainerName, RequestId},
};

/// Knowledge of a pod that is to be updated.
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

/// Reports and next step that are owed to a pod and to its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPlan {
    /// Reports that the status of these requests is to show, and does not.
    pub reports: Vec<(RequestId, UpdateReport)>,
    /// The step to take; `None` as long as something has to be reported first, or nothing is asked for.
    pub next: Option<Next>,
}

/// Plans what is owed now. `requests` are all of this pod; of those that have ended only what they brought
/// about counts.
pub fn plan(requests: &[UpdateRequest], sight: &Sight, now: Instant) -> PodPlan {
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
        Sight::Gone => return failed(FailureReason::PodGone, "pod has gone"),
        Sight::Forbidden(why) => return failed(FailureReason::NotPermitted, why),
        Sight::Seen(seen) => seen,
    };
    let (requests, refused) = resolve(requests, seen);
    let mut planned = plan_sound(&requests, seen, now);
    planned.reports.extend(refused);
    planned
}

/// The same for requests that do not contradict each other.
fn plan_sound(requests: &[UpdateRequest], pod: &Observed, now: Instant) -> PodPlan {
    let mut open: Vec<&UpdateRequest> = requests.iter().filter(|request| request.ended.is_none()).collect();
    open.sort_by_key(|request| request.age());
    let Some(newest) = open.last() else { return PodPlan::default() };
    let seen = &records::view(&open, pod);
    let rebased = rebased(&open, requests, seen);
    if !rebased.is_empty() {
        return PodPlan { reports: rebased, next: None };
    }
    // First, so that it reaches back to before those that end now.
    if open.iter().any(|request| request.reported.previous.is_none())
        && !open.iter().all(|request| request.is_one_way())
    {
        let reports = by_owner(&open).into_iter().flat_map(|open| take_up(&open, pod));
        return PodPlan { reports: reports.collect(), next: None };
    }
    let untold: Vec<_> = by_owner(&open).into_iter().flat_map(|open| untold(&open)).collect();
    if !untold.is_empty() {
        return PodPlan { reports: untold, next: None };
    }
    let seen = Observed { before: before(&open), ..seen.clone() };
    let overdue = |request: &UpdateRequest| request.limit().is_some_and(|limit| limit <= now);
    // Its own time is over, and the newer ones go on without it.
    let (late, open): (Vec<&UpdateRequest>, Vec<&UpdateRequest>) =
        open.iter().partition(|request| request.id != newest.id && overdue(request));
    let late_owners = late.iter().any(|request| request.owner != newest.owner);
    let mut reports: Vec<_> = late.into_iter().map(|request| exceeded(request, newest, &seen, now)).collect();
    let goes_back = reports.iter().any(|(_, report)| report.outcome.is_none());
    // Of several owners: what is left is seen otherwise without them.
    if goes_back || !reports.is_empty() && late_owners {
        return PodPlan { reports, next: None };
    }

    let update = merge(&open, &seen, newest);
    // One whose time is over is about to go back, or to end: it replaces nothing.
    let stands: Vec<&UpdateRequest> = open.iter().copied().filter(|request| !overdue(request)).collect();
    let (replaced, open): (Vec<&UpdateRequest>, Vec<&UpdateRequest>) =
        open.iter().partition(|request| is_replaced(request, &stands, &seen));
    reports.extend(replaced.into_iter().map(|request| {
        let message = format!("replaced by request {}", newest.key);
        end(request, Err(&Failure { reason: FailureReason::Replaced, message }), Some(&seen))
    }));

    let judged = judge(update, newest.ignore_failures, &seen, now);
    let (told, next) = outcome(&open, judged, pod, &seen, now);
    reports.extend(told);
    let reported = |(id, report): &(RequestId, UpdateReport)| {
        open.iter().any(|request| request.id == *id && request.reported == *report)
    };
    reports.retain(|report| !reported(report));
    PodPlan { reports, next }
}

/// Report of a request whose own time is over, while the newest one was carried out with it.
fn exceeded(
    request: &UpdateRequest,
    newest: &UpdateRequest,
    seen: &Observed,
    now: Instant,
) -> (RequestId, UpdateReport) {
    let message =
        format!("the update has exceeded its deadline while request {} was carried out with it", newest.key);
    let failure = Failure { reason: FailureReason::DeadlineExceeded, message };
    let moved = request.reported.previous.as_ref().is_some_and(|before| before.differs(seen));
    match request.rollback_on_failure && !request.is_going_back() && moved {
        true => turn_back(request, &failure, now),
        false => end(request, Err(&failure), Some(seen)),
    }
}

/// Merges the wishes of all open requests into one update, as which the newest one counts.
pub(super) fn merge(open: &[&UpdateRequest], seen: &Observed, newest: &UpdateRequest) -> Update {
    let back = newest.is_going_back();
    let mut update = Update {
        revision: records::revision(newest),
        images: BTreeMap::new(),
        metadata: Metadata::new(),
        grace: grace(open, newest, seen),
        rollback_on_failure: newest.rollback_on_failure && !back,
        deadline: newest.limit(),
        bears_crashes: open.iter().all(|request| request.bears_crashes()),
        migrations: Vec::new(),
    };
    let mut migrations = BTreeMap::new();
    for request in open {
        let (images, metadata) = request.wanted(seen);
        update.images.extend(images);
        update.metadata.extend(metadata);
        let staged = request.stages(seen).into_iter().filter_map(|staged| staged.migration);
        migrations.extend(staged.map(|migration| {
            let twins = [&migration.target, &migration.other].into_iter().min().cloned();
            (twins, migration)
        }));
    }
    update.migrations = migrations.into_values().collect();
    update
}

/// Tells whether nothing of what it wants is left: newer ones want something else of all of it. One that goes
/// back wants nothing else.
fn is_replaced(request: &UpdateRequest, others: &[&UpdateRequest], seen: &Observed) -> bool {
    let (images, metadata) = request.wanted(seen);
    let newer: Vec<_> = others
        .iter()
        .filter(|other| other.age() > request.age() && !other.is_going_back() && !other.is_beside(request))
        .map(|other| other.wanted(seen))
        .collect();
    !newer.is_empty()
        && images.keys().all(|name| newer.iter().any(|(images, _)| images.contains_key(name)))
        && metadata.keys().all(|key| newer.iter().any(|(_, metadata)| metadata.contains_key(key)))
}

/// Corrects the ways back to what was before a request that is complete by now. The request was open when
/// theirs were taken up, and its end had not been written; or they were carried out with it and go on after
/// it. It was told that the pod is what it asked for, so that is what they return to.
fn rebased(
    open: &[&UpdateRequest],
    requests: &[UpdateRequest],
    seen: &Observed,
) -> Vec<(RequestId, UpdateReport)> {
    let is_complete = |request: &&UpdateRequest| {
        request.ended.is_some() && request.reported.outcome == Some(UpdateOutcome::Complete)
    };
    let mut complete: Vec<&UpdateRequest> = requests.iter().filter(is_complete).collect();
    complete.sort_by_key(|request| (request.ended, request.rank()));
    open.iter()
        .filter_map(|request| {
            let previous = request.reported.previous.as_ref()?;
            let since = complete.iter().filter(|ended| ended.ended >= Some(request.created));
            let rebased = since.fold(previous.clone(), |before, ended| {
                before.after(previous, ended, |name| brought_about(ended, name, seen))
            });
            let report = || UpdateReport { previous: Some(rebased.clone()), ..request.reported.clone() };
            (rebased != *previous).then(|| (request.id.clone(), report()))
        })
        .collect()
}

/// The image of this container that a complete request asked for, and that is there, or was when its end was
/// decided. One that a newer request replaced, with which it was carried out, never was.
fn brought_about<'a>(
    ended: &'a UpdateRequest,
    name: &ContainerName,
    seen: &Observed,
) -> Option<&'a Arc<str>> {
    let image = ended.images.get(name)?;
    let is_there = || seen.containers.iter().any(|known| known.name == *name && known.image == *image);
    (ended.says_moved(name) || is_there()).then_some(image)
}

/// Gives the reports for the requests that have to go back with the newest one. The one that told the newest
/// one did not get to tell these.
fn untold(open: &[&UpdateRequest]) -> Vec<(RequestId, UpdateReport)> {
    let leader = open.iter().max_by_key(|request| request.rank());
    let Some((leader, (failure, since))) =
        leader.and_then(|leader| Some((leader, leader.reported.rolling_back.as_ref()?)))
    else {
        return Vec::new();
    };
    let covers =
        |previous: &Before| leader.reported.previous.as_ref().is_some_and(|all| all.covers(previous));
    open.iter()
        .filter(|request| !request.is_going_back() && !request.is_one_way() && request.created < *since)
        .filter(|request| request.reported.previous.as_ref().is_some_and(covers))
        .map(|request| turn_back(request, failure, *since))
        .collect()
}

/// Returns the state of the pod before all of the requests; the record of an earlier one counts.
fn before(open: &[&UpdateRequest]) -> Option<Before> {
    let mut earlier: Vec<&UpdateRequest> = open.to_vec();
    earlier.sort_by_key(|request| (request.created, &request.id));
    let previous = earlier.into_iter().filter_map(|request| request.reported.previous.clone());
    previous.reduce(Before::and)
}

/// Writes down what the pod is, for those for whom that was not done yet.
fn take_up(open: &[&UpdateRequest], seen: &Observed) -> Vec<(RequestId, UpdateReport)> {
    let Some(newest) = open.last() else { return Vec::new() };
    let seen = &records::view(open, seen);
    let before = Before::of(&merge(open, seen, newest), seen, before(open).as_ref());
    open.iter()
        .filter(|request| request.reported.previous.is_none())
        .map(|request| {
            let report = UpdateReport {
                phase: Some(UpdatePhase::Updating),
                containers: containers(request, seen, &BTreeMap::new()),
                swaps: swaps(request, seen),
                previous: Some(before.clone()),
                ..UpdateReport::default()
            };
            (request.id.clone(), report)
        })
        .collect()
}
