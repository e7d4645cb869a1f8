//! Counters of the data path. Every label comes from a closed list, and the counters of the hot path are
//! looked up once.

use std::time::Duration;

use berth_policy::Refusal;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::{append::Outcome, confined::Confined, intercept::Method};

type Labels = [(&'static str, &'static str); 1];
type Holds = Family<Labels, Histogram, fn() -> Histogram>;

/// The counters of the data path. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    connections: Gauge,
    kubelet_connections: Gauge,
    held: Gauge,
    /// One per method of the intercept table, in its order.
    calls: [Counter; Method::ALL.len()],
    other_calls: Counter,
    dial_failures: Counter,
    replays: Counter,
    undecodable: Family<Labels, Counter>,
    shed: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    restated: Counter,
    nudges: Counter,
    unchanged: Family<Labels, Counter>,
    hold_seconds: Holds,
}

/// Why a request of the intercept table was passed on without a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Compressed.
    Compressed,
    /// Not one whole gRPC frame.
    Truncated,
    /// Not the message of its method.
    Undecodable,
}

/// Kinds of load of which there can be too much.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shed {
    /// Connections.
    Connection,
    /// Connections on which nothing was said.
    Silent,
    /// Requests under way.
    Memory,
}

/// Metrics of a process that exports nothing itself.
#[derive(Debug)]
pub struct Exported(Registry);

// === impl Exported ===

impl Exported {
    /// Gives the metrics as OpenMetrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Into memory.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.0);
        text
    }
}

// === impl Metrics ===

impl Metrics {
    /// Makes metrics of a process that is the data path alone, and what exports them.
    pub fn exported(confined: Confined) -> (Self, Exported) {
        let mut registry = Registry::default();
        let metrics = Self::register(&mut registry);
        let own = registry.sub_registry_with_prefix("berth_shim");
        let build = Family::<Labels, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        own.register("build_info", "1, with the version of berth-shim", build);
        let filtered = <Gauge>::default();
        filtered.set(confined.filtered.into());
        let help = "1 while system calls beyond those that berth-shim needs are refused";
        own.register("filtered", help, filtered);
        let limit = <Gauge>::default();
        limit.set(confined.memory_limit.map_or(0, |limit| limit.try_into().unwrap_or(i64::MAX)));
        let help = "Data that berth-shim may have, 0 where that is not limited";
        own.register_with_unit("memory_limit", help, Unit::Bytes, limit);
        (metrics, Exported(registry))
    }

