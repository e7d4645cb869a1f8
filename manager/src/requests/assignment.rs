//! Assignment of a request: which agent gets it, and on which instances; or why nobody does.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_proto::crd::StatusContext;

use super::{
    failure::{Failure, FailureReason, deadline_exceeded},
    kind::{RequestId, RequestKind},
    model::{Noted, Wanted},
    patch::{Assignment, RequestAct},
    permit::{Next, Permit},
    replaced::{Instance, Replaced},
    unfit::Unfit,
};
use crate::{
    store::{Container, ContainerId, Now, Pod, Role},
    time::later,
};

/// Delay of the pod watch: a pod that is not there when a request is first seen may only not have been seen
/// yet, as pods come by a watch of their own.
const LAG: Duration = Duration::from_secs(3);
/// The same for a pod seen with an instance that is known to be history. Longer: here it is certain that news
/// comes.
const STALE: Duration = Duration::from_secs(10);

/// Decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// RequestKind again then, if nothing happens before.
    Wait(Instant),
    /// Nothing, until something happens.
    Nothing,
    /// This is owed.
    RequestAct(RequestAct),
    /// It is to say why it waits, and is looked at again then.
    Say(Box<str>, Instant),
    /// The budget of its pod, which has this UID, is to be asked; again then.
    Ask(String, Instant),
}

impl Decision {
    pub(super) fn fail(
        reason: FailureReason,
        message: impl Into<String>,
        assignment: Option<&Assignment>,
    ) -> Self {
        Self::RequestAct(RequestAct::Fail(Failure::new(reason, message), assignment.cloned()))
    }
}

/// Facts for a decision about an unassigned request.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// The pod of that name, as seen.
    pub(super) pod: Option<&'a Pod>,
    /// From when on both the request and complete lists of all kinds were there.
    pub(super) since: Instant,
    /// Until then the view of the pods is known to be behind.
    pub(super) doubt: Option<Instant>,
}

pub(super) fn decide(
    id: &RequestId,
    wanted: &Wanted,
    facts: &Facts<'_>,
    replaced: &mut Replaced,
    now: Now,
) -> Decision {
    if let Some(fault) = &wanted.fault {
        return Decision::fail(FailureReason::InvalidSpec, fault.as_ref(), None);
    }
    // No agent has it, so there is none to give its time to.
    if wanted.active_until.is_some_and(|until| until <= now.instant) {
        return Decision::fail(FailureReason::DeadlineExceeded, deadline_exceeded(id.kind), None);
    }
    let wait = |until: Instant| Decision::Wait(wanted.active_until.map_or(until, |end| end.min(until)));
    match snapshot(id, wanted, facts.pod) {
        Ok(mut snapshot) => {
            if let Some(noted) = &wanted.noted {
                snapshot.take(noted, replaced, now.instant);
            }
            let until = later(facts.since, STALE);
            if now.instant < until && snapshot.is_history(replaced, now.instant) {
                wait(until)
            } else {
                Decision::RequestAct(RequestAct::Assign(snapshot.assignment()))
            }
        }
        Err(failure) => {
            let until = later(facts.since, LAG).max(facts.doubt.unwrap_or(facts.since));
            if now.instant < until {
                wait(until)
            } else {
                Decision::RequestAct(RequestAct::Fail(failure, None))
            }
        }
    }
}

/// Decides about an unassigned request that is not assigned before the budget of its pod lets it.
pub(super) fn with_permit(decision: Decision, wanted: &Wanted, permit: &mut Permit, now: Now) -> Decision {
    let Decision::RequestAct(RequestAct::Assign(assignment)) = decision else { return decision };
    // Its own end comes first.
    let no_later = |until: Instant| wanted.active_until.map_or(until, |end| end.min(until));
    match permit.decide(&assignment.pod_uid, now.instant) {
        Next::Go => Decision::RequestAct(RequestAct::Assign(assignment)),
        Next::Ask(until) => Decision::Ask(assignment.pod_uid, no_later(until)),
        Next::Wait(until, Some(why)) if wanted.message.as_ref() != Some(&why) => {
            Decision::Say(why, no_later(until))
        }
        Next::Wait(until, _) => Decision::Wait(no_later(until)),
    }
}

