//! Room for calls that are under way. Each one has a connection of its own: kube speaks HTTP/1.1.
//!
//! A lane has its own room, and who waits in it comes first come first served. So a crowd of requests for one
//! pod keeps no gate of another pod waiting. A call takes one place and asks for no other, so none waits for
//! a place that waits for it. Watches are no calls.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Calls under way at once in each lane.
const AGENT: usize = 16;
const PODS: usize = 32;
const REQUESTS: usize = 16;
const EVENTS: usize = 8;
const REVIEWS: usize = 8;

/// Subject of a call, as far as calls of others must not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Calls about the agent itself: its identity, its signs of life, what it reads.
    Agent,
    /// Pods: their readiness and updates. A webhook that hangs on those of a namespace may fill it.
    Pods,
    /// Status and deletion of requests, of which users may make any number.
    Requests,
    /// Events.
    Events,
    /// Questions about tokens, of which strangers may show any.
    Reviews,
}

/// Room of all lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    agent: Semaphore,
    pods: Semaphore,
    requests: Semaphore,
    events: Semaphore,
    reviews: Semaphore,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            agent: Semaphore::new(AGENT),
            pods: Semaphore::new(PODS),
            requests: Semaphore::new(REQUESTS),
            events: Semaphore::new(EVENTS),
            reviews: Semaphore::new(REVIEWS),
        }
    }
}

impl Lanes {
    /// Waits for a place. `None` never: nobody closes a lane.
    pub(super) async fn enter(&self, lane: Lane) -> Option<SemaphorePermit<'_>> {
        let room = match lane {
            Lane::Agent => &self.agent,
            Lane::Pods => &self.pods,
            Lane::Requests => &self.requests,
            Lane::Events => &self.events,
            Lane::Reviews => &self.reviews,
        };
        room.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_lane_that_is_full_keeps_no_other_waiting() {
        let all = [
            (Lane::Agent, AGENT),
            (Lane::Pods, PODS),
            (Lane::Requests, REQUESTS),
            (Lane::Events, EVENTS),
            (Lane::Reviews, REVIEWS),
        ];
        for (full, room) in all {
            let lanes = Lanes::default();
            let enter = |lane| lanes.enter(lane).now_or_never().flatten();
            let mut taken: Vec<_> = (0..room).map(|_| enter(full).expect("a place")).collect();
            for (lane, _) in all {
                assert_eq!(enter(lane).is_some(), lane != full, "{lane:?} beside {full:?}");
            }
            taken.pop();
            assert!(enter(full).is_some(), "{full:?} has a place again");
        }
    }
}
