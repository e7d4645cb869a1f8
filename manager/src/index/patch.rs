//! What the index wants written, as a value.

use std::sync::Arc;

use berth_proto::crd::{ContainerRecreateRequestStatus, RecreatePhase, StatusContext};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::failure::Failure;
use crate::seen::Key;

/// One write to the status of one request.
#[derive(Clone, Debug)]
pub struct StatusPatch {
    /// Which request.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on. The write must fail on any other: what happened since is not known here.
    pub resource_version: Box<str>,
    /// What to write.
    pub write: Write,
    /// When it was decided.
    pub at: Timestamp,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// An agent gets the request.
    Assign(Assignment),
    /// The request ends, with the assignment it had.
    Fail(Failure, Option<Assignment>),
}

/// Which agent is to do it, on which instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The pod's node.
    pub node: Arc<str>,
    /// The pod.
    pub pod_uid: String,
    /// The instances to replace.
    pub contexts: Vec<StatusContext>,
}

impl StatusPatch {
    /// Every field of the status that is the manager's: with server-side apply, one left out is one taken back.
    pub fn status(&self) -> ContainerRecreateRequestStatus {
        match &self.write {
            Write::Assign(assignment) => assigned(assignment),
            Write::Fail(failure, assignment) => ContainerRecreateRequestStatus {
                phase: Some(RecreatePhase::Completed),
                completion_time: Some(Time(self.at)),
                message: Some(failure.message.clone()),
                conditions: vec![Condition {
                    type_: "Failed".to_owned(),
                    status: "True".to_owned(),
                    reason: failure.reason.name().to_owned(),
                    message: failure.message.clone(),
                    last_transition_time: Time(self.at),
                    observed_generation: None,
                }],
                ..assignment.as_ref().map(assigned).unwrap_or_default()
            },
        }
    }
}

fn assigned(assignment: &Assignment) -> ContainerRecreateRequestStatus {
    ContainerRecreateRequestStatus {
        node_name: Some(assignment.node.to_string()),
        pod_uid: Some(assignment.pod_uid.clone()),
        container_status_contexts: assignment.contexts.clone(),
        ..ContainerRecreateRequestStatus::default()
    }
}
