//! The answer to somebody who is about to make a pod unavailable: free, from the budget, or not now. Pure.
//!
//! A permit stands in the budget's status before the operation is let through, and the pod does not count as
//! available any more: so whatever is answered next, by whichever replica, knows of it. The write names the
//! version that was decided on; who comes second decides anew.
//!
//! A pod that is not available costs nothing, but is entered too: it might become available, and be counted,
//! before it is gone.

use std::time::Duration;

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use jiff::{SignedDuration, Timestamp};

use super::spec::{Budget, Operation};
use crate::condition::seconds;

/// Time that an API server may still wait for other webhooks once it has the answer of this one.
const OTHERS_TAKE: Duration = Duration::from_secs(30);
/// A permit to delete or evict that has no visible effect within it is taken back. Shorter than
/// [`OTHERS_TAKE`], another pod would have it while the first one is yet to go.
pub(crate) const DISRUPTED_FOR: Duration = Duration::from_secs(35);
/// A permit to update that has no visible effect within it is taken back. One of an update of which nobody
/// sees anything stands as long, so it is no longer than OpenKruise's.
pub(crate) const UPDATED_FOR: Duration = Duration::from_secs(10);
/// A permit is good for another request about its pod for so long.
const DISRUPTED_AGAIN: Duration = DISRUPTED_FOR.saturating_sub(OTHERS_TAKE);
const UPDATED_AGAIN: Duration = Duration::from_secs(5);
/// Permits that stand at the same time.
pub(crate) const MOST_PERMITS: usize = 2_000;

/// Operation on a pod that is about to happen.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) pod: &'a str,
    pub(crate) created: Option<Timestamp>,
    /// It counts as available.
    pub(crate) available: bool,
    pub(crate) operation: Operation,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It takes no permit.
    Free,
    /// It may happen when the status has been written.
    Permit(Box<Status>),
    /// It may not happen now.
    Refused(&'static str),
}

/// Answers by the newest status, and the number of pods that the workload wants now.
pub(crate) fn decide(
    budget: &Budget,
    status: &Status,
    total: i32,
    question: &Question,
    now: Timestamp,
) -> Answer {
    let Question { pod, created, available, operation } = *question;
    if !budget.limits(operation) {
        return Answer::Free;
    }
    let desired = budget.desired(total);
    // Nothing of it is to stay.
    if desired == 0 {
        return Answer::Free;
    }
    if status.observed_generation.is_none() {
        return Answer::Refused("its pods have not been counted yet");
    }
    let (own, again) = match operation {
        Operation::Update => (&status.unavailable_pods, UPDATED_AGAIN),
        Operation::Delete | Operation::Evict => (&status.disrupted_pods, DISRUPTED_AGAIN),
    };
    let known = status.disrupted_pods.contains_key(pod) || status.unavailable_pods.contains_key(pod);
    if let Some(since) = own.get(pod).map(|since| since.0) {
        // Of this pod, and none of its name before it; and it stands long enough for what is let through now.
        let of_this = created.is_none_or(|created| created.as_second() < since.as_second());
        let age = now.as_second().saturating_sub(since.as_second());
        let again = i64::try_from(again.as_secs()).unwrap_or(0);
        // One that was given twice in a second is a second ahead.
        if of_this && (-1..again).contains(&age) {
            return Answer::Free;
        }
    }
    let allowed = status.current_available.saturating_sub(desired).max(0);
    let permits = status.disrupted_pods.len().saturating_add(status.unavailable_pods.len());
    let mut next = status.clone();
    let costs = available && !known;
    if costs && allowed == 0 {
        return Answer::Refused("pub unavailable allowed is negative");
    }
    if permits >= MOST_PERMITS && !own.contains_key(pod) {
        return if costs {
            Answer::Refused("it has 2000 permits that nobody used yet")
        } else {
            Answer::Free
        };
    }
    let cost = i32::from(costs);
    next.total_replicas = total;
    next.desired_available = desired;
    next.current_available = status.current_available.saturating_sub(cost);
    next.unavailable_allowed = allowed.saturating_sub(cost);
    let own = match operation {
        Operation::Update => &mut next.unavailable_pods,
        Operation::Delete | Operation::Evict => &mut next.disrupted_pods,
    };
    let given = own.get(pod).map_or(now, |before| after(before.0, now));
    own.insert(pod.to_owned(), seconds(given));
    Answer::Permit(Box::new(next))
}

/// Number of pods that a budget counts itself, as it covers those of several workloads. Before it has, it is
/// as many as there can be: a new one for which its index has no room would let all of them go.
pub(crate) fn as_counted(status: &Status) -> i32 {
    status.observed_generation.map_or(i32::MAX, |_| status.total_replicas)
}

/// Time of a permit that is given again. It differs from that of the one before, or the leader would take it
/// for that one, and end it with the pod that that was for.
fn after(before: Timestamp, now: Timestamp) -> Timestamp {
    let is_same = before.as_second() == now.as_second();
    let next = now.checked_add(SignedDuration::from_secs(1)).ok();
    next.filter(|_| is_same).unwrap_or(now)
}
