//! Objects that the policies have set aside because their evaluation panicked, in one place for the log, the
//! metrics and
//! `berthctl status`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tracing::error;

/// An object that is left alone, as people know it, and when it is evaluated again.
pub(crate) type Object = (String, Instant);

/// The objects by policy. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetAsides {
    policies: Arc<Mutex<BTreeMap<&'static str, Told>>>,
    gauge: Family<[(&'static str, &'static str); 1], Gauge>,
}

/// The last word of one policy.
#[derive(Debug, Default)]
struct Told {
    /// Panics that it has caught since the process began.
    panics: u64,
    objects: Vec<Object>,
}

impl SetAsides {
    /// Registers the gauge.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register(
            "set_aside",
            "Objects that are left alone for a while because their evaluation panicked",
            new.gauge.clone(),
        );
        new
    }

    /// Takes over what a policy has caught: how often since the process began, and which objects it leaves
    /// alone now. New panics are logged and counted.
    pub(crate) fn told(
        &self,
        policy: &'static str,
        panics: u64,
        objects: impl FnOnce() -> Vec<Object>,
        counter: &Counter,
    ) {
        // A healthy node pays for nothing but this comparison.
        if panics == 0 {
            return;
        }
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let told = policies.entry(policy).or_default();
        told.objects = objects();
        let new = panics.saturating_sub(told.panics);
        told.panics = panics;
        if new > 0 {
            counter.inc_by(new);
            let names: Vec<&str> = told.objects.iter().map(|(name, _)| name.as_str()).collect();
            error!(policy, objects = ?names, "Objects set aside, their evaluation panicked");
        }
        let count = i64::try_from(told.objects.len()).unwrap_or(i64::MAX);
        self.gauge.get_or_create(&[("policy", policy)]).set(count);
    }

    /// All objects that are left alone now.
    pub(crate) fn all(&self) -> Vec<Object> {
        let policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        policies.values().flat_map(|told| told.objects.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_panic_is_counted_once_and_the_newest_objects_are_shown() {
        let (asides, counter) = (SetAsides::register(&mut Registry::default()), Counter::default());
        let now = Instant::now();
        let named = |name: &str| vec![(name.to_owned(), now)];
        asides.told("node", 0, || panic!("nobody is asked on a healthy node"), &counter);
        asides.told("node", 1, || named("pod shop/web"), &counter);
        asides.told("node", 1, || named("pod shop/web"), &counter);
        asides.told("probes", 2, || named("pod shop/db"), &counter);
        assert_eq!(counter.get(), 3);
        assert_eq!(asides.all(), [named("pod shop/web"), named("pod shop/db")].concat());
        asides.told("node", 1, Vec::new, &counter);
        assert_eq!(asides.all(), named("pod shop/db"));
    }
}
