//! The exporter: to one collector, by gRPC, as the kubelet has it.

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider, SpanLimits},
};
use prometheus_client::registry::Registry;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::info;

use super::{
    TraceError,
    queue::{Export, PATIENCE, SpanMetrics, queue},
    recorded::record,
};
use crate::config::Tracing;

/// The most that a span has besides its name. A span of ours has less; one in a queue takes a few kB at most.
const LIMITS: SpanLimits = SpanLimits {
    max_events_per_span: 16,
    max_attributes_per_span: 16,
    max_links_per_span: 0,
    max_attributes_per_event: 4,
    max_attributes_per_link: 0,
};

/// Records spans from now on, where there is a collector, and sends them until the stop. Nothing is dialled
/// yet.
pub(crate) fn start(
    config: &Tracing,
    node: String,
    registry: &mut Registry,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<(), TraceError> {
    let Some(endpoint) = &config.endpoint else { return Ok(()) };
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(format!("http://{endpoint}"))
        .with_timeout(PATIENCE)
        .build();
    let mut exporter = exporter.map_err(|error| TraceError::Endpoint {
        endpoint: endpoint.to_string(),
        reason: error.to_string(),
    })?;
    let resource = Resource::builder()
        .with_service_name("berthd")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("k8s.node.name", node))
        .build();
    opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &resource);
    let metrics = SpanMetrics::register(registry);
    let (ended, spans) = queue(metrics.clone());
    // What its client records is recorded; of what begins here, so many.
    let ratio = f64::from(config.sampling_rate_per_million) / 1e6;
    let provider = SdkTracerProvider::builder()
        .with_span_processor(ended)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
        .with_span_limits(LIMITS)
        .with_resource(resource)
        .build();
    if !record(provider.tracer("berthd")) {
        return Err(TraceError::Twice);
    }
    info!(%endpoint, per_million = config.sampling_rate_per_million, "Spans go to a collector");
    tasks.spawn(Export { exporter, spans, metrics }.run(stop));
    Ok(())
}
