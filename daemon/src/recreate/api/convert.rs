//! From a ContainerRecreateRequest to the request of the policy.
//!
//! Admission may be absent or somebody else's, so the spec is checked again. What is wrong is not guessed: the request
//! fails, and says which field and what to do. One that has ended is given on however it looks: it is only deleted.

use std::collections::BTreeSet;

use berth_policy::{
    ContainerName, ContainerPhase, ContainerProgress, Origin, Outcome, RecreateReport, RecreateRequest,
    RecreateStrategy, RecreateTarget, RequestPhase,
    time::{later, seconds},
};
use berth_proto::crd::{
    ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, FailurePolicy, MOST_SECONDS, RecreatePhase,
    StatusContext,
};

use crate::{
    base::clock::Clock,
    cluster::{object::Object, target::Target},
    recreate::{
        files::MOST_CONTAINERS,
        status::{COMPLETE, FAILED, UNREADY, holds, request_phase, unready_since},
    },
};

/// The reason of a request that was refused here.
pub(super) const INVALID: &str = "InvalidRequest";
/// The reasons the node and the manager write. The policy keeps a reason as a word of the program, so one that is not
/// listed here reads as [`FAILED`].
const REASONS: [&str; 6] =
    [INVALID, "ContainerFailed", "DeadlineExceeded", "PodGone", "NodeGone", "AgentSilent"];

/// A request that cannot be carried out, whatever happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    /// The containers it names.
    containers: Vec<ContainerName>,
    /// Why not.
    flaw: Flaw,
}

/// Flaw of a request. `Display` names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    /// Not of the kind's schema.
    #[error("the spec cannot be read: {0}; make a new request")]
    Unreadable(String),
    /// No pod is named.
    #[error("spec.podName is empty: make a new request that names the pod")]
    NoPod,
    /// No container is named.
    #[error("spec.containers is empty: make a new request that lists at least one container")]
    NoContainers,
    /// More containers are named than anybody's pod has.
    #[error("spec.containers has {0} entries: make new requests of at most {MOST_CONTAINERS} each")]
    TooMany(usize),
    /// A container is listed twice.
    #[error("spec.containers lists {0} twice: make a new request that lists it once")]
    Twice(String),
    /// A number is out of its range.
    #[error("{field} is {value}: make a new request in which it is from {least} to {MOST_SECONDS}")]
    OutOfRange {
        /// Where it stands.
        field: &'static str,
        /// Value of the field.
        value: i64,
        /// The least that it may be.
        least: i64,
    },
    /// It is assigned to this node without a pod.
    #[error("status.podUID is missing although status.nodeName is set: make a new request")]
    Unassigned,
    /// The instance to replace is not known.
    #[error(
        "status.containerStatusContexts has no container {0}: make a new request that names containers the pod runs"
    )]
    NoInstance(String),
    /// The instance to replace cannot be told.
    #[error(
        "status.containerStatusContexts has containerID {id:?} for container {name}, not RUNTIME://ID: make a new request"
    )]
    BadInstance {
        /// The container.
        name: String,
        /// ID as it is there.
        id: String,
    },
}

/// Converts an object to the request that the policy is to know.
pub(super) fn request(object: &Object, clock: &Clock) -> Result<RecreateRequest, Invalid> {
    let target = &object.target;
    let status = &target.status;
    let created = clock.instant(object.created);
    let ended = status.completion_time.as_ref().map(|time| clock.instant(time.0));
    let ended = ended.or_else(|| target.has_ended().then_some(created));
    let spec = match (&object.spec, ended) {
        (Ok(spec), _) => spec.clone(),
        (Err(_), Some(_)) => ContainerRecreateRequestSpec::default(),
        (Err(error), None) => {
            return Err(Invalid { containers: Vec::new(), flaw: Flaw::Unreadable(error.clone()) });
        }
    };
    if ended.is_none() {
        check(&spec, status).map_err(|flaw| Invalid { containers: names(&spec), flaw })?;
    }
    let strategy = spec.strategy.clone().unwrap_or_default();
    Ok(RecreateRequest {
        id: object.id.clone(),
        origin: Origin::Api,
        key: target.key(),
        created,
        pod: status.pod_uid.clone().unwrap_or_default().into(),
        containers: spec
            .containers
            .iter()
            .filter_map(|container| instance(&container.name, status))
            .collect(),
        strategy: RecreateStrategy {
            ignore_failures: strategy.failure_policy == Some(FailurePolicy::Ignore),
            ordered: strategy.ordered_recreate,
            force: strategy.force_recreate,
            grace: strategy.termination_grace_period_seconds.map(seconds),
            unready_grace: strategy.unready_grace_period_seconds.map(seconds),
            min_started: seconds(strategy.min_started_seconds.unwrap_or(0)),
        },
        deadline: spec.active_deadline_seconds.map(|limit| later(created, seconds(limit))),
        delete_after: spec.ttl_seconds_after_finished.map(seconds),
        reported: reported(target),
        ended,
        unready_since: unready_since(status).map(|since| clock.instant(since)),
    })
}

