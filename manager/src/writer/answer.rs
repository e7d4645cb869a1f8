//! Meaning of an answer of the API server for a write, and what is said of it.

use std::{
    sync::{LazyLock, Mutex, PoisonError},
    time::Instant,
};

use berth_base::line_pace::LinePace;
use tracing::{debug, info, warn};

use crate::{
    images::JobAct,
    metrics::Outcome,
    probes::NodeAct,
    requests::RequestAct,
    write::{Target, Write},
};

/// How the API server (its client of etcd, etcd, validation) says that an object is too large. The first two
/// come as 500.
const TOO_LARGE: [&str; 8] = [
    "message larger than max",
    "request is too large",
    "request entity too large",
    "too long",
    "too many",
    "may not be more than",
    "must have at most",
    "limit is",
];

/// An API server that comes up refuses everybody until it has read the roles: a write that is forbidden is
/// tried so often again, which takes some twenty seconds.
pub(super) const TRIES_OF_FORBIDDEN: usize = 6;

/// How the API server says, by whatever code, that a webhook or an admission policy refuses a write.
const DENIED: [&str; 2] = ["denied the request", "denied request"];
/// Pace of the lines about writes that are refused every five minutes, which may be thousands.
static REFUSED: LazyLock<Mutex<LinePace>> = LazyLock::new(Mutex::default);

/// The outcome that an error means for the write, which has been tried so often before. Whatever is not known
/// to last is tried again.
pub(super) fn outcome(error: &kube::Error, tries: usize) -> Outcome {
    let kube::Error::Api(status) = error else { return Outcome::Retried };
    let message = status.message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    match status.code {
        404 => Outcome::Gone,
        409 => Outcome::Conflict,
        413 => Outcome::TooLarge,
        400 | 422 if says(&TOO_LARGE) => Outcome::TooLarge,
        500 if says(&TOO_LARGE[..2]) => Outcome::TooLarge,
        403 if tries < TRIES_OF_FORBIDDEN => Outcome::Retried,
        400 | 403 | 405 | 415 | 422 => Outcome::Refused,
        _ => Outcome::Retried,
    }
}

/// Tells whether a refusal follows from a right or a rule, which somebody may change with no event of the
/// object.
pub(super) fn is_by_rule(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let message = status.message.to_ascii_lowercase();
    status.code == 403 || DENIED.iter().any(|words| message.contains(words))
}

/// Says what became of a write of so many bytes; `aside`: it is refused, and decided anew in minutes.
pub(super) fn tell(order: &Write, target: &Target, outcome: Outcome, bytes: usize, error: &str, aside: bool) {
    let (what, object) = (order.what(), &target.key);
    match (outcome, order) {
        (Outcome::Written, Write::Request(patch)) => match &patch.write {
            RequestAct::Assign(assignment) => {
                let (node, pod) = (&assignment.node, &assignment.pod_uid);
                info!(kind = target.kind.name(), request = %object, %node, pod.uid = pod, "Request assigned");
            }
            RequestAct::Wait(message) => {
                info!(kind = target.kind.name(), request = %object, %message, "Request waits");
            }
            RequestAct::Fail(failure, _) => {
                let (reason, message) = (failure.reason, &failure.message);
                info!(kind = target.kind.name(), request = %object, %reason, message, "Request failed");
            }
            RequestAct::Delete => {
                let kind = target.kind.name();
                info!(kind, request = %object, "Request deleted, its time after its end has passed");
            }
        },
        (Outcome::Written, Write::Node(order)) => {
            debug!(node = %object, images = order.wishes.len(), "Desired images written");
        }
        (Outcome::Written, Write::Job(order)) => match &order.act {
            JobAct::Status(status) if status.completion_time.is_some() => {
                let message = status.message.as_deref().unwrap_or_default();
                info!(job = %object, desired = status.desired, failed = status.failed, message, "Job ended");
            }
            JobAct::Status(_) => debug!(job = %object, "Job's status written"),
            JobAct::Delete => info!(job = %object, "Job deleted, its time after its end has passed"),
        },
        (Outcome::Written, Write::NodeProbes(order)) => match &order.act {
            NodeAct::Desired(pods) => debug!(node = %object, pods = pods.len(), "Desired probes written"),
            NodeAct::TakeNoticeBack => debug!(node = %object, "Notice that nothing acts on it taken back"),
        },
        (Outcome::Written, Write::Marker(order)) => {
            debug!(marker = %object, pods = order.status.matched_pods, "Marker's status written");
        }
        (Outcome::Written, Write::SidecarSet(order)) => {
            let (matched, updated) = (order.status.matched_pods, order.status.updated_pods);
            debug!(set = %object, matched, updated, "SidecarSet's status written");
        }
        (Outcome::Written, Write::PodUpdates(order)) => {
            debug!(node = %object, pods = order.pods.len(), "Desired pods written");
        }
        (Outcome::Refused, _) if aside => {
            let line = REFUSED.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            if let Some(left_out) = line {
                warn!(%object, what, error, left_out, "Write refused, trying again in five minutes");
            }
        }
        (Outcome::Refused, _) => {
            warn!(%object, what, error, "Write refused, not tried before the object changes");
        }
        (Outcome::TooLarge, _) => {
            let kind = target.kind.name();
            warn!(kind, %object, what, bytes, error, "Object too large, not tried before it changes");
        }
        (Outcome::Retried, _) => warn!(%object, what, error, "Not written, trying again"),
        (Outcome::Conflict | Outcome::Gone, _) => {
            debug!(%object, what, error, "Not written, the object has changed");
        }
        (
            Outcome::Superseded
            | Outcome::Late
            | Outcome::NotLeading
            | Outcome::QueueFull
            | Outcome::Unsealed,
            _,
        ) => {}
    }
}
