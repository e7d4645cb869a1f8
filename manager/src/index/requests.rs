//! The requests, and what is looked up of them: by pod, by node, by time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use super::model::{Request, Stage};
use crate::seen::Key;

/// All requests that exist. Those that are over are in none of the other collections.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// With the number of the list that showed it last.
    known: HashMap<Key, (Request, u32)>,
    by_pod: HashMap<Key, BTreeSet<Arc<str>>>,
    by_node: HashMap<Arc<str>, BTreeSet<Key>>,
    timers: BTreeSet<(Instant, Key)>,
}

impl Requests {
    pub(super) fn insert(&mut self, key: Key, request: Request, list: u32) {
        if let Some(pod) = request.stage.pod() {
            self.by_pod.entry(key.sibling(pod)).or_default().insert(key.name.clone());
        }
        if let Stage::Assigned(assigned) = &request.stage {
            self.by_node.entry(assigned.assignment.node.clone()).or_default().insert(key.clone());
        }
        self.known.insert(key, (request, list));
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Request> {
        self.set_timer(key, None);
        let (request, _) = self.known.remove(key)?;
        if let Some(pod) = request.stage.pod().map(|pod| key.sibling(pod))
            && let Some(names) = self.by_pod.get_mut(&pod)
        {
            names.remove(&key.name);
            if names.is_empty() {
                self.by_pod.remove(&pod);
            }
        }
        if let Stage::Assigned(assigned) = &request.stage
            && let Some(keys) = self.by_node.get_mut(&assigned.assignment.node)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(&assigned.assignment.node);
            }
        }
        Some(request)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Request> {
        self.known.get_mut(key).map(|(request, _)| request)
    }

    pub(super) fn of_pod(&self, pod: &Key) -> Vec<Key> {
        self.by_pod.get(pod).into_iter().flatten().map(|name| pod.sibling(name)).collect()
    }

    pub(super) fn of_node(&self, node: &str) -> Vec<Key> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }

    /// Those that are not over.
    pub(super) fn unfinished(&self) -> Vec<Key> {
        self.by_pod.iter().flat_map(|(pod, names)| names.iter().map(|name| pod.sibling(name))).collect()
    }

    /// Those that the newest list has not shown.
    pub(super) fn vanished(&self, list: u32) -> Vec<Key> {
        self.known.iter().filter(|(_, (_, shown))| *shown != list).map(|(key, _)| key.clone()).collect()
    }

    /// One timer for each request, the last one set.
    pub(super) fn set_timer(&mut self, key: &Key, at: Option<Instant>) {
        let Some((request, _)) = self.known.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut request.timer, at) {
            self.timers.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, key.clone()));
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes out the timers that are over.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.set_timer(&key, None);
            due.push(key);
        }
        due
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many an agent has.
    pub(super) fn assigned(&self) -> usize {
        self.by_node.values().map(BTreeSet::len).sum()
    }

    /// How many are not over.
    pub(super) fn unfinished_count(&self) -> usize {
        self.by_pod.values().map(BTreeSet::len).sum()
    }
}
