//! Instances that run for the containers of a pod, for those who judge by it: an update, the end of a job, a
//! probe.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{Container, ContainerId, ContainerName, ContainerState, PodUid, SandboxId},
    node::{InFlightKind, Node},
    sandbox::{Instance, PostStart, Sandbox},
};

/// The newest instance of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// Its CRI identity.
    pub id: ContainerId,
    /// As often the container was started before.
    pub attempt: u32,
    /// State of the container: says whether it runs.
    pub state: ContainerState,
    /// A client asked the runtime to stop it, or the kubelet was shown that it has to.
    pub stopping: bool,
    /// The first hook since its start, which was seen, has ended well.
    pub hooked: bool,
}

/// A position in the sequence of everything that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(crate) u64);

impl Node {
    /// The newest instance of each container, in whichever sandbox of the pod; one that runs goes before all
    /// others.
    pub fn instances(&self, pod: &PodUid) -> BTreeMap<ContainerName, InstanceView> {
        let view = |container: &Container, post_start: PostStart| InstanceView {
            id: container.id.clone(),
            attempt: container.attempt,
            state: container.state,
            stopping: self.is_being_stopped(&container.id),
            hooked: post_start == PostStart::Ended { well: true },
        };
        let newest = self.newest(pod, |_| true).into_iter();
        newest
            .map(|(name, (_, instance))| (name.clone(), view(&instance.container, instance.post_start)))
            .collect()
    }

    /// The same with its sandbox, of those whose state counts.
    pub(crate) fn newest(
        &self,
        pod: &PodUid,
        counts: impl Fn(ContainerState) -> bool,
    ) -> BTreeMap<&ContainerName, (&SandboxId, &Instance)> {
        newest_of(self.sandboxes.iter().filter(|(_, sandbox)| sandbox.pod.uid == *pod), counts)
    }

    /// Tells whether the runtime has this instance in a sandbox of this pod.
    pub(crate) fn is_instance_of(&self, container: &ContainerId, pod: &PodUid) -> bool {
        let home = self.containers.get(container).and_then(|sandbox| self.sandboxes.get(sandbox));
        home.is_some_and(|sandbox| sandbox.pod.uid == *pod)
    }

    /// All exited instances of each container.
    pub fn exited(&self, pod: &PodUid) -> BTreeMap<ContainerName, BTreeSet<ContainerId>> {
        let mut exited: BTreeMap<ContainerName, BTreeSet<ContainerId>> = BTreeMap::new();
        let instances = self.sandboxes_of(pod).flat_map(|sandbox| sandbox.instances.values());
        for Container { id, name, state, .. } in instances.map(|instance| &instance.container) {
            if matches!(state, ContainerState::Exited { .. }) {
                exited.entry(name.clone()).or_default().insert(id.clone());
            }
        }
        exited
    }

    /// The exit codes that are known of a sandbox: they never change.
    pub fn exit_codes(&self, sandbox: &SandboxId) -> BTreeMap<ContainerId, i32> {
        let home = self.sandboxes.get(sandbox).into_iter();
        let instances = home.flat_map(|sandbox| sandbox.instances.values());
        let code = |Container { id, state, .. }: &Container| match state {
            ContainerState::Exited { code } => Some((id.clone(), (*code)?)),
            ContainerState::Created | ContainerState::Running | ContainerState::Unknown => None,
        };
        instances.filter_map(|instance| code(&instance.container)).collect()
    }

    /// Now, to be compared with [`Node::relisted`].
    pub fn moment(&self) -> Moment {
        Moment(self.seq)
    }

    /// Returns when a kubelet last listed all containers. `None`: none does so through this agent.
    pub fn relisted(&self) -> Option<Moment> {
        self.connections.values().filter_map(|connection| connection.relisted).max().map(Moment)
    }

    fn is_being_stopped(&self, id: &ContainerId) -> bool {
        let stops =
            |kind: &InFlightKind| matches!(kind, InFlightKind::Stop { container, .. } if container == id);
        self.recreates.was_shown(id) || self.calls.values().any(|call| stops(&call.kind))
    }
}

/// The newest instance of each container in the sandboxes of a pod, of those whose state counts.
pub(crate) fn newest_of<'a>(
    sandboxes: impl IntoIterator<Item = (&'a SandboxId, &'a Sandbox)>,
    counts: impl Fn(ContainerState) -> bool,
) -> BTreeMap<&'a ContainerName, (&'a SandboxId, &'a Instance)> {
    let mut newest = BTreeMap::new();
    for (id, sandbox) in sandboxes {
        for instance in sandbox.instances.values() {
            let Container { name, state, attempt, .. } = &instance.container;
            let rank = (*state == ContainerState::Running, sandbox.since, *attempt, instance.changed);
            let known = newest.get(name).map(|(known, _)| *known);
            if counts(*state) && known.is_none_or(|known| known < rank) {
                newest.insert(name, (rank, (id, instance)));
            }
        }
    }
    newest.into_iter().map(|(name, (_, found))| (name, found)).collect()
}
