//! Counters of the manager. Labels come from closed lists, never from object names.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use berth_base::lease::Counters;

use crate::{budgets, images, podstates, probes, requests, sidecarsets, spreads, store::Kind};

type Pair = [(&'static str, &'static str); 2];
type One = [(&'static str, &'static str); 1];

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Written,
    /// The object has changed since, or is another one; what is owed now is decided anew.
    Conflict,
    /// The object is gone.
    Gone,
    /// The API server will not have it: before the object changes, or for minutes where a missing right or
    /// somebody's rule keeps it out.
    Refused,
    /// The object would be larger than the API server takes; not tried before it changes.
    TooLarge,
    /// It failed for now, and is tried again.
    Retried,
    /// A newer write of the same object has taken its place.
    Superseded,
    /// The time within which it was to be written has passed; what is owed now is decided anew.
    Late,
    /// This replica does not lead.
    NotLeading,
    /// There was no room for it.
    QueueFull,
    /// The credentials it was to carry are not there any more.
    Unsealed,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Retried => "retried",
            Self::Superseded => "superseded",
            Self::Late => "late",
            Self::NotLeading => "not_leading",
            Self::QueueFull => "queue_full",
            Self::Unsealed => "unsealed",
        }
    }
}

/// The counters of the manager. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    writes: Family<Pair, Counter>,
    write_seconds: Histogram,
    queued: Gauge,
    leads: Gauge,
    lease_failures: Counter,
    watch_failures: Family<One, Counter>,
    objects: Family<One, Gauge>,
    requests: Family<One, Gauge>,
    jobs: Family<One, Gauge>,
    pulls: Gauge,
    markers: Family<One, Gauge>,
    probed: Gauge,
    sets: Family<One, Gauge>,
    injected: Gauge,
    budgets: Family<One, Gauge>,
    spreads: Family<One, Gauge>,
    pod_states: Family<One, Gauge>,
    without_room: Gauge,
    admission: Admission,
}

/// The counters of the admission server.
#[derive(Clone, Debug)]
pub struct Admission {
    requests: Family<Pair, Counter>,
    seconds: Histogram,
    handshake_failures: Counter,
    entries_refused: Family<One, Gauge>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            // 0.1 ms to 6.6 s.
            seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 17)),
            handshake_failures: Counter::default(),
            entries_refused: Family::default(),
        }
    }
}

impl Admission {
    /// A request was answered, by a decision or by none. `path` is one of a closed list.
    pub(crate) fn answered(&self, path: &'static str, decided: bool, elapsed: Duration) {
        let outcome = if decided { "decided" } else { "failed" };
        self.requests.get_or_create(&[("path", path), ("outcome", outcome)]).inc();
        self.seconds.observe(elapsed.as_secs_f64());
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshake_failures.inc();
    }

    /// So many entries of a webhook configuration are refused. `kind` is one of a closed list.
    pub(crate) fn entries_refused(&self, kind: &'static str, count: usize) {
        self.entries_refused.get_or_create(&[("kind", kind)]).set(number(count));
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Requests for admission, and whether they were decided";
        registry.register("admission_requests", help, self.requests.clone());
        registry.register("admission_seconds", "How long a request for admission took", self.seconds.clone());
        registry.register(
            "admission_handshake_failures",
            "TLS handshakes of the admission server that failed",
            self.handshake_failures.clone(),
        );
        registry.register(
            "admission_entries_refused",
            "Entries of webhook configurations that the API server refuses, by kind",
            self.entries_refused.clone(),
        );
    }
}

