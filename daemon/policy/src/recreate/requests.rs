//! All requests, and an index of those that have to be looked at: those of each pod whose turn may have come,
//! those of which something is to be told, and those that are due by a time.
//!
//! A look at the node is made with every fact and keeps the calls of the kubelet waiting, so it must not cost
//! more where somebody has made ten thousand requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::state::{Drain, Request};
use crate::{
    model::{PodUid, RequestId},
    time::later,
};

/// How many open requests of one pod are looked at, first come first. More than these wait without a look
/// until one ends, whichever containers they name. A pod has seldom more containers than that.
pub(super) const LOOKED_AT: usize = 16;

/// The requests by identity. Each change of one goes through here, so that the index is never behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<RequestId, Request>,
    /// Open ones, in their order.
    open: ByPod,
    /// Open ones that were begun or hold their pod not Ready: they are looked at wherever they stand.
    begun: ByPod,
    /// Requests of which nothing was told yet, or not their end.
    untold: ByPod,
    /// Open ones with a deadline.
    deadlines: BTreeSet<(Instant, RequestId)>,
    /// Told ones that are to be deleted then.
    expiring: BTreeSet<(Instant, RequestId)>,
    /// When the first of them was to be deleted, at the last look.
    looked_for: Option<Instant>,
    /// Open ones that hold their pod not Ready, or are about to.
    holding: BTreeSet<RequestId>,
}

/// Requests of each pod, by arrival.
type ByPod = BTreeMap<PodUid, BTreeMap<u64, RequestId>>;

/// Where a request stands in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pod: PodUid,
    arrival: u64,
    open: bool,
    begun: bool,
    untold: bool,
    holding: bool,
    deadline: Option<Instant>,
    expires: Option<Instant>,
}

// === impl Placement ===

impl Placement {
    fn of(request: &Request) -> Self {
        let open = request.end.is_none();
        let holding = open && request.unready != Drain::Not;
        let expires = request.end.as_ref().filter(|_| request.is_told());
        Self {
            pod: request.asked.pod.clone(),
            arrival: request.arrival,
            open,
            begun: open && (holding || request.progress.values().any(|progress| progress.begun.is_some())),
            untold: if open {
                request.has_status() && request.reported.phase.is_none()
            } else {
                !request.is_told()
            },
            holding,
            deadline: request.asked.deadline.filter(|_| open),
            expires: expires.and_then(|end| Some(later(end.at, request.asked.delete_after?))),
        }
    }
}

// === impl Requests ===