fn check(spec: &ContainerRecreateRequestSpec, status: &ContainerRecreateRequestStatus) -> Result<(), Flaw> {
    if spec.pod_name.is_empty() {
        return Err(Flaw::NoPod);
    }
    if spec.containers.is_empty() {
        return Err(Flaw::NoContainers);
    }
    if spec.containers.len() > MOST_CONTAINERS {
        return Err(Flaw::TooMany(spec.containers.len()));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = spec.containers.iter().find(|container| !seen.insert(&container.name)) {
        return Err(Flaw::Twice(twice.name.clone()));
    }
    let strategy = spec.strategy.clone().unwrap_or_default();
    let numbers = [
        ("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 3),
        ("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from), 0),
        ("spec.strategy.terminationGracePeriodSeconds", strategy.termination_grace_period_seconds, 0),
        ("spec.strategy.unreadyGracePeriodSeconds", strategy.unready_grace_period_seconds, 0),
        ("spec.strategy.minStartedSeconds", strategy.min_started_seconds.map(i64::from), 0),
    ];
    for (field, value, least) in numbers {
        if let Some(value) = value.filter(|value| !(least..=MOST_SECONDS).contains(value)) {
            return Err(Flaw::OutOfRange { field, value, least });
        }
    }
    if status.pod_uid.as_deref().unwrap_or("").is_empty() {
        return Err(Flaw::Unassigned);
    }
    for container in &spec.containers {
        let context = context(&container.name, status);
        let id = &context.ok_or_else(|| Flaw::NoInstance(container.name.clone()))?.container_id;
        if instance(&container.name, status).is_none() {
            return Err(Flaw::BadInstance { name: container.name.clone(), id: id.clone() });
        }
    }
    Ok(())
}

fn context<'a>(name: &str, status: &'a ContainerRecreateRequestStatus) -> Option<&'a StatusContext> {
    status.container_status_contexts.iter().find(|context| context.name == name)
}

fn instance(name: &str, status: &ContainerRecreateRequestStatus) -> Option<RecreateTarget> {
    let (_, id) = context(name, status)?.container_id.split_once("://")?;
    (!id.is_empty()).then(|| RecreateTarget { name: name.into(), instance: id.into() })
}

fn names(spec: &ContainerRecreateRequestSpec) -> Vec<ContainerName> {
    let names: BTreeSet<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    names.into_iter().map(ContainerName::from).collect()
}

/// Reads a status as a report of the policy.
pub(super) fn reported(target: &Target) -> RecreateReport {
    let status = &target.status;
    let failed =
        |reason: &str| Outcome::Failed(REASONS.into_iter().find(|known| *known == reason).unwrap_or(FAILED));
    let states = status.container_recreate_states.iter().map(|state| ContainerProgress {
        name: state.name.as_str().into(),
        phase: match state.phase {
            RecreatePhase::Pending => ContainerPhase::Pending,
            RecreatePhase::Recreating => ContainerPhase::Recreating,
            // Completed is not for containers.
            RecreatePhase::Succeeded | RecreatePhase::Completed => ContainerPhase::Succeeded,
            RecreatePhase::Failed => ContainerPhase::Failed,
        },
        message: state.message.clone().unwrap_or_default(),
        killed: state.is_killed,
    });
    RecreateReport {
        phase: status.phase.and_then(request_phase),
        message: status.message.clone().unwrap_or_default(),
        containers: states.collect(),
        outcome: holds(status, FAILED)
            .map(|condition| failed(&condition.reason))
            .or_else(|| holds(status, COMPLETE).map(|_| Outcome::Complete)),
        unready: holds(status, UNREADY).is_some(),
    }
}

impl Invalid {
    /// How it ended: at once.
    pub(super) fn report(&self) -> RecreateReport {
        let message = self.flaw.to_string();
        let failed = |name: &ContainerName| ContainerProgress {
            name: name.clone(),
            phase: ContainerPhase::Failed,
            message: message.clone(),
            killed: false,
        };
        RecreateReport {
            phase: Some(RequestPhase::Completed),
            containers: self.containers.iter().map(failed).collect(),
            outcome: Some(Outcome::Failed(INVALID)),
            unready: false,
            message: message.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
