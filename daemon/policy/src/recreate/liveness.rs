//! Liveness of the pod and of the containers of a request, as runtime and pod view show them.

use crate::{
    model::{
        ConnectionId, ContainerId, ContainerName, ContainerState, Hook, PodUid, Readiness, RestartPolicy,
    },
    node::Node,
    sandbox::{Instance, Sandbox},
};

/// Liveness of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodLiveness {
    /// It is there.
    Alive,
    /// It is being deleted, or has ended.
    Gone,
    /// Nothing shows it. It was here and is gone, or the pod view is behind: watches have no common order.
    Missing,
    /// Too little was listed yet to say.
    Unclear,
}

/// How one container of a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing<'a> {
    /// The instance to replace runs.
    OldRuns,
    /// It was created and does not run yet, or the runtime does not know.
    OldUnclear,
    /// It exited, and no other is there.
    OldExited(Option<i32>),
    /// Another instance is there.
    Replaced(&'a Instance),
    /// None is there.
    Absent,
}

impl Node {
    pub(super) fn pod_liveness(&self, uid: &PodUid) -> PodLiveness {
        let sandboxed = || self.sandboxes_of(uid).next().is_some();
        match self.pods.get(uid) {
            Some(pod) if pod.deletion.is_some() || pod.ended => PodLiveness::Gone,
            Some(_) => PodLiveness::Alive,
            None if self.view_fresh => PodLiveness::Missing,
            None if sandboxed() => PodLiveness::Alive,
            // Without a view, or while it is away, the runtime's own list is all there is.
            None if self.runtime_listed => PodLiveness::Missing,
            None => PodLiveness::Unclear,
        }
    }

    /// The runtime has a container of this pod that runs, and the pod view does not show the pod, nor that it
    /// cannot be read.
    pub(super) fn runs_unseen(&self, uid: &PodUid) -> bool {
        let mut instances = self.sandboxes_of(uid).flat_map(|sandbox| sandbox.instances.values());
        !self.unread.contains(uid)
            && instances.any(|instance| instance.container.state == ContainerState::Running)
    }

    /// Returns how a container is, where `target` is the instance to replace.
    pub(super) fn standing_in(
        &self,
        pod: &PodUid,
        name: &ContainerName,
        target: &ContainerId,
    ) -> Standing<'_> {
        let Some(instance) = self.newest_instance(pod, name, target) else { return Standing::Absent };
        if instance.container.id != *target {
            return Standing::Replaced(instance);
        }
        match instance.container.state {
            ContainerState::Running => Standing::OldRuns,
            ContainerState::Exited { code } => Standing::OldExited(code),
            ContainerState::Created | ContainerState::Unknown => Standing::OldUnclear,
        }
    }

    /// The newest instance in whichever sandbox of the pod. One that runs is; of the others any but `old`, of
    /// which it is known that it is not the newest once there is another.
    fn newest_instance(&self, pod: &PodUid, name: &ContainerName, old: &ContainerId) -> Option<&Instance> {
        self.sandboxes_of(pod)
            .flat_map(|sandbox| sandbox.instances.values().map(move |instance| (sandbox, instance)))
            .filter(|(_, instance)| instance.container.name == *name)
            .max_by_key(|(sandbox, instance)| {
                let container = &instance.container;
                let running = container.state == ContainerState::Running;
                (running, sandbox.since, container.attempt, container.id != *old)
            })
            .map(|(_, instance)| instance)
    }

    pub(crate) fn sandboxes_of(&self, pod: &PodUid) -> impl Iterator<Item = &Sandbox> {
        self.sandboxes.values().filter(move |sandbox| sandbox.pod.uid == *pod)
    }

    /// The exited instances of a container that are not `target`: those the kubelet would compute its
    /// back-off from.
    pub(crate) fn older_exited<'a>(
        &'a self,
        pod: &'a PodUid,
        name: &'a ContainerName,
        target: &'a ContainerId,
    ) -> impl Iterator<Item = ContainerId> + 'a {
        self.sandboxes_of(pod)
            .flat_map(|sandbox| sandbox.instances.values())
            .map(|instance| &instance.container)
            .filter(move |container| {
                container.name == *name
                    && container.id != *target
                    && matches!(container.state, ContainerState::Exited { .. })
            })
            .map(|container| container.id.clone())
    }

    /// Ready as the kubelet sees it. While the pod view is away, what has no probe is Ready when it runs.
    pub(super) fn is_ready(&self, pod: &PodUid, instance: &Instance) -> bool {
        let container = &instance.container;
        if container.state != ContainerState::Running {
            return false;
        }
        let Some(pod) = self.pods.get(pod) else { return true };
        let reported =
            pod.statuses.get(&container.name).is_some_and(|report| report.ready && report.id == container.id);
        let readiness = pod.containers.get(&container.name).map(|spec| spec.readiness);
        let unprobed = matches!(readiness, None | Some(Readiness::Running | Readiness::PostStart));
        reported || (unprobed && !self.view_fresh)
    }

    pub(super) fn restart_policy(&self, pod: &PodUid, name: &ContainerName) -> Option<RestartPolicy> {
        Some(self.pods.get(pod)?.restart_policy_of(name))
    }

    /// The policy by which this instance, which has exited so, is not started again.
    pub(super) fn left_exited(
        &self,
        pod: &PodUid,
        name: &ContainerName,
        id: &ContainerId,
        code: Option<i32>,
    ) -> Option<RestartPolicy> {
        let pod = self.pods.get(pod).filter(|pod| pod.leaves_exited(name, id, code))?;
        Some(pod.restart_policy_of(name))
    }

    /// Returns the hook that the kubelet runs before it stops this container. `None`: the pod is not known.
    pub(super) fn hook_of(&self, pod: &PodUid, name: &ContainerName) -> Option<Option<&Hook>> {
        let spec = self.pods.get(pod)?.containers.get(name);
        Some(spec.and_then(|spec| spec.pre_stop.as_ref()))
    }

    pub(super) fn is_connected(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }
}
