//! Rest of a request that its source does not show any more: a SidecarSet was deleted, another selector left
//! the pod out, a request was deleted. Images and metadata stay as far as they came. Twins do not: both would
//! run a version for ever.
//!
//! ```text
//!   v1 | empty    nothing was begun, or it was given up                stays
//!   v1 | v2       v2 has not taken over                                GoBack: v1 | empty
//!   v1 | v2       v2 has taken over                                    Finish: empty | v2
//!   empty | v2    the swap is done                                     stays
//! ```
//!
//! Nobody is asked: which twin serves is in the pod, and which image rests is in the request, which the agent
//! keeps until the twins rest. It never returns to what was before, has no deadline, and is told to nobody.
//! A request that swaps the same twins takes its place.

use std::{collections::BTreeMap, time::Duration};

use crate::in_place_update::{Metadata, UpdateReport, UpdateRequest, WantedSwap};

impl UpdateRequest {
    /// Returns what is left to do when nobody asks for this any more; `None`: it has begun no swap, or has
    /// ended.
    pub fn to_rest(&self) -> Option<Self> {
        // What the pod was is written down before the first change.
        if self.ended.is_some() || self.swaps.is_empty() || self.reported.previous.is_none() {
            return None;
        }
        let rest = |swap: &WantedSwap| WantedSwap { image: None, ..swap.clone() };
        Some(Self {
            images: BTreeMap::new(),
            metadata: Metadata::new(),
            merges: BTreeMap::new(),
            defaults: BTreeMap::new(),
            swaps: self.swaps.iter().map(|(name, swap)| (name.clone(), rest(swap))).collect(),
            // The kubelet tries, where the image cannot be brought.
            leaves_pull: true,
            grace: Duration::ZERO,
            ignore_failures: false,
            rollback_on_failure: false,
            deadline: None,
            delete_after: None,
            reported: UpdateReport { rolling_back: None, outcome: None, ..self.reported.clone() },
            ..self.clone()
        })
    }

    /// It is the rest of a request.
    pub(super) fn rests(&self) -> bool {
        !self.swaps.is_empty() && self.swaps.values().all(|swap| swap.image.is_none())
    }
}
