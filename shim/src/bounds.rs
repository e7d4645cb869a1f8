//! Bounds of what the data path takes on, and what it does beyond: it sheds the newest, says so, and counts
//! it.
//!
//! | What | Bound | Beyond it |
//! |---|---|---|
//! | connections | [`CONNECTIONS`], those of the kubelet not counted | closed at once; a gRPC client reports UNAVAILABLE |
//! | a connection that says nothing | [`SILENCE`] | closed |
//! | calls of a connection | [`STREAMS`], told to the client by HTTP/2 | the client's library keeps them until others end |
//! | a request that is looked at | `MAX_MESSAGE` | RESOURCE_EXHAUSTED, in the runtime's own words |
//! | headers of all calls, and requests that are looked at, together | [`MEMORY`], for the kubelet's twice that; those below [`SMALL`] not counted | RESOURCE_EXHAUSTED |
//! | holds | calls; each ends by its own deadline | |
//! | answers | a window for each stream and connection: they go at the client's pace | |
//!
//! A node of 110 pods has two connections of the kubelet, a few of others, and some hundred calls at once.
//! What is small always passes, because an error on a `StopContainer` makes the kubelet kill the pod.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{frames::MAX_MESSAGE, metrics::Metrics, metrics::Shed};

/// Open connections of clients that are not the kubelet. Each takes three descriptors, one of which looks
/// whether the runtime is there still, and two more while both sides wait for room to write.
pub(crate) const CONNECTIONS: usize = 1024;
/// How long a connection may take to its first words, which are sent when it is made. Who says nothing would
/// keep others out.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// Open calls of one connection.
pub(crate) const STREAMS: u32 = 4096;
/// Bytes of requests, with their headers, that wait or are on their way.
const MEMORY: usize = 8 * MAX_MESSAGE;
/// The most memory that requests take: what the kubelet's may. A limit of the process has to have room for
/// it.
pub const MOST_MEMORY: usize = 2 * MEMORY;
/// Bytes of a request that are always taken.
const SMALL: usize = 16 << 10;

/// The memory for requests. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    taken: Arc<AtomicUsize>,
    metrics: Metrics,
}

/// Share of the memory that one call holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    memory: Memory,
    /// Limit of all bytes that are taken together.
    limit: usize,
    used: usize,
    counted: usize,
}

/// All of it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has more than {MEMORY} bytes of requests under way already; try again")]
pub(crate) struct OutOfMemory;

// === impl Memory ===

impl Memory {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { taken: Arc::default(), metrics }
    }

    /// Room for a call that has used none yet. What others take is not taken from the kubelet.
    pub(crate) fn room(&self, kubelet: bool) -> Room {
        let limit = if kubelet { MOST_MEMORY } else { MEMORY };
        Room { memory: self.clone(), limit, used: 0, counted: 0 }
    }
}

impl Room {
    /// Takes so many bytes more.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.used += bytes;
        if self.used <= SMALL {
            return Ok(());
        }
        let more = self.used - self.counted;
        let taken = self.memory.taken.fetch_add(more, Ordering::Relaxed) + more;
        self.counted = self.used;
        if taken > self.limit {
            self.memory.metrics.shed(Shed::Memory);
            return Err(OutOfMemory);
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_always_passes_and_what_was_taken_is_given_back() {
        let memory = Memory::new(Metrics::default());
        let mut large = memory.room(false);
        assert_eq!(large.take(MEMORY), Ok(()));
        let mut late = memory.room(false);
        assert_eq!(late.take(SMALL), Ok(()));
        assert_eq!(late.take(1), Err(OutOfMemory));
        assert_eq!(memory.room(false).take(SMALL), Ok(()));
        let mut kubelets = memory.room(true);
        assert_eq!(kubelets.take(MEMORY - SMALL - 1), Ok(()));
        assert_eq!(kubelets.take(1), Err(OutOfMemory));
        drop(kubelets);
        drop(large);
        drop(late);
        assert_eq!(memory.taken.load(Ordering::Relaxed), 0);
        assert_eq!(memory.room(false).take(MEMORY), Ok(()));
    }
}
