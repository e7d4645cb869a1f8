//! Env values of containers on their way to the runtime, where the kubelet may have read older ones.
//!
//! A pod worker of the kubelet that waits for the next list of containers goes on with the pod as it was
//! before. What it then starts for an update would have the values of the version before, and be restarted
//! once more. So the core of updates says which values the containers of a pod are to be created with, and
//! each `CreateContainer` is changed accordingly.

use std::collections::BTreeMap;

use crate::{
    call::{CreateContainer, EnvValues},
    model::{ContainerName, PodUid},
    node::Node,
};

/// Values by container.
pub type CreationEnv = BTreeMap<ContainerName, EnvValues>;

impl Node {
    /// Gives the env values that this container is created with, whatever the kubelet read; usually none.
    pub fn creation_env(&self, create: &CreateContainer) -> EnvValues {
        let pod = self.creation_env.get(&create.pod.uid);
        pod.and_then(|pod| pod.get(&create.container)).cloned().unwrap_or_default()
    }

    /// Takes in that from now on the containers of this pod are created with these values; without any, as
    /// the kubelet says.
    pub(crate) fn creation_env_set(&mut self, pod: PodUid, values: CreationEnv) {
        match values.is_empty() {
            true => self.creation_env.remove(&pod),
            false => self.creation_env.insert(pod, values),
        };
    }
}

#[cfg(test)]
#[path = "tests/creation_env.rs"]
mod tests;
