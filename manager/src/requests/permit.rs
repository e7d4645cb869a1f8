//! Permits to recreate containers: may the pod of a request be unavailable now? Pure.
//!
//! A pod that a PodUnavailableBudget covers is not recreated before the budget lets it. That is asked for
//! right before the request is assigned, by the replica that leads: a permit that nobody uses is lost for a
//! while. A request that is refused waits, says so in its status, and asks again; others do not wait for it.
//!
//! - `decide` says what is next for one request that could be assigned;
//! - [`Waiting`] knows who waits for which budget, so that a budget that lets pods go again is asked by as
//!   many as it lets, the oldest first, and not by all.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_proto::text::cut;

use super::kind::RequestId;
use crate::{store::Key, time::later};

/// An answer that has not come by then is asked for again.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Time that a write of what is permitted has at the least.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);
/// One who was refused asks again after it, and every time after twice as long.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// One who was refused is not woken within it.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a message; the names in it are authors'.
const LONGEST_MESSAGE: usize = 1024;

/// A question to the budget of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The request that it is for.
    pub id: RequestId,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The pod, in the namespace of the request.
    pub pod: String,
    /// Which one of that name.
    pub pod_uid: String,
}

/// Answer of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Question that it is for.
    pub ask: Ask,
    /// Its words.
    pub said: Said,
}

/// Words of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The pod may be unavailable, or no budget covers it. Until then: after it, the permit may be another
    /// pod's.
    Given(Instant),
    /// Not now.
    Refused {
        /// Name of the budget, if it was one that refused.
        budget: Option<String>,
        /// Why.
        why: String,
    },
}

/// How far a request is with its permit.
#[derive(Clone, Debug, Default)]
pub(super) struct Permit {
    /// The pod that was asked about; another one of its name needs another permit.
    pod_uid: String,
    state: State,
    /// The newest pause.
    pause: Duration,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Unasked,
    Asked(Instant),
    /// Until then.
    Given(Instant),
    Refused(Refused),
}

/// A refusal.
#[derive(Clone, Debug)]
struct Refused {
    message: Box<str>,
    at: Instant,
    again: Instant,
    budget: Option<Key>,
}

/// Next step of a request that could be assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is assigned.
    Go,
    /// The budget is asked; again then.
    Ask(Instant),
    /// It waits until then; this is why, if anybody is to know.
    Wait(Instant, Option<Box<str>>),
}

impl Permit {
    pub(super) fn decide(&mut self, pod_uid: &str, now: Instant) -> Next {
        if self.pod_uid != pod_uid {
            *self = Self { pod_uid: pod_uid.to_owned(), ..Self::default() };
        }
        match &self.state {
            State::Given(until) if later(now, WRITTEN_WITHIN) < *until => return Next::Go,
            State::Asked(at) if now < later(*at, ANSWERED_WITHIN) => {
                return Next::Wait(later(*at, ANSWERED_WITHIN), None);
            }
            State::Refused(refused) if now < refused.again => {
                return Next::Wait(refused.again, Some(refused.message.clone()));
            }
            _ => {}
        }
        self.state = State::Asked(now);
        Next::Ask(later(now, ANSWERED_WITHIN))
    }

    /// Takes an answer. One that nobody waits for any more is none.
    pub(super) fn answered(&mut self, reply: Reply, now: Instant) -> bool {
        if !matches!(self.state, State::Asked(_)) || self.pod_uid != reply.ask.pod_uid {
            return false;
        }
        self.state = match reply.said {
            Said::Given(until) => State::Given(until),
            Said::Refused { budget, why } => {
                self.pause = self.pause.saturating_mul(2).clamp(PAUSE, LONGEST_PAUSE);
                let budget = budget.map(|name| reply.ask.id.key.sibling(&name.into()));
                let again = later(now, self.pause);
                State::Refused(Refused { message: message(&why), at: now, again, budget })
            }
        };
        true
    }

    /// Time by which what it was given for is written, or not at all.
    pub(super) const fn stands_until(&self) -> Option<Instant> {
        match self.state {
            State::Given(until) => Some(until),
            _ => None,
        }
    }

    /// Budget that it waits for.
    pub(super) fn waits_for(&self) -> Option<&Key> {
        match &self.state {
            State::Refused(refused) => refused.budget.as_ref(),
            _ => None,
        }
    }

    /// The budget may say something else now. Gives when to ask it.
    pub(super) fn wake(&mut self) -> Option<Instant> {
        let State::Refused(refused) = &mut self.state else { return None };
        refused.again = later(refused.at, SHORTEST_PAUSE).min(refused.again);
        Some(refused.again)
    }
}

fn message(why: &str) -> Box<str> {
    let text = format!("waits until its pod may be unavailable: {why}");
    cut(&text, LONGEST_MESSAGE).into()
}

/// Requests that wait for budgets.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By budget, the oldest first.
    of: BTreeMap<Key, BTreeSet<(Instant, RequestId)>>,
}

impl Waiting {
    pub(super) fn add(&mut self, budget: &Key, since: Instant, id: &RequestId) {
        self.of.entry(budget.clone()).or_default().insert((since, id.clone()));
    }

    pub(super) fn remove(&mut self, budget: &Key, since: Instant, id: &RequestId) {
        let Some(all) = self.of.get_mut(budget) else { return };
        all.remove(&(since, id.clone()));
        if all.is_empty() {
            self.of.remove(budget);
        }
    }

    /// The first of those who wait for a budget, no more than so many.
    pub(super) fn first(&self, budget: &Key, most: usize) -> Vec<RequestId> {
        self.of.get(budget).into_iter().flatten().take(most).map(|(_, id)| id.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}
