//! Writes that wait: bounded, one write for each object, the latest, and no namespace before all others.
//!
//! ```text
//!   push ──▶ ready, a lane for each namespace, one for nodes, one for sets ──take──▶ on its way ──done──▶ (over)
//!                      ▲                                                                │
//!                      └────────── later: not before a time ◀──tried again──────────────┤
//!                                  aside: given back in minutes ◀──refused──────────────┘
//! ```

mod aside;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use berth_base::round_robin::RoundRobin;
use tokio::time::Instant;

use self::aside::Aside;
use super::{answer::TRIES_OF_FORBIDDEN, busy::Busy};
use crate::{
    store::Kind,
    write::{Target, Write},
};

/// Writes that can wait for the objects of namespaces, and again for those of nodes. The writer does some 200
/// writes a second at the least that can be called working (16 at once, 80 ms each); what waits longer than
/// half a minute is better decided anew. 8 MB at the most: a write is about 1 KiB, and of the larger ones,
/// the status of jobs, there are few.
const CAPACITY: usize = 8192;
/// Writes that can wait for one namespace: no single one fills the queue.
const OF_ONE: usize = CAPACITY / 4;
/// Writes that can wait for a namespace however full the queue is: several together do not shut out the
/// others.
const ALWAYS: usize = 64;
/// Writes of one namespace that may be on their way at once, half of all: another one's finds a place at
/// once.
const ON_THEIR_WAY: usize = super::AT_ONCE / 2;
/// Lane of SidecarSets, which has its turn among the namespaces: the status of a set does not wait until all
/// nodes of its pods are told. No namespace has such a name.
const SETS: &str = "/sidecarsets";
/// Objects that are given back at once.
const GIVEN_BACK_AT_ONCE: usize = 64;

/// Refusal of a write for which there was no room.
#[derive(Debug, thiserror::Error)]
#[error("no room in the queue for a write of {} {}", target.kind.name(), target.key)]
pub struct Full {
    /// The object.
    pub target: Target,
}

/// A write, and how often it was tried, or counts as tried.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) order: Write,
    pub(super) tries: usize,
}

/// The queue. A target is in its lane or in `later` exactly if its write waits and none of it is on its way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By namespace; the objects of nodes have none.
    lanes: HashMap<Arc<str>, Lane>,
    /// Objects of namespaces that can be written now.
    ready: RoundRobin<Target>,
    /// Objects of nodes that can.
    ready_nodes: VecDeque<Target>,
    /// The last one taken was a node's: those and the namespaces take turns.
    after_node: bool,
    /// With the time before which it is not tried again.
    waiting: HashMap<Target, (Item, Option<Instant>)>,
    later: BTreeSet<(Instant, Target)>,
    /// Objects whose write was refused.
    aside: Aside,
    /// Objects whose write was not sent in its time.
    too_late: Vec<Target>,
    on_their_way: HashSet<Target>,
    /// Pause of all of them.
    pub(super) busy: Busy,
}

#[derive(Debug, Default)]
struct Lane {
    /// Ready, in `later`, and behind what is on its way.
    waiting: usize,
    on_their_way: usize,
}

impl Queue {
    /// Takes a write; gives back the one whose place it has taken.
    pub(super) fn push(&mut self, order: Write) -> Result<Option<Write>, Full> {
        let target = order.target();
        // Where its right is missing still, that is known after one try.
        let tries = if self.aside.forget(&target) { TRIES_OF_FORBIDDEN } else { 0 };
        let item = Item { order, tries };
        if let Some(waiting) = self.waiting.get_mut(&target) {
            let (before, later) = std::mem::replace(waiting, (item, None));
            // It need not wait for what the one before it met.
            if let Some(at) = later
                && self.later.remove(&(at, target.clone()))
            {
                self.make_ready(target);
            }
            return Ok(Some(before.order));
        }
        if !self.has_room(&target) {
            return Err(Full { target });
        }
        self.insert(target.clone(), item, None);
        if !self.on_their_way.contains(&target) {
            self.make_ready(target);
        }
        Ok(None)
    }

    fn has_room(&self, target: &Target) -> bool {
        let of = |namespace: &str| self.lanes.get(namespace).map_or(0, |lane| lane.waiting);
        let lane = lane(target);
        let (own, nodes) = (of(&lane), of(""));
        if lane.is_empty() {
            return nodes < CAPACITY;
        }
        own < ALWAYS || (own < OF_ONE && self.waiting.len().saturating_sub(nodes) < CAPACITY)
    }

