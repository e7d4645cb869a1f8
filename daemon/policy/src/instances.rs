//! What runs for the containers of a pod, for those who judge an update by it.

use std::collections::BTreeMap;

use crate::{
    model::{ContainerId, ContainerName, ContainerState, PodUid},
    node::{InFlightKind, Node},
};

/// The newest instance of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// Its CRI identity.
    pub id: ContainerId,
    /// As often the container was started before.
    pub attempt: u32,
    /// Whether it runs.
    pub state: ContainerState,
    /// A client asked the runtime to stop it, or the kubelet was shown that it has to.
    pub stopping: bool,
}

/// A position in the sequence of everything that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Node {
    /// The newest instance of each container, in whichever sandbox of the pod; one that runs goes before all others.
    pub fn instances(&self, pod: &PodUid) -> BTreeMap<ContainerName, InstanceView> {
        let mut newest = BTreeMap::new();
        for sandbox in self.sandboxes_of(pod) {
            for instance in sandbox.instances.values() {
                let container = &instance.container;
                let rank = (
                    container.state == ContainerState::Running,
                    sandbox.since,
                    container.attempt,
                    instance.changed,
                );
                let known = newest.get(&container.name).map(|(known, _)| *known);
                if known.is_none_or(|known| known < rank) {
                    newest.insert(container.name.clone(), (rank, container));
                }
            }
        }
        newest
            .into_iter()
            .map(|(name, (_, container))| {
                let view = InstanceView {
                    id: container.id.clone(),
                    attempt: container.attempt,
                    state: container.state,
                    stopping: self.is_being_stopped(&container.id),
                };
                (name, view)
            })
            .collect()
    }

    /// The exited instances beside the newest ones. From them the kubelet computes the back-off of the next start.
    pub fn exited_before(
        &self,
        pod: &PodUid,
        name: &ContainerName,
        newest: &ContainerId,
    ) -> Vec<ContainerId> {
        self.older_exited(pod, name, newest).collect()
    }

    /// Now, for [`Node::relisted_since`].
    pub fn moment(&self) -> Moment {
        Moment(self.seq)
    }

    /// Whether a kubelet has listed all containers anew since then. `None`: none does so through this agent.
    pub fn relisted_since(&self, moment: Moment) -> Option<bool> {
        let relists = self.connections.values().filter_map(|connection| connection.relisted);
        relists.max().map(|relisted| relisted > moment.0)
    }

    fn is_being_stopped(&self, id: &ContainerId) -> bool {
        let stops =
            |kind: &InFlightKind| matches!(kind, InFlightKind::Stop { container, .. } if container == id);
        self.recreates.was_shown(id) || self.calls.values().any(|call| stops(&call.kind))
    }
}
