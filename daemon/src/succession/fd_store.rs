//! Descriptors that systemd keeps while berthd is killed and started again (`FileDescriptorStoreMax=`): the
//! kubelet's connections to the runtime. So what the kubelet had asked for comes to its end: a container that
//! was being started runs, one that was being stopped ends with its grace. The kubelet, whose calls fail,
//! asks again and finds it done.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use berth_shim::{FdStore, StoredFd};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::succession::systemd;

/// Connections at once; the kubelet has two or three. The unit has room for as many, and the CRI socket.
const SLOTS: u32 = 16;
/// How long those of a berthd that was killed are held on to: longer than the usual grace of a stop, after
/// which a call has ended or the kubelet has asked for the same again.
const FOR: Duration = Duration::from_secs(300);

/// Descriptor store of systemd: the slots in it, and whether this process may still speak about them.
#[derive(Clone, Debug, Default)]
struct SystemdStore {
    /// A bit for each that is taken.
    taken: Arc<AtomicU32>,
    /// Another process is the main one.
    succeeded: CancellationToken,
}

/// A slot that is taken, until it is dropped.
#[derive(Debug)]
struct TakenSlot {
    store: SystemdStore,
    slot: u32,
}

/// The name systemd knows a descriptor by.
fn name(slot: u32) -> String {
    format!("{}{slot}", systemd::RUNTIME)
}

/// Gives systemd's store, which is ours until a successor is there; `None` without systemd.
pub(crate) fn of_systemd(succeeded: CancellationToken) -> Option<Arc<dyn FdStore>> {
    std::env::var_os("NOTIFY_SOCKET")?;
    Some(Arc::new(SystemdStore { succeeded, ..SystemdStore::default() }))
}

/// Has systemd let go of all of them: whoever asks is not killed, and has no say any more once another
/// process is the main one.
pub(crate) fn let_go() {
    for slot in 0..SLOTS {
        systemd::forget(&name(slot));
    }
}

/// Takes over those of the berthd before this one. To be called before there are any of our own, which have
/// the same names.
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

// === impl SystemdStore ===

impl FdStore for SystemdStore {
    fn store(&self, connection: BorrowedFd<'_>) -> Option<StoredFd> {
        let held = self.take()?;
        systemd::keep(&name(held.slot), connection).then(|| -> StoredFd { Box::new(held) })
    }
}

impl SystemdStore {
    fn take(&self) -> Option<TakenSlot> {
        let free = |taken: u32| {
            let slot = taken.trailing_ones();
            (slot < SLOTS).then(|| taken | 1 << slot)
        };
        let before = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok()?;
        Some(TakenSlot { store: self.clone(), slot: before.trailing_ones() })
    }
}

// === impl TakenSlot ===

impl Drop for TakenSlot {
    fn drop(&mut self) {
        if !self.store.succeeded.is_cancelled() {
            systemd::forget(&name(self.slot));
        }
        // After the descriptor: whoever takes the slot next has another one of this name.
        self.store.taken.fetch_and(!(1 << self.slot), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_and_given_back() {
        let store = SystemdStore::default();
        let mut held: Vec<_> = (0..SLOTS).map(|_| store.take().unwrap()).collect();
        assert_eq!(held.iter().map(|held| held.slot).collect::<Vec<_>>(), (0..SLOTS).collect::<Vec<_>>());
        assert!(store.take().is_none());
        held.remove(3);
        held.push(store.take().unwrap());
        assert_eq!(held.last().map(|held| held.slot), Some(3));
        assert!(store.take().is_none());
    }
}
