//! Budgets of each namespace, by what they cover. An event of a pod looks at those that may cover it, and not
//! at all of its namespace, of which one author may make thousands. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    known::Known,
    spec::{Cover, ReplicaSets, is_replica_set},
};
use crate::store::{Key, Pod, PodChange};

/// Names of budgets of one namespace.
type BudgetNames = BTreeSet<Arc<str>>;

/// Budgets by namespace and place.
#[derive(Debug, Default)]
pub(super) struct Finder {
    spaces: HashMap<Arc<str>, HashMap<Place, BudgetNames>>,
    /// Places of each budget.
    places: HashMap<Key, Vec<Place>>,
}

/// A property of pods by which a budget is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// They have this label.
    Label(Arc<str>, Arc<str>),
    /// They are of a workload of this name, or of a ReplicaSet with this name before its own.
    Workload(Arc<str>),
    /// They are any.
    Any,
    /// It is the pod of this name, which has a permit.
    Permit(Arc<str>),
}

impl Finder {
    /// Takes in a budget as it is now.
    pub(super) fn put(&mut self, key: &Key, known: &Known) {
        let next = places(known);
        if self.places.get(key) == Some(&next) {
            return;
        }
        self.remove(key);
        if next.is_empty() {
            return;
        }
        let space = self.spaces.entry(key.namespace.clone()).or_default();
        for place in &next {
            space.entry(place.clone()).or_default().insert(key.name.clone());
        }
        self.places.insert(key.clone(), next);
    }

    /// Forgets a budget.
    pub(super) fn remove(&mut self, key: &Key) {
        let places = self.places.remove(key).unwrap_or_default();
        let Some(space) = self.spaces.get_mut(&key.namespace) else { return };
        for place in places {
            if let Some(names) = space.get_mut(&place) {
                names.remove(&key.name);
                if names.is_empty() {
                    space.remove(&place);
                }
            }
        }
        if space.is_empty() {
            self.spaces.remove(&key.namespace);
        }
    }

    /// Finds the budgets that the pod may count for, as it was or as it is, in the order of their names. It
    /// need not be one of theirs.
    pub(super) fn of_pod(&self, PodChange { key, before, after }: &PodChange) -> BudgetNames {
        // Most namespaces have none, and a pod has many places.
        if !self.spaces.contains_key(&key.namespace) {
            return BudgetNames::new();
        }
        let mut found = self.of(&key.namespace, &[Place::Any, Place::Permit(key.name.clone())]);
        for pod in [before, after].into_iter().flatten() {
            found.append(&mut self.of(&key.namespace, &of_pod(pod)));
        }
        found
    }

    /// Finds the budgets of which the pod of this name has a permit.
    pub(super) fn of_permit(&self, namespace: &Arc<str>, pod: &Arc<str>) -> BudgetNames {
        self.of(namespace, &[Place::Permit(pod.clone())])
    }

    fn of(&self, namespace: &Arc<str>, places: &[Place]) -> BudgetNames {
        let Some(space) = self.spaces.get(namespace) else { return BudgetNames::new() };
        places.iter().filter_map(|place| space.get(place)).flatten().cloned().collect()
    }
}

/// Places of a budget. One that cannot be kept has none.
fn places(known: &Known) -> Vec<Place> {
    let Ok(budget) = &known.budget else { return Vec::new() };
    let mut places: Vec<Place> = match &budget.cover {
        Cover::Selector(selector) => match selector.narrowest() {
            Some((key, values)) => {
                let key: Arc<str> = key.into();
                values.iter().map(|value| Place::Label(key.clone(), value.as_str().into())).collect()
            }
            None => vec![Place::Any],
        },
        Cover::Workload(workload) => match workload.replica_sets() {
            ReplicaSets::Any => vec![Place::Any],
            ReplicaSets::None | ReplicaSets::OfItsName => vec![Place::Workload(workload.name.clone())],
        },
    };
    if let Ok(status) = &known.object.status {
        let pods = status.disrupted_pods.keys().chain(status.unavailable_pods.keys());
        places.extend(pods.map(|pod| Place::Permit(pod.as_str().into())));
    }
    places
}

/// Places of a pod by what it is.
fn of_pod(pod: &Pod) -> Vec<Place> {
    let labels = pod.labels.iter().map(|(key, value)| Place::Label(key.clone(), value.clone()));
    let mut places: Vec<Place> = labels.collect();
    if let Some(owner) = &pod.owner {
        places.push(Place::Workload(owner.name.as_str().into()));
        if is_replica_set(owner) {
            let ends = owner.name.match_indices('-').filter_map(|(at, _)| owner.name.get(..at));
            places.extend(ends.map(|name| Place::Workload(name.into())));
        }
    }
    places
}
