//! Counters of the program. Labels come from closed lists, never from object names.

use berth_base::lease::Counters;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

type One = [(&'static str, &'static str); 1];
type Pair = [(&'static str, &'static str); 2];

/// The counters. A clone counts into the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    leads: Gauge,
    lease_failures: Counter,
    watch_failures: Family<One, Counter>,
    writes: Family<Pair, Counter>,
    passes: Counter,
    set_aside: Counter,
    objects: Family<One, Gauge>,
    without_room: Gauge,
}

impl Metrics {
    /// Registers the metrics under `berth_workloads_…`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_workloads");
        let build = Family::<One, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "1, with the version of the program", build);
        let metrics = Self::default();
        registry.register("leads", "Whether this replica leads", metrics.leads.clone());
        let help = "Failures to take or renew the lease";
        registry.register("lease_failures", help, metrics.lease_failures.clone());
        registry.register("watch_failures", "Watches that broke", metrics.watch_failures.clone());
        registry.register("writes", "Writes, and what became of them", metrics.writes.clone());
        registry.register("passes", "Plans that were made", metrics.passes.clone());
        let help = "Objects that were set aside: nobody can read them, or what was decided on them failed";
        registry.register("set_aside", help, metrics.set_aside.clone());
        registry.register("objects", "Objects that are watched", metrics.objects.clone());
        let help =
            "Workloads or distributions that are set aside: all take more memory than there is for them";
        registry.register("without_room", help, metrics.without_room.clone());
        metrics
    }

    pub(crate) fn watch_failed(&self, kind: &'static str) {
        self.watch_failures.get_or_create(&[("kind", kind)]).inc();
    }

    pub(crate) fn wrote(&self, what: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&[("what", what), ("outcome", outcome)]).inc();
    }

    pub(crate) fn passed(&self) {
        self.passes.inc();
    }

    #[cfg(test)]
    pub(crate) fn passes(&self) -> u64 {
        self.passes.get()
    }

    pub(crate) fn set_aside(&self) {
        self.set_aside.inc();
    }

    pub(crate) fn without_room(&self, count: usize) {
        self.without_room.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn objects(&self, kind: &'static str, count: usize) {
        self.objects.get_or_create(&[("kind", kind)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    #[cfg(test)]
    pub(crate) fn count_of(&self, kind: &'static str) -> i64 {
        self.objects.get_or_create(&[("kind", kind)]).get()
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
