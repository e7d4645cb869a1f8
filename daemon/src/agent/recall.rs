//! Reading of what the store remembers: at the start, and again while it cannot be read.

use std::{sync::Arc, time::Duration};

use berth_policy::Event;
use berth_shim::Gate;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::{
    Agent,
    store::{Store, StoreError},
};
use crate::base::causes::chain;

/// Time after which a store that could not be read is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// One of the things that the store remembers.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    what: &'static str,
    read: fn(&Store) -> Result<Event, StoreError>,
}

/// All of them. Without its latches, barriers that were open are judged again; a restart is recognised by the
/// runtime's own list.
pub(super) fn all() -> Vec<Memory> {
    vec![
        Memory { what: "latches", read: |store| store.latches().map(Event::LatchesLoaded) },
        Memory { what: "marks", read: |store| store.marks().map(Event::MarksLoaded) },
        Memory { what: "marks of job sidecars", read: |store| store.sidecars().map(Event::SidecarsLoaded) },
    ]
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what)
    }
}

impl Agent {
    /// Takes in what the store remembers and could not be read before. Returns whether that is all.
    pub(super) fn recall(&self, first: bool) -> bool {
        // Not held while a disk is read that may hang: health asks for it.
        let mut unread = self.unread.borrow().clone();
        unread.retain(|memory| match (memory.read)(&self.store) {
            Ok(event) => {
                self.observe(event);
                false
            }
            Err(error) => {
                self.metrics.store_failed();
                if first {
                    let what = memory.what;
                    error!(what, error = %chain(&error), "Not read from the store, tried again every second");
                }
                true
            }
        });
        let is_all = unread.is_empty();
        self.unread.send_replace(unread);
        is_all
    }

    /// Reads it again until all of it could be.
    pub(crate) async fn recall_in_time(self: Arc<Self>, stop: CancellationToken) {
        if self.remembers().is_ok() {
            return;
        }
        while stop.run_until_cancelled(tokio::time::sleep(RETRY_PAUSE)).await.is_some() {
            let agent = self.clone();
            match tokio::task::spawn_blocking(move || agent.recall(false)).await {
                Ok(false) => {}
                Ok(true) => {
                    info!("What the store remembers is read");
                    return;
                }
                Err(error) => error!(%error, "Reading of the store panicked"),
            }
        }
    }

    /// Reports whether all that the store remembers is known; if not, what is not.
    pub(crate) fn remembers(&self) -> Result<(), String> {
        let unread = self.unread.borrow();
        if unread.is_empty() { Ok(()) } else { Err(format!("not read from the store: {:?}", *unread)) }
    }

    /// Ends when all of it is.
    pub(crate) async fn until_remembered(&self) {
        // No error: it is this agent that sends.
        let _ = self.unread.subscribe().wait_for(Vec::is_empty).await;
    }
}
