//! Which instances a request is about: the policy's answer, with what the runtime says of them.

use berth_policy::{AssignError, Assigned, ContainerName};
use berth_proto::crd::{ContainerRecreateRequestSpec, StatusContext};

use super::Files;
use crate::cri::RuntimeError;

/// Why a request has no instances, so far.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unassigned {
    /// The node does not have them.
    #[error(transparent)]
    Not(#[from] AssignError),
    /// The runtime does not say who it is, or how often they were restarted.
    #[error("the instances of pod {pod} cannot be told")]
    Runtime {
        /// The pod.
        pod: String,
        /// Error of the runtime.
        source: RuntimeError,
    },
    /// It went while it was asked about.
    #[error("container {container} of pod {pod} was being replaced; try again")]
    Replaced {
        /// The pod.
        pod: String,
        /// The container.
        container: ContainerName,
    },
}

impl Files {
    /// The instances, as they are now; `pod` is a name or `namespace/name`.
    pub(super) async fn assign(
        &self,
        pod: &str,
        spec: &ContainerRecreateRequestSpec,
    ) -> Result<(Assigned, Vec<StatusContext>), Unassigned> {
        let names: Vec<ContainerName> =
            spec.containers.iter().map(|container| container.name.as_str().into()).collect();
        let assigned = self.0.agent.read(|node, _| node.assign(pod, &names))?;
        let failed = |source| Unassigned::Runtime { pod: pod.to_owned(), source };
        let scheme = self.0.runtime.version().await.map_err(failed)?.runtime_name;
        let mut contexts = Vec::new();
        for target in &assigned.containers {
            let attempt = self.0.runtime.attempt(&target.instance).await.map_err(failed)?;
            let attempt = attempt.ok_or_else(|| Unassigned::Replaced {
                pod: pod.to_owned(),
                container: target.name.clone(),
            })?;
            contexts.push(StatusContext {
                name: target.name.as_str().to_owned(),
                container_id: format!("{scheme}://{}", target.instance),
                restart_count: attempt.try_into().unwrap_or(i32::MAX),
            });
        }
        Ok((assigned, contexts))
    }
}
