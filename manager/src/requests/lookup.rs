//! The requests, and what is looked up of them: by pod, by node, by time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use super::{
    kind::{RequestId, RequestKind},
    model::{Request, Stage},
};
use crate::store::Key;

/// All requests that exist. Those that are over are in none of the other collections, but for the timers of
/// those that are to be deleted.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// With the number of the list that showed it last.
    known: HashMap<RequestId, (Request, u32)>,
    /// Number of `known` that ask for an update.
    updates: usize,
    by_pod: HashMap<Key, BTreeSet<(RequestKind, Arc<str>)>>,
    by_node: HashMap<Arc<str>, BTreeSet<RequestId>>,
    timers: BTreeSet<(Instant, RequestId)>,
}

impl Requests {
    /// The one of this name that was known has been removed.
    pub(super) fn insert(&mut self, id: RequestId, request: Request, list: u32) {
        if let Some(pod) = request.stage.pod() {
            let name = (id.kind, id.key.name.clone());
            self.by_pod.entry(id.pod(pod)).or_default().insert(name);
        }
        if let Stage::Assigned(assigned) = &request.stage {
            self.by_node.entry(assigned.assignment.node.clone()).or_default().insert(id.clone());
        }
        self.updates += usize::from(id.kind == RequestKind::Update);
        self.known.insert(id, (request, list));
    }

    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Request> {
        self.set_timer(id, None);
        let (request, _) = self.known.remove(id)?;
        self.updates -= usize::from(id.kind == RequestKind::Update);
        if let Some(pod) = request.stage.pod().map(|pod| id.pod(pod))
            && let Some(names) = self.by_pod.get_mut(&pod)
        {
            names.remove(&(id.kind, id.key.name.clone()));
            if names.is_empty() {
                self.by_pod.remove(&pod);
            }
        }
        if let Stage::Assigned(assigned) = &request.stage
            && let Some(ids) = self.by_node.get_mut(&assigned.assignment.node)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.by_node.remove(&assigned.assignment.node);
            }
        }
        Some(request)
    }

    pub(super) fn get_mut(&mut self, id: &RequestId) -> Option<&mut Request> {
        self.known.get_mut(id).map(|(request, _)| request)
    }

    pub(super) fn of_pod(&self, pod: &Key) -> Vec<RequestId> {
        self.by_pod.get(pod).into_iter().flatten().map(|name| of(pod, name)).collect()
    }

    pub(super) fn of_node(&self, node: &str) -> Vec<RequestId> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }

    /// Lists the requests that are not over.
    pub(super) fn unfinished(&self) -> Vec<RequestId> {
        self.by_pod.iter().flat_map(|(pod, names)| names.iter().map(|name| of(pod, name))).collect()
    }

    /// Lists the requests that are over and are to be deleted some time.
    pub(super) fn expiring(&self) -> Vec<RequestId> {
        let expiring = self.known.iter().filter(|(_, (request, _))| request.expires.is_some());
        expiring.map(|(id, _)| id.clone()).collect()
    }

    /// Lists the requests of a kind that its newest list has not shown.
    pub(super) fn vanished(&self, kind: RequestKind, list: u32) -> Vec<Key> {
        let gone = self.known.iter().filter(|(id, (_, shown))| id.kind == kind && *shown != list);
        gone.map(|(id, _)| id.key.clone()).collect()
    }

    /// One timer for each request, the last one set.
    pub(super) fn set_timer(&mut self, id: &RequestId, at: Option<Instant>) {
        let Some((request, _)) = self.known.get_mut(id) else { return };
        if let Some(before) = std::mem::replace(&mut request.timer, at) {
            self.timers.remove(&(before, id.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, id.clone()));
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes out the timers that are over.
    pub(super) fn due(&mut self, now: Instant) -> Vec<RequestId> {
        let mut due = Vec::new();
        while let Some((_, id)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.set_timer(&id, None);
            due.push(id);
        }
        due
    }

    /// Returns how many of a kind there are.
    pub(super) fn count(&self, kind: RequestKind) -> usize {
        match kind {
            RequestKind::Recreate => self.known.len() - self.updates,
            RequestKind::Update => self.updates,
        }
    }

    /// Returns how many an agent has.
    pub(super) fn assigned(&self) -> usize {
        self.by_node.values().map(BTreeSet::len).sum()
    }

    /// Returns how many are not over.
    pub(super) fn unfinished_count(&self) -> usize {
        self.by_pod.values().map(BTreeSet::len).sum()
    }
}

fn of(pod: &Key, (kind, name): &(RequestKind, Arc<str>)) -> RequestId {
    RequestId { kind: *kind, key: pod.sibling(name) }
}
