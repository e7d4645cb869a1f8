//! The one owner of what is known of this node: [`berth_policy::Node`] behind a lock that is never held over
//! an await.
//!
//! Everybody else has a number that grows with every change and comes to ask. A panic in the policy must not
//! stop the node: it is counted, and the call is forwarded.

pub mod fault;
pub mod metrics;
mod points;
mod removal;
pub(crate) mod set_aside;
pub mod store;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_policy::{
    Call, CallId, ConnectionId, ContainerId, CreateContainer, CreationEnv, EnvValues, Event, HookTurn,
    InAdvance, Latch, MarkPhase, Node, Nudge, PodRef, PodUid, RecreateMark, Request, RequestId, Restate,
    SetAsideView, Showing, SidecarMark, Step, Turn, Verdict, time::later,
};
use berth_shim::{Answer, BoxFuture, Gate, Query, remote::Foresight};
use tokio::{sync::watch, time::Instant};
use tracing::{debug, error, info};

use self::{
    fault::Point,
    metrics::AgentMetrics,
    points::point_of,
    store::{Store, StoreError},
};
use crate::base::causes::chain;

/// When what is due is asked for again after the policy panicked as a whole.
pub(crate) const AFTER_PANIC: Duration = Duration::from_secs(1);
/// How long the kubelet's look at a container waits for ours, where it makes a difference whether it has
/// exited.
const LOOK: Duration = Duration::from_secs(2);

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
    /// Whether there are pods for which the end of a container counts.
    follows: watch::Sender<bool>,
    /// Grows with what alters what is known before it is asked.
    foretold: watch::Sender<u64>,
    store: Arc<Store>,
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
            follows: watch::Sender::new(false),
            foretold: watch::Sender::new(0),
            store,
            metrics,
        };
        match agent.store.latches() {
            Ok(latches) => agent.observe(Event::LatchesLoaded(latches)),
            Err(error) => {
                // Barriers that were open are judged again; a restart is recognised by the runtime's own
                // list.
                agent.metrics.store_failed();
                error!(error = %chain(&error), "Latches not read from the store");
            }
        }
        match agent.store.marks() {
            Ok(marks) => agent.observe(Event::MarksLoaded(marks)),
            Err(error) => {
                agent.metrics.store_failed();
                error!(error = %chain(&error), "Marks not read from the store");
            }
        }
        match agent.store.sidecars() {
            Ok(marks) => agent.observe(Event::SidecarsLoaded(marks)),
            Err(error) => {
                agent.metrics.store_failed();
                error!(error = %chain(&error), "Marks of job sidecars not read from the store");
            }
        }
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

    /// From now on the containers of this pod are created with these values, whatever the kubelet read;
    /// without any, as the kubelet says. Nobody waits for it, so nobody is woken.
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

    /// Whether there are pods for which the end of a container counts, now and later.
    pub fn follows(&self) -> watch::Receiver<bool> {
        self.follows.subscribe()
    }

    /// Removes the latches of a sandbox that is gone. Nobody waits for the disk: a failure is counted, and
    /// the next start tries again.
    pub fn forget_latches(&self, sandbox: &berth_policy::SandboxId) {
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
    async fn write_on_behalf(&self, mark: RecreateMark, connection: ConnectionId) -> bool {
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

    /// The store waits for the disk; whoever asks must not.
    async fn write(
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

    /// Metrics of the agent.
    pub fn metrics(&self) -> &AgentMetrics {
        &self.metrics
    }

    /// Wakes who tells what is known in advance, if that has changed.
    fn foretell(&self, node: &Node) {
        let now = node.foretold();
        self.foretold.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    fn guarded<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // The state may be half-changed after a panic; every later decision still goes through the same
        // checks, and a node that goes on with an imperfect order is better than one that stops.
        self.metrics.guarded("Policy panicked, its answer is to let everything through", work)
    }

    fn log(call: &Call, verdict: &Verdict) {
        let (rpc, subject) = match &call.request {
            Request::CreateContainer(request) => ("CreateContainer", request.container.as_str()),
            Request::StopContainer(request) => ("StopContainer", request.container.as_str()),
        };
        // What is held and refused is told by the data path, which knows for how long.
        match verdict {
            Verdict::Forward => debug!(rpc, subject, call = call.id.0, "Call forwarded"),
            Verdict::Latch(latch) => {
                info!(rpc, subject, call = call.id.0, priority = latch.priority, "Launch level opened");
            }
            Verdict::Amend(amendment) => info!(rpc, subject, call = call.id.0, ?amendment, "Call amended"),
            Verdict::Hold { why, .. } => {
                debug!(rpc, subject, call = call.id.0, why = why.label(), waiting_for = ?why.waiting_for(), "Call held");
            }
            Verdict::Refuse(refusal) => {
                debug!(rpc, subject, call = call.id.0, why = refusal.label(), "Call refused");
            }
        }
    }
}

impl Gate for Agent {
    fn admit(&self, call: &Call) -> Verdict {
        let ask = || {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            let verdict = node.admit(call, now());
            self.foretell(&node);
            verdict
        };
        let verdict = self.guarded(ask).unwrap_or(Verdict::Forward);
        self.metrics.verdict(call, &verdict);
        Self::log(call, &verdict);
        if let Some(point) = point_of(call, &verdict) {
            point.reached();
        }
        if matches!(verdict, Verdict::Hold { .. }) {
            self.due.send_modify(|due| *due += 1);
        }
        verdict
    }

    fn passed(&self, call: &Call) {
        self.guarded(|| {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.passed(call);
            self.foretell(&node);
        });
    }

    fn observe(&self, event: Event) {
        let point = match &event {
            Event::ContainerStopped(_) => Some(Point::Stopped),
            Event::ContainerCreated { .. } => Some(Point::Created),
            Event::ContainerStarted(_) => Some(Point::Started),
            _ => None,
        };
        if let Some(point) = point {
            point.reached();
        }
        let take = || {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.apply(event, now());
            self.foretell(&node);
            (node.is_waiting(), node.follows())
        };
        // Whoever begins to wait later asks after this fact was taken.
        let (waiting, follows) = self.guarded(take).unwrap_or((true, true));
        self.follows.send_if_modified(|before| std::mem::replace(before, follows) != follows);
        if waiting {
            self.changes.send_modify(|changes| *changes += 1);
            self.due.send_modify(|due| *due += 1);
        }
        self.facts.send_modify(|facts| *facts += 1);
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match query {
                Query::Status { connection, container } => {
                    Answer::Shown(self.shows(connection, container).await)
                }
                Query::Hook { connection, container } => {
                    match self.hook_begins(connection, container).await {
                        HookTurn::Run => Answer::Pass,
                        HookTurn::AlreadyRun => Answer::Done,
                    }
                }
                Query::Relist(call) => Answer::Nudged(self.nudges(call)),
                Query::Create(create) => Answer::WithEnv(self.env(create)),
                // The agent pulls nothing itself; the gate of the data path asks its images.
                Query::Pull { .. } => Answer::Pass,
            }
        })
    }

    fn is_completed(&self, container: &ContainerId) -> bool {
        self.guarded(|| self.read(|node, _| node.is_completed(container))).unwrap_or(false)
    }

    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            Point::Latching.reached();
            self.write("Latch not written", move |store| store.latch(&latch)).await;
            Point::Latched.reached();
        })
    }
}

