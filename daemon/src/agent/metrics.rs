//! Counters of the agent beside the data path. Labels come from closed lists, never from object names.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::AtomicU64,
    time::Duration,
};

use berth_policy::{Backlog, Call, Request, Size, Verdict};
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use tracing::error;

use crate::agent::set_aside::{self, SetAsides};

type Labels = [(&'static str, &'static str); 2];
type Kind = [(&'static str, &'static str); 1];
type RequestHistograms = Family<Kind, Histogram, fn() -> Histogram>;

/// The counters of the agent. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub struct AgentMetrics {
    verdicts: Family<Labels, Counter>,
    panics: Counter,
    store_failures: Counter,
    inspection_failures: Counter,
    kubelet_poll_failures: Counter,
    view_failures: Counter,
    view_fresh: Gauge,
    pods_unread: Gauge,
    known: Family<Kind, Gauge>,
    tasks: Family<Kind, Gauge>,
    set_aside: SetAsides,
    probes_refused: Gauge,
    probes_behind: Gauge,
    probes_late: Gauge<f64, AtomicU64>,
    requests: Family<Labels, Counter>,
    request_seconds: RequestHistograms,
    path: Family<Kind, Gauge>,
    features: Family<Kind, Gauge>,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// To recreate containers.
    Recreate,
    /// To update a pod in place.
    Update,
}

