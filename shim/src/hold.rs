//! The gate's answer for one call: subscribe, ask, act, and ask again after every change.
//!
//! ```text
//!          +--------- change, or `until` passed ---------+
//!          v                                             |
//!   subscribe -> ask --Hold--> wait ---------------------+
//!                 |              | drain (CreateContainer only) --> Refuse(Draining), or Unprocessed where a successor accepts
//!                 |              | the call's own deadline -------> DeadlinePassed
//!                 +--Forward, Latch (once durable)--> Pass
//!                 +--Amend--> Pass, changed
//!                 +--Refuse--> Refuse
//! ```
//!
//! Dropping the future ends the hold: a call whose client is gone is never sent on.

use std::{
    future::pending,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use berth_policy::{Amendment, Call, HoldReason, Refusal, Request, Verdict, time::later};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::{
    gate::{Decision, Gate, Holds},
    intercept::Method,
    metrics::{Counted, Metrics},
    serve::Leaving,
    trace::TraceParent,
};

/// A hold that is over before it begins would turn the loop into a spin; this bounds a mistake of the policy.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// A hold that ends so much too late ends after a standstill: this process had no turn on a processor.
const STANDSTILL: Duration = Duration::from_millis(50);
/// How long what came meanwhile takes to be heard, such as the stop of a second container of the pod.
const HEARD: Duration = Duration::from_millis(100);

/// Decision about the call now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Send it on.
    Pass {
        /// Changed in this way, and nothing else.
        amended: Option<Amendment>,
        /// Time that it waited; zero when it was not held.
        held: Duration,
    },
    /// Answer with this error.
    Refuse(Refusal),
    /// Give it back as one that was never looked at: the client asks our successor.
    Unprocessed,
    /// Its client does not wait any longer.
    DeadlinePassed,
}

/// Asks the gate until the call may pass or must not.
pub(crate) async fn pass(
    gate: &dyn Gate,
    call: &Call,
    method: Method,
    trace: Option<TraceParent>,
    leaving: &Leaving,
    metrics: &Metrics,
) -> Passage {
    let holding = Holding { call, method, trace, metrics, state: Mutex::default() };
    // Cancel-safe: whoever is not decided about was not sent on.
    let passage = tokio::select! {
        biased;
        decision = gate.decide(call, &holding) => match decision {
            Decision::Pass(amended) => Passage::Pass { amended, held: Duration::ZERO },
            Decision::Refuse(refusal) => Passage::Refuse(refusal),
        },
        () = drained(&leaving.goodbye, &call.request) => match leaving.succeeded.is_cancelled() {
            true => Passage::Unprocessed,
            false => Passage::Refuse(Refusal::Draining),
        },
        () = deadline(call) => Passage::DeadlinePassed,
    };
    let held = holding.end();
    match passage {
        Passage::Pass { amended, .. } => Passage::Pass { amended, held },
        Passage::Refuse(refusal) => {
            info!(rpc = method.name(), call = call.id.0, container = container(call), %refusal, "Call refused");
            metrics.refused(&refusal);
            Passage::Refuse(refusal)
        }
        Passage::Unprocessed => {
            info!(
                rpc = method.name(),
                call = call.id.0,
                container = container(call),
                "Call left to the successor"
            );
            Passage::Unprocessed
        }
        Passage::DeadlinePassed => Passage::DeadlinePassed,
    }
}

/// Subscribes, asks, and asks again after each change and at the end of each hold.
pub async fn decide_by_asking<G: Gate + ?Sized>(gate: &G, call: &Call, holds: &dyn Holds) -> Decision {
    let mut changes = gate.changes();
    loop {
        // A change after this mark wakes us, also one that comes before we wait.
        changes.mark_unchanged();
        let (until, why) = match gate.admit(call) {
            Verdict::Hold { until, why } => (until, why),
            Verdict::Refuse(refusal) => return Decision::Refuse(refusal),
            Verdict::Latch(latch) => {
                gate.persist(latch).await;
                return Decision::Pass(None);
            }
            Verdict::Forward => return Decision::Pass(None),
            Verdict::Amend(amendment) => return Decision::Pass(Some(amendment)),
        };
        holds.held(&why);
        let shortest = Instant::from_std(later(Instant::now().into_std(), SHORTEST_WAIT));
        let until = Instant::from_std(until).max(shortest);
        // Cancel-safe: neither arm takes anything with it when the other one wins.
        tokio::select! {
            () = changed(&mut changes) => {}
            () = sleep_until(until) => {
                if Instant::now().saturating_duration_since(until) >= STANDSTILL {
                    sleep(HEARD).await;
                }
            }
        }
    }
}

/// Account of the holds of one call, for people and metrics.
struct Holding<'a> {
    call: &'a Call,
    method: Method,
    trace: Option<TraceParent>,
    metrics: &'a Metrics,
    state: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    since: Option<(Instant, Counted)>,
    told: Option<&'static str>,
    waits_for_others: bool,
}

impl Holds for Holding<'_> {
    fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    fn held(&self, why: &HoldReason) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.told != Some(why.label()) {
            state.told = Some(why.label());
            state.waits_for_others |= !why.waiting_for().is_empty();
            tell_held(self.method, self.call, why);
        }
        state.since.get_or_insert_with(|| (Instant::now(), self.metrics.hold_began()));
    }
}

impl Holding<'_> {
    /// Gives the time that the call was held; zero when it was not.
    fn end(self) -> Duration {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let held = state.since.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        if !held.is_zero() {
            if state.waits_for_others {
                info!(rpc = self.method.name(), call = self.call.id.0, held = ?held, "Hold ended");
            }
            self.metrics.hold_ended(self.method, held);
        }
        held
    }
}

/// Waiting for other containers changes what the user sees; asking around takes a millisecond and changes
/// nothing.
fn tell_held(method: Method, call: &Call, why: &HoldReason) {
    let (rpc, id, container) = (method.name(), call.id.0, container(call));
    let (why, waiting_for) = (why.label(), why.waiting_for());
    if waiting_for.is_empty() {
        debug!(rpc, call = id, container, why, "Call held");
    } else {
        info!(rpc, call = id, container, why, ?waiting_for, "Call held");
    }
}

/// The container in question: by name where the call has it, by ID otherwise.
fn container(call: &Call) -> &str {
    match &call.request {
        Request::CreateContainer(request) => request.container.as_str(),
        Request::StopContainer(request) => request.container.as_str(),
    }
}

async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        // The gate is gone; `until` still comes.
        pending::<()>().await;
    }
}

/// A held CreateContainer is cheap to ask again; an error on StopContainer would make the kubelet kill the
/// whole pod.
async fn drained(goodbye: &CancellationToken, request: &Request) {
    match request {
        Request::CreateContainer(_) => goodbye.cancelled().await,
        Request::StopContainer(_) => pending().await,
    }
}

async fn deadline(call: &Call) {
    match call.deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline)).await,
        None => pending().await,
    }
}

#[cfg(test)]
#[path = "tests/hold.rs"]
mod tests;
