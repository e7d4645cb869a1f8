//! Agenda of a controller: when each object is looked at, and which of those that are due come next.
//!
//! ```text
//!  add ──▶ waiting, by time ──▶ queue of its namespace ──▶ taken ──▶ plan on its way
//!                ▲                                                        │
//!                └───────────────── due again at its end ─────────────────┘
//! ```
//!
//! A plan holds a place until its last answer, and one whose requests come to a webhook that is down holds it
//! for long. So no namespace has more than half of the places, and neither have those objects together whose
//! plans fail one after the other; of one namespace these have a quarter. All others go on beside them. Nor
//! do objects of one kind keep those of another from theirs, as where each answer of a conversion webhook
//! takes long: the next place is of the kind that has the fewest.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// Objects that are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// When an object is looked at, by UID.
    due: BTreeMap<String, Instant>,
    /// The same by time, of objects that are in no queue and have no plan on its way.
    waiting: BTreeSet<(Instant, String)>,
    /// Objects whose time has come, by whether they fail, and by their kinds.
    queues: BTreeMap<Class, Queue>,
    /// Objects with a plan on its way: they wait for its end.
    in_flight: BTreeMap<String, Share>,
    /// Shares of what was taken last.
    taken: BTreeMap<String, Share>,
}

/// Objects that an object shares places with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// `None` of an object that is in none.
    pub(crate) namespace: Option<String>,
    /// Its kind, where the controller has several.
    pub(crate) kind: &'static str,
    /// Its plans fail one after the other.
    pub(crate) fails: bool,
}

/// Class of the objects of a queue: whether they fail, and their kind.
type Class = (bool, &'static str);

/// Objects whose time has come, by their namespaces. The one that waits longest comes first.
#[derive(Debug, Default)]
struct Queue {
    lines: BTreeMap<Option<String>, BTreeSet<(Instant, String)>>,
    /// Each namespace with the time of its first object.
    heads: BTreeSet<(Instant, Option<String>)>,
}

/// Places that are held.
#[derive(Debug)]
struct Held {
    most: usize,
    all: usize,
    fails: usize,
    /// Places of each namespace: all, and those of objects that fail.
    by_namespace: BTreeMap<String, (usize, usize)>,
    by_kind: BTreeMap<&'static str, usize>,
}

impl Agenda {
    /// The object is looked at then, or sooner.
    pub(crate) fn add(&mut self, uid: String, at: Instant) {
        let before = self.due.get(&uid).copied();
        if before.is_some_and(|before| before <= at) {
            return;
        }
        let has_waited = before.is_some_and(|before| self.waiting.remove(&(before, uid.clone())));
        let is_in_flight = self.in_flight.contains_key(&uid);
        if before.is_some() && !has_waited && !is_in_flight {
            // Its time has come already.
            return;
        }
        if !is_in_flight {
            self.waiting.insert((at, uid.clone()));
        }
        self.due.insert(uid, at);
    }

    /// Takes objects that are due, up to so many in flight, by their shares. Of a kind the one that waits
    /// longest comes first: others that are due again and again do not pass it.
    pub(crate) fn take(&mut self, now: Instant, most: usize, share: impl Fn(&str) -> Share) -> Vec<String> {
        let mut held = self.held(most);
        if held.all >= most {
            return Vec::new();
        }
        self.taken.clear();
        while self.waiting.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, uid)) = self.waiting.pop_first() else { break };
            let Share { namespace, kind, fails } = share(&uid);
            self.queues.entry((fails, kind)).or_default().add(namespace, at, uid);
        }
        let mut all = Vec::new();
        while let Some((_, class, namespace)) = self.head(&held) {
            let queue = self.queues.get_mut(&class);
            let Some(uid) = queue.and_then(|queue| queue.pop(&namespace)) else { break };
            let (fails, kind) = class;
            let share = Share { namespace, kind, fails };
            self.due.remove(&uid);
            held.add(&share);
            self.taken.insert(uid.clone(), share);
            all.push(uid);
        }
        all
    }

    /// The next time at which one is due; `None`, when nothing can be begun.
    pub(crate) fn next(&self, most: usize) -> Option<Instant> {
        let held = self.held(most);
        if held.all >= most {
            return None;
        }
        let first = self.head(&held).map(|(at, ..)| at);
        first.into_iter().chain(self.waiting.first().map(|(at, _)| *at)).min()
    }

    /// The plan of an object that was taken begins.
    pub(crate) fn begins(&mut self, uid: &str) {
        if let Some(at) = self.due.get(uid) {
            self.waiting.remove(&(*at, uid.to_owned()));
        }
        let share = self.taken.remove(uid).unwrap_or_default();
        self.in_flight.insert(uid.to_owned(), share);
    }

    /// The plan of an object has ended.
    pub(crate) fn ends(&mut self, uid: &str) {
        self.in_flight.remove(uid);
        if let Some(at) = self.due.get(uid) {
            self.waiting.insert((*at, uid.to_owned()));
        }
    }

    /// Forgets what is due. Plans on their way end by themselves.
    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.waiting.clear();
        self.queues.clear();
        self.taken.clear();
    }

    /// Objects with a plan on its way.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Vec<&str> {
        self.in_flight.keys().map(String::as_str).collect()
    }

    fn held(&self, most: usize) -> Held {
        let (by_namespace, by_kind) = (BTreeMap::new(), BTreeMap::new());
        let mut held = Held { most, all: 0, fails: 0, by_namespace, by_kind };
        self.in_flight.values().for_each(|share| held.add(share));
        held
    }

    /// Time of the one that comes next, its queue, and its namespace. Of those before it in its queue at most
    /// four namespaces are passed over: they have half of their places each.
    fn head(&self, held: &Held) -> Option<(Instant, Class, Option<String>)> {
        let open = self.queues.iter().filter(|((fails, _), _)| !fails || held.fails < held.half());
        let first = open.filter_map(|(class, queue)| {
            let (fails, kind) = *class;
            let mut heads = queue.heads.iter();
            let (at, namespace) = heads.find(|(_, namespace)| held.has_place(namespace.as_deref(), fails))?;
            Some((held.of_kind(kind), *at, *class, namespace))
        });
        first.min().map(|(_, at, class, namespace)| (at, class, namespace.clone()))
    }
}

