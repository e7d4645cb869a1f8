//! Counters of pulls. Labels come from closed lists, never from names of images or registries.

use std::time::Duration;

use berth_policy::{PullFailure, PulledImage};
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

type Outcome = [(&'static str, &'static str); 1];

/// The counters of pulls. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub(crate) struct ImageMetrics {
    pulls: Family<Outcome, Counter>,
    seconds: Histogram,
    bytes: Counter,
    plugin_failures: Counter,
}

impl ImageMetrics {
    /// Registers the metrics under `berth_agent_image_…`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_agent_image");
        let metrics = Self {
            pulls: Family::default(),
            // 0.1 s to about 27 minutes.
            seconds: Histogram::new(exponential_buckets(0.1, 2.0, 15)),
            bytes: Counter::default(),
            plugin_failures: Counter::default(),
        };
        registry.register("pulls", "Pulls of the agent that are over", metrics.pulls.clone());
        registry.register_with_unit(
            "pull",
            "How long pulls took, failed ones included",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register_with_unit(
            "pulled",
            "Compressed bytes that pulls brought to the node since they were first looked at, where the runtime tells",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "credential_plugin_failures",
            "Runs of credential provider plugins that gave no credentials by a failure",
            metrics.plugin_failures.clone(),
        );
        metrics
    }

    pub(super) fn pull_ended(&self, result: &Result<PulledImage, PullFailure>, took: Duration) {
        let outcome = match result {
            Ok(_) => "succeeded",
            Err(PullFailure::Refused(_)) => "refused",
            Err(PullFailure::Away(_)) => "away",
            Err(PullFailure::Impossible(_)) => "impossible",
            Err(PullFailure::TimedOut(_)) => "timed_out",
            Err(PullFailure::NoRoom(_)) => "no_room",
            Err(PullFailure::Cancelled) => "cancelled",
        };
        self.pulls.get_or_create(&[("outcome", outcome)]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(super) fn pulled(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    pub(super) fn plugin_failed(&self) {
        self.plugin_failures.inc();
    }
}

impl Default for ImageMetrics {
    /// Counts for nobody.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