impl AgentMetrics {
    /// Registers the metrics under `berth_agent_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_agent");
        let metrics = Self {
            verdicts: Family::default(),
            panics: Counter::default(),
            store_failures: Counter::default(),
            inspection_failures: Counter::default(),
            kubelet_poll_failures: Counter::default(),
            view_failures: Counter::default(),
            view_fresh: Gauge::default(),
            pods_unread: Gauge::default(),
            known: Family::default(),
            tasks: Family::default(),
            set_aside: SetAsides::register(registry),
            probes_refused: Gauge::default(),
            probes_behind: Gauge::default(),
            probes_late: Gauge::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(request_histogram),
            path: Family::default(),
            features: Family::default(),
        };
        registry.register(
            "verdicts",
            "Answers of the policy to calls it was asked about",
            metrics.verdicts.clone(),
        );
        registry.register(
            "policy_panics",
            "Evaluations in which the policy panicked: of a call, which was let through, or of an object, which was set aside; and steps that panicked, which are tried again",
            metrics.panics.clone(),
        );
        registry.register(
            "store_failures",
            "Reads and writes of the store that failed",
            metrics.store_failures.clone(),
        );
        registry.register(
            "inspection_failures",
            "Questions to the runtime about a sandbox that got no answer",
            metrics.inspection_failures.clone(),
        );
        registry.register(
            "kubelet_poll_failures",
            "Questions to the kubelet for its pods that got no answer",
            metrics.kubelet_poll_failures.clone(),
        );
        registry.register("pod_view_failures", "Times the pod watch broke", metrics.view_failures.clone());
        registry.register("pod_view_fresh", "1 while the pod watch follows", metrics.view_fresh.clone());
        registry.register(
            "pods_unread",
            "Pods of this node that cannot be read, mostly because they have too many lists and maps",
            metrics.pods_unread.clone(),
        );
        registry.register("known", "Objects the agent remembers", metrics.known.clone());
        registry.register(
            "probe_entries_refused",
            "Entries of NodePodProbe that are not run: no live PodProbeMarker asks for them, or they are too many",
            metrics.probes_refused.clone(),
        );
        registry.register(
            "probes_behind",
            "Probes of PodProbeMarkers that run more than 1 s, or a tenth of their period, after they should; the worst of a minute",
            metrics.probes_behind.clone(),
        );
        registry.register_with_unit(
            "probes_late",
            "How much later than it should the latest of them runs",
            Unit::Seconds,
            metrics.probes_late.clone(),
        );
        registry.register(
            "requests",
            "Requests to recreate containers or to update pods that ended on this node",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "request",
            "How long such requests took since they were made",
            Unit::Seconds,
            metrics.request_seconds.clone(),
        );
        registry.register(
            "path",
            "1 for the place of the agent: inline, beside or takeover",
            metrics.path.clone(),
        );
        registry.register(
            "feature",
            "1 for a feature that is on, 0 for one that is off by the configuration, the path or the agent's identity",
            metrics.features.clone(),
        );
        registry.register("tasks", "Tasks that have not ended", metrics.tasks.clone());
        metrics
    }

    pub(crate) fn verdict(&self, call: &Call, verdict: &Verdict) {
        let rpc = match call.request {
            Request::CreateContainer(_) => "CreateContainer",
            Request::StopContainer(_) => "StopContainer",
        };
        let verdict = match verdict {
            Verdict::Forward => "forward",
            Verdict::Latch(_) => "latch",
            Verdict::Amend(_) => "amend",
            Verdict::Hold { .. } => "hold",
            Verdict::Refuse(refusal) => refusal.label(),
        };
        self.verdicts.get_or_create(&[("rpc", rpc), ("verdict", verdict)]).inc();
    }

    /// Asks a policy. A panic in it must not stop the node: it is counted, said in these words, and there is
    /// no answer.
    pub(crate) fn guarded<T>(&self, words: &'static str, work: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(work))
            .inspect_err(|_| {
                self.policy_panicked();
                error!("{words}");
            })
            .ok()
    }

    /// Takes over what a policy has caught itself; see [`SetAsides::told`].
    pub(crate) fn set_aside(
        &self,
        policy: &'static str,
        panics: u64,
        objects: impl FnOnce() -> Vec<set_aside::Object>,
    ) {
        self.set_aside.told(policy, panics, objects, &self.panics);
    }

    /// The objects that are left alone now because their evaluation panicked.
    pub(crate) fn all_set_aside(&self) -> Vec<set_aside::Object> {
        self.set_aside.all()
    }

    pub(crate) fn policy_panicked(&self) {
        self.panics.inc();
    }

    /// Returns how often the policy panicked; 0 on a healthy node.
    pub fn policy_panics(&self) -> u64 {
        self.panics.get()
    }

    pub(crate) fn store_failed(&self) {
        self.store_failures.inc();
    }

    pub(crate) fn inspection_failed(&self) {
        self.inspection_failures.inc();
    }

    pub(crate) fn kubelet_poll_failed(&self) {
        self.kubelet_poll_failures.inc();
    }

    pub(crate) fn probes_refused(&self, entries: usize) {
        self.probes_refused.set(i64::try_from(entries).unwrap_or(i64::MAX));
    }

    /// Takes how many probes run later than they should; `None`: none does.
    pub(crate) fn probes_behind(&self, backlog: Option<Backlog>) {
        let Backlog { behind, late } = backlog.unwrap_or_default();
        self.probes_behind.set(i64::try_from(behind).unwrap_or(i64::MAX));
        self.probes_late.set(late.as_secs_f64());
    }

    /// Counts a request that ended here, so long after it was made.
    pub(crate) fn request_ended(&self, kind: RequestKind, complete: bool, after: Duration) {
        let kind = match kind {
            RequestKind::Recreate => "recreate",
            RequestKind::Update => "update",
        };
        let outcome = if complete { "complete" } else { "failed" };
        self.requests.get_or_create(&[("kind", kind), ("outcome", outcome)]).inc();
        self.request_seconds.get_or_create(&[("kind", kind)]).observe(after.as_secs_f64());
    }

    /// Place of the agent. It does not change.
    pub(crate) fn path(&self, path: &'static str) {
        self.path.get_or_create(&[("path", path)]).set(1);
    }

    /// Takes whether a feature is on.
    pub(crate) fn feature(&self, feature: &'static str, on: bool) {
        self.features.get_or_create(&[("feature", feature)]).set(i64::from(on));
    }

    pub(crate) fn view_failed(&self) {
        self.view_failures.inc();
    }

    pub(crate) fn view_fresh(&self, fresh: bool) {
        self.view_fresh.set(i64::from(fresh));
    }

    /// Takes how many pods of the watch cannot be read.
    pub(crate) fn pods_unread(&self, pods: usize) {
        self.pods_unread.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    #[cfg(test)]
    pub(crate) fn unread(&self) -> i64 {
        self.pods_unread.get()
    }

    /// Taken when somebody asks for the metrics.
    pub(crate) fn known(&self, size: Size) {
        let Size { pods, sandboxes, containers, calls, latches, connections: _ } = size;
        let kinds = [
            ("pod", pods),
            ("sandbox", sandboxes),
            ("container", containers),
            ("call", calls),
            ("latch", latches),
        ];
        for (kind, count) in kinds {
            self.known.get_or_create(&[("kind", kind)]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The same.
    pub(crate) fn tasks(&self, thread: &'static str, count: usize) {
        self.tasks.get_or_create(&[("thread", thread)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Histogram from 0.1 s to about 27 minutes.
fn request_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 2.0, 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_states_have_closed_labels() {
        let mut registry = Registry::default();
        let metrics = AgentMetrics::register(&mut registry);
        metrics.request_ended(RequestKind::Recreate, true, Duration::from_secs(3));
        metrics.request_ended(RequestKind::Update, false, Duration::from_secs(5));
        metrics.path("beside");
        metrics.feature("launch order", false);
        metrics.probes_behind(Some(Backlog { behind: 3, late: Duration::from_millis(2500) }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "berth_agent_requests_total{kind=\"recreate\",outcome=\"complete\"} 1",
            "berth_agent_requests_total{kind=\"update\",outcome=\"failed\"} 1",
            "berth_agent_request_seconds_sum{kind=\"update\"} 5.0",
            "berth_agent_path{path=\"beside\"} 1",
            "berth_agent_feature{feature=\"launch order\"} 0",
            "berth_agent_probes_behind 3",
            "berth_agent_probes_late_seconds 2.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        metrics.probes_behind(None);
        assert_eq!((metrics.probes_behind.get(), metrics.probes_late.get()), (0, 0.0));
    }
}
