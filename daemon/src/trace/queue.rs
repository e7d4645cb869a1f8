//! Spans on their way to the collector. A collector that is away costs a queue of a fixed length: what does
//! not fit is dropped and counted, and nobody waits.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::base::causes::chain;

/// The most spans that wait, and those of one message to the collector.
const MOST: usize = 1024;
const BATCH: usize = 256;
/// How long others may come after a span before all go.
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take for a message, and how long it is left alone when it did not take one.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How long the end of the process waits for it.
const LAST: Duration = Duration::from_secs(2);

type Why = [(&'static str, &'static str); 1];

/// Counters of spans. A clone counts into the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct SpanMetrics {
    exported: Counter,
    dropped: Family<Why, Counter>,
}

/// The end of the queue where spans come in.
#[derive(Debug)]
pub(super) struct Ended {
    queue: Sender<SpanData>,
    metrics: SpanMetrics,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Export<E> {
    pub(super) exporter: E,
    pub(super) spans: Receiver<SpanData>,
    pub(super) metrics: SpanMetrics,
}

/// A queue. Spans come out of it in the order in which they ended.
pub(super) fn queue(metrics: SpanMetrics) -> (Ended, Receiver<SpanData>) {
    let (queue, spans) = channel(MOST);
    (Ended { queue, metrics }, spans)
}

// === impl SpanMetrics ===

impl SpanMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_agent");
        let metrics = Self::default();
        registry.register(
            "spans_exported",
            "Spans that the collector of traces took (a build with the feature otlp)",
            metrics.exported.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans that nobody has, by reason: queue (full), collector (it did not take them)",
            metrics.dropped.clone(),
        );
        metrics
    }

    fn dropped(&self, why: &'static str, spans: usize) {
        self.dropped.get_or_create(&[("reason", why)]).inc_by(spans.try_into().unwrap_or(u64::MAX));
    }
}

// === impl Ended ===

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    /// Takes a span on the thread that ended it, so it never waits.
    fn on_end(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            self.metrics.dropped("queue", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

// === impl Export ===

impl<E: SpanExporter> Export<E> {
    /// Sends what comes until the stop, and a last time then.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let (mut first, mut away) = (Vec::new(), false);
        // Cancel-safe: what is received lies in `first`.
        while stop
            .run_until_cancelled(self.spans.recv_many(&mut first, BATCH))
            .await
            .is_some_and(|many| many > 0)
        {
            if first.len() < BATCH {
                stop.run_until_cancelled(sleep(GATHER)).await;
            }
            self.fill(&mut first);
            match self.send_before_end(std::mem::take(&mut first), &stop).await {
                Ok(()) => {
                    if std::mem::replace(&mut away, false) {
                        info!("The collector of traces takes spans again");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        warn!(
                            error,
                            "Spans not taken by the collector of traces, dropped until it takes them"
                        );
                    }
                    stop.run_until_cancelled(sleep(RETRY_PAUSE)).await;
                }
            }
        }
        self.fill(&mut first);
        if !away && !first.is_empty() {
            // Whoever stops does not wait longer, and nobody reads any more what was lost.
            let _ = self.send_before_end(first, &stop).await;
        }
    }

    /// Sends a batch; after a stop, if it does not take long.
    async fn send_before_end(&self, batch: Vec<SpanData>, stop: &CancellationToken) -> Result<(), String> {
        let end = async {
            stop.cancelled().await;
            sleep(LAST).await;
        };
        // Cancel-safe: what is not sent before the end is lost.
        tokio::select! {
            sent = self.send(batch) => sent,
            () = end => Err("the agent stops".to_owned()),
        }
    }

    fn fill(&mut self, batch: &mut Vec<SpanData>) {
        while batch.len() < BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
    }

    async fn send(&self, batch: Vec<SpanData>) -> Result<(), String> {
        let spans = batch.len();
        let sent = match timeout(PATIENCE, self.exporter.export(batch)).await {
            Ok(sent) => sent.map_err(|error| chain(&error).to_string()),
            Err(_) => Err(format!("no answer in {PATIENCE:?}")),
        };
        match &sent {
            Ok(()) => drop(self.metrics.exported.inc_by(spans.try_into().unwrap_or(u64::MAX))),
            Err(_) => self.metrics.dropped("collector", spans),
        }
        sent
    }
}

#[cfg(test)]
mod tests;
