//! The one owner of what is known of this node: [`berth_policy::Node`] behind a lock that is never held over
//! an await.
//!
//! Everybody else has a number that grows with every change and comes to ask. A panic in the policy must not
//! stop the node: it is counted, and the call is forwarded.

pub mod fault;
mod gate;
pub mod metrics;
mod points;
mod recall;
mod removal;
pub(crate) mod set_aside;
pub mod store;
#[cfg(test)]
mod tests;
mod writes;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_policy::{CreationEnv, Event, Node, PodRef, PodUid, SetAsideView, Step, time::later};
use tokio::{sync::watch, time::Instant};

use self::{metrics::AgentMetrics, recall::Memory, store::Store};

/// When what is due is asked for again after the policy panicked as a whole.
pub(crate) const AFTER_PANIC: Duration = Duration::from_secs(1);

/// The state of the node and the way to it.
#[derive(Debug)]
pub struct Agent {
    /// A std mutex: nothing awaits inside, and the data path and the rest live on different threads.
    node: Mutex<Node>,
    /// Grows with every fact; calls that are held wait for it.
    changes: watch::Sender<u64>,
    /// Grows with every fact and every hold; the executor waits for it. A number of its own, because a hold
    /// that woke the calls that are held would wake itself.
    due: watch::Sender<u64>,
    /// Grows with every fact, whether anybody waits for it or not.
    facts: watch::Sender<u64>,
    /// Grows with every fact that may be about a container.
    containers: watch::Sender<u64>,
    /// Whether there are pods for which the end of a container counts.
    follows: watch::Sender<bool>,
    /// Grows with what alters what is known before it is asked.
    foretold: watch::Sender<u64>,
    /// How much of that a shim knows; all of it where there is none to be told.
    told: watch::Sender<Option<u64>>,
    store: Arc<Store>,
    /// Parts of it that are still to be read.
    unread: watch::Sender<Vec<Memory>>,
    metrics: AgentMetrics,
}

impl Agent {
    /// An agent that knows nothing yet but what the store remembers.
    pub fn new(config: berth_policy::Config, store: Arc<Store>, metrics: AgentMetrics) -> Self {
        let agent = Self {
            node: Mutex::new(Node::new(config)),
            changes: watch::Sender::new(0),
            due: watch::Sender::new(0),
            facts: watch::Sender::new(0),
            containers: watch::Sender::new(0),
            follows: watch::Sender::new(false),
            foretold: watch::Sender::new(0),
            told: watch::Sender::new(Some(u64::MAX)),
            store,
            unread: watch::Sender::new(recall::all()),
            metrics,
        };
        agent.recall(true);
        agent
    }

    /// Asks something of the state as it is now.
    pub fn read<T>(&self, question: impl FnOnce(&Node, std::time::Instant) -> T) -> T {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        question(&node, now())
    }

    /// Adds to the timeline of this pod what is decided elsewhere. Nobody waits for it.
    pub fn note(&self, pod: &PodRef, text: String) {
        self.guarded(|| {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.note(pod, None, text, now());
        });
    }

    /// The effects that are due now, and when to ask again.
    pub fn plan(&self) -> (Vec<Step>, Option<std::time::Instant>) {
        let ask = || {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            let steps = node.plan(now());
            let deadline = node.next_deadline();
            let named = |view: SetAsideView| (view.object, view.again);
            let set_aside = || node.set_aside(now()).into_iter().map(named).collect();
            self.metrics.set_aside("node", node.panics(), set_aside);
            (steps, deadline)
        };
        // Objects that fail are set aside by the policy itself. What fails as a whole is asked again, and not
        // only when something happens.
        self.guarded(ask).unwrap_or_else(|| (Vec::new(), Some(later(now(), AFTER_PANIC))))
    }

    /// A number that grows whenever [`Agent::plan`] may have a new answer.
    pub fn due(&self) -> watch::Receiver<u64> {
        self.due.subscribe()
    }

    /// Takes in that from now on the containers of this pod are created with these values, whatever the
    /// kubelet read; without any, as the kubelet says. Nobody waits for it, so nobody is woken.
    pub fn set_env(&self, pod: &PodUid, values: CreationEnv) {
        self.guarded(|| {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.apply(Event::CreationEnvSet(pod.clone(), values), now());
            self.foretell(&node);
        });
    }

    /// A number that grows with every fact.
    pub fn facts(&self) -> watch::Receiver<u64> {
        self.facts.subscribe()
    }

    /// A number that grows with every fact that may be about a container: not with the kubelet's looks.
    pub(crate) fn containers(&self) -> watch::Receiver<u64> {
        self.containers.subscribe()
    }

    /// Tells whether there are pods for which the end of a container counts, now and later.
    pub fn follows(&self) -> watch::Receiver<bool> {
        self.follows.subscribe()
    }

    /// Metrics of the agent.
    pub fn metrics(&self) -> &AgentMetrics {
        &self.metrics
    }

    /// Wakes who tells what is known in advance, if that has changed.
    fn foretell(&self, node: &Node) {
        let now = node.foretold();
        self.foretold.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// Tells whether the shim knows what was foretold at this number.
    pub(crate) fn was_told(&self, number: u64) -> bool {
        self.told.borrow().is_some_and(|told| told >= number)
    }

    /// Changes whenever the shim was told something.
    pub(crate) fn tellings(&self) -> watch::Receiver<Option<u64>> {
        self.told.subscribe()
    }

    fn guarded<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // The state may be half-changed after a panic; every later decision still goes through the same
        // checks, and a node that goes on with an imperfect order is better than one that stops.
        self.metrics.guarded("Policy panicked, its answer is to let everything through", work)
    }
}

/// Tokio's clock, so that tests can pause it.
pub(crate) fn now() -> std::time::Instant {
    Instant::now().into_std()
}
