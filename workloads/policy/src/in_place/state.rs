//! Standing of an update in place, as the node of the pod tells it.
//!
//! Label, gate and `Ready` of the pod alone do not show that its update has ended: they may be as they will
//! be before the agent has begun, where it is tried once more, or an OpenKruise has left the new label on the
//! old image. And the kubelet may say once more of the container of before that it is Ready. Who took that
//! for the end would take the next pod out of service too soon. So it takes the node's report, which costs
//! its write, or a word of the agent on the pod that tells these apart ([`mod@super::shown`]).

use std::time::Duration;

use jiff::Timestamp;

use crate::time::until;

/// Seconds after which a pod is asked for again that its set did not ask for when the node looked: the set's
/// change, which is on its way, asks for it sooner. It is the longest pause after failures.
const ASK_AGAIN_AFTER: i64 = 60;

/// Standing of an update in place, as the node tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceState {
    /// Node that carries it out.
    pub node: String,
    /// Name of the revision that the pod gets.
    pub revision: String,
    /// Number of the try.
    pub attempt: i32,
    /// Generation of the set by which it was asked for, where the entry says it.
    pub generation: Option<i64>,
    /// How far it is.
    pub phase: InPlacePhase,
}

impl InPlaceState {
    /// Tells whether the update goes on.
    pub(crate) fn is_pending(&self) -> bool {
        self.phase == InPlacePhase::Pending
    }

    /// Time until it is asked for again, though its set has not changed; `None`: it is not, or may be now.
    pub(crate) fn asked_again_in(&self, now: Timestamp) -> Option<Duration> {
        let InPlacePhase::NotAskedFor { since, .. } = self.phase else { return None };
        Some(until(since?, ASK_AGAIN_AFTER, now)).filter(|left| !left.is_zero())
    }
}

/// How far an update in place is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlacePhase {
    /// Asked for, or going on.
    Pending,
    /// The pod has the revision.
    Done,
    /// It cannot be done; why.
    Failed(String),
    /// Its node waits for it no longer, and the pod stays as it is: an image or a container does not come up.
    GivenUp(String),
    /// The set asked for something else by the time that its node looked.
    NotAskedFor {
        /// The node's words.
        why: String,
        /// When it was asked for, where the entry says it.
        since: Option<Timestamp>,
    },
}
