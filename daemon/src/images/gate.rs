//! The gate of the data path: the agent's, with a word to the images where a call is about one.

use std::sync::Arc;

use berth_policy::{Call, ContainerId, Event, Latch, Request, Verdict};
use berth_shim::{Answer, BoxFuture, Decision, Gate, Holds, Query};
use futures::FutureExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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

/// Tells the agent whether there is a pull that the kubelet's could wait for, now and later: a data path in
/// another process knows in advance then when it need not ask.
pub(crate) async fn tell_busy(agent: Arc<Agent>, images: Arc<SharedImages>, stop: CancellationToken) {
    let mut busy = images.busy();
    let telling = async {
        loop {
            let now = *busy.borrow_and_update();
            agent.observe(Event::ImagesBusy(now));
            if busy.changed().await.is_err() {
                return;
            }
        }
    };
    // Cancel-safe: nothing is kept from one word to the next.
    stop.run_until_cancelled(telling).await;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_policy::{ImageEvent, ImageLimits, WishId, WishSource};
    use berth_proto::image::Reference;
    use berth_shim::remote::Foresight;
    use prometheus_client::registry::Registry;
    use tokio::time::timeout;

    use super::*;
    use crate::{
        agent::{metrics::AgentMetrics, store::Store},
        images::node_image::plain,
    };

    #[tokio::test]
    async fn a_shim_is_told_when_a_pull_has_nothing_to_wait_for() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let metrics = AgentMetrics::register(&mut Registry::default());
        let agent = Arc::new(Agent::new(berth_policy::Config::default(), store, metrics.clone()));
        let limits = ImageLimits { parallel: 1, per_registry: 1, seed: 0 };
        let images = Arc::new(SharedImages::new(limits, metrics));
        let passes = || agent.in_advance().unwrap().pulls_pass;
        let stop = CancellationToken::new();
        let telling = tokio::spawn(tell_busy(agent.clone(), images.clone(), stop.clone()));
        let turns = async |expected: bool| {
            let mut changes = Foresight::changes(&*agent);
            let turned = async {
                while passes() != expected {
                    changes.changed().await.unwrap();
                }
            };
            timeout(Duration::from_secs(60), turned).await.expect("it is told");
        };
        assert!(!passes(), "nothing is known before the first plan");
        images.plan();
        turns(true).await;
        let id = WishId { source: WishSource::Api, key: "w".into() };
        let wish = plain(id.clone(), &"r.io/a:1".parse::<Reference>().unwrap());
        images.apply(ImageEvent::WishSeen(Box::new(wish)));
        turns(false).await;
        images.apply(ImageEvent::WishGone(id));
        turns(true).await;
        stop.cancel();
        telling.await.unwrap();
    }
}