impl Foresight for Agent {
    fn changes(&self) -> watch::Receiver<u64> {
        self.foretold.subscribe()
    }

    fn foretold(&self) -> u64 {
        *self.foretold.borrow()
    }

    fn in_advance(&self) -> InAdvance {
        // What is not known is asked.
        self.guarded(|| self.read(Node::in_advance)).unwrap_or_default()
    }
}

/// The answers to calls, from the state as it is now.
impl Agent {
    async fn shows(&self, connection: ConnectionId, container: &ContainerId) -> Showing {
        let asked = now();
        let mut changes = self.due();
        loop {
            changes.mark_unchanged();
            let ask = || self.read(|node, _| node.restate(connection, container, asked));
            match self.guarded(ask) {
                Some(Restate::Show(showing)) => return showing,
                // What is not durable is not shown; the kubelet is nudged to look again.
                Some(Restate::Once(mark)) => {
                    let durable = self.write_on_behalf(mark, connection).await;
                    return if durable { Showing::OtherDefinition } else { Showing::Truth };
                }
                None => return Showing::Truth,
                Some(Restate::Later) => {}
            }
            let left = LOOK.saturating_sub(now().saturating_duration_since(asked));
            if tokio::time::timeout(left, changes.changed()).await.is_err() || left.is_zero() {
                return Showing::Truth;
            }
        }
    }

    fn env(&self, create: &CreateContainer) -> EnvValues {
        self.guarded(|| self.read(|node, _| node.creation_env(create))).unwrap_or_default()
    }

    async fn hook_begins(&self, connection: ConnectionId, container: &ContainerId) -> HookTurn {
        match self.guarded(|| self.read(|node, _| node.hook_begins(container))) {
            Some(Turn::Take(turn)) => turn,
            Some(Turn::Once(mark)) => {
                self.write_on_behalf(mark, connection).await;
                HookTurn::Run
            }
            None => HookTurn::Run,
        }
    }

    fn nudges(&self, relist: CallId) -> Vec<Nudge> {
        let ask = || {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.nudges(relist, now())
        };
        let nudges = self.guarded(ask).unwrap_or_default();
        if !nudges.is_empty() {
            Point::Nudging.reached();
        }
        nudges
    }
}

/// Tokio's clock, so that tests can pause it.
pub(crate) fn now() -> std::time::Instant {
    Instant::now().into_std()
}
