//! Memory of the objects that the index was told, in as little space as its decisions allow.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_proto::crd::StatusContext;
use jiff::Timestamp;

use super::{
    patch::{Assignment, RequestAct},
    permit::Permit,
    replaced::Instance,
    spec::Spec,
    status::Status,
};
use crate::store::{CustomSeen, Key, Now, Texts, Uid};

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    /// When this manager saw it for the first time.
    pub(super) seen: Now,
    pub(super) stage: Stage,
    /// It has ended once, whatever its status says now.
    pub(super) ended: bool,
    /// The instances that are history because of it.
    pub(super) replaced: Box<[Instance]>,
    /// RequestAct that was asked for last, and its version. The next event of the object shows its result.
    pub(super) asked: Option<(Box<str>, RequestAct)>,
    /// When it is to be deleted, as it has ended and no agent has deleted it.
    pub(super) expires: Option<Instant>,
    /// Permit to make its pod unavailable.
    pub(super) permit: Permit,
    /// Its entry among the timers.
    pub(super) timer: Option<Instant>,
}

/// Where a request stands, for the manager.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing is owed to it any more: it ended, or is being deleted.
    Over,
    /// No agent knows of it.
    Unassigned(Wanted),
    /// An agent has it.
    Assigned(Assigned),
}

/// Wishes of a request.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) pod: Arc<str>,
    pub(super) containers: Box<[Box<str>]>,
    /// Instances that were noted of them.
    pub(super) noted: Option<Box<Noted>>,
    /// Fault of its spec.
    pub(super) fault: Option<Box<str>>,
    /// Its status says why it waits.
    pub(super) message: Option<Box<str>>,
    /// The end it set itself.
    pub(super) active_until: Option<Instant>,
}

/// Instances of containers as they were when the request was made.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    /// UID of their pod.
    pub(super) pod: Uid,
    pub(super) contexts: Vec<StatusContext>,
}

/// A request that an agent has.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    pub(super) pod: Arc<str>,
    pub(super) assignment: Assignment,
    /// When this manager first saw the assignment.
    pub(super) since: Instant,
    /// The agent has said something.
    pub(super) answered: bool,
    /// The end it set itself; none on its way back.
    pub(super) active_until: Option<Instant>,
    /// Since when its node has not been there, as this manager saw it.
    pub(super) node_missing: Option<Instant>,
    /// The same of its pod.
    pub(super) pod_missing: Option<Instant>,
}

impl Stage {
    /// The pod of a request that is not over.
    pub(super) fn pod(&self) -> Option<&Arc<str>> {
        match self {
            Self::Over => None,
            Self::Unassigned(wanted) => Some(&wanted.pod),
            Self::Assigned(assigned) => Some(&assigned.pod),
        }
    }
}

impl Request {
    /// The budget that it waits for, if it does.
    pub(super) fn waits_for(&self) -> Option<&Key> {
        self.permit.waits_for().filter(|_| matches!(self.stage, Stage::Unassigned(_)))
    }

    /// `before` is the same object (UID) as it was known until now.
    pub(super) fn new<S: Spec, T: Status>(
        seen: &CustomSeen<S, T>,
        before: Option<&Self>,
        now: Now,
        texts: &mut Texts,
    ) -> Self {
        let first = before.map_or(now, |before| before.seen);
        let replaced = match before {
            // Nothing is known of it now, and what is history stays so.
            Some(before) if seen.is_aside => before.replaced.clone(),
            _ => seen.status.as_ref().map(Status::replaced).unwrap_or_default(),
        };
        let is_over = seen.status.as_ref().is_ok_and(Status::is_over);
        Self {
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            seen: first,
            replaced,
            ended: is_over || before.is_some_and(|before| before.ended),
            stage: stage(seen, before, first, now, texts),
            expires: expires(seen, before, now),
            asked: before.and_then(|before| before.asked.clone()),
            permit: before.map(|before| before.permit.clone()).unwrap_or_default(),
            timer: None,
        }
    }
}

