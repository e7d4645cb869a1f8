//! Rest of a request that its source does not show any more: a SidecarSet was deleted, another selector left
//! the pod out, a request was deleted. Images and metadata stay as far as they came. Twins do not: both would
//! run a version for ever.
//!
//! ```text
//!   v1 | empty    nothing was begun, or it was given up       stays
//!   v1 | v2       v2 takes over in its time                   Finish: empty | v2
//!   v1 | v2       v2 does not                                 GoBack: v1 | empty
//!   empty | v2    the swap is done                            stays
//! ```
//!
//! A version that is about to take over is not stopped: the old one may be giving away its sockets, and would
//! serve nobody afterwards. Nobody is asked: which twin serves is in the pod, and which image rests is in
//! the request, which the agent keeps until the twins rest. It has no deadline but that of the new version,
//! and is told to nobody. It gives way to a request that swaps the same twins, as soon as that has written
//! down what the pod was.

use std::{collections::BTreeMap, time::Duration};

use crate::in_place_update::{Before, Metadata, UpdateReport, UpdateRequest, WantedSwap, stage::twins};

impl UpdateRequest {
    /// Returns what is left to do when nobody asks for this any more; `None`: it has begun no swap, or has
    /// ended.
    pub fn to_rest(&self) -> Option<Self> {
        // What the pod was is written down before the first change.
        let previous = self.reported.previous.as_ref()?;
        if self.ended.is_some() || self.swaps.is_empty() {
            return None;
        }
        let rest = |swap: &WantedSwap| WantedSwap { image: None, ..swap.clone() };
        // Of all that was before the twins alone go back.
        let twins = self.swaps.keys().flat_map(|name| twins(name));
        let images = twins.filter_map(|twin| Some((twin.clone(), previous.images.get(&twin)?.clone())));
        let previous = Before { images: images.collect(), metadata: BTreeMap::new(), ..previous.clone() };
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
            rollback_on_failure: true,
            deadline: None,
            // There is nothing else that could be done.
            rollback_limit: Duration::MAX,
            delete_after: None,
            reported: UpdateReport { previous: Some(previous), ..self.reported.clone() },
            ..self.clone()
        })
    }

    /// Leaves out a sidecar that somebody else swaps.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.swaps.remove(name);
        if let Some(previous) = &mut self.reported.previous {
            twins(name).iter().for_each(|twin| drop(previous.images.remove(twin)));
        }
    }

    /// Tells whether it is the rest of a request.
    pub(super) fn rests(&self) -> bool {
        !self.swaps.is_empty() && self.swaps.values().all(|swap| swap.image.is_none())
    }
}
