//! The gate of the data path: the agent's, with a word to the images where a call is about one.

use std::sync::Arc;

use berth_policy::{Call, ContainerId, Event, Latch, Request, Verdict};
use berth_shim::{Answer, BoxFuture, Decision, Gate, Holds, Query};
use futures::FutureExt as _;
use tokio::sync::watch;

use super::node_image::SharedImages;
use crate::{
    agent::Agent,
    trace::{self, Span},
};

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

    fn traces(&self) -> bool {
        trace::on()
    }

    fn decide<'a>(&'a self, call: &'a Call, holds: &'a dyn Holds) -> BoxFuture<'a, Decision> {
        trace::decided(self, call, holds).boxed()
    }

    fn passed(&self, call: &Call) {
        self.agent.passed(call);
        if let Request::CreateContainer(create) = &call.request {
            self.images.used(&create.images);
        }
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

    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()> {
        self.agent.persist(latch)
    }

    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer> {
        match query {
            Query::Pull { call, image, credential, trace } => {
                let span = Span::of_call("join PullImage", trace);
                span.set("container.image.name", || image);
                let joined = self.images.joins(call, image, credential).map(move |pulled| {
                    span.set("berth.joined", || if pulled.is_some() { "true" } else { "false" });
                    pulled.map_or(Answer::Pass, Answer::Pulled)
                });
                joined.boxed()
            }
            other => self.agent.answer(other),
        }
    }

    fn is_completed(&self, container: &ContainerId) -> bool {
        self.agent.is_completed(container)
    }
}
