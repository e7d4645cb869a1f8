//! From a ContainerRecreateRequest to the request of the policy.
//!
//! Admission may be absent or somebody else's, so the spec is checked again. What is wrong is not guessed:
//! the request fails, and says which field and what to do. One that has ended is given on however it looks:
//! it is only deleted.

use std::collections::BTreeSet;

use berth_policy::{
    ContainerName, ContainerPhase, ContainerProgress, FailureReason, Origin, Outcome, RecreateReport,
    RecreateRequest, RecreateStrategy, RecreateTarget, RequestId, RequestPhase,
    time::{later, seconds},
};
use berth_proto::crd::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, FailurePolicy,
    Invalid, RecreateStrategy as Strategy, StatusContext,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};

use super::status;
use crate::base::clock::Clock;

/// A request as its source shows it.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    /// Its identity.
    pub(crate) id: RequestId,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// `namespace/name`.
    pub(crate) key: String,
    /// When it was made.
    pub(crate) created: Timestamp,
    /// Its spec, or why that cannot be read.
    pub(crate) spec: Result<&'a ContainerRecreateRequestSpec, &'a str>,
    /// Its status, with the instances it is about.
    pub(crate) status: &'a ContainerRecreateRequestStatus,
}

/// A request that cannot be carried out, whatever happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The containers it names.
    containers: Vec<ContainerName>,
    /// Field, flaw and remedy.
    why: String,
}

/// Converts a request for the policy.
pub(crate) fn request(shown: Shown<'_>, clock: &Clock) -> Result<RecreateRequest, Refused> {
    let Shown { id, origin, key, created, spec, status } = shown;
    let created = clock.instant(created);
    let ended = status.completion_time.as_ref().map(|time| clock.instant(time.0));
    let ended = ended.or_else(|| status::has_ended(status).then_some(created));
    let nothing = ContainerRecreateRequestSpec::default();
    let spec = match (spec, ended) {
        (Ok(spec), _) => spec,
        (Err(_), Some(_)) => &nothing,
        (Err(error), None) => {
            let why = format!("the spec cannot be read: {error}; make a new request");
            return Err(Refused { containers: Vec::new(), why });
        }
    };
    if ended.is_none() {
        spec.check().and_then(|()| assigned(spec, status)).map_err(|invalid| Refused {
            containers: names(spec),
            why: format!("{invalid}; a spec does not change: make a new request"),
        })?;
    }
    let containers = spec.containers.iter().filter_map(|container| instance(&container.name, status));
    // The pod of a file is this node's own word.
    let namespace = key.split_once('/').filter(|_| origin == Origin::Api).map(|(namespace, _)| namespace);
    let named = namespace.map(|namespace| format!("{namespace}/{}", spec.pod_name));
    Ok(RecreateRequest {
        id,
        origin,
        key,
        created,
        pod: status.pod_uid.clone().unwrap_or_default().into(),
        named,
        containers: containers.collect(),
        strategy: strategy(&spec.strategy.clone().unwrap_or_default()),
        deadline: spec.active_deadline_seconds.map(|limit| later(created, seconds(limit))),
        delete_after: spec.ttl_seconds_after_finished.map(seconds),
        reported: status::read(status),
        ended,
        unready_since: status::unready_since(status).map(|since| clock.instant(since)),
    })
}

fn strategy(strategy: &Strategy) -> RecreateStrategy {
    RecreateStrategy {
        ignore_failures: strategy.failure_policy == Some(FailurePolicy::Ignore),
        ordered: strategy.ordered_recreate,
        force: strategy.force_recreate,
        grace: strategy.termination_grace_period_seconds.map(seconds),
        unready_grace: strategy.unready_grace_period_seconds.map(seconds),
        min_started: seconds(strategy.min_started_seconds.unwrap_or(0)),
    }
}

/// Checks a request as its author made it, which no API server has seen: what admission would refuse, and
/// what means nothing without one.
pub(crate) fn authored(request: &ContainerRecreateRequest) -> Result<(), Invalid> {
    // An empty one is what `kubectl create --dry-run` writes.
    if request.status.as_ref().is_some_and(|status| *status != ContainerRecreateRequestStatus::default()) {
        return Err(Invalid::new("status", "is berthd's to write: leave it out"));
    }
    let ObjectMeta { name, namespace, .. } = &request.metadata;
    for (field, value) in [("metadata.name", name), ("metadata.namespace", namespace)] {
        if value.as_ref().is_some_and(|name| name.is_empty() || name.contains('/')) {
            let flaw = "is empty or has a slash: give a name without one, or leave it out";
            return Err(Invalid::new(field, flaw));
        }
    }
    request.spec.check()?;
    match request.spec.filled_in() {
        Some(field) => {
            Err(Invalid::new(field, "is not for users, berthd looks at the pod itself: leave it out"))
        }
        None => Ok(()),
    }
}

/// Checks that the request has its pod and an instance for each container.
fn assigned(
    spec: &ContainerRecreateRequestSpec,
    status: &ContainerRecreateRequestStatus,
) -> Result<(), Invalid> {
    if status.pod_uid.as_deref().unwrap_or("").is_empty() {
        return Err(Invalid::new(
            "status.podUID",
            "is missing although the request is assigned to this node",
        ));
    }
    for container in &spec.containers {
        let name = &container.name;
        let Some(context) = context(name, status) else {
            let flaw = format!("has no container {name}: name containers that the pod runs");
            return Err(Invalid::new("status.containerStatusContexts", flaw));
        };
        if instance(name, status).is_none() {
            let id = &context.container_id;
            let flaw = format!("has containerID {id:?} for container {name}, not RUNTIME://ID");
            return Err(Invalid::new("status.containerStatusContexts", flaw));
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

impl Refused {
    /// Returns how it ended: at once.
    pub(crate) fn report(&self) -> RecreateReport {
        let failed = |name: &ContainerName| ContainerProgress {
            name: name.clone(),
            phase: ContainerPhase::Failed,
            message: self.why.clone(),
            killed: false,
        };
        RecreateReport {
            phase: Some(RequestPhase::Completed),
            containers: self.containers.iter().map(failed).collect(),
            outcome: Some(Outcome::Failed(FailureReason::InvalidRequest)),
            unready: false,
            message: self.why.clone(),
        }
    }
}
