//! Pods of a BroadcastJob, reduced to what is decided by.

use k8s_openapi::api::core::v1::Pod;

use crate::{
    action::Target,
    pod::placed_on,
    revision::controller,
    store::{Stored, version},
};

/// Where a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodState {
    /// It has not ended.
    #[default]
    Active,
    /// It has, and is done.
    Succeeded,
    /// It has, and is not done.
    Failed,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of its owner.
    pub owner: String,
    /// Its node, or the one that it is for.
    pub node: String,
    /// It has been given to its node.
    pub bound: bool,
    /// Where it is.
    pub state: PodState,
    /// It is being deleted.
    pub terminating: bool,
    /// Its containers are restarted when they fail.
    pub restarts_on_failure: bool,
    /// Restarts of all its containers.
    pub restarts: i64,
}

impl PodView {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let node = spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let init = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
        let main = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
        let restarts = init.chain(main).map(|one| i64::from(one.restart_count));
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: controller(meta.owner_references.as_deref().unwrap_or_default()).to_owned(),
            bound: !node.is_empty(),
            node: if node.is_empty() { placed_on(pod).unwrap_or_default() } else { node },
            state: match status.and_then(|status| status.phase.as_deref()) {
                Some("Succeeded") => PodState::Succeeded,
                Some("Failed") => PodState::Failed,
                _ => PodState::Active,
            },
            terminating: meta.deletion_timestamp.is_some(),
            restarts_on_failure: spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("OnFailure"),
            restarts: restarts.fold(0, i64::saturating_add),
        }
    }

    /// Tells whether it has not ended, and is not being deleted.
    pub fn is_alive(&self) -> bool {
        self.state == PodState::Active && !self.terminating
    }

    /// Tells whether it was restarted too often.
    pub(super) fn is_over(&self, limit: i64) -> bool {
        self.is_alive() && self.restarts_on_failure && self.restarts > limit
    }

    /// Names it for a write.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Stored for PodView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}
