//! The newest version of a pod, and since when the kubelet must have seen it.
//!
//! Versions come by the pod watch of the agent. The kubelet has a watch of its own on the same objects, and
//! both hear of a change at once. After the watch broke that is not so: the kubelet comes back by its own
//! clock, up to half a minute later. And a pod worker of the kubelet that waits for the next list of
//! containers goes on with the pod as it was before.
//!
//! Between kubelet and runtime the agent sees to it that what is started then is not too old all the same
//! ([`super::UpdateAction::SetEnv`]). Beside them it can only wait.

use std::time::{Duration, Instant};

use super::view::PodView;
use crate::{config::Path, time::later};

/// Time after the watch has shown a version in which the kubelet and its pod worker get it, too.
const SETTLED: Duration = Duration::from_millis(100);
/// A watch that is well shows a write within this.
const SHOWN: Duration = Duration::from_secs(2);
/// Time after which no pod worker has an older version: two lists of the kubelet, and its work on them.
const WORKED_OFF: Duration = Duration::from_millis(2500);
/// The kubelet's longest pause before it lists anew (client-go's reflector).
const RELIST: Duration = Duration::from_secs(30);

/// The pod watch of the agent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// It was complete since it was last lost.
    follows: bool,
    /// It was lost at least once.
    was_lost: bool,
}

/// A pod, as it was last seen.
#[derive(Debug, Default)]
pub(crate) enum SeenPod {
    /// Not yet.
    #[default]
    Unseen,
    /// It is not there any more.
    Gone,
    /// The pod, and from when on the kubelet knows it.
    There(Box<PodView>, Instant),
}

impl Watch {
    pub(crate) fn listed(&mut self) {
        self.follows = true;
    }

    pub(crate) fn lost(&mut self) {
        *self = Self { follows: false, was_lost: true };
    }

    /// The kubelet knows then what is shown now.
    pub(crate) fn settles(self, path: Path, now: Instant) -> Instant {
        let wait = match (path, self.was_lost && !self.follows) {
            (Path::Inline, _) => SETTLED,
            (Path::Beside, false) => WORKED_OFF,
            (Path::Beside, true) => RELIST.saturating_add(WORKED_OFF),
        };
        later(now, wait)
    }

    /// The same of what was written now.
    pub(crate) fn settles_after_write(self, path: Path, now: Instant) -> Instant {
        later(self.settles(path, now), SHOWN)
    }
}

impl SeenPod {
    pub(crate) fn view(&self) -> Option<&PodView> {
        match self {
            Self::There(view, _) => Some(view),
            Self::Unseen | Self::Gone => None,
        }
    }

    /// Takes a version, unless a newer one is known.
    pub(crate) fn take(&mut self, view: Box<PodView>, settled: Instant, now: Instant) {
        let settled = match self {
            Self::There(known, _) if known.version > view.version => return,
            Self::There(known, at) if known.version == view.version => settled.min(*at),
            // The kubelet knew what it is asked for; what has changed is its own word.
            Self::There(known, at) if *at <= now && known.asks_as(&view) => *at,
            _ => settled,
        };
        *self = Self::There(view, settled);
    }
}