/// The pod, its node and, where the request is about instances, those of the wanted containers.
struct Snapshot<'a> {
    pod: &'a Pod,
    node: Arc<str>,
    instances: Vec<(Container<'a>, Cow<'a, ContainerId>, i32)>,
}

impl Snapshot<'_> {
    fn is_history(&self, replaced: &mut Replaced, now: Instant) -> bool {
        let mut ids = self.instances.iter().map(|(_, id, _)| id);
        ids.any(|id| replaced.contains(&Instance::new(&self.pod.uid, id), now))
    }

    /// Takes the instances that were noted when the request was made: who stopped one of them since then, as
    /// OpenKruise's daemon may have, has done what was asked for, and the agent only waits for the next one.
    /// One that a request has replaced was old news when it was noted. One that no container of this runtime
    /// can have is not believed. An agent looks for it among those of this container of this pod alone, so a
    /// request with one that somebody made up does nothing.
    fn take(&mut self, noted: &Noted, replaced: &mut Replaced, now: Instant) {
        if noted.pod != self.pod.uid {
            return;
        }
        for (container, id, restarts) in &mut self.instances {
            let Some(context) = noted.contexts.iter().find(|context| *context.name == **container.name)
            else {
                continue;
            };
            let given = ContainerId::from(context.container_id.as_str());
            let is_history = replaced.contains(&Instance::new(&self.pod.uid, &given), now);
            if !is_history && is_alike(&context.container_id, &id.to_string()) {
                (*id, *restarts) = (Cow::Owned(given), context.restart_count);
            }
        }
    }

    fn assignment(&self) -> Assignment {
        Assignment {
            node: self.node.clone(),
            pod_uid: self.pod.uid.to_string(),
            contexts: self.instances.iter().map(context).collect(),
        }
    }
}

/// Context of one container, as the agent is told.
fn context((container, id, restarts): &(Container<'_>, Cow<'_, ContainerId>, i32)) -> StatusContext {
    StatusContext { name: container.name.to_string(), container_id: id.to_string(), restart_count: *restarts }
}

/// Tells whether an ID could be of the same runtime as this one.
fn is_alike(id: &str, known: &str) -> bool {
    let scheme = |id: &str| id.split_once("://").map(|(scheme, _)| scheme.to_owned());
    id.len() == known.len() && scheme(id) == scheme(known)
}

fn snapshot<'a>(id: &RequestId, wanted: &Wanted, pod: Option<&'a Pod>) -> Result<Snapshot<'a>, Failure> {
    let name = &wanted.pod;
    let refuse = |unfit: Unfit<'_>| Err(unfit.failure(name));
    let Some(pod) = pod else { return refuse(Unfit::NoPod(&id.key.namespace)) };
    if let Some(unfit) = Unfit::of_stage(pod.stage) {
        return refuse(unfit);
    }
    let Some(node) = pod.node.clone() else { return refuse(Unfit::NotScheduled) };
    let mut instances = Vec::with_capacity(wanted.containers.len());
    for wanted in &wanted.containers {
        let Some(container) = pod.container(wanted) else { return refuse(Unfit::NoContainer(wanted)) };
        match (id.kind, container.role, container.id) {
            (RequestKind::Recreate, Role::Init, _) => return refuse(Unfit::Init(wanted)),
            (RequestKind::Update, Role::Init | Role::Sidecar, _) => return refuse(Unfit::NotUpdated(wanted)),
            (RequestKind::Recreate, _, Some(instance)) => {
                instances.push((container, Cow::Borrowed(instance), container.restarts));
            }
            (RequestKind::Recreate, _, None) => return refuse(Unfit::NeverStarted(wanted)),
            // One that cannot start may be what the update is for.
            (RequestKind::Update, Role::Regular, _) => {}
        }
    }
    Ok(Snapshot { pod, node, instances })
}
