//! Connections of a server that strangers reach: there are so many at once, and an old one goes for one more.
//! A stranger that holds connections open for nothing keeps out neither a probe nor a scraper, and one that
//! opens many breaks off no answer while there are others that wait for nothing.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::task::{AbortHandle, yield_now};
use tokio_util::task::TaskTracker;

/// Pause after a connection that could not be accepted: mostly no descriptor is free, and the next one would
/// fail at once.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Open connections of a server.
pub(crate) struct Connections {
    most: usize,
    /// The oldest first.
    open: VecDeque<(AbortHandle, Answering)>,
    tasks: TaskTracker,
}

/// Tells whether a request of a connection is being answered.
#[derive(Clone, Default)]
pub(crate) struct Answering(Arc<AtomicBool>);

// === impl Connections ===

impl Connections {
    /// Makes room for so many connections. There are none yet.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: VecDeque::new(), tasks: TaskTracker::new() }
    }

    /// Takes one more in, as a task of its own. Before another one goes for it all have a turn: a request
    /// that is there by then is read.
    pub(crate) async fn add<F>(&mut self, connection: impl FnOnce(Answering) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_full() {
            yield_now().await;
        }
        if self.is_full()
            && let Some((oldest, _)) = self.open.remove(self.spared())
        {
            oldest.abort();
        }
        let answering = Answering::default();
        let task = self.tasks.spawn(connection(answering.clone())).abort_handle();
        self.open.push_back((task, answering));
    }

    fn is_full(&mut self) -> bool {
        self.open.retain(|(open, _)| !open.is_finished());
        self.open.len() >= self.most
    }

    /// The oldest on which nothing is being answered. Only one of the older half: a new one has the time to
    /// ask, though all others are being answered.
    fn spared(&self) -> usize {
        let mut older = self.open.iter().take(self.open.len().div_ceil(2));
        older.position(|(_, answering)| !answering.0.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Waits until all of them have ended.
    pub(crate) async fn ended(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

// === impl Answering ===

impl Answering {
    /// Answers a request. HTTP/1.1 has one at a time, and a connection that goes takes this with it.
    pub(crate) async fn during<T>(&self, answer: impl Future<Output = T>) -> T {
        self.0.store(true, Ordering::Relaxed);
        let answer = answer.await;
        self.0.store(false, Ordering::Relaxed);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::mpsc;

    use super::*;

    /// Tells of the end of the connection that has it.
    struct End(u8, mpsc::UnboundedSender<u8>);

    impl Drop for End {
        fn drop(&mut self) {
            // Nobody hears of it after the test.
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn the_oldest_goes_for_one_more() {
        let (told, mut ends) = mpsc::unbounded_channel();
        let mut connections = Connections::new(2);
        for number in 0..3 {
            let end = End(number, told.clone());
            let connection = async move {
                let _end = end;
                pending::<()>().await;
            };
            connections.add(|_| connection).await;
        }
        assert_eq!(ends.recv().await, Some(0));
        connections.add(|_| async {}).await;
        assert_eq!(ends.recv().await, Some(1));
        yield_now().await;
        // One that has ended has given its place back.
        connections.add(|_| async {}).await;
        yield_now().await;
        assert!(ends.try_recv().is_err());
    }

    #[tokio::test]
    async fn one_that_is_being_answered_stays() {
        let table = [([true, false, false], 1), ([true, true, false], 0), ([false, true, true], 0)];
        for (answered, goes) in table {
            let (told, mut ends) = mpsc::unbounded_channel();
            let mut connections = Connections::new(answered.len());
            for (number, is_answered) in (0..).zip(answered.into_iter().chain([false])) {
                let end = End(number, told.clone());
                let connection = |answering: Answering| async move {
                    let _end = end;
                    if is_answered {
                        answering.during(pending::<()>()).await;
                    }
                    pending::<()>().await;
                };
                connections.add(connection).await;
                // It asks.
                yield_now().await;
            }
            assert_eq!(ends.recv().await, Some(goes), "{answered:?}");
            assert!(ends.try_recv().is_err(), "{answered:?}");
        }
    }

    /// A request that is there is read before its connection may go.
    #[tokio::test]
    async fn each_has_its_turn() {
        let (told, mut turns) = mpsc::unbounded_channel();
        let mut connections = Connections::new(1);
        for number in 0..9 {
            let told = told.clone();
            let connection = async move {
                told.send(number).unwrap();
                pending::<()>().await;
            };
            connections.add(|_| connection).await;
        }
        yield_now().await;
        let turns: Vec<u8> = std::iter::from_fn(|| turns.try_recv().ok()).collect();
        assert_eq!(turns, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