fn stage<S: Spec, T: Status>(
    seen: &CustomSeen<S, T>,
    before: Option<&Request>,
    first: Now,
    now: Now,
    texts: &mut Texts,
) -> Stage {
    // A status that is none of ours is somebody else's business.
    let Ok(status) = &seen.status else { return Stage::Over };
    if status.is_over() || seen.deleting {
        return Stage::Over;
    }
    let (pod, containers, deadline) = match &seen.spec {
        Ok(spec) => (spec.pod(), spec.containers().map(Box::from).collect(), spec.active_deadline_seconds()),
        Err(_) => ("", Box::default(), None),
    };
    let pod = texts.one(pod);
    let active_until = deadline.and_then(|seconds| active_until(seconds, seen.created, first));
    let Some(node) = status.node().filter(|node| !node.is_empty()) else {
        let fault = match &seen.spec {
            Ok(spec) => spec.check().err(),
            Err(error) => Some(format!("spec cannot be read: {error}")),
        };
        return Stage::Unassigned(Wanted {
            pod,
            containers,
            noted: noted(seen).map(Box::new),
            fault: fault.map(String::into_boxed_str),
            message: status.message().map(Box::from),
            active_until,
        });
    };
    let before = match before.map(|before| &before.stage) {
        Some(Stage::Assigned(assigned)) => Some(assigned),
        _ => None,
    };
    Stage::Assigned(Assigned {
        pod,
        assignment: Assignment {
            node: texts.one(node),
            pod_uid: status.pod_uid().unwrap_or_default().to_owned(),
            contexts: status.contexts().to_vec(),
        },
        since: before.map_or(now.instant, |before| before.since),
        answered: status.is_answered(),
        active_until: active_until.filter(|_| !status.rolls_back()),
        node_missing: before.and_then(|before| before.node_missing),
        pod_missing: before.and_then(|before| before.pod_missing),
    })
}

/// Instances that were noted. Without the UID nobody can say whose the instances are.
fn noted<S: Spec, T>(seen: &CustomSeen<S, T>) -> Option<Noted> {
    let contexts = seen.spec.as_ref().ok()?.noted();
    let pod = seen.pod_uid.as_deref().filter(|_| !contexts.is_empty())?.into();
    Some(Noted { pod, contexts })
}

/// Its agent deletes a request when its time is over; so much later the manager does, where there is no agent
/// that does it.
const DELETED_AFTER: i64 = 10_000;

/// Returns when a request that has ended, and does not go already, is to be deleted. The time of its end is
/// by its agent's clock, which may be wrong: one whose end was seen here has all its time by ours.
fn expires<S: Spec, T: Status>(
    seen: &CustomSeen<S, T>,
    before: Option<&Request>,
    now: Now,
) -> Option<Instant> {
    if seen.deleting {
        return None;
    }
    let ended = seen.status.as_ref().ok()?.ended()?;
    let kept = i64::from(seen.spec.as_ref().ok()?.kept_seconds()?.max(0));
    let ended = match before {
        Some(Request { expires: Some(at), .. }) => return Some(*at),
        Some(_) => now.wall.as_millisecond(),
        None => ended.as_millisecond(),
    };
    let at = i128::from(ended) + i128::from(kept) * 1000 + i128::from(DELETED_AFTER);
    let left = u64::try_from(at - i128::from(now.wall.as_millisecond())).unwrap_or(0);
    now.instant.checked_add(Duration::from_millis(left))
}

/// Least time that a request gets after its first sight: its creation is by the API server's clock, which may
/// differ from ours.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Returns when a request's own deadline is over. Both clocks are compared once, at first sight; from then on
/// ours counts.
fn active_until(seconds: i64, created: Option<Timestamp>, first: Now) -> Option<Instant> {
    let created = created.unwrap_or(first.wall).as_millisecond();
    let left = i128::from(created) + i128::from(seconds) * 1000 - i128::from(first.wall.as_millisecond());
    let left = Duration::from_millis(u64::try_from(left.max(0)).unwrap_or(u64::MAX));
    // A deadline beyond the end of the clock is none.
    first.instant.checked_add(left.max(AT_LEAST))
}
