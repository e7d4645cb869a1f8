//! Event loop of a controller: it waits for inputs, for plans that end, for the lease and for what is due.
//! All controllers have it in common, so what wakes a replica, and which one may begin a plan and go on with
//! it, is decided once.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use berth_base::{lease::Tenure, time::reached};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
    time::{MissedTickBehavior, interval},
};
use tracing::warn;

use crate::{
    agenda::Agenda,
    owned::Concerned,
    reading::{Ended, Reading, Unread},
    timing::{AT_ONCE, BATCH},
    write::Writer,
};

/// How often a plan that waits for an answer looks whether its term still lasts: much less than a leader
/// stops before its successor begins.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Each kind that is watched, and whether all of it was listed.
pub(crate) type Listed = Vec<(&'static str, bool)>;

/// Connections of a controller.
pub(crate) struct Connections {
    pub(crate) tenure: Tenure,
    pub(crate) writer: Writer,
    pub(crate) listed: watch::Sender<Listed>,
}

/// How an object is read before it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFirst {
    /// By itself, now.
    Apart,
    /// With its namespace, and it is due then.
    WithNamespace,
}

/// Inputs and plans of a controller, and when its objects are due.
pub(crate) struct EventLoop<I, R> {
    inputs: mpsc::Receiver<I>,
    tenure: Tenure,
    /// Term of the turn before.
    term: Option<u64>,
    pub(crate) agenda: Agenda,
    /// Time of a turn that comes whether this replica leads or not.
    pub(crate) wakes: Option<Instant>,
    /// Plans on their way; the result is `None` where a plan outlasted its term.
    plans: JoinSet<Option<R>>,
    /// Object of each plan on its way.
    of: BTreeMap<Id, String>,
    /// Standing of the reading at the start of a term, where a controller begins with one.
    pub(crate) reading: Option<Reading>,
}

/// Reason of a turn.
#[derive(Debug)]
pub(crate) enum Turn<I, R> {
    /// Watches have shown something.
    Inputs(Vec<I>),
    /// A plan has ended.
    Report(R),
    /// The plan of the object with this UID ended in a panic, with this text.
    Panic(String, String),
    /// Something is due, or the lease has changed.
    Due,
}

