//! The status of a request: what the agent writes of it, and the one place that writes it.
//!
//! One server-side apply for each change, with exactly the fields the agent owns; what it left out of the last one it
//! gives up. It names the version it was made from, so that it never overwrites what it has not seen: when the manager
//! has ended the request of a node that was away, it stays ended.

use std::{fmt::Debug, sync::Arc};

use berth_policy::{Outcome, RecreateReport, RequestId, RequestPhase, StepOutcome};
use berth_proto::crd::{ContainerRecreateRequest, ContainerRecreateRequestStatus};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
    core::DynamicObject,
};
use tracing::{debug, warn};

use super::convert;
use crate::{
    base::{
        causes::chain,
        status::{bounded, said, whole_second},
    },
    cluster::{
        FIELD_MANAGER,
        client::{CallError, Connection},
        metrics::{ClusterMetrics, Write},
        object::Object,
        request_cache::RequestCache,
        target::Target,
    },
    recreate::status::{COMPLETE, FAILED, SUCCEEDED, UNREADY, phase, state},
};

/// How often a report is made from a newer version before somebody else's turn is waited for.
const TRIES: usize = 3;

/// Writes to requests of this node.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    connection: Connection,
    known: Arc<RequestCache>,
    metrics: ClusterMetrics,
}

/// The fields of the status that are the agent's, for this report. Times stay as they were while what they are about
/// does.
pub(super) fn status(
    report: &RecreateReport,
    previous: &ContainerRecreateRequestStatus,
    now: Timestamp,
) -> ContainerRecreateRequestStatus {
    let ended = report.phase == Some(RequestPhase::Completed);
    ContainerRecreateRequestStatus {
        phase: report.phase.map(phase),
        completion_time: ended
            .then(|| previous.completion_time.clone().unwrap_or_else(|| Time(whole_second(now, false)))),
        message: said(&report.message),
        container_recreate_states: report.containers.iter().map(state).collect(),
        conditions: conditions(report, previous, now),
        ..ContainerRecreateRequestStatus::default()
    }
}

fn conditions(
    report: &RecreateReport,
    previous: &ContainerRecreateRequestStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |condition_type: &str, reason: &str, message: &str, since: Timestamp| {
        let same = |old: &&Condition| old.type_ == condition_type && old.status == "True";
        let old = previous.conditions.iter().find(same);
        Condition {
            type_: condition_type.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: bounded(message),
            last_transition_time: old.map_or(Time(since), |old| old.last_transition_time.clone()),
            observed_generation: None,
        }
    };
    let outcome = report.outcome.map(|outcome| match outcome {
        Outcome::Complete => condition(COMPLETE, SUCCEEDED, &report.message, whole_second(now, false)),
        Outcome::Failed(reason) => condition(FAILED, reason, &report.message, whole_second(now, false)),
    });
    // Rounded up: after a restart the grace is counted from here, and must not be shorter than asked for.
    let unready = report.unready.then(|| condition(UNREADY, UNREADY, "", whole_second(now, true)));
    outcome.into_iter().chain(unready).collect()
}

/// Keeps the part of a status that the agent may have written.
fn own(status: &ContainerRecreateRequestStatus) -> ContainerRecreateRequestStatus {
    let mut own = status.clone();
    own.conditions.retain(|condition| [COMPLETE, FAILED, UNREADY].contains(&condition.type_.as_str()));
    own.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
    own.node_name = None;
    own.pod_uid = None;
    own.container_status_contexts.clear();
    own
}

/// Returns whether the request ended in another way than this report would have it: that is not changed any
/// more.
fn ended_otherwise(target: &Target, report: &RecreateReport) -> bool {
    let there = convert::reported(target);
    target.has_ended() && (report.phase != Some(RequestPhase::Completed) || there.outcome != report.outcome)
}

// === impl Reporter ===

impl Reporter {
    /// A writer for what `known` holds.
    pub(super) fn new(connection: Connection, known: Arc<RequestCache>, metrics: ClusterMetrics) -> Self {
        Self { connection, known, metrics }
    }

    /// Writes the report, unless the status says it already.
    pub(super) async fn report(&self, id: &RequestId, report: &RecreateReport) -> StepOutcome {
        for _ in 0..TRIES {
            let Some(target) = self.known.target(id) else { return StepOutcome::Gone };
            if ended_otherwise(&target, report) {
                debug!(request = target.key(), "Request ended otherwise meanwhile, not reported");
                return StepOutcome::Gone;
            }
            let status = status(report, &target.status, Timestamp::now());
            if status == own(&target.status) {
                return StepOutcome::Done;
            }
            let patch = Patch::Apply(target.with_status::<ContainerRecreateRequest>(id, &status));
            let name = target.name.clone();
            let write = async move |api: Api<DynamicObject>| {
                let params = PatchParams::apply(FIELD_MANAGER).force();
                api.patch_status(&name, &params, &patch).await
            };
            let written = target.ask(&self.connection, &kind(), write).await;
            self.metrics.wrote(Write::Report, &written);
            match written {
                Ok(object) => {
                    self.see(object);
                    return StepOutcome::Done;
                }
                Err(error) if error.is_gone() => return StepOutcome::Gone,
                Err(error) if error.is_conflict() => match self.look_again(id, &target).await {
                    StepOutcome::Done => {}
                    outcome => return outcome,
                },
                Err(error) => return failed(&target, &error, "Request not reported"),
            }
        }
        StepOutcome::Failed
    }

    /// Deletes the request.
    pub(super) async fn delete(&self, id: &RequestId) -> StepOutcome {
        let Some(target) = self.known.target(id) else { return StepOutcome::Gone };
        let deleted = target.delete(&self.connection, &kind(), id).await;
        self.metrics.wrote(Write::Delete, &deleted);
        match deleted {
            Ok(_) => StepOutcome::Done,
            // Another request has the name now.
            Err(error) if error.is_gone() || error.is_conflict() => StepOutcome::Gone,
            Err(error) => failed(&target, &error, "Request not deleted"),
        }
    }

    /// Somebody else wrote: what does it look like now?
    async fn look_again(&self, id: &RequestId, target: &Target) -> StepOutcome {
        let name = target.name.clone();
        let look = async move |api: Api<DynamicObject>| api.get_opt(&name).await;
        match target.ask(&self.connection, &kind(), look).await {
            Ok(Some(object)) if object.metadata.uid.as_deref() == Some(id.as_str()) => {
                self.see(object);
                StepOutcome::Done
            }
            Ok(_) => StepOutcome::Gone,
            Err(error) => failed(target, &error, "Request not read"),
        }
    }

    fn see(&self, object: DynamicObject) {
        if let Some(object) = <Object>::read(object) {
            self.known.put(&object);
        }
    }
}

/// The kind, for objects that are read in two parts.
pub(super) fn kind() -> ApiResource {
    ApiResource::erase::<ContainerRecreateRequest>(&())
}

fn failed(target: &Target, error: &CallError, what: &'static str) -> StepOutcome {
    warn!(request = target.key(), error = %chain(error), "{what}");
    StepOutcome::Failed
}

#[cfg(test)]
mod tests;
