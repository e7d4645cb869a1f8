//! The way of lists into the program, and of inputs into a controller. A channel has room for many of them,
//! and each may take 8 MiB: while a controller plans for a few seconds hundreds would come in. So one that
//! may be large is let in only when few wait.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

/// Lists of objects that may be large which come in beside each other: a page of one may take 150 MB.
pub(crate) static LISTS: Semaphore = Semaphore::const_new(2);
/// Lists of other objects: each namespace with WorkloadSpreads has one, and its pages are as large until they
/// are read.
pub(crate) static SMALL_LISTS: Semaphore = Semaphore::const_new(2);

/// Places for pages that a reading takes in beside each other: one of objects of which little is read, as of
/// pods, may take 70 MB and has one, and one of objects that may be large has two.
const PAGES: usize = 4;

/// Inputs that may wait before one that may be large.
const MOST_BEFORE: usize = 16;

/// Places for pages of lists.
pub(crate) fn pages() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PAGES))
}

/// Sends an input. False: nobody receives any more.
pub(crate) async fn send<I>(inputs: &mpsc::Sender<I>, input: I, is_small: bool) -> bool {
    let free = if is_small { 1 } else { inputs.max_capacity().saturating_sub(MOST_BEFORE).max(1) };
    // Places that are not used are free again at once.
    let Ok(mut places) = inputs.reserve_many(free).await else { return false };
    if let Some(place) = places.next() {
        place.send(input);
    }
    true
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_may_be_large_waits_until_few_do() {
        let (sender, mut inputs) = mpsc::channel(64);
        for number in 0..=MOST_BEFORE {
            assert_eq!(send(&sender, number, true).now_or_never(), Some(true));
        }
        assert_eq!(send(&sender, 100, false).now_or_never(), None, "one too many waits");
        assert_eq!(send(&sender, 101, true).now_or_never(), Some(true), "small ones do not wait");
        assert_eq!((inputs.try_recv(), inputs.try_recv()), (Ok(0), Ok(1)));
        assert_eq!(send(&sender, 102, false).now_or_never(), Some(true));
        assert_eq!(inputs.len(), MOST_BEFORE + 1);
        drop(inputs);
        assert_eq!(send(&sender, 103, false).now_or_never(), Some(false));
    }

    #[tokio::test]
    async fn a_short_channel_takes_one_at_a_time() {
        let (sender, mut inputs) = mpsc::channel(1);
        assert_eq!(send(&sender, 1, false).now_or_never(), Some(true));
        assert_eq!(send(&sender, 2, false).now_or_never(), None);
        assert_eq!(inputs.recv().await, Some(1));
        assert_eq!(send(&sender, 3, false).now_or_never(), Some(true));
    }
}
