//! Pods whose containers are being made anew. A permit that was given for it stands until the request has
//! ended or is gone, however long its containers take to stop: the pod may go out of service at any time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::store::Key;

/// Requests by pod.
type OfSpace = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// Requests that an agent has, and their pods.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Pods by request, with the number of the list that showed it last.
    requests: HashMap<Key, (Arc<str>, u32)>,
    /// Requests by namespace and pod.
    pods: BTreeMap<Arc<str>, OfSpace>,
}

impl Held {
    /// Gives the pod that no request holds any more: one of the same name may be about another.
    pub(super) fn hold(&mut self, request: Key, pod: Arc<str>, list: u32) -> Option<Arc<str>> {
        if let Some((_, shown)) = self.requests.get_mut(&request).filter(|(known, _)| *known == pod) {
            *shown = list;
            return None;
        }
        let before = self.let_go(&request);
        let of_space = self.pods.entry(request.namespace.clone()).or_default();
        of_space.entry(pod.clone()).or_default().insert(request.name.clone());
        self.requests.insert(request, (pod, list));
        before
    }

    /// A request is there, and nothing else is known of it.
    pub(super) fn stays(&mut self, request: &Key, list: u32) {
        if let Some((_, shown)) = self.requests.get_mut(request) {
            *shown = list;
        }
    }

    /// Gives the pod that no request holds any more.
    pub(super) fn let_go(&mut self, request: &Key) -> Option<Arc<str>> {
        let (pod, _) = self.requests.remove(request)?;
        let of_space = self.pods.get_mut(&request.namespace)?;
        let names = of_space.get_mut(&pod)?;
        names.remove(&request.name);
        if !names.is_empty() {
            return None;
        }
        of_space.remove(&pod);
        if of_space.is_empty() {
            self.pods.remove(&request.namespace);
        }
        Some(pod)
    }

    pub(super) fn contains(&self, namespace: &str, pod: &str) -> bool {
        self.pods.get(namespace).is_some_and(|of_space| of_space.contains_key(pod))
    }

    /// Lists those that the newest list has not shown.
    pub(super) fn vanished(&self, list: u32) -> Vec<Key> {
        let gone = self.requests.iter().filter(|(_, (_, shown))| *shown != list);
        gone.map(|(key, _)| key.clone()).collect()
    }
}
