//! Patch that the index wants written, as a value.

use std::{sync::Arc, time::Instant};

use berth_proto::crd::{
    ContainerRecreateRequestStatus, ContainerUpdateRequestStatus, RecreatePhase, StatusContext, UpdatePhase,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;

use super::{
    failure::Failure,
    kind::{RequestId, RequestKind},
};

/// One write to the status of one request.
#[derive(Clone, Debug)]
pub struct StatusPatch {
    /// Which request.
    pub id: RequestId,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on. The write must fail on any other: what happened since is not known
    /// here.
    pub resource_version: Box<str>,
    /// RequestAct to carry out.
    pub write: RequestAct,
    /// When it was decided.
    pub at: Timestamp,
    /// It is written by then or not at all: what it was decided on may not hold any more.
    pub by: Option<Instant>,
}

/// RequestAct to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestAct {
    /// An agent gets the request.
    Assign(Assignment),
    /// It waits, and says why.
    Wait(Box<str>),
    /// The request ends, with the assignment it had.
    Fail(Failure, Option<Assignment>),
    /// It has ended, and its time after that is over, too.
    Delete,
}

/// Which agent is to do it, on which instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The pod's node.
    pub node: Arc<str>,
    /// The pod.
    pub pod_uid: String,
    /// The instances to replace; an update has none.
    pub contexts: Vec<StatusContext>,
}

/// Every field of a status that is the manager's: with server-side apply, one left out is one taken back.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum RequestStatus {
    /// Status of a ContainerRecreateRequest.
    Recreate(Box<ContainerRecreateRequestStatus>),
    /// Status of a ContainerUpdateRequest.
    Update(Box<ContainerUpdateRequestStatus>),
}

impl StatusPatch {
    /// The status as it is applied.
    pub fn status(&self) -> RequestStatus {
        let (failure, assignment) = match &self.write {
            RequestAct::Assign(assignment) => (None, Some(assignment)),
            RequestAct::Wait(_) | RequestAct::Delete => (None, None),
            RequestAct::Fail(failure, assignment) => (Some(failure), assignment.as_ref()),
        };
        let completion_time = failure.map(|_| Time(self.at));
        let message = match &self.write {
            RequestAct::Wait(why) => Some(why.to_string()),
            _ => failure.map(|failure| failure.message.clone()),
        };
        let conditions = failure.map(|failure| self.failed(failure)).into_iter().collect();
        let node_name = assignment.map(|assignment| assignment.node.to_string());
        let pod_uid = assignment.map(|assignment| assignment.pod_uid.clone());
        match self.id.kind {
            RequestKind::Recreate => RequestStatus::Recreate(Box::new(ContainerRecreateRequestStatus {
                phase: failure.map(|_| RecreatePhase::Completed),
                completion_time,
                message,
                conditions,
                node_name,
                pod_uid,
                container_status_contexts: assignment.map(|it| it.contexts.clone()).unwrap_or_default(),
                ..Default::default()
            })),
            RequestKind::Update => RequestStatus::Update(Box::new(ContainerUpdateRequestStatus {
                phase: failure.map(|_| UpdatePhase::Completed),
                completion_time,
                message,
                conditions,
                node_name,
                pod_uid,
                ..Default::default()
            })),
        }
    }

    fn failed(&self, failure: &Failure) -> Condition {
        Condition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: failure.reason.name().to_owned(),
            message: failure.message.clone(),
            last_transition_time: Time(self.at),
            observed_generation: None,
        }
    }
}
