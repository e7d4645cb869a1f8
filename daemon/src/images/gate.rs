//! The gate of the data path: the agent's, with a word to the images where a call is about one.

use std::sync::Arc;

use berth_policy::{
    Call, CallId, ConnectionId, ContainerId, CreateContainer, CredentialKey, EnvValues, Event, HookTurn,
    Latch, Nudge, Request, Showing, Verdict,
};
use berth_shim::Gate;
use tokio::sync::watch;

use super::node_image::SharedImages;
use crate::agent::Agent;

/// The agent and the images, as the data path sees them: neither decides about the other.
#[derive(Debug)]
pub(crate) struct ImageGate {
    agent: Arc<Agent>,
    images: Arc<SharedImages>,
}

impl ImageGate {
    /// The gate of these two.
    pub(crate) fn new(agent: Arc<Agent>, images: Arc<SharedImages>) -> Self {
        Self { agent, images }
    }
}

impl Gate for ImageGate {
    fn admit(&self, call: &Call) -> Verdict {
        let verdict = self.agent.admit(call);
        if let (Request::CreateContainer(create), Verdict::Forward | Verdict::Latch(_)) =
            (&call.request, &verdict)
        {
            self.images.used(&create.images);
        }
        verdict
    }

    fn observe(&self, event: Event) {
        match &event {
            Event::PullPassed { call, image, credential } => self.images.passed(*call, image, *credential),
            Event::CallEnded(call) => self.images.call_ended(*call),
            _ => {}
        }
        self.agent.observe(event);
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.agent.changes()
    }

    async fn persist(&self, latch: Latch) {
        self.agent.persist(latch).await;
    }

    async fn shows(&self, connection: ConnectionId, container: &ContainerId) -> Showing {
        self.agent.shows(connection, container).await
    }

    fn is_completed(&self, container: &ContainerId) -> bool {
        self.agent.is_completed(container)
    }

    async fn hook_begins(&self, connection: ConnectionId, container: &ContainerId) -> HookTurn {
        self.agent.hook_begins(connection, container).await
    }

    fn env(&self, create: &CreateContainer) -> EnvValues {
        self.agent.env(create)
    }

    async fn joins(&self, call: CallId, image: &str, credential: CredentialKey) -> Option<String> {
        self.images.joins(call, image, credential).await
    }

    fn nudges(&self, relist: CallId) -> Vec<Nudge> {
        self.agent.nudges(relist)
    }
}