    fn insert(&mut self, target: Target, item: Item, later: Option<Instant>) {
        self.lanes.entry(lane(&target)).or_default().waiting += 1;
        self.waiting.insert(target, (item, later));
    }

    fn make_ready(&mut self, target: Target) {
        let namespace = lane(&target);
        if namespace.is_empty() {
            self.ready_nodes.push_back(target);
        } else {
            self.ready.push(namespace, target);
        }
    }

    /// The next to write. [`Queue::done`] says when that is over; until then no other of its object comes
    /// out. Without one: when to ask again, if nothing arrives before.
    pub(super) fn take(&mut self, now: Instant) -> Result<Item, Option<Instant>> {
        if let Some(until) = self.busy.waits(now) {
            return Err(Some(until));
        }
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, target)) = self.later.pop_first()
        {
            self.make_ready(target);
        }
        let next = self.next().and_then(|target| Some((self.waiting.remove(&target)?, target)));
        let Some(((item, _), target)) = next else { return Err(self.later.first().map(|(at, _)| *at)) };
        if let Some(lane) = self.lanes.get_mut(&lane(&target)) {
            lane.waiting = lane.waiting.saturating_sub(1);
            lane.on_their_way += 1;
        }
        self.on_their_way.insert(target);
        Ok(item)
    }

    /// A node's and a namespace's by turns, and the namespaces by turns.
    fn next(&mut self) -> Option<Target> {
        self.after_node = !self.after_node;
        if self.after_node {
            self.ready_nodes.pop_front().or_else(|| self.next_of_namespaces())
        } else {
            self.next_of_namespaces().or_else(|| self.ready_nodes.pop_front())
        }
    }

    fn next_of_namespaces(&mut self) -> Option<Target> {
        let of = |namespace: &str| self.lanes.get(namespace).map_or(0, |lane| lane.on_their_way);
        self.ready.take(|namespace| of(namespace) < ON_THEIR_WAY)
    }

    /// The write of this object is over, or is to be tried again, not before then. Gives back the one whose
    /// place a newer one has taken.
    pub(super) fn done(&mut self, target: &Target, again: Option<(Instant, Item)>) -> Option<Write> {
        self.on_their_way.remove(target);
        let own = lane(target);
        if let Some(lane) = self.lanes.get_mut(&own) {
            lane.on_their_way = lane.on_their_way.saturating_sub(1);
        }
        let superseded = match again {
            Some((_, item)) if self.waiting.contains_key(target) => {
                self.make_ready(target.clone());
                Some(item.order)
            }
            Some((at, item)) => {
                self.insert(target.clone(), item, Some(at));
                self.later.insert((at, target.clone()));
                None
            }
            None if self.waiting.contains_key(target) => {
                self.make_ready(target.clone());
                None
            }
            None => None,
        };
        let empty = |lane: &Lane| lane.waiting == 0 && lane.on_their_way == 0;
        if self.lanes.get(&own).is_some_and(empty) {
            self.lanes.remove(&own);
        }
        superseded
    }

    /// The write of this object is over, and was refused by who may let one pass later.
    pub(super) fn refused(&mut self, target: &Target, now: Instant) {
        self.done(target, None);
        // A newer one meets the same, or passes.
        if !self.waiting.contains_key(target) {
            self.aside.put(target.clone(), now);
        }
    }

    /// The write of this object is over, and was not sent in its time.
    pub(super) fn late(&mut self, target: &Target) {
        self.done(target, None);
        // A newer one was decided since.
        if !self.waiting.contains_key(target) {
            self.too_late.push(target.clone());
        }
    }

    /// Objects whose write came too late, or was refused minutes ago. Without one: when to ask again, if
    /// there is none before.
    pub(super) fn give_back(&mut self, now: Instant) -> Result<Vec<Target>, Option<Instant>> {
        if !self.too_late.is_empty() {
            return Ok(std::mem::take(&mut self.too_late));
        }
        let given = self.aside.give_back(GIVEN_BACK_AT_ONCE, now);
        if given.is_empty() { Err(self.aside.next()) } else { Ok(given) }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

fn lane(target: &Target) -> Arc<str> {
    if target.kind == Kind::SidecarSet { SETS.into() } else { target.key.namespace.clone() }
}

#[cfg(test)]
mod tests;
