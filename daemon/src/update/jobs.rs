//! What is done for a pod, beside the loop that decides: each a question or a write, and what came of it.

use std::{collections::BTreeSet, sync::Arc};

use berth_policy::{
    ContainerId, ContainerName, ContainerState, InstanceView, Moment, PodRef, PodUid, RequestId, StepOutcome,
    in_place_update::{MetadataKey, PodPatch, UpdateReport, UpdateRequest, UpdateSource},
};
use k8s_openapi::api::core::v1 as core;
use tracing::info;

use super::{
    Parts,
    observe::{self, Facts},
    pods::Version,
};
use crate::{
    agent::fault::Point,
    cluster::client::CallError,
    cri::{RuntimeError, creation_record::CreationRecord},
    pods::read,
};

/// Result of a job.
#[derive(Debug)]
pub(super) enum Done {
    /// The pod was asked for.
    Fetched(PodRef, Result<Option<Box<core::Pod>>, CallError>),
    /// The runtime was asked about instances.
    Looked(PodUid, Result<Vec<(ContainerId, Facts)>, RuntimeError>),
    /// Exited instances were removed, but for these; and when.
    Cleared(PodRef, BTreeSet<ContainerId>, Moment),
    /// A step was taken, or not.
    Stepped(PodRef, Act, Result<(), CallError>),
    /// A status was written, or not.
    Reported(RequestId, UpdateReport, StepOutcome),
    /// An ended request was deleted, or not.
    Deleted(RequestId, StepOutcome),
}

/// A step that is a write.
#[derive(Debug)]
pub(super) enum Act {
    /// See [`berth_policy::in_place_update::Next::SetNotReady`].
    Close,
    /// See [`berth_policy::in_place_update::Next::SetReady`].
    Open,
    /// See [`berth_policy::in_place_update::Next::Patch`].
    Patch(Box<PodPatch>),
}

impl Act {
    fn about_to(&self) -> Point {
        match self {
            Self::Close => Point::Closing,
            Self::Open => Point::Opening,
            Self::Patch(_) => Point::Patching,
        }
    }

    fn done(&self) -> Point {
        match self {
            Self::Close => Point::Closed,
            Self::Open => Point::Opened,
            Self::Patch(_) => Point::Patched,
        }
    }
}

impl Parts {
    pub(super) async fn fetch(self: Arc<Self>, pod: PodRef) -> Done {
        let found = self.writer.look(&pod).await;
        Done::Fetched(pod, found.map(|found| found.map(Box::new)))
    }

    /// Asks how these instances were made. One that went meanwhile was made in no way anybody wants.
    pub(super) async fn look_at(
        self: Arc<Self>,
        version: Arc<Version>,
        pod: PodUid,
        instances: Vec<(ContainerName, InstanceView)>,
    ) -> Done {
        let containers = || version.pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut facts = Vec::new();
        for (name, InstanceView { id, state, .. }) in instances {
            let Some(container) = containers().find(|container| container.name == name.as_str()) else {
                continue;
            };
            match self.runtime.creation_record(&id).await {
                Ok(made) => {
                    let made = made.unwrap_or_else(CreationRecord::unknown);
                    let exited = matches!(state, ContainerState::Exited { .. });
                    facts.push((id, Facts::of(container, &made, exited)));
                }
                Err(error) => return Done::Looked(pod, Err(error)),
            }
        }
        Done::Looked(pod, Ok(facts))
    }

    pub(super) async fn step(
        self: Arc<Self>,
        pod: PodRef,
        version: Arc<Version>,
        act: Act,
        keys: BTreeSet<MetadataKey>,
    ) -> Done {
        act.about_to().reached();
        let written = match &act {
            Act::Close => self.writer.gate(&version.pod, false).await,
            Act::Open => self.writer.gate(&version.pod, true).await,
            Act::Patch(patch) => {
                // Before the kubelet can have it: what it starts from now on is not to be too old.
                self.agent.set_env(&pod.uid, observe::env(&version.pod, &patch.metadata, &keys));
                self.writer.patch(&version.pod, patch).await
            }
        };
        if let Ok(written) = &written {
            match &act {
                Act::Close => {
                    info!(pod = %pod.name, namespace = %pod.namespace, "Pod set not ready for its update");
                }
                Act::Open => {
                    info!(pod = %pod.name, namespace = %pod.namespace, "Pod set ready, its update is complete");
                }
                Act::Patch(patch) => info!(
                    pod = %pod.name,
                    namespace = %pod.namespace,
                    revision = patch.record.revision,
                    images = ?patch.images,
                    metadata = ?patch.metadata.keys().collect::<Vec<_>>(),
                    "Pod patched"
                ),
            }
            act.done().reached();
            self.pods.written(written);
        }
        let written = written.map(drop);
        Done::Stepped(pod, act, written)
    }

    pub(super) async fn report(self: Arc<Self>, request: UpdateRequest, report: UpdateReport) -> Done {
        Point::Telling.reached();
        let outcome = match request.source {
            UpdateSource::Api => self.requests.report(&request.id, &report, &self.desk).await,
            UpdateSource::Mailbox => self.mailbox.report(&request, &report).await,
            UpdateSource::Admin => self.submitted.report(&request.id, &report, &self.desk).await,
        };
        Point::Told.reached();
        if let (StepOutcome::Done, Some(outcome)) = (outcome, report.outcome) {
            info!(request = request.key, ?outcome, message = report.message, "Update ended");
        }
        Done::Reported(request.id, report, outcome)
    }

    pub(super) async fn delete(self: Arc<Self>, request: UpdateRequest) -> Done {
        let outcome = match request.source {
            UpdateSource::Api => self.requests.delete(&request.id).await,
            // The manager takes its entries back itself.
            UpdateSource::Mailbox => StepOutcome::Gone,
            UpdateSource::Admin => self.submitted.delete(&request.id, &self.desk).await,
        };
        Done::Deleted(request.id, outcome)
    }
}

/// The instances in a pod's status, for where the runtime is not watched.
pub(super) fn told(pod: &core::Pod) -> impl Iterator<Item = (ContainerName, ContainerId, u32)> + '_ {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter_map(|status| {
        let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        let id = read::container_id(status).filter(|_| running)?;
        Some((status.name.as_str().into(), id.into(), status.restart_count.try_into().unwrap_or(0)))
    })
}
