use std::sync::{Arc, Mutex};

use opentelemetry::trace::{Tracer as _, TracerProvider as _};
use opentelemetry_sdk::{
    error::OTelSdkError,
    trace::{SdkTracer, SdkTracerProvider},
};
use tokio::time::Instant;

use super::*;

/// A collector, and what it makes of a batch.
#[derive(Clone, Debug)]
enum Collector {
    Takes(Arc<Mutex<Vec<usize>>>),
    Refuses,
    Silent,
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match self {
            Self::Takes(batches) => {
                batches.lock().unwrap().push(batch.len());
                Ok(())
            }
            Self::Refuses => Err(OTelSdkError::InternalFailure("away".to_owned())),
            Self::Silent => std::future::pending().await,
        }
    }
}

/// A maker of spans, and the queue they end in.
fn bed(exporter: Collector) -> (SdkTracer, Export<Collector>) {
    let metrics = SpanMetrics::default();
    let (ended, spans) = queue(metrics.clone());
    let provider = SdkTracerProvider::builder().with_span_processor(ended).build();
    (provider.tracer("test"), Export { exporter, spans, metrics })
}

fn record(tracer: &SdkTracer, many: usize) {
    for _ in 0..many {
        drop(tracer.start("span"));
    }
}

fn counted(metrics: &SpanMetrics) -> [u64; 3] {
    let dropped = |why| metrics.dropped.get_or_create(&[("reason", why)]).get();
    [metrics.exported.get(), dropped("queue"), dropped("collector")]
}

/// Counters `[exported, dropped for the queue, dropped for the collector]` after so many spans.
#[tokio::test(start_paused = true)]
async fn what_becomes_of_spans() {
    let table = [
        ("none", 0, Collector::Refuses, [0, 0, 0]),
        ("taken", 10, Collector::Takes(Arc::default()), [10, 0, 0]),
        ("too many at once", 10_000, Collector::Takes(Arc::default()), [1024, 8976, 0]),
        ("refused", 10, Collector::Refuses, [0, 0, 10]),
        ("too many, refused", 2000, Collector::Refuses, [0, 976, 1024]),
        ("not answered", 10, Collector::Silent, [0, 0, 10]),
    ];
    for (case, many, collector, expect) in table {
        let (tracer, export) = bed(collector);
        let metrics = export.metrics.clone();
        record(&tracer, many);
        let stop = CancellationToken::new();
        let running = tokio::spawn(export.run(stop.clone()));
        sleep(Duration::from_secs(100)).await;
        assert_eq!(counted(&metrics), expect, "{case}");
        let begun = Instant::now();
        stop.cancel();
        running.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn spans_of_a_second_go_together_and_the_last_ones_at_the_stop() {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let (tracer, export) = bed(Collector::Takes(batches.clone()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(export.run(stop.clone()));
    for _ in 0..4 {
        record(&tracer, 100);
        sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(*batches.lock().unwrap(), [256]);
    record(&tracer, 1);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(*batches.lock().unwrap(), [256, 145]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_a_moment_for_a_collector_that_says_nothing() {
    let (tracer, export) = bed(Collector::Silent);
    let stop = CancellationToken::new();
    let running = tokio::spawn(export.run(stop.clone()));
    record(&tracer, 5);
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    stop.cancel();
    running.await.unwrap();
    assert_eq!(begun.elapsed(), LAST);
}
