//! The span of a decision: how long a call waited, for what, and what became of it.

use std::sync::{Mutex, PoisonError};

use berth_policy::{Amendment, Call, HoldReason, Request};
use berth_shim::{Decision, Gate, Holds, TraceParent, decide_by_asking};
use opentelemetry::KeyValue;

use super::recorded::{Span, cut};

/// Decides, within a span of the client's call where the client records it.
pub(crate) async fn decided<G: Gate>(gate: &G, call: &Call, holds: &dyn Holds) -> Decision {
    let Some(parent) = holds.trace() else { return decide_by_asking(gate, call, holds).await };
    let span = begin(call, parent);
    let noted = Noted { holds, span: &span, last: Mutex::default() };
    // Dropped, its client has taken the call back: a span without a decision says so.
    let decision = span.within(decide_by_asking(gate, call, &noted)).await;
    match &decision {
        Decision::Pass(None) => span.set("berth.decision", || "pass"),
        Decision::Pass(Some(Amendment::StopTimeout(timeout))) => {
            span.set("berth.decision", || "amend");
            span.set("berth.stop_timeout", || format!("{timeout:?}"));
        }
        Decision::Refuse(refusal) => {
            span.set("berth.decision", || "refuse");
            span.set("berth.refusal", || refusal.label());
            span.failed(|| refusal.to_string());
        }
    }
    decision
}

fn begin(call: &Call, parent: TraceParent) -> Span {
    match &call.request {
        Request::CreateContainer(create) => {
            let span = Span::of_call("decide CreateContainer", Some(parent));
            span.set("k8s.namespace.name", || create.pod.namespace.as_str());
            span.set("k8s.pod.name", || create.pod.name.as_str());
            span.set("k8s.pod.uid", || create.pod.uid.as_str());
            span.set("k8s.container.name", || create.container.as_str());
            span
        }
        Request::StopContainer(stop) => {
            let span = Span::of_call("decide StopContainer", Some(parent));
            span.set("container.id", || stop.container.as_str());
            span
        }
    }
}

/// Tells of each hold, once for each reason in a row.
struct Noted<'a> {
    holds: &'a dyn Holds,
    span: &'a Span,
    last: Mutex<Option<HoldReason>>,
}

impl Holds for Noted<'_> {
    fn held(&self, why: &HoldReason) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(why) {
            *last = Some(why.clone());
            self.span.event("held", || {
                let others: Vec<&str> =
                    why.waiting_for().iter().map(|container| container.as_str()).collect();
                vec![
                    KeyValue::new("berth.reason", why.label()),
                    KeyValue::new("berth.waiting_for", cut(&others.join(", "))),
                ]
            });
        }
        self.holds.held(why);
    }
}