    /// Registers the metrics under `berth_shim_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_shim");
        let calls = Family::<Labels, Counter>::default();
        let hold_seconds: Holds = Family::new_with_constructor(hold_histogram);
        let metrics = Self {
            connections: Gauge::default(),
            kubelet_connections: Gauge::default(),
            held: Gauge::default(),
            calls: Method::ALL.map(|method| calls.get_or_create_owned(&[("method", method.name())])),
            other_calls: calls.get_or_create_owned(&[("method", "other")]),
            dial_failures: Counter::default(),
            replays: Counter::default(),
            undecodable: Family::default(),
            shed: Family::default(),
            refused: Family::default(),
            restated: Counter::default(),
            nudges: Counter::default(),
            unchanged: Family::default(),
            hold_seconds,
        };
        registry.register("connections", "Open client connections", metrics.connections.clone());
        registry.register(
            "kubelet_connections",
            "Those of them that are the kubelet's",
            metrics.kubelet_connections.clone(),
        );
        registry.register("held", "Calls that wait at the gate now", metrics.held.clone());
        registry.register("calls", "Calls from clients", calls);
        registry.register(
            "dial_failures",
            "Failed attempts to reach the runtime",
            metrics.dial_failures.clone(),
        );
        registry.register(
            "replays",
            "Calls sent a second time because the runtime did not process them",
            metrics.replays.clone(),
        );
        registry.register(
            "unread",
            "Calls of the intercept table passed on without a look at them",
            metrics.undecodable.clone(),
        );
        registry.register("shed", "What was not taken on, because there was too much", metrics.shed.clone());
        registry.register("refused", "Calls refused by the gate", metrics.refused.clone());
        registry.register(
            "restated",
            "Answers that showed the kubelet a container otherwise than the runtime does",
            metrics.restated.clone(),
        );
        registry.register(
            "nudges",
            "Entries added to lists so that the kubelet looks at a pod",
            metrics.nudges.clone(),
        );
        registry.register(
            "unchanged",
            "Answers passed on as they came although they were to say more",
            metrics.unchanged.clone(),
        );
        registry.register("hold_seconds", "How long calls waited at the gate", metrics.hold_seconds.clone());
        metrics
    }

    /// Client connections that are open now.
    pub fn connections_open(&self) -> i64 {
        self.connections.get()
    }

    /// Returns the client connections that are open now and are the kubelet's.
    pub fn kubelet_connections_open(&self) -> i64 {
        self.kubelet_connections.get()
    }

    /// Calls that wait at the gate now.
    pub fn held_now(&self) -> i64 {
        self.held.get()
    }

    /// Takes the gauges of a data path in another process.
    pub fn told(&self, connections: i64, kubelet_connections: i64, held: i64) {
        self.connections.set(connections);
        self.kubelet_connections.set(kubelet_connections);
        self.held.set(held);
    }

    /// Calls that were sent to the runtime a second time.
    pub fn replays(&self) -> u64 {
        self.replays.get()
    }

    /// Calls of the intercept table that were passed on without a look at them.
    pub fn unread(&self) -> u64 {
        let of = |why: Unread| self.undecodable.get_or_create(&[("reason", why.label())]).get();
        of(Unread::Compressed) + of(Unread::Truncated) + of(Unread::Undecodable)
    }

    /// Answers that showed the kubelet a container otherwise than the runtime does.
    pub fn restated_answers(&self) -> u64 {
        self.restated.get()
    }

    /// Entries added to lists so that the kubelet looks at a pod.
    pub fn nudges(&self) -> u64 {
        self.nudges.get()
    }

    /// Answers passed on as they came although they were to say more.
    pub fn unchanged(&self) -> u64 {
        let of = |why: Outcome| self.unchanged.get_or_create(&[("reason", why.label())]).get();
        of(Outcome::Compressed) + of(Outcome::Empty) + of(Outcome::TooLarge)
    }

    /// Counts what was not taken on, because there is too much of it.
    pub(crate) fn shed(&self, what: Shed) {
        self.shed.get_or_create(&[("what", what.label())]).inc();
    }

    /// Number of things that were shed so far.
    pub fn shed_so_far(&self) -> u64 {
        let of = |what: Shed| self.shed.get_or_create(&[("what", what.label())]).get();
        of(Shed::Connection) + of(Shed::Silent) + of(Shed::Memory)
    }

    /// Counts an open connection until the answer is dropped.
    pub(crate) fn connection_opened(&self, kubelet: bool) -> (Counted, Option<Counted>) {
        (Counted::new(&self.connections), kubelet.then(|| Counted::new(&self.kubelet_connections)))
    }

    /// Counts a held call until the answer is dropped.
    pub(crate) fn hold_began(&self) -> Counted {
        Counted::new(&self.held)
    }

    pub(crate) fn hold_ended(&self, method: Method, after: Duration) {
        self.hold_seconds.get_or_create(&[("method", method.name())]).observe(after.as_secs_f64());
    }

    pub(crate) fn call(&self, method: Option<Method>) {
        match method {
            Some(method) => self.calls[method as usize].inc(),
            None => self.other_calls.inc(),
        };
    }

    pub(crate) fn dial_failed(&self) {
        self.dial_failures.inc();
    }

    pub(crate) fn replayed(&self) {
        self.replays.inc();
    }

    pub(crate) fn left_unread(&self, why: Unread) {
        self.undecodable.get_or_create(&[("reason", why.label())]).inc();
    }

    pub(crate) fn restated(&self) {
        self.restated.inc();
    }

    pub(crate) fn nudged(&self, entries: u64) {
        self.nudges.inc_by(entries);
    }

    pub(crate) fn left_unchanged(&self, why: Outcome) {
        self.unchanged.get_or_create(&[("reason", why.label())]).inc();
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.refused.get_or_create(&[("reason", refusal.label())]).inc();
    }
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

// === impl Shed ===

impl Shed {
    fn label(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Silent => "silent",
            Self::Memory => "memory",
        }
    }
}

// === impl Unread ===

impl Unread {
    fn label(self) -> &'static str {
        match self {
            Self::Compressed => "compressed",
            Self::Truncated => "truncated",
            Self::Undecodable => "undecodable",
        }
    }
}

/// One more in a gauge, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Histogram from 10 ms, a hold that ended at once, to 80 s, most of a pod's grace.
fn hold_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 14))
}
