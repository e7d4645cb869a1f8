//! PersistentPodStates by the StatefulSets that they are about: an event of a pod looks at those of its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use berth_pod_state::TargetName;

use super::Known;
use crate::store::Key;

/// Names of states, by StatefulSet.
type OfSpace = HashMap<TargetName, BTreeSet<Arc<str>>>;

/// States by namespace and StatefulSet.
#[derive(Debug, Default)]
pub(super) struct Targets(HashMap<Arc<str>, OfSpace>);

impl Targets {
    /// Notes a state; one that cannot be carried out is about nothing.
    pub(super) fn insert(&mut self, key: &Key, known: &Known) {
        let Ok(rules) = &known.rules else { return };
        let of_space = self.0.entry(key.namespace.clone()).or_default();
        of_space.entry(rules.target().clone()).or_default().insert(key.name.clone());
    }

    /// Forgets a state, which is about what it is noted for.
    pub(super) fn remove(&mut self, key: &Key, known: &Known) {
        let (Ok(rules), Some(of_space)) = (&known.rules, self.0.get_mut(&key.namespace)) else { return };
        let Some(names) = of_space.get_mut(rules.target()) else { return };
        names.remove(&key.name);
        if names.is_empty() {
            of_space.remove(rules.target());
        }
        if of_space.is_empty() {
            self.0.remove(&key.namespace);
        }
    }

    /// The names of the states of a StatefulSet.
    pub(super) fn of(&self, namespace: &str, target: &TargetName) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(namespace).and_then(|of_space| of_space.get(target)).into_iter().flatten()
    }

    /// Namespaces with a state.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }
}
