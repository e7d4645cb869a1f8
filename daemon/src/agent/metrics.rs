//! Counters of the agent beside the data path. Labels come from closed lists, never from object names.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_policy::{Call, Request, Size, Verdict};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tracing::error;

use crate::agent::set_aside::{self, SetAsides};

type Labels = [(&'static str, &'static str); 2];
type Kind = [(&'static str, &'static str); 1];

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
    known: Family<Kind, Gauge>,
    tasks: Family<Kind, Gauge>,
    set_aside: SetAsides,
    probes_refused: Gauge,
}

impl AgentMetrics {
    /// Registers the metrics under `berthd_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berthd");
        let metrics = Self {
            verdicts: Family::default(),
            panics: Counter::default(),
            store_failures: Counter::default(),
            inspection_failures: Counter::default(),
            kubelet_poll_failures: Counter::default(),
            view_failures: Counter::default(),
            view_fresh: Gauge::default(),
            known: Family::default(),
            tasks: Family::default(),
            set_aside: SetAsides::register(registry),
            probes_refused: Gauge::default(),
        };
        registry.register(
            "verdicts",
            "Answers of the policy to calls it was asked about",
            metrics.verdicts.clone(),
        );
        registry.register(
            "policy_panics",
            "Evaluations in which the policy panicked: of a call, which was let through, or of an object, which was set aside",
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
        registry.register("known", "Objects the agent remembers", metrics.known.clone());
        registry.register(
            "probe_entries_refused",
            "Entries of NodePodProbe that are not run: no live PodProbeMarker asks for them, or they are too many",
            metrics.probes_refused.clone(),
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

    /// How often the policy panicked; 0 on a healthy node.
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

    pub(crate) fn view_failed(&self) {
        self.view_failures.inc();
    }

    pub(crate) fn view_fresh(&self, fresh: bool) {
        self.view_fresh.set(i64::from(fresh));
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
