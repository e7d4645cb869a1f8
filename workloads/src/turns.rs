//! Turns of a controller: it waits for inputs, for plans that end, for the lease and for what is due. All
//! controllers have it in common, so what wakes a replica, and which one may begin a plan and go on with
//! it, is decided once.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::Instant,
};

use berth_base::lease::Tenure;
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
};
use tracing::warn;

use crate::{
    agenda::Agenda,
    owned::Concerned,
    reading::{Ended, Reading},
    timing::{AT_ONCE, BATCH, deadline},
    write::Writer,
};

/// Each kind that is watched, and whether all of it was listed.
pub(crate) type Listed = Vec<(&'static str, bool)>;

/// Connections of a controller.
pub(crate) struct Connections {
    pub(crate) tenure: Tenure,
    pub(crate) writer: Writer,
    pub(crate) listed: watch::Sender<Listed>,
}

/// Inputs and plans of a controller, and when its objects are due.
pub(crate) struct Turns<I, R> {
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
        for (kind, count) in sizes {
            self.writer.metrics.objects(kind, count);
        }
    }
}

impl<I, R: Send + 'static> Turns<I, R> {
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

    /// Turns of a controller that reads all objects before its first plan of a term.
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
            () = deadline(next) => Turn::Due,
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

    /// Tells whether another term of this replica has begun since this was asked last.
    pub(crate) fn begins_term(&mut self) -> bool {
        let term = self.term();
        let before = std::mem::replace(&mut self.term, term);
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
    /// are those that were not read in it. A reading of them is on its way then.
    pub(crate) fn term_to_read(
        &mut self,
        namespaces: impl FnOnce() -> BTreeSet<String>,
    ) -> Option<(u64, BTreeSet<String>)> {
        let term = self.term()?;
        let (reading, now) = (self.reading.as_mut()?, Instant::now());
        if reading.next(term, now).is_none_or(|next| next > now) {
            return None;
        }
        let left = reading.left(term, namespaces());
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

    /// Tells whether a namespace could not be read in this term: what is in it waits until it was.
    pub(crate) fn is_missing(&self, namespace: &str) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.misses(namespace))
    }

    /// Tells whether an object is to be read by itself: it is in a namespace that had none when all were read
    /// in this term, and was not read since.
    pub(crate) fn is_unread(&self, namespace: &str, read_in: Option<u64>) -> bool {
        let covers = self.reading.as_ref().is_some_and(|reading| reading.covers(namespace));
        !covers && read_in != self.read_in()
    }

    /// Term in which the objects were read last.
    pub(crate) fn read_in(&self) -> Option<u64> {
        self.reading.as_ref().and_then(Reading::term)
    }

    /// Takes in how the reading of all objects ended: what was found in each namespace. Those that could not
    /// be read are tried again.
    pub(crate) fn was_read<F>(&mut self, ended: Ended<F>) -> Vec<(String, F)> {
        if let Some(reading) = &mut self.reading {
            reading.ends(ended.term, ended.read(), ended.missing(), Instant::now());
        }
        if let Some((namespace, error)) = ended.failed.first() {
            let count = ended.failed.len();
            warn!(namespace, count, error, "Namespaces not read at the start of a term, trying again");
        }
        ended.found
    }

    /// Begins the reading of all objects.
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

