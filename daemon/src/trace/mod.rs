//! Spans of what the agent decides and does, for a collector of OpenTelemetry.
//!
//! ```text
//!   span of the kubelet's call ── decision about it
//!   work of the agent's own accord ── parts of it ── calls to the runtime, by `traceparent`
//!            '-- ended --> queue, bounded --> exporter --> collector
//! ```
//!
//! A decision is recorded where its client is. Work of the agent's own accord begins a trace of its own, of
//! which as many are recorded as the configuration says. This room needs the feature `otlp`, and
//! `tracing.endpoint`: in a build without the feature a span is nothing, and nothing is what it costs.

#[cfg(feature = "otlp")]
mod decision;
#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
mod nothing;
#[cfg(feature = "otlp")]
mod queue;
#[cfg(feature = "otlp")]
mod recorded;

#[cfg(not(feature = "otlp"))]
pub(crate) use self::nothing::{Joined, Span, decided, joined, on, start};
#[cfg(feature = "otlp")]
pub(crate) use self::{
    decision::decided,
    export::start,
    recorded::{Joined, Span, joined, on},
};

/// The exporter cannot be set up.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "nothing is set up then"))]
pub(crate) enum TraceError {
    /// The address is none that can be dialled.
    #[error("tracing.endpoint {endpoint}: {reason}")]
    Endpoint {
        /// As configured.
        endpoint: String,
        /// Words of the exporter.
        reason: String,
    },
    /// Spans go elsewhere already.
    #[error("tracing.endpoint: this process has an exporter already")]
    Twice,
}
