//! Lists of all objects of a kind: those that are asked for beside what a watch makes by itself, and how many
//! of large objects come in beside each other. A page of them may take some dozens of MiB.

use std::{future::pending, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::store::Kind;

/// Lists of large objects that come in beside each other.
const AT_ONCE: usize = 2;

/// How often a list of each kind was asked for.
pub type Relists = [u32; Kind::ALL.len()];

/// Lists, for the watch of one kind.
#[derive(Clone, Debug)]
pub struct Lists {
    relists: watch::Receiver<Relists>,
    /// How often it was asked for one, up to the last that it began.
    begun: u32,
    places: Arc<Semaphore>,
}

impl Lists {
    /// Returns lists for all watches, and where they are asked for.
    pub fn new() -> (watch::Sender<Relists>, Self) {
        let (sender, relists) = watch::channel(Relists::default());
        (sender, Self { relists, begun: 0, places: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Waits for a place for a list of large objects.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().acquire_owned().await.ok()
    }

    /// Waits until one more list of the kind is asked for.
    pub(super) async fn asked(&mut self, kind: Kind) {
        let (at, begun) = (kind as usize, self.begun);
        let asked = self.relists.wait_for(|asked| asked[at] != begun).await.map(|asked| asked[at]);
        match asked {
            Ok(asked) => self.begun = asked,
            // Nobody asks any more.
            Err(_) => pending().await,
        }
    }
}
