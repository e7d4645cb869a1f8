//! Connections of a server that strangers reach: there are so many at once, and the oldest goes for one more.
//! Who holds connections open for nothing keeps out neither a probe nor a scraper.

use std::collections::VecDeque;

use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

/// Open connections of a server.
pub(crate) struct Connections {
    most: usize,
    /// The oldest first.
    open: VecDeque<AbortHandle>,
    tasks: TaskTracker,
}

impl Connections {
    /// None yet, and never more than so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: VecDeque::new(), tasks: TaskTracker::new() }
    }

    /// Takes one more in, as a task of its own.
    pub(crate) fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        self.open.retain(|open| !open.is_finished());
        if self.open.len() >= self.most
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.abort();
        }
        self.open.push_back(self.tasks.spawn(connection).abort_handle());
    }

    /// Waits until all of them have ended.
    pub(crate) async fn ended(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{sync::mpsc, task::yield_now};

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
            connections.add(async move {
                let _end = end;
                pending::<()>().await;
            });
        }
        assert_eq!(ends.recv().await, Some(0));
        connections.add(async {});
        assert_eq!(ends.recv().await, Some(1));
        yield_now().await;
        // One that has ended has given its place back.
        connections.add(async {});
        yield_now().await;
        assert!(ends.try_recv().is_err());
    }
}
