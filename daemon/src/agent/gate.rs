//! The agent as the data path sees it: verdicts on calls, facts that calls show, and answers that are
//! changed.

use std::{sync::PoisonError, time::Duration};

use berth_policy::{
    Call, CallId, ConnectionId, ContainerId, CreateContainer, EnvValues, Event, HookTurn, InAdvance, Latch,
    Node, Nudge, Request, Restate, Showing, Turn, Verdict,
};
use berth_shim::{Answer, BoxFuture, Gate, Query, remote::Foresight};
use tokio::sync::watch;
use tracing::{debug, info};

use super::{Agent, fault::Point, now, points::point_of};
use crate::base::clock::wall;

/// How long the kubelet's look at a container waits for ours, where it makes a difference whether it has
/// exited: it would take the exit for the end of the pod. A runtime on a busy node takes seconds.
const LOOK: Duration = Duration::from_secs(15);

impl Gate for Agent {
    fn admit(&self, call: &Call) -> Verdict {
        let ask = || {
            let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(call.request, Request::CreateContainer(_)) {
                // The wall clock first: whatever comes between the two reads, no second ends too early.
                node.clock_read(wall(), now());
            }
            let verdict = node.admit(call, now());
            self.foretell(&node);
            verdict
        };
        let verdict = self.guarded(ask).unwrap_or(Verdict::Forward);
        self.metrics.verdict(call, &verdict);
        log(call, &verdict);
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
            (node.is_waiting(), node.follows(), node.has_only_asked())
        };
        // Whoever begins to wait later asks after this fact was taken.
        let (waiting, follows, only_asked) = self.guarded(take).unwrap_or((true, true, false));
        self.follows.send_if_modified(|before| std::mem::replace(before, follows) != follows);
        if waiting {
            self.changes.send_modify(|changes| *changes += 1);
            self.due.send_modify(|due| *due += 1);
        }
        self.facts.send_modify(|facts| *facts += 1);
        if !only_asked {
            self.containers.send_modify(|facts| *facts += 1);
        }
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

    fn in_advance(&self) -> Option<InAdvance> {
        self.guarded(|| self.read(Node::in_advance))
    }

    fn told(&self, foretold: Option<u64>) {
        self.told.send_replace(foretold);
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
        let values = self.guarded(|| self.read(|node, _| node.creation_env(create))).unwrap_or_default();
        if !values.0.is_empty() {
            // Their values may be secret.
            let names: Vec<&str> = values.0.iter().map(|(name, _)| name.as_str()).collect();
            let (sandbox, container) = (create.sandbox.as_str(), create.container.as_str());
            info!(sandbox, container, ?names, "Env of a container set as its pod says now");
        }
        values
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