impl Connections {
    /// Says what was listed, and how many objects of each kind there are.
    pub(crate) fn show(&self, listed: Listed, sizes: impl IntoIterator<Item = (&'static str, usize)>) {
        self.listed.send_replace(listed);
        self.count(sizes);
    }

    /// Says how many objects of each kind there are: some come and go after each list.
    pub(crate) fn count(&self, sizes: impl IntoIterator<Item = (&'static str, usize)>) {
        for (kind, count) in sizes {
            self.writer.metrics.objects(kind, count);
        }
    }
}

impl<I, R: Send + 'static> EventLoop<I, R> {
    pub(crate) fn new(inputs: mpsc::Receiver<I>, tenure: Tenure) -> Self {
        Self {
            inputs,
            tenure,
            term: None,
            agenda: Agenda::default(),
            wakes: None,
            plans: JoinSet::new(),
            of: BTreeMap::new(),
            reading: None,
        }
    }

    /// Event loop of a controller that reads all objects before its first plan of a term.
    pub(crate) fn with_reading(inputs: mpsc::Receiver<I>, tenure: Tenure) -> Self {
        Self { reading: Some(Reading::default()), ..Self::new(inputs, tenure) }
    }

    /// Waits for the next turn of a controller that knows what there is, or not yet. `None`: the watches have
    /// ended.
    pub(crate) async fn next(&mut self, listed: bool) -> Option<Turn<I, R>> {
        // One that may begin nothing waits for news: what is due stays due, and would wake it for ever.
        let next = self.term().filter(|_| listed).and_then(|term| {
            let reading = self.reading.as_ref();
            let read = reading.and_then(|reading| reading.next(term, Instant::now()));
            let is_read = reading.is_none_or(|reading| reading.is_done(term));
            let planned = if is_read { self.agenda.next(AT_ONCE) } else { None };
            read.into_iter().chain(planned).min()
        });
        let next = next.into_iter().chain(self.wakes).min();
        let mut inputs = Vec::new();
        // Cancel-safe: `recv_many` and `join_next_with_id` take nothing unless they return it, the tenure
        // keeps its newest value, and a deadline that was not waited for to its end is still there.
        Some(tokio::select! {
            count = self.inputs.recv_many(&mut inputs, BATCH) => {
                if count == 0 {
                    return None;
                }
                Turn::Inputs(inputs)
            }
            Some(ended) = self.plans.join_next_with_id() => self.ended(ended),
            () = self.tenure.changed() => Turn::Due,
            () = reached(next) => Turn::Due,
        })
    }

    /// Makes the objects due that an input concerns.
    pub(crate) fn take(&mut self, concerned: Concerned, all: impl FnOnce() -> Vec<String>) {
        let now = Instant::now();
        let uids = match concerned {
            Concerned::None => return,
            Concerned::Some(uids) => uids,
            Concerned::All => all(),
        };
        uids.into_iter().for_each(|uid| self.agenda.add(uid, now));
    }

    /// Tells whether another term of this replica has begun since this was asked last: all is due then. So
    /// one that does not lead keeps nothing of what is due: it may stand by for months, while objects come
    /// and go.
    pub(crate) fn begins_term(&mut self) -> bool {
        let term = self.term();
        let before = std::mem::replace(&mut self.term, term);
        if term.is_none() {
            self.agenda.clear();
        }
        term.is_some() && term != before
    }

    /// Term in which this replica leads. `None`: it does not.
    pub(crate) fn term(&self) -> Option<u64> {
        self.tenure.term()
    }

    /// Begins the plan of an object; no other one of it begins before its end.
    pub(crate) fn spawn(&mut self, uid: String, plan: impl Future<Output = R> + Send + 'static) {
        self.agenda.begins(&uid);
        let (tenure, term) = (self.tenure.clone(), self.term());
        let handle = self.plans.spawn(in_term(tenure, term, plan));
        self.of.insert(handle.id(), uid);
    }

    /// Term whose objects are to be read now, before any plan of it, and their namespaces: of all that there
    /// are those that were not read in it, or are to be read again. A reading of them is on its way then.
    pub(crate) fn term_to_read(
        &mut self,
        namespaces: impl FnOnce() -> BTreeSet<String>,
    ) -> Option<(u64, BTreeSet<String>)> {
        let term = self.term()?;
        let (reading, now) = (self.reading.as_mut()?, Instant::now());
        if reading.next(term, now).is_none_or(|next| next > now) {
            return None;
        }
        let left = reading.left(term, namespaces(), now);
        if left.is_empty() && reading.is_done(term) {
            return None;
        }
        reading.begins(term);
        Some((term, left))
    }

    /// Term in which plans may be begun: this replica leads, and what it knows is no older than its term.
    pub(crate) fn term_to_plan(&self) -> Option<u64> {
        let is_read = |term: &u64| self.reading.as_ref().is_none_or(|reading| reading.is_done(*term));
        self.term().filter(is_read)
    }

    /// Tells how an object is read before it is planned; `None`: it is planned. What was written for it last
    /// may be unknown, or not have been shown yet: `unread`, and `read_in`, the term in which it was read
    /// apart from all others. One that is not read by itself waits until its namespace was.
    pub(crate) fn reads_first(
        &mut self,
        namespace: &str,
        unread: &mut Unread,
        read_in: Option<u64>,
        now: Instant,
    ) -> Option<ReadFirst> {
        let reading = self.reading.as_mut()?;
        let reads_apart = if reading.misses(namespace) {
            false
        } else if unread.is_so() {
            reading.reads_again_apart(namespace, now)
        } else if !reading.covers(namespace) && read_in != reading.term() {
            reading.reads_apart(namespace)
        } else {
            return None;
        };
        if reads_apart {
            return Some(ReadFirst::Apart);
        }
        unread.waits();
        Some(ReadFirst::WithNamespace)
    }

    /// Number of readings that were begun by now.
    pub(crate) fn readings(&self) -> u64 {
        self.reading.as_ref().map_or(0, Reading::begun)
    }

    /// Term in which the objects were read last.
    pub(crate) fn read_in(&self) -> Option<u64> {
        self.reading.as_ref().and_then(Reading::term)
    }

    /// Takes in how a reading of namespaces ended: what was found in each of them. Those that could not be
    /// read are tried again.
    pub(crate) fn was_read<F>(&mut self, ended: Ended<F>) -> Vec<(String, F)> {
        if let Some(reading) = &mut self.reading {
            reading.ends(ended.term, ended.read(), ended.missing(), Instant::now());
        }
        if let Some((namespace, error)) = ended.failed.first() {
            let count = ended.failed.len();
            warn!(namespace, count, error, "Namespaces not read, trying again");
        }
        ended.found
    }

    /// Begins a reading of namespaces.
    pub(crate) fn read(&mut self, reading: impl Future<Output = R> + Send + 'static) {
        self.plans.spawn(async { Some(reading.await) });
    }

    fn ended(&mut self, ended: Result<(Id, Option<R>), JoinError>) -> Turn<I, R> {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let uid = self.of.remove(&id);
        if let Some(uid) = &uid {
            self.agenda.ends(uid);
        }
        match (ended, uid) {
            (Ok((_, Some(report))), _) => Turn::Report(report),
            // All is due, and read, when another term begins.
            (Ok((_, None)), _) => Turn::Due,
            // Said in the log already; the others go on.
            (Err(error), Some(uid)) => Turn::Panic(uid, error.try_into_panic().map(text).unwrap_or_default()),
            (Err(_), None) => {
                // Nothing else has no object.
                if let Some(reading) = &mut self.reading {
                    reading.is_lost(Instant::now());
                }
                Turn::Due
            }
        }
    }
}

/// Carries a plan out for as long as its term lasts. Whenever it goes on the clock is asked: a process that
/// was stopped for a while wakes up in the midst of a plan, and another replica leads by then. One that waits
/// for an answer ends with its term as well, and the API server is told so: a write that comes later would
/// meet with what the next leader has done.
async fn in_term<R>(tenure: Tenure, term: Option<u64>, plan: impl Future<Output = R>) -> Option<R> {
    let mut plan = pin!(plan);
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    poll_fn(|context| {
        // The last one of these wakes it again.
        while looks.poll_tick(context).is_ready() {}
        match tenure.term() {
            Some(now) if Some(now) == term => plan.as_mut().poll(context).map(Some),
            _ => Poll::Ready(None),
        }
    })
    .await
}

/// Result of a decision, or the text of the panic that it ended in. It would do so again, and it is about one
/// object alone.
pub(crate) fn guarded<T>(decide: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(decide)).map_err(text)
}

/// Text of a panic.
fn text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
