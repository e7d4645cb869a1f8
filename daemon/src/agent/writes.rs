//! Writes to the store: latches and marks. It waits for the disk, and whoever asks must not.

use berth_policy::{
    ConnectionId, ContainerId, Event, MarkPhase, RecreateMark, RequestId, SandboxId, SidecarMark,
};
use berth_shim::Gate;
use tracing::{debug, error, info};

use super::{
    Agent,
    fault::Point,
    store::{Store, StoreError},
};
use crate::base::causes::chain;

impl Agent {
    /// Removes the latches of a sandbox that is gone. Nobody waits for the disk: a failure is counted, and
    /// the next start tries again.
    pub fn forget_latches(&self, sandbox: &SandboxId) {
        let (store, metrics, gone) = (self.store.clone(), self.metrics.clone(), sandbox.clone());
        tokio::task::spawn_blocking(move || match store.forget(&gone) {
            Ok(()) => {}
            Err(error @ StoreError::Closed) => {
                debug!(%error, sandbox = %gone, "Latches not removed from the store");
            }
            Err(error) => {
                metrics.store_failed();
                error!(sandbox = %gone, error = %chain(&error), "Latches not removed from the store");
            }
        });
        self.observe(Event::LatchesForgotten(sandbox.clone()));
    }

    /// Makes marks durable; all or none.
    pub async fn write_marks(&self, marks: Vec<RecreateMark>) -> bool {
        self.write("Marks not written", move |store| store.mark(&marks)).await
    }

    /// Removes the marks of a request from the store.
    pub async fn forget_marks(&self, request: RequestId) -> bool {
        self.write("Marks not removed", move |store| store.unmark(&request)).await
    }

    /// Makes marks of job sidecars durable; all or none.
    pub async fn write_sidecars(&self, marks: Vec<SidecarMark>) -> bool {
        self.write("Marks of job sidecars not written", move |store| store.mark_sidecars(&marks)).await
    }

    /// Removes the marks of these containers from the store.
    pub async fn forget_sidecars(&self, containers: Vec<ContainerId>) -> bool {
        self.write("Marks of job sidecars not removed", move |store| store.unmark_sidecars(&containers)).await
    }

    /// A mark that a call of the kubelet makes due, and waits for.
    pub(super) async fn write_on_behalf(&self, mark: RecreateMark, connection: ConnectionId) -> bool {
        let written = self.write_marks(vec![mark.clone()]).await;
        if written {
            info!(
                container = %mark.name,
                container.id = %mark.container,
                phase = ?mark.phase,
                "Recreate goes on"
            );
            match mark.phase {
                MarkPhase::Shown => Point::Shown.reached(),
                MarkPhase::Hooked => Point::Hooked.reached(),
                MarkPhase::Armed | MarkPhase::Stopping => {}
            }
            self.observe(Event::MarkWritten(mark, connection));
        }
        written
    }

    /// Writes to the store; a failure is counted and said.
    pub(super) async fn write(
        &self,
        failure: &'static str,
        work: impl FnOnce(&Store) -> Result<(), StoreError> + Send + 'static,
    ) -> bool {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(Ok(())) => true,
            Ok(Err(error @ StoreError::Closed)) => {
                debug!(%error, "{failure}");
                false
            }
            Ok(Err(error)) => {
                self.metrics.store_failed();
                error!(error = %chain(&error), "{failure}");
                false
            }
            Err(error) => {
                error!(%error, "{failure}");
                false
            }
        }
    }
}
