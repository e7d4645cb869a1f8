//! New pods that end at once, since their nodes refuse them. To make another one for each would be to make
//! pods without end, as fast as the API server takes them. So for a while they keep their places.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    plan::count,
    pod::{Phase, PodView},
};

/// New pods of a small set that may end and are made anew at once.
const FEW: i64 = 3;

/// Places that new pods keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortLived {
    /// How many.
    pub(super) held: i64,
    /// Time until there may be fewer.
    pub(super) again: Option<Duration>,
    /// Words for it.
    pub(super) why: Option<String>,
}

impl ShortLived {
    /// Looks at the pods that the set selects. As many of them as it is to have may end, and are made anew at
    /// once.
    pub(super) fn of(selected: &[&PodView], replicas: i64, now: Timestamp) -> Self {
        let ended = selected.iter().filter(|pod| pod.phase == Phase::Ended);
        let ended: Vec<Duration> = ended.filter_map(|pod| pod.new_for(now)).collect();
        let (most, refused) = (replicas.max(FEW), count(ended.len()));
        let held = (refused - most).max(0);
        if held == 0 {
            return Self::default();
        }
        let why = format!(
            "{refused} new pods have ended: see why their nodes refuse them; they are made anew later"
        );
        Self { held, again: ended.into_iter().min(), why: Some(why) }
    }
}
