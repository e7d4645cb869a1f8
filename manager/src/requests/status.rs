//! Status of a request, as the manager reads it, whichever of the two kinds it is.

use berth_proto::crd::{
    ContainerRecreateRequestStatus, ContainerUpdateRequestStatus, RecreatePhase, StatusContext, UpdatePhase,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{kind::RequestKind, replaced::Instance};
use crate::store::{RecreateSeen, Uid};

/// Status of both kinds of requests.
pub(super) trait Status {
    /// Which of the two it is.
    const KIND: RequestKind;

    /// Tells whether it ended, however.
    fn is_over(&self) -> bool;
    /// The agent has said something.
    fn is_answered(&self) -> bool;
    /// The request failed and the agent takes back what was done. The deadline is behind it, and the way back
    /// has none.
    fn rolls_back(&self) -> bool;
    /// Its text for people.
    fn message(&self) -> Option<&str>;
    /// The node of the assignment.
    fn node(&self) -> Option<&str>;
    /// The pod of the assignment.
    fn pod_uid(&self) -> Option<&str>;
    /// The instances of the assignment.
    fn contexts(&self) -> &[StatusContext];
    /// The instances that are history because of it.
    fn replaced(&self) -> Box<[Instance]>;
    /// Containers that it tells of, and how many of them are as wanted, and never will be.
    fn states(&self) -> (usize, usize, usize);
    /// Its conditions.
    fn conditions(&self) -> &[Condition];
    /// Time of its end.
    fn ended(&self) -> Option<Timestamp>;
}

impl Status for ContainerRecreateRequestStatus {
    const KIND: RequestKind = RequestKind::Recreate;

    fn is_over(&self) -> bool {
        self.phase == Some(RecreatePhase::Completed) || self.completion_time.is_some()
    }

    fn is_answered(&self) -> bool {
        self.phase.is_some()
    }

    fn rolls_back(&self) -> bool {
        false
    }

    fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn node(&self) -> Option<&str> {
        self.node_name.as_deref()
    }

    fn pod_uid(&self) -> Option<&str> {
        self.pod_uid.as_deref()
    }

    fn contexts(&self) -> &[StatusContext] {
        &self.container_status_contexts
    }

    /// Lists the instances that recreated containers had.
    fn replaced(&self) -> Box<[Instance]> {
        let pod = Uid::from(self.pod_uid.as_deref().unwrap_or_default());
        let states = self.container_recreate_states.iter();
        let done = states.filter(|state| state.phase == RecreatePhase::Succeeded);
        let contexts = &self.container_status_contexts;
        let contexts = done.filter_map(|state| contexts.iter().find(|context| context.name == state.name));
        contexts.map(|context| Instance::new(&pod, &context.container_id.as_str().into())).collect()
    }

    fn states(&self) -> (usize, usize, usize) {
        let states = &self.container_recreate_states;
        let count = |phase| states.iter().filter(|state| state.phase == phase).count();
        (states.len(), count(RecreatePhase::Succeeded), count(RecreatePhase::Failed))
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn ended(&self) -> Option<Timestamp> {
        self.completion_time.as_ref().map(|time| time.0)
    }
}

/// An update is about a pod, whatever instances its containers have.
impl Status for ContainerUpdateRequestStatus {
    const KIND: RequestKind = RequestKind::Update;

    fn is_over(&self) -> bool {
        self.phase == Some(UpdatePhase::Completed) || self.completion_time.is_some()
    }

    fn is_answered(&self) -> bool {
        self.phase.is_some()
    }

    fn rolls_back(&self) -> bool {
        self.phase == Some(UpdatePhase::RollingBack)
    }

    fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn node(&self) -> Option<&str> {
        self.node_name.as_deref()
    }

    fn pod_uid(&self) -> Option<&str> {
        self.pod_uid.as_deref()
    }

    fn contexts(&self) -> &[StatusContext] {
        &[]
    }

    fn replaced(&self) -> Box<[Instance]> {
        Box::default()
    }

    fn states(&self) -> (usize, usize, usize) {
        let states = &self.container_update_states;
        let count = |phase| states.iter().filter(|state| state.phase == phase).count();
        (states.len(), count(UpdatePhase::Succeeded), count(UpdatePhase::Failed))
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn ended(&self) -> Option<Timestamp> {
        self.completion_time.as_ref().map(|time| time.0)
    }
}

/// Tells whether an agent has the request, which has not ended: its pod may be unavailable at any time.
pub(crate) fn under_way(seen: &RecreateSeen) -> bool {
    seen.status
        .as_ref()
        .is_ok_and(|status| !status.is_over() && status.node().is_some_and(|node| !node.is_empty()))
}