impl Requests {
    pub(super) fn get(&self, id: &RequestId) -> Option<&Request> {
        self.all.get(id)
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.all.contains_key(id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Request> {
        self.all.values()
    }

    pub(super) fn insert(&mut self, request: Request) {
        let id = request.asked.id.clone();
        self.remove(&id);
        self.enter(&id, &Placement::of(&request));
        self.all.insert(id, request);
    }

    pub(super) fn remove(&mut self, id: &RequestId) {
        if let Some(request) = self.all.remove(id) {
            self.leave(id, &Placement::of(&request));
        }
    }

    pub(super) fn change(&mut self, id: &RequestId, change: impl FnOnce(&mut Request)) {
        if let Some(taken) = self.take(id) {
            let (mut request, before) = taken;
            change(&mut request);
            self.put_back(request, &before);
        }
    }

    /// Takes a request out, to be changed with a view of all others; [`Requests::put_back`] is to follow.
    pub(super) fn take(&mut self, id: &RequestId) -> Option<(Request, Placement)> {
        let request = self.all.remove(id)?;
        let before = Placement::of(&request);
        Some((request, before))
    }

    pub(super) fn put_back(&mut self, request: Request, before: &Placement) {
        let (id, after) = (request.asked.id.clone(), Placement::of(&request));
        if after != *before {
            self.leave(&id, before);
            self.enter(&id, &after);
        }
        self.all.insert(id, request);
    }

    fn enter(&mut self, id: &RequestId, at: &Placement) {
        let lists = [(&mut self.open, at.open), (&mut self.begun, at.begun), (&mut self.untold, at.untold)];
        for (list, _) in lists.into_iter().filter(|(_, is_in)| *is_in) {
            list.entry(at.pod.clone()).or_default().insert(at.arrival, id.clone());
        }
        self.deadlines.extend(at.deadline.map(|deadline| (deadline, id.clone())));
        self.expiring.extend(at.expires.map(|expires| (expires, id.clone())));
        if at.holding {
            self.holding.insert(id.clone());
        }
    }

    fn leave(&mut self, id: &RequestId, at: &Placement) {
        for list in [&mut self.open, &mut self.begun, &mut self.untold] {
            if let Some(of_pod) = list.get_mut(&at.pod) {
                of_pod.remove(&at.arrival);
                if of_pod.is_empty() {
                    list.remove(&at.pod);
                }
            }
        }
        if let Some(deadline) = at.deadline {
            self.deadlines.remove(&(deadline, id.clone()));
        }
        if let Some(expires) = at.expires {
            self.expiring.remove(&(expires, id.clone()));
        }
        self.holding.remove(id);
    }

    /// Tells whether there is an open one, or one of which something is to be told.
    pub(super) fn is_active(&self) -> bool {
        !self.open.is_empty() || !self.untold.is_empty()
    }

    /// The pods with open ones.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodUid> {
        self.open.keys()
    }

    /// The open ones that are looked at, of all pods.
    pub(super) fn in_hand(&self) -> impl Iterator<Item = &Request> {
        self.open.keys().flat_map(|pod| self.in_hand_of(pod))
    }

    /// The open ones of a pod that are looked at, in their order.
    pub(super) fn in_hand_of(&self, pod: &PodUid) -> impl Iterator<Item = &Request> {
        let open = self.open.get(pod).into_iter().flatten();
        let first = open.take(LOOKED_AT);
        let last = first.clone().last().map(|(arrival, _)| *arrival);
        let begun = self.begun.get(pod).into_iter().flatten();
        let behind = begun.filter(move |(arrival, _)| last.is_none_or(|last| **arrival > last));
        first.chain(behind).filter_map(|(_, id)| self.all.get(id))
    }

    /// Tells whether an open one is looked at.
    pub(super) fn is_in_hand(&self, request: &Request) -> bool {
        self.in_hand_of(&request.asked.pod).any(|one| one.arrival == request.arrival)
    }

    /// Requests of which something is to be told and that are not looked at: one of each pod, then the next
    /// of each.
    pub(super) fn untold(&self) -> impl Iterator<Item = &Request> {
        let deepest = self.untold.values().map(BTreeMap::len).max().unwrap_or(0);
        let mut pods: Vec<_> = self.untold.values().map(|of_pod| of_pod.values()).collect();
        (0..deepest)
            .flat_map(move |_| pods.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
            .filter_map(|id| self.all.get(id))
            .filter(|request| request.end.is_some() || !self.is_in_hand(request))
    }

    /// Open ones whose deadline is not after `now`.
    pub(super) fn overdue(&self, now: Instant) -> Vec<RequestId> {
        self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone()).collect()
    }

    /// Takes in that all times are looked at.
    pub(super) fn times_are_looked_at(&mut self) {
        self.looked_for = self.first_to_expire();
    }

    /// Tells whether one is to be deleted at a time for which nobody waits yet.
    pub(super) fn has_new_time(&self) -> bool {
        self.first_to_expire() != self.looked_for
    }

    fn first_to_expire(&self) -> Option<Instant> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Told ones that are to be deleted by `now`.
    pub(super) fn expired(&self, now: Instant) -> impl Iterator<Item = &Request> {
        let due = self.expiring.iter().take_while(move |(at, _)| *at <= now);
        due.filter_map(|(_, id)| self.all.get(id))
    }

    /// Returns when the next deadline, and the next time to delete one, is after `looked`.
    pub(super) fn times(&self, looked: Option<Instant>) -> impl Iterator<Item = Instant> {
        let next = move |times: &BTreeSet<(Instant, RequestId)>| {
            match looked.map(|looked| (later(looked, Duration::from_nanos(1)), RequestId::from(""))) {
                Some(from) => times.range(from..).next(),
                None => times.first(),
            }
            .map(|(at, _)| *at)
        };
        next(&self.deadlines).into_iter().chain(next(&self.expiring))
    }

    /// Open ones that hold their pod not Ready, or are about to.
    pub(super) fn holding(&self) -> impl Iterator<Item = &Request> {
        self.holding.iter().filter_map(|id| self.all.get(id))
    }
}
