//! The seam between the data path and whoever decides.

use std::future::Future;

use berth_policy::{Call, Event, Latch, Verdict};
use tokio::sync::watch;

/// Who is asked about the calls of the intercept table. Implemented by `berthd` around the pure core.
pub trait Gate: Send + Sync + 'static {
    /// May this call proceed? Never blocks. Asked again with the same call after each change while it is held.
    fn admit(&self, call: &Call) -> Verdict;

    /// Something happened on the way. Never blocks, never fails.
    fn observe(&self, event: Event);

    /// A number that grows with every change that could alter a verdict. Subscribe before asking, so that no change
    /// between the answer and the wait is lost.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Makes a latch durable before its call is forwarded. A failure is logged and counted by the implementation: the
    /// call goes on, because the latch is also in memory.
    fn persist(&self, latch: Latch) -> impl Future<Output = ()> + Send;
}
