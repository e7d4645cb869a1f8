//! Writes to requests at the API server: their status, and their deletion.
//!
//! One server-side apply for each change, with exactly the fields the agent owns; what it left out of the
//! last one it gives up. It names the version it was made from, so that it never overwrites what it has not
//! seen: when the manager has ended the request of a node that was away, it stays ended.

use std::{fmt::Debug, sync::Arc};

use berth_policy::{RecreateReport, RequestId, RequestPhase, StepOutcome};
use berth_proto::crd::ContainerRecreateRequest;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
};
use tracing::{debug, warn};

use crate::{
    base::causes::chain,
    cluster::{
        FIELD_MANAGER,
        client::{CallError, Connection},
        metrics::{ClusterMetrics, Write},
        object::Object,
        raw::Raw,
        request_cache::RequestCache,
        target::Target,
    },
    recreate::codec,
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

/// Returns whether the request ended in another way than this report would have it: that is not changed any
/// more.
fn ended_otherwise(target: &Target, report: &RecreateReport) -> bool {
    let there = &target.status;
    let differs = || report.phase != Some(RequestPhase::Completed) || codec::outcome(there) != report.outcome;
    codec::has_ended(there) && differs()
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
            let status = codec::status(report, &target.status, Timestamp::now());
            if status == codec::own(&target.status) {
                return StepOutcome::Done;
            }
            let patch = Patch::Apply(target.with_status::<ContainerRecreateRequest>(id, &status));
            let name = target.name.clone();
            let write = async move |api: Api<Raw>| {
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

    /// Looks at it again, as somebody else wrote.
    async fn look_again(&self, id: &RequestId, target: &Target) -> StepOutcome {
        let name = target.name.clone();
        let look = async move |api: Api<Raw>| api.get_opt(&name).await;
        match target.ask(&self.connection, &kind(), look).await {
            Ok(found) => match found.and_then(<Object>::read).filter(|object| object.id == *id) {
                Some(object) => {
                    self.known.put(&object);
                    StepOutcome::Done
                }
                None => StepOutcome::Gone,
            },
            Err(error) => failed(target, &error, "Request not read"),
        }
    }

    fn see(&self, object: Raw) {
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
