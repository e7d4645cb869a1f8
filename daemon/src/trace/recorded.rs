//! Spans that are recorded, and the connection on which the runtime hears of them.

use std::sync::OnceLock;

use berth_shim::{TRACEPARENT, TraceParent};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        FutureExt as _, SpanContext, SpanId, SpanRef, Status, TraceContextExt as _, TraceFlags, TraceId,
        TraceState, Tracer as _,
    },
};
use opentelemetry_sdk::trace::SdkTracer;
use tonic::{Request, service::interceptor::InterceptedService, transport::Channel};

use crate::base::text;

/// Longest text of an attribute; a span lies in memory until the collector has it.
const MAX_TEXT: usize = 256;

/// Maker of all spans of the process, as its log is one; set once.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// A connection to the runtime on which a call carries the span it is made in.
pub(crate) type Joined = InterceptedService<Channel, Carry>;
type Carry = fn(Request<()>) -> Result<Request<()>, tonic::Status>;

/// A piece of work, recorded when this is dropped; nothing where nobody records.
#[derive(Clone, Debug)]
pub(crate) struct Span(Option<Context>);

/// Has spans made by this one from now on; `false` where another one makes them already.
pub(super) fn record(tracer: SdkTracer) -> bool {
    TRACER.set(tracer).is_ok()
}

/// Tells whether spans are made.
pub(crate) fn on() -> bool {
    TRACER.get().is_some()
}

/// The connection, with the span that a call is made in on it.
pub(crate) fn joined(channel: Channel) -> Joined {
    InterceptedService::new(channel, carry)
}

// === impl Span ===

impl Span {
    /// Work of the agent's own accord: part of the work that it is done in, or the beginning of a trace.
    pub(crate) fn own(name: &'static str) -> Self {
        Self::child(name, Context::current)
    }

    /// Work on the call of a client that records it; for any other one, nothing.
    pub(crate) fn of_call(name: &'static str, parent: Option<TraceParent>) -> Self {
        match parent.filter(|parent| parent.sampled) {
            Some(parent) => Self::child(name, || Context::new().with_remote_span_context(context(&parent))),
            None => Self(None),
        }
    }

    fn child(name: &'static str, parent: impl FnOnce() -> Context) -> Self {
        let Some(tracer) = TRACER.get() else { return Self(None) };
        let parent = parent();
        let span = tracer.span_builder(name).start_with_context(tracer, &parent);
        Self(Some(parent.with_span(span)))
    }

    /// Says a fact about it, once it is known.
    pub(crate) fn set<T: Into<String>>(&self, key: &'static str, value: impl FnOnce() -> T) {
        if let Some(span) = self.recording() {
            span.set_attribute(KeyValue::new(key, cut(&value().into())));
        }
    }

    /// Says what happened in the middle of it.
    pub(super) fn event(&self, name: &'static str, facts: impl FnOnce() -> Vec<KeyValue>) {
        if let Some(span) = self.recording() {
            span.add_event(name, facts());
        }
    }

    /// Notes that it did not succeed.
    pub(crate) fn failed<T: Into<String>>(&self, why: impl FnOnce() -> T) {
        if let Some(span) = self.recording() {
            span.set_status(Status::error(cut(&why().into())));
        }
    }

    /// Does a part of the work in it: calls to the runtime carry it, and what begins is a part of it.
    pub(crate) async fn within<F: Future>(&self, work: F) -> F::Output {
        match &self.0 {
            Some(context) => work.with_context(context.clone()).await,
            None => work.await,
        }
    }

    /// All of the work: ends with it.
    pub(crate) async fn around<F: Future>(self, work: F) -> F::Output {
        self.within(work).await
    }

    fn recording(&self) -> Option<SpanRef<'_>> {
        self.0.as_ref().map(Context::span).filter(SpanRef::is_recording)
    }
}

/// Cuts a fact to as much as people read.
pub(super) fn cut(text: &str) -> String {
    text::cut(text, MAX_TEXT).to_owned()
}

fn context(parent: &TraceParent) -> SpanContext {
    SpanContext::new(
        TraceId::from(parent.trace.get()),
        SpanId::from(parent.span.get()),
        if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED },
        true,
        TraceState::NONE,
    )
}

/// Adds the span to a call, recorded or not: the runtime need not begin a trace of its own then.
fn carry(mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
    if let Some(value) = current().and_then(|current| current.to_string().parse().ok()) {
        request.metadata_mut().insert(TRACEPARENT, value);
    }
    Ok(request)
}

/// The span that this is done in.
fn current() -> Option<TraceParent> {
    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    Some(TraceParent {
        trace: u128::from_be_bytes(span.trace_id().to_bytes()).try_into().ok()?,
        span: u64::from_be_bytes(span.span_id().to_bytes()).try_into().ok()?,
        sampled: span.is_sampled(),
    })
}
