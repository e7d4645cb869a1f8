//! Decisions without the agent: the default of each kind of call, as a pure function of the table and of how
//! long the call has waited for the agent to come back.
//!
//! | Call | The table knows | It does not |
//! |---|---|---|
//! | `CreateContainer` | nothing is ordered, or its barrier is open: passes | waits for [`PATIENCE`], then refused as not ready |
//! | `StopContainer` | nothing is ordered: passes | waits, within its time, then passes with the rest of that |
//! | `ContainerStatus` | shown so, in the midst of a change after a wait | undecided: waits, then the truth; not heard of: the truth |
//! | a hook | done, or it runs | undecided: waits for [`PATIENCE`], then it runs; not heard of: it runs |
//! | a list of containers | | passes without a nudge |
//! | `PullImage` | the agent has nothing to pull: passes, with an agent there, too | passes |
//!
//! A barrier that was open closes when the last container of its pod is removed, and the table says so a
//! moment later. An agent that is there has been told of the removal, and is asked about each creation in
//! such a pod; what waits for it is decided by the table as soon as it is away.
//!
//! A container of a pod in the agents' own namespace is created at once: else none could come by a pod. So is
//! one in a sandbox that is not the kubelet's, if the agent has said that such ones are nothing to it.
//!
//! Before an agent has come for the first time nothing is known, and statuses and hooks are undecided, too,
//! hooks for [`HOOK_PATIENCE`] only.

use std::time::Duration;

use berth_policy::{Amendment, ConnectionId, ContainerId, HookTurn, Refusal, Request, Showing};

use super::table::Table;
use crate::gate::{Answer, Decision};

/// How long a call waits for an agent that comes back: systemd takes a second, and the kubelet's own patience
/// is two minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Time for which a hook waits where no agent has said anything yet. One that lives comes within a second or
/// so. The wait comes out of the grace of the pod, after which the kubelet stops the container, hook or not;
/// and few hooks are those of a change, which must not run a second time.
pub(crate) const HOOK_PATIENCE: Duration = Duration::from_secs(2);
/// Minimum time that a container always gets between the stop signal and SIGKILL, the kubelet's own.
const FLOOR: Duration = Duration::from_secs(2);

/// Tells whether the table has the call as one that passes: with an agent `here`, or without.
pub(crate) fn passes(table: &Table, request: &Request, here: bool) -> bool {
    match request {
        Request::CreateContainer(create) if here => table.creates_all(&create.sandbox),
        Request::CreateContainer(create) => table.creates(create),
        Request::StopContainer(stop) => table.stops(&stop.container),
    }
}

/// Time after its arrival for which a call may wait, whoever is there: a stop leaves its container [`FLOOR`]
/// of the time that it was given. `None` for a call without such a time.
pub(crate) fn longest(request: &Request) -> Option<Duration> {
    match request {
        Request::StopContainer(stop) => Some(stop.timeout.saturating_sub(FLOOR)),
        Request::CreateContainer(_) => None,
    }
}

/// The decision about a call that came `age` ago and has waited without an agent for so long; `None` while it
/// goes on waiting.
pub(crate) fn of_call(table: &Table, request: &Request, waited: Duration, age: Duration) -> Option<Decision> {
    if passes(table, request, false) || is_strangers(table, request) {
        return Some(Decision::Pass(None));
    }
    if waited < PATIENCE && longest(request).is_none_or(|longest| age < longest) {
        return None;
    }
    Some(match request {
        Request::CreateContainer(_) => Decision::Refuse(Refusal::AgentAway),
        Request::StopContainer(stop) => {
            // Whole seconds, rounded up, as with an exit order.
            let left = stop.timeout.saturating_sub(age);
            let whole = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
            let left = Duration::from_secs(whole).max(FLOOR).min(stop.timeout);
            Decision::Pass((left != stop.timeout).then_some(Amendment::StopTimeout(left)))
        }
    })
}

/// Tells whether it is a creation in a sandbox that is not the kubelet's, for which no agent would wait.
fn is_strangers(table: &Table, request: &Request) -> bool {
    match request {
        Request::CreateContainer(create) => table.creates_for_stranger(create),
        Request::StopContainer(_) => false,
    }
}

/// The decision about a call of a pod that may be the agent which is waited for.
pub(crate) fn of_agents(namespace: Option<&str>, request: &Request) -> Option<Decision> {
    match request {
        Request::CreateContainer(create) if namespace.is_some_and(|own| own == create.pod.namespace) => {
            Some(Decision::Pass(None))
        }
        Request::CreateContainer(_) | Request::StopContainer(_) => None,
    }
}

/// The answer to the kubelet that asks for the status of a container.
pub(crate) fn of_status(
    table: &Table,
    connection: ConnectionId,
    container: &ContainerId,
    waited: Duration,
) -> Option<Answer> {
    let row = table.container(container);
    if row.is_some_and(|row| row.changing) && waited < PATIENCE {
        return None;
    }
    let showing = match row.map(|row| row.status) {
        Some(Some(shown)) if shown.only_to.is_none_or(|only| only == connection) => shown.showing,
        Some(None) if waited < PATIENCE => return None,
        None if waited < PATIENCE && !table.is_whole() => return None,
        Some(_) | None => Showing::Truth,
    };
    Some(Answer::Shown(showing))
}

/// The answer to a hook that begins.
pub(crate) fn of_hook(table: &Table, container: &ContainerId, waited: Duration) -> Option<Answer> {
    match table.container(container).map(|row| row.hook) {
        Some(Some(HookTurn::AlreadyRun)) => Some(Answer::Done),
        Some(None) if waited < PATIENCE => None,
        None if waited < HOOK_PATIENCE && !table.is_whole() => None,
        Some(_) | None => Some(Answer::Pass),
    }
}

#[cfg(test)]
#[path = "../tests/remote_away.rs"]
mod tests;