impl Queue {
    fn add(&mut self, namespace: Option<String>, at: Instant, uid: String) {
        let line = self.lines.entry(namespace.clone()).or_default();
        let before = line.first().map(|(at, _)| *at);
        line.insert((at, uid));
        if before.is_none_or(|before| at < before) {
            if let Some(before) = before {
                self.heads.remove(&(before, namespace.clone()));
            }
            self.heads.insert((at, namespace));
        }
    }

    /// Takes out the first one of a namespace.
    fn pop(&mut self, namespace: &Option<String>) -> Option<String> {
        let line = self.lines.get_mut(namespace)?;
        let (at, uid) = line.pop_first()?;
        self.heads.remove(&(at, namespace.clone()));
        match line.first() {
            Some((next, _)) => drop(self.heads.insert((*next, namespace.clone()))),
            None => drop(self.lines.remove(namespace)),
        }
        Some(uid)
    }
}

impl Held {
    /// The most places of a namespace, and of those that fail.
    const fn half(&self) -> usize {
        self.most.div_ceil(2)
    }

    fn add(&mut self, share: &Share) {
        self.all = self.all.saturating_add(1);
        self.fails = self.fails.saturating_add(usize::from(share.fails));
        let of_kind = self.by_kind.entry(share.kind).or_default();
        *of_kind = of_kind.saturating_add(1);
        if let Some(namespace) = &share.namespace {
            let (all, fails) = self.by_namespace.entry(namespace.clone()).or_default();
            *all = all.saturating_add(1);
            *fails = fails.saturating_add(usize::from(share.fails));
        }
    }

    fn of_kind(&self, kind: &str) -> usize {
        self.by_kind.get(kind).copied().unwrap_or_default()
    }

    fn has_place(&self, namespace: Option<&str>, fails: bool) -> bool {
        let of_namespace = namespace.and_then(|namespace| self.by_namespace.get(namespace));
        self.all < self.most
            && of_namespace.is_none_or(|(all, _)| *all < self.half())
            && (!fails || self.fails < self.half())
            && (!fails || of_namespace.is_none_or(|(_, fails)| *fails < self.half().div_ceil(2)))
    }
}

#[cfg(test)]
mod tests;