impl Metrics {
    /// Registers the metrics under `berth_manager_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_manager");
        let build = Family::<One, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "1, with the version of the program", build);
        let metrics = Self {
            writes: Family::default(),
            // 1 ms to 4 s.
            write_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 13)),
            queued: Gauge::default(),
            leads: Gauge::default(),
            lease_failures: Counter::default(),
            watch_failures: Family::default(),
            objects: Family::default(),
            requests: Family::default(),
            jobs: Family::default(),
            pulls: Gauge::default(),
            markers: Family::default(),
            probed: Gauge::default(),
            admission: Admission::default(),
            sets: Family::default(),
            injected: Gauge::default(),
            budgets: Family::default(),
            spreads: Family::default(),
            pod_states: Family::default(),
            without_room: Gauge::default(),
        };
        metrics.admission.register(registry);
        registry.register(
            "writes",
            "Writes to the API server, and what became of them",
            metrics.writes.clone(),
        );
        registry.register(
            "write_seconds",
            "How long a write took that was done",
            metrics.write_seconds.clone(),
        );
        registry.register("writes_queued", "Writes that wait", metrics.queued.clone());
        registry.register("leads", "1 while this replica holds the lease", metrics.leads.clone());
        registry.register(
            "lease_failures",
            "Attempts to take or renew the lease that got no answer",
            metrics.lease_failures.clone(),
        );
        registry.register("watch_failures", "Times a watch broke", metrics.watch_failures.clone());
        registry.register("objects", "Objects that are remembered", metrics.objects.clone());
        registry.register("requests", "Requests of both kinds that are not over", metrics.requests.clone());
        registry.register("jobs", "ImagePullJobs that are not over", metrics.jobs.clone());
        registry.register(
            "pulls",
            "Nodes that jobs have asked and that have not ended",
            metrics.pulls.clone(),
        );
        registry.register(
            "markers",
            "PodProbeMarkers, and whether they can be carried out",
            metrics.markers.clone(),
        );
        registry.register("probed_pods", "Pods that PodProbeMarkers have probed", metrics.probed.clone());
        registry.register(
            "sidecarsets",
            "SidecarSets, and whether they can be carried out",
            metrics.sets.clone(),
        );
        registry.register(
            "injected_pods",
            "Pods that have sidecars, once for each set",
            metrics.injected.clone(),
        );
        registry.register(
            "budgets",
            "PodUnavailableBudgets, and whether they can be kept",
            metrics.budgets.clone(),
        );
        registry.register(
            "workloadspreads",
            "WorkloadSpreads, and whether they can be carried out",
            metrics.spreads.clone(),
        );
        registry.register(
            "persistentpodstates",
            "PersistentPodStates, and whether they can be carried out",
            metrics.pod_states.clone(),
        );
        registry.register(
            "without_room",
            "Objects that are set aside because all take more memory than there is for them",
            metrics.without_room.clone(),
        );
        metrics
    }

    /// Returns the counters of the admission server.
    pub(crate) fn admission(&self) -> Admission {
        self.admission.clone()
    }

    pub(crate) fn write(&self, what: &'static str, outcome: Outcome) {
        self.writes.get_or_create(&[("write", what), ("outcome", outcome.name())]).inc();
    }

    pub(crate) fn written_in(&self, elapsed: Duration) {
        self.write_seconds.observe(elapsed.as_secs_f64());
    }

    pub(crate) fn queued(&self, count: usize) {
        self.queued.set(number(count));
    }

    pub(crate) fn without_room(&self, count: usize) {
        self.without_room.set(number(count));
    }

    pub(crate) fn watch_failed(&self, kind: Kind) {
        self.watch_failures.get_or_create(&[("kind", kind.name())]).inc();
    }

    pub(crate) fn pods(&self, count: usize) {
        self.objects.get_or_create(&[("kind", Kind::Pod.name())]).set(number(count));
    }

    pub(crate) fn requests(&self, size: requests::Size) {
        let requests::Size { nodes, requests, updates, unassigned, assigned } = size;
        let objects = [(Kind::Node, nodes), (Kind::Request, requests), (Kind::Update, updates)];
        for (kind, count) in objects {
            self.objects.get_or_create(&[("kind", kind.name())]).set(number(count));
        }
        for (stage, count) in [("unassigned", unassigned), ("assigned", assigned)] {
            self.requests.get_or_create(&[("stage", stage)]).set(number(count));
        }
    }

    pub(crate) fn images(&self, size: images::Size) {
        let images::Size { node_images, jobs, running, refused, asked } = size;
        for (kind, count) in [(Kind::NodeImage, node_images), (Kind::ImagePullJob, jobs)] {
            self.objects.get_or_create(&[("kind", kind.name())]).set(number(count));
        }
        for (stage, count) in [("running", running), ("refused", refused)] {
            self.jobs.get_or_create(&[("stage", stage)]).set(number(count));
        }
        self.pulls.set(number(asked));
    }

    pub(crate) fn probes(&self, size: probes::Size) {
        let probes::Size { markers, refused, nodes, probed } = size;
        for (kind, count) in [(Kind::PodProbeMarker, markers), (Kind::NodePodProbe, nodes)] {
            self.objects.get_or_create(&[("kind", kind.name())]).set(number(count));
        }
        for (stage, count) in [("accepted", markers - refused), ("refused", refused)] {
            self.markers.get_or_create(&[("stage", stage)]).set(number(count));
        }
        self.probed.set(number(probed));
    }

    pub(crate) fn sidecarsets(&self, size: sidecarsets::Size) {
        let sidecarsets::Size { sets, refused, namespaces, nodes, members } = size;
        let objects = [(Kind::SidecarSet, sets), (Kind::Namespace, namespaces), (Kind::NodePodUpdate, nodes)];
        for (kind, count) in objects {
            self.objects.get_or_create(&[("kind", kind.name())]).set(number(count));
        }
        for (stage, count) in [("accepted", sets.saturating_sub(refused)), ("refused", refused)] {
            self.sets.get_or_create(&[("stage", stage)]).set(number(count));
        }
        self.injected.set(number(members));
    }

    pub(crate) fn spreads(&self, size: spreads::Size) {
        let spreads::Size { spreads, refused } = size;
        self.objects.get_or_create(&[("kind", Kind::Spread.name())]).set(number(spreads));
        for (stage, count) in [("accepted", spreads.saturating_sub(refused)), ("refused", refused)] {
            self.spreads.get_or_create(&[("stage", stage)]).set(number(count));
        }
    }

    pub(crate) fn pod_states(&self, size: podstates::Size) {
        let podstates::Size { states, refused, sets, advanced } = size;
        let objects = [(Kind::PodState, states), (Kind::StatefulSet, sets), (Kind::AdvancedSet, advanced)];
        for (kind, count) in objects {
            self.objects.get_or_create(&[("kind", kind.name())]).set(number(count));
        }
        for (stage, count) in [("accepted", states.saturating_sub(refused)), ("refused", refused)] {
            self.pod_states.get_or_create(&[("stage", stage)]).set(number(count));
        }
    }

    pub(crate) fn budgets(&self, size: budgets::Size) {
        let budgets::Size { budgets, refused } = size;
        self.objects.get_or_create(&[("kind", Kind::Budget.name())]).set(number(budgets));
        for (stage, count) in [("accepted", budgets.saturating_sub(refused)), ("refused", refused)] {
            self.budgets.get_or_create(&[("stage", stage)]).set(number(count));
        }
    }
}

impl Counters for Metrics {
    fn leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    fn lease_failed(&self) {
        self.lease_failures.inc();
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
