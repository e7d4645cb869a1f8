//! Spans of a build without the feature `otlp`: nothing is recorded, and nothing is left of them.

use berth_policy::Call;
use berth_shim::{Decision, Gate, Holds, TraceParent, decide_by_asking};
use prometheus_client::registry::Registry;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Channel;

use super::TraceError;
use crate::config::Tracing;

/// A connection to the runtime.
pub(crate) type Joined = Channel;

/// A piece of work.
#[derive(Debug)]
pub(crate) struct Span;

impl Span {
    pub(crate) fn own(_: &'static str) -> Self {
        Self
    }

    pub(crate) fn of_call(_: &'static str, _: Option<TraceParent>) -> Self {
        Self
    }

    pub(crate) fn set<T: Into<String>>(&self, _: &'static str, _: impl FnOnce() -> T) {}

    pub(crate) fn failed<T: Into<String>>(&self, _: impl FnOnce() -> T) {}

    pub(crate) fn within<F: Future>(&self, work: F) -> F {
        work
    }

    pub(crate) fn around<F: Future>(self, work: F) -> F {
        work
    }
}

pub(crate) const fn on() -> bool {
    false
}

pub(crate) fn joined(channel: Channel) -> Joined {
    channel
}

pub(crate) fn decided<'a, G: Gate>(
    gate: &'a G,
    call: &'a Call,
    holds: &'a dyn Holds,
) -> impl Future<Output = Decision> + 'a {
    decide_by_asking(gate, call, holds)
}

/// Nothing is to be started: a configuration with an endpoint was refused.
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(crate) fn start(
    _: &Tracing,
    _: String,
    _: &mut Registry,
    _: &TaskTracker,
    _: CancellationToken,
) -> Result<(), TraceError> {
    Ok(())
}