/// Carries a plan out for as long as its term lasts. Between any two of its requests the clock is asked: a
/// process that was stopped for a while wakes up in the midst of a plan, and another replica leads by then.
async fn in_term<R>(tenure: Tenure, term: Option<u64>, plan: impl Future<Output = R>) -> Option<R> {
    let mut plan = pin!(plan);
    poll_fn(|context| match tenure.term() {
        Some(now) if Some(now) == term => plan.as_mut().poll(context).map(Some),
        _ => Poll::Ready(None),
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
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use berth_base::lease::Term;

    use super::*;

    fn in_seconds(seconds: u64) -> tokio::time::Instant {
        tokio::time::Instant::now().checked_add(Duration::from_secs(seconds)).unwrap()
    }

    /// The clock goes on, and nobody says that the lease is lost: so it is for a process that was stopped.
    #[tokio::test(start_paused = true)]
    async fn a_plan_writes_nothing_after_its_term() {
        let (_sender, inputs) = mpsc::channel::<()>(1);
        let (lease, tenure) = Tenure::of_test();
        lease.send_replace(Some(Term::of_test(in_seconds(5))));
        let mut turns = Turns::<(), ()>::new(inputs, tenure);
        turns.tenure.changed().await;
        let written = Arc::new(AtomicUsize::new(0));
        let count = written.clone();
        turns.spawn("long".to_owned(), async move {
            for _ in 0..100 {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        assert!(matches!(turns.next(false).await, Some(Turn::Due)));
        assert!(turns.agenda.in_flight().is_empty(), "the next term begins another one");
        assert_eq!(written.load(Ordering::SeqCst), 3, "at 0, 2 and 4 s");
        // One that is begun too late writes nothing at all.
        let count = written.clone();
        turns.spawn("late".to_owned(), async move {
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert!(matches!(turns.next(false).await, Some(Turn::Due)));
        assert_eq!(written.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_panic_ends_one_plan_and_no_other() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let plans = [1_usize, 9, 2].map(|at| guarded(|| [7, 8, 9][at]).ok());
        std::panic::set_hook(hook);
        assert_eq!(plans, [Some(8), None, Some(9)]);
    }

    /// A replica that may begin nothing is woken by nothing that is due, and costs nothing.
    #[tokio::test]
    async fn what_is_due_wakes_only_one_that_may_begin_it() {
        let (_sender, inputs) = mpsc::channel::<()>(1);
        let (lease, tenure) = Tenure::of_test();
        let mut turns = Turns::<_, ()>::new(inputs, tenure);
        turns.agenda.add("uid".to_owned(), Instant::now());
        let wakes = async |turns: &mut Turns<(), ()>, listed| {
            tokio::time::timeout(Duration::from_millis(50), turns.next(listed)).await.is_ok()
        };
        assert!(!wakes(&mut turns, true).await, "another one leads");
        lease.send_replace(Some(Term::of_test(in_seconds(3600))));
        assert!(wakes(&mut turns, false).await && turns.begins_term() && !turns.begins_term());
        assert!(!wakes(&mut turns, false).await, "not all is listed");
        assert!(wakes(&mut turns, true).await);
        turns.reading = Some(Reading::default());
        assert!(wakes(&mut turns, true).await, "all is to be read");
        let (term, _) = turns.term_to_read(BTreeSet::new).unwrap();
        assert!(!wakes(&mut turns, true).await && turns.term_to_plan().is_none(), "it is on its way");
        let missing = BTreeSet::from(["ns".to_owned()]);
        turns.reading.as_mut().unwrap().ends(term, BTreeSet::new(), missing, Instant::now());
        assert!(wakes(&mut turns, true).await && turns.term_to_plan() == Some(term));
        assert!(
            turns.is_missing("ns") && turns.term_to_read(BTreeSet::new).is_none(),
            "it is read after a pause"
        );
        lease.send_replace(None);
        assert!(wakes(&mut turns, true).await && !wakes(&mut turns, true).await, "it leads no more");
        turns.wakes = Some(Instant::now());
        assert!(wakes(&mut turns, false).await);
    }

    #[tokio::test]
    async fn a_plan_ends_with_its_report_or_its_panic() {
        let (_sender, inputs) = mpsc::channel::<()>(1);
        let (lease, tenure) = Tenure::of_test();
        lease.send_replace(Some(Term::of_test(in_seconds(3600))));
        let mut turns = Turns::new(inputs, tenure);
        turns.tenure.changed().await;
        turns.spawn("well".to_owned(), async { 7 });
        assert!(turns.agenda.in_flight() == ["well"]);
        assert!(matches!(turns.next(false).await, Some(Turn::Report(7))));
        turns.spawn("ill".to_owned(), async { panic!("a plan of a test") });
        assert!(
            matches!(turns.next(false).await, Some(Turn::Panic(uid, text)) if uid == "ill" && text == "a plan of a test")
        );
        assert!(turns.agenda.in_flight().is_empty());
    }
}
