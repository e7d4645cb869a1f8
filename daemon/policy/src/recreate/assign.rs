//! Which instances a request is about, for requests that no manager has assigned: files and the admin socket.

use crate::{
    model::{ContainerName, ContainerState, PodRef, SandboxId},
    node::Node,
    recreate::RecreateTarget,
    sandbox::Sandbox,
};

/// Subject of a request: a pod, and the instances of its containers as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The pod.
    pub pod: PodRef,
    /// The containers, as they were listed.
    pub containers: Vec<RecreateTarget>,
}

/// Why nothing can be assigned. `Display` names the pod and the container and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// No such pod.
    #[error("pod {0} is not on this node; `berthctl pods` lists those that are")]
    NoPod(String),
    /// It is in several namespaces.
    #[error("pod {name} is in several namespaces ({}): write namespace/name", namespaces.join(", "))]
    Ambiguous {
        /// As it was asked for.
        name: String,
        /// Where it is.
        namespaces: Vec<String>,
    },
    /// No container was named.
    #[error("no container of pod {0} is named: list at least one")]
    NoContainers(String),
    /// A container is listed twice.
    #[error("container {container} of pod {pod} is listed twice: list it once")]
    Twice {
        /// The pod.
        pod: String,
        /// The container.
        container: ContainerName,
    },
    /// The pod has no such container.
    #[error("pod {pod} has no container {container}; it has {}", join(known))]
    NoContainer {
        /// The pod.
        pod: String,
        /// The container.
        container: ContainerName,
        /// Containers that the pod has.
        known: Vec<ContainerName>,
    },
}

impl Node {
    /// The pod of this name, or `namespace/name`.
    pub fn pod_named(&self, pod: &str) -> Result<PodRef, AssignError> {
        self.sandbox_named(pod).map(|sandbox| sandbox.pod.clone())
    }

    /// The instances of these containers, as they are now. `pod` is a name, or `namespace/name`.
    pub fn assign(&self, pod: &str, containers: &[ContainerName]) -> Result<Assigned, AssignError> {
        let sandbox = self.sandbox_named(pod)?;
        let name = format!("{}/{}", sandbox.pod.namespace, sandbox.pod.name);
        if containers.is_empty() {
            return Err(AssignError::NoContainers(name));
        }
        let mut targets: Vec<RecreateTarget> = Vec::new();
        for container in containers {
            if targets.iter().any(|target| target.name == *container) {
                return Err(AssignError::Twice { pod: name, container: container.clone() });
            }
            let Some(instance) = sandbox.newest(container) else {
                let mut known: Vec<ContainerName> =
                    sandbox.instances.values().map(|instance| instance.container.name.clone()).collect();
                known.sort();
                known.dedup();
                return Err(AssignError::NoContainer { pod: name, container: container.clone(), known });
            };
            targets.push(RecreateTarget { name: container.clone(), instance: instance.container.id.clone() });
        }
        Ok(Assigned { pod: sandbox.pod.clone(), containers: targets })
    }

    fn sandbox_named(&self, pod: &str) -> Result<&Sandbox, AssignError> {
        let matches = |found: &PodRef| match pod.split_once('/') {
            Some((namespace, name)) => found.namespace == namespace && found.name == name,
            None => found.name == pod,
        };
        let candidates: Vec<(&SandboxId, &Sandbox)> =
            self.sandboxes.iter().filter(|(_, sandbox)| matches(&sandbox.pod)).collect();
        let mut namespaces: Vec<String> =
            candidates.iter().map(|(_, sandbox)| sandbox.pod.namespace.clone()).collect();
        namespaces.sort();
        namespaces.dedup();
        if namespaces.len() > 1 {
            return Err(AssignError::Ambiguous { name: pod.to_owned(), namespaces });
        }
        // An old sandbox of the same pod may still be there: the one in which something runs counts, then the
        // newest.
        let runs = |sandbox: &Sandbox| {
            sandbox.instances.values().any(|instance| instance.container.state == ContainerState::Running)
        };
        let newest = candidates.into_iter().max_by_key(|(_, sandbox)| (runs(sandbox), sandbox.since));
        newest.map(|(_, sandbox)| sandbox).ok_or_else(|| AssignError::NoPod(pod.to_owned()))
    }
}

fn join(names: &[ContainerName]) -> String {
    if names.is_empty() {
        return "none yet".to_owned();
    }
    names.iter().map(ContainerName::as_str).collect::<Vec<_>>().join(", ")
}
