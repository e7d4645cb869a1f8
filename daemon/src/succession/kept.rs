//! systemd keeps the kubelet's connections to the runtime while berthd is killed and started again (`FileDescriptorStoreMax=`), so
//! that what the kubelet had asked for comes to its end: a container that was being started runs, one that was being stopped
//! ends with its grace. The kubelet, whose calls fail, asks again and finds it done.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use berth_shim::{Keeper, Kept};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::succession::systemd;

/// Connections at once; the kubelet has two or three. The unit has room for as many, and the CRI socket.
const PLACES: u32 = 16;
/// How long those of a berthd that was killed are held on to: longer than the usual grace of a stop, after which a call has ended or
/// the kubelet has asked for the same again.
const FOR: Duration = Duration::from_secs(300);

/// The places, and who may still speak to systemd about them.
#[derive(Clone, Debug, Default)]
struct Places {
    /// A bit for each that is taken.
    taken: Arc<AtomicU32>,
    /// Another process is the main one.
    succeeded: CancellationToken,
}

/// A place that is taken.
#[derive(Debug)]
struct Held {
    places: Places,
    place: u32,
}

/// The name systemd knows a descriptor by.
fn name(place: u32) -> String {
    format!("{}{place}", systemd::RUNTIME)
}

/// Where systemd keeps descriptors for us, until a successor is there.
pub(crate) fn keeper(succeeded: CancellationToken) -> Option<Arc<dyn Keeper>> {
    std::env::var_os("NOTIFY_SOCKET")?;
    Some(Arc::new(Places { succeeded, ..Places::default() }))
}

/// Has systemd let go of all of them: whoever asks is not killed, and has no say any more once another process is the main one.
pub(crate) fn let_go() {
    for place in 0..PLACES {
        systemd::forget(&name(place));
    }
}

/// Takes over those of the berthd before this one. To be called before there are any of our own, which have the same names.
pub(crate) fn take_over(connections: Vec<OwnedFd>) -> Vec<OwnedFd> {
    if !connections.is_empty() {
        // From here on they are ours alone, and end with this process.
        let_go();
        info!(connections = connections.len(), "Calls of the berthd that was killed go on in the runtime");
    }
    connections
}

/// Holds them until their calls have had their time, or berthd stops.
pub(crate) async fn hold(connections: Vec<OwnedFd>, stop: CancellationToken) {
    if !connections.is_empty() {
        stop.run_until_cancelled(tokio::time::sleep(FOR)).await;
    }
}

// === impl Places ===

impl Keeper for Places {
    fn keep(&self, connection: BorrowedFd<'_>) -> Option<Kept> {
        let held = self.take()?;
        systemd::keep(&name(held.place), connection).then(|| -> Kept { Box::new(held) })
    }
}

impl Places {
    fn take(&self) -> Option<Held> {
        let free = |taken: u32| {
            let place = taken.trailing_ones();
            (place < PLACES).then(|| taken | 1 << place)
        };
        let before = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok()?;
        Some(Held { places: self.clone(), place: before.trailing_ones() })
    }
}

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        if !self.places.succeeded.is_cancelled() {
            systemd::forget(&name(self.place));
        }
        // After the descriptor: whoever takes the place next has another one of this name.
        self.places.taken.fetch_and(!(1 << self.place), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_and_given_back() {
        let places = Places::default();
        let mut held: Vec<_> = (0..PLACES).map(|_| places.take().unwrap()).collect();
        assert_eq!(held.iter().map(|held| held.place).collect::<Vec<_>>(), (0..PLACES).collect::<Vec<_>>());
        assert!(places.take().is_none());
        held.remove(3);
        held.push(places.take().unwrap());
        assert_eq!(held.last().map(|held| held.place), Some(3));
        assert!(places.take().is_none());
    }
}
