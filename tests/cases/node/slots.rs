//! Tests that run at once, whatever the number of threads: one that waits for its turn on a node takes
//! nobody's place.

use std::cell::RefCell;

use tokio::sync::{Semaphore, SemaphorePermit};

/// The most tests that run at once.
const SLOTS: usize = 4;
static FREE: Semaphore = Semaphore::const_new(SLOTS);

thread_local! {
    /// Place of the test of this thread: libtest gives each test a thread of its own, and with that it is
    /// given back.
    static MINE: RefCell<Option<SemaphorePermit<'static>>> = const { RefCell::new(None) };
}

/// Waits for a place among those that run, after every lock that the test waits for: whoever has a place
/// waits for nobody who has none. A test that has one keeps it.
pub(crate) async fn take() {
    if MINE.with_borrow(Option::is_some) {
        return;
    }
    // It is never closed.
    if let Ok(permit) = FREE.acquire().await {
        MINE.set(Some(permit));
    }
}

/// Gives the place back before the end of the test.
pub(crate) fn give_back() {
    drop(MINE.take());
}
