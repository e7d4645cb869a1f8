//! A refusal of the runtime, which may be about an instance that is dead already.
//!
//! A container that has just died refuses commands before the runtime tells of its death, and what it refused
//! must not be said of the container that runs again. So a refusal is kept back: an instance that ends or is
//! gone takes its refusal with it, and one of which nothing is heard for a second lives, and the refusal
//! counts. No slot is held meanwhile, and the probe does not run again before.

use std::time::{Duration, Instant};

use super::{Probes, model::ProbeResult, watch::Watch};
use crate::time::later;

/// Time for the runtime to tell that a container has died.
pub(super) const DEATH_IS_TOLD: Duration = Duration::from_secs(1);

/// A refusal that is kept back.
#[derive(Debug)]
pub(super) struct Refusal {
    words: String,
    /// When it came.
    at: Instant,
    /// When it counts, unless the instance is gone before.
    pub(super) counts: Instant,
}

impl Watch {
    pub(super) fn keep_back(&mut self, words: &str, now: Instant) {
        let counts = later(now, DEATH_IS_TOLD);
        self.due = self.due.map(|due| due.max(counts));
        self.refusal = Some(Refusal { words: words.to_owned(), at: now, counts });
    }

    /// Counts a refusal that was kept back for long enough.
    fn settle_refusal(&mut self, now: Instant) {
        if let Some(refusal) = self.refusal.take_if(|refusal| refusal.counts <= now) {
            self.count(&ProbeResult::Unknown(refusal.words), refusal.at, now);
        }
    }
}

impl Probes {
    /// Counts the refusals that were kept back for long enough. For the others it notes when they count.
    pub(super) fn settle_refusals(&mut self, now: Instant) {
        for watch in self.pods.values_mut().flat_map(|pod| pod.probes.values_mut()) {
            watch.settle_refusal(now);
            watch.refusal.iter().for_each(|refusal| self.wake.at(refusal.counts));
        }
    }
}
