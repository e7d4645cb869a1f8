//! Ends that no agent can write: its node or pod is gone, it is silent, or it lets the request's deadline
//! pass.
//!
//! Each is counted by our own monotonic clock, from what this manager itself has seen: a manager that has
//! just started gives every agent its full time again.

use std::time::{Duration, Instant};

use super::{
    assignment::Decision,
    failure::{AGENT_SILENT, FailureReason, POD_GONE, deadline_exceeded},
    kind::RequestKind,
    model::Assigned,
};
use crate::{
    store::{Now, Pod, Uid},
    time::later,
};

/// A node that was not seen yet is not one that is gone: nodes come by a watch of their own.
const NODE_LAG: Duration = Duration::from_secs(3);
/// The agent sees its own pods first and says more about them.
const POD_GONE_AFTER: Duration = Duration::from_secs(10);
/// OpenKruise's bound for a daemon that does not answer.
const AGENT_SILENT_AFTER: Duration = Duration::from_secs(60);
/// The agent ends what it has begun at the deadline; only if it does not, the manager does.
const DEADLINE_EXCEEDED_AFTER: Duration = Duration::from_secs(10);

/// Facts for a decision about an assigned request.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// The pod of that name, as seen.
    pub(super) pod: Option<&'a Pod>,
    /// Its node is there.
    pub(super) node: bool,
    /// From when on complete lists of all kinds were there.
    pub(super) since: Instant,
    /// Until then the view of the pods is known to be behind.
    pub(super) pods_doubt: Option<Instant>,
    /// Until then the view of the nodes is known to be behind.
    pub(super) nodes_doubt: Option<Instant>,
}

pub(super) fn decide(kind: RequestKind, assigned: &mut Assigned, facts: &Facts<'_>, now: Now) -> Decision {
    let pod = facts.pod.is_some_and(|pod| pod.uid == Uid::from(assigned.assignment.pod_uid.as_str()));
    since(&mut assigned.pod_missing, !pod, now.instant);
    since(&mut assigned.node_missing, !facts.node, now.instant);

    let doubted = |until: Instant, doubt: Option<Instant>| doubt.map_or(until, |doubt| doubt.max(until));
    let node = assigned.node_missing.map(|missing| doubted(later(missing, NODE_LAG), facts.nodes_doubt));
    let pod = assigned.pod_missing.map(|missing| doubted(later(missing, POD_GONE_AFTER), facts.pods_doubt));
    let silent = (!assigned.answered).then(|| later(assigned.since.max(facts.since), AGENT_SILENT_AFTER));
    let active = assigned.active_until.and_then(|until| until.checked_add(DEADLINE_EXCEEDED_AFTER));
    let ends = [
        (node, FailureReason::NodeGone),
        (pod, FailureReason::PodGone),
        (silent, FailureReason::AgentSilent),
        (active, FailureReason::DeadlineExceeded),
    ];
    // The first in time is the reason; of two at once, the one listed first explains the other.
    let first = ends.into_iter().filter_map(|(at, reason)| Some((at?, reason))).min_by_key(|(at, _)| *at);
    match first {
        None => Decision::Nothing,
        Some((at, _)) if now.instant < at => Decision::Wait(at),
        Some((_, reason)) => Decision::fail(reason, text(reason, kind, assigned), Some(&assigned.assignment)),
    }
}

/// Keeps since when something is so.
fn since(field: &mut Option<Instant>, is_so: bool, now: Instant) {
    if is_so {
        field.get_or_insert(now);
    } else {
        *field = None;
    }
}

fn text(reason: FailureReason, kind: RequestKind, assigned: &Assigned) -> String {
    match reason {
        FailureReason::PodGone => POD_GONE.to_owned(),
        FailureReason::AgentSilent => AGENT_SILENT.to_owned(),
        FailureReason::DeadlineExceeded => deadline_exceeded(kind).to_owned(),
        _ => format!("node {:?} has gone", assigned.assignment.node),
    }
}
