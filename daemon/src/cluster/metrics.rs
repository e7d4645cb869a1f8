//! Counters of the agent's writes to the API server.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::client::CallError;

type Labels = [(&'static str, &'static str); 2];

/// Counters and gauges of the side towards the API server. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub struct ClusterMetrics {
    writes: Family<Labels, Counter>,
    watch_failures: Counter,
    watch_fresh: Gauge,
    policies_hold: Gauge,
}

/// Kind of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write {
    /// The status of a request.
    Report,
    /// The deletion of a request.
    Delete,
    /// The readiness of a pod.
    Unready,
    /// A new token.
    Token,
    /// A batch of an update in place.
    Update,
    /// An annotation of a pod.
    Annotation,
    /// The condition of a pod that says whether SidecarSets can upgrade it.
    Condition,
    /// An Event about a pod.
    Event,
    /// Write of a probe on a pod.
    Mark,
    /// The labels of the Node.
    NodeLabels,
}

impl ClusterMetrics {
    /// Registers the metrics under `berth_agent_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_agent");
        let metrics = Self {
            writes: Family::default(),
            watch_failures: Counter::default(),
            watch_fresh: Gauge::default(),
            policies_hold: Gauge::default(),
        };
        registry.register(
            "api_writes",
            "Writes to the API server, and what became of them",
            metrics.writes.clone(),
        );
        registry.register(
            "request_watch_failures",
            "Times the watch of ContainerRecreateRequests broke",
            metrics.watch_failures.clone(),
        );
        registry.register(
            "request_watch_fresh",
            "1 while the watch of ContainerRecreateRequests follows",
            metrics.watch_fresh.clone(),
        );
        // Neither, before it was tried.
        metrics.policies_hold.set(-1);
        registry.register(
            "admission_policies_hold",
            "1 while the admission policies keep the agent's identity to its node, 0 if they do not, -1 if that is not known",
            metrics.policies_hold.clone(),
        );
        metrics
    }

    pub(crate) fn wrote<T>(&self, write: Write, result: &Result<T, CallError>) {
        let kind = match write {
            Write::Report => "report",
            Write::Delete => "delete",
            Write::Unready => "unready",
            Write::Token => "token",
            Write::Update => "update",
            Write::Annotation => "annotation",
            Write::Event => "event",
            Write::Mark => "mark",
            Write::Condition => "condition",
            Write::NodeLabels => "node-labels",
        };
        let outcome = match result {
            Ok(_) => "done",
            Err(error) if error.is_gone() => "gone",
            Err(error) if error.is_conflict() => "conflict",
            Err(_) => "failed",
        };
        self.writes.get_or_create(&[("write", kind), ("outcome", outcome)]).inc();
    }

    pub(super) fn policies_hold(&self, hold: bool) {
        self.policies_hold.set(i64::from(hold));
    }

    pub(crate) fn watch_follows(&self, follows: bool) {
        self.watch_fresh.set(i64::from(follows));
    }

    pub(crate) fn watch_failed(&self) {
        self.watch_failures.inc();
        self.watch_follows(false);
    }
}
