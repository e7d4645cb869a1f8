//! The one place where containers are removed from the runtime. Recreates, job sidecars and updates have
//! exited instances removed, so that the kubelet does not hold the next ones back.

use std::collections::BTreeSet;

use berth_policy::{ContainerId, Event};
use berth_shim::Gate;
use tracing::{info, warn};

use super::Agent;
use crate::{base::causes::chain, cri::Runtime};

impl Agent {
    /// Removes these exited containers, each whatever becomes of the others. Returns those that could not be
    /// removed.
    pub(crate) async fn remove_exited(
        &self,
        runtime: &Runtime,
        containers: impl IntoIterator<Item = ContainerId>,
    ) -> BTreeSet<ContainerId> {
        let mut failed = BTreeSet::new();
        for container in containers {
            match runtime.remove_container(&container).await {
                Ok(()) => {
                    info!(container.id = %container, "Exited container removed");
                    self.observe(Event::ContainerRemoved(container));
                }
                Err(error) => {
                    warn!(container.id = %container, error = %chain(&error), "Exited container not removed");
                    failed.insert(container);
                }
            }
        }
        failed
    }
}
