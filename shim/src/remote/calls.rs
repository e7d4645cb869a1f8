//! Calls and events on the line, from and to the words of the policy. What is longer than anything that
//! exists is not told, and not taken.

use std::{
    num::{NonZeroU64, NonZeroU128},
    time::{Duration, Instant},
};

use berth_policy::{
    Call, CallId, ConnectionId, CreateContainer, CredentialKey, Declared, Event, PodRef, Request,
    StopContainer, launch_priority::OrderError,
};

use super::message::{
    BadOrder, CallMade, ContainerMade, Create, Declares, EventTold, Happened, HookMade, HookOver,
    OfContainer, Plan, PlanEntries, PlanEntry, Pod, PullMade, Relist, SandboxMade, Stop, Trace, Wants,
};
use crate::trace::TraceParent;

/// The longest identity or name. The CRI's have 64 bytes, those of the API at most 253.
pub(crate) const MAX_NAME: usize = 512;
/// The longest text for people, and the longest name of an image.
pub(crate) const MAX_TEXT: usize = 4096;
/// The most entries of a list.
pub(crate) const MAX_LIST: usize = 1024;

/// A text or list beyond its limit, or a value that this line does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is beyond its bounds")]
pub(crate) struct Beyond(pub(crate) &'static str);

pub(crate) fn name(text: &str) -> Result<String, Beyond> {
    bounded(text, MAX_NAME, "a name")
}

pub(crate) fn text(text: &str) -> Result<String, Beyond> {
    bounded(text, MAX_TEXT, "a text")
}

fn bounded(text: &str, most: usize, what: &'static str) -> Result<String, Beyond> {
    if text.len() <= most { Ok(text.to_owned()) } else { Err(Beyond(what)) }
}

pub(crate) fn list<T, U>(entries: &[T], each: impl Fn(&T) -> Result<U, Beyond>) -> Result<Vec<U>, Beyond> {
    if entries.len() > MAX_LIST {
        return Err(Beyond("a list"));
    }
    entries.iter().map(each).collect()
}

// === calls ===

pub(crate) fn call_to_wire(call: &Call, now: Instant) -> Result<CallMade, Beyond> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let wants = match &call.request {
        Request::CreateContainer(create) => Wants::Create(Create {
            sandbox: name(create.sandbox.as_str())?,
            pod: Some(pod_to_wire(&create.pod)?),
            container: name(create.container.as_str())?,
            attempt: create.attempt,
            declared: Some(declared_to_wire(&create.declared)?),
            images: list(&create.images, |image| text(image))?,
        }),
        Request::StopContainer(stop) => {
            Wants::Stop(Stop { container: name(stop.container.as_str())?, timeout_s: stop.timeout.as_secs() })
        }
    };
    Ok(CallMade {
        id: call.id.0,
        connection: call.connection.0,
        age_ns: ns(now.saturating_duration_since(call.arrived)),
        left_ns: call.deadline.map(|deadline| ns(deadline.saturating_duration_since(now))),
        wants: Some(wants),
    })
}

pub(crate) fn call_of(made: CallMade, now: Instant) -> Result<Call, Beyond> {
    let request = match made.wants.ok_or(Beyond("a call of another kind"))? {
        Wants::Create(create) => Request::CreateContainer(CreateContainer {
            sandbox: name(&create.sandbox)?.into(),
            pod: pod_of(create.pod)?,
            container: name(&create.container)?.into(),
            attempt: create.attempt,
            declared: declared_of(create.declared)?,
            images: list(&create.images, |image| text(image))?,
        }),
        Wants::Stop(stop) => Request::StopContainer(StopContainer {
            container: name(&stop.container)?.into(),
            timeout: Duration::from_secs(stop.timeout_s),
        }),
    };
    Ok(Call {
        id: CallId(made.id),
        connection: ConnectionId(made.connection),
        arrived: now.checked_sub(Duration::from_nanos(made.age_ns)).unwrap_or(now),
        deadline: made.left_ns.and_then(|left| now.checked_add(Duration::from_nanos(left))),
        request,
    })
}

pub(crate) fn pod_to_wire(pod: &PodRef) -> Result<Pod, Beyond> {
    Ok(Pod { uid: name(pod.uid.as_str())?, namespace: name(&pod.namespace)?, name: name(&pod.name)? })
}

pub(crate) fn pod_of(pod: Option<Pod>) -> Result<PodRef, Beyond> {
    let pod = pod.unwrap_or_default();
    Ok(PodRef { uid: name(&pod.uid)?.into(), namespace: name(&pod.namespace)?, name: name(&pod.name)? })
}

fn declared_to_wire(declared: &Declared) -> Result<Declares, Beyond> {
    let plan = match &declared.plan {
        None => None,
        Some(Ok(entries)) => Some(Plan::Entries(PlanEntries {
            entries: list(entries, |(container, priority)| {
                Ok(PlanEntry { container: name(container.as_str())?, priority: *priority })
            })?,
        })),
        Some(Err(error)) => Some(Plan::Unreadable(order_to_wire(error))),
    };
    Ok(Declares { plan, hinted: declared.hinted, foreign: declared.foreign })
}

fn declared_of(declares: Option<Declares>) -> Result<Declared, Beyond> {
    let Declares { plan, hinted, foreign } = declares.unwrap_or_default();
    let plan = match plan {
        None => None,
        Some(Plan::Entries(plan)) => {
            Some(Ok(list(&plan.entries, |entry| Ok((name(&entry.container)?.into(), entry.priority)))?))
        }
        Some(Plan::Unreadable(error)) => Some(Err(order_of(error)?)),
    };
    Ok(Declared { plan, hinted, foreign })
}

/// The beginning of a text, as much as people read. It is never longer than a name.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_NAME / 4).collect()
}

/// Cuts its texts where they are longer than people read.
pub(crate) fn order_to_wire(error: &OrderError) -> BadOrder {
    let (kind, container, text, number) = match error {
        OrderError::NotAPriority { container, value } => (1, container.as_str(), value.as_str(), 0),
        OrderError::ValueFrom { container } => (2, container.as_str(), "", 0),
        OrderError::NotOrdered { value } => (3, "", value.as_str(), 0),
        OrderError::MalformedPlan { reason } => (4, "", reason.as_str(), 0),
        OrderError::PlanOutOfRange { container, value } => (5, container.as_str(), "", *value),
    };
    BadOrder { kind, container: cut(container), text: cut(text), number }
}

pub(crate) fn order_of(error: BadOrder) -> Result<OrderError, Beyond> {
    let container = || Ok(name(&error.container)?.into());
    Ok(match error.kind {
        1 => OrderError::NotAPriority { container: container()?, value: text(&error.text)? },
        2 => OrderError::ValueFrom { container: container()? },
        3 => OrderError::NotOrdered { value: text(&error.text)? },
        4 => OrderError::MalformedPlan { reason: text(&error.text)? },
        5 => OrderError::PlanOutOfRange { container: container()?, value: error.number },
        0 => return Err(Beyond("the kind of an error")),
        // One that a later version has. Nobody can follow such an order either.
        _ => OrderError::MalformedPlan { reason: text(&error.text)? },
    })
}

// === traces ===

pub(crate) fn trace_to_wire(trace: &TraceParent) -> Trace {
    let [b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = trace.trace.get().to_be_bytes();
    Trace {
        trace_0: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
        trace_1: u64::from_be_bytes(rest),
        span: trace.span.get(),
        sampled: trace.sampled,
    }
}

/// The span of these words; `None` for one that is none.
pub(crate) fn trace_of(trace: &Trace) -> Option<TraceParent> {
    let number = u128::from(trace.trace_0) << 64 | u128::from(trace.trace_1);
    Some(TraceParent {
        trace: NonZeroU128::new(number)?,
        span: NonZeroU64::new(trace.span)?,
        sampled: trace.sampled,
    })
}

// === events ===

/// The event as it is told; `None` for one that the data path never sees.
pub(crate) fn event_to_wire(event: &Event) -> Result<Option<EventTold>, Beyond> {
    let happened = match event {
        Event::SandboxCreated { sandbox, pod, declared } => Happened::SandboxCreated(SandboxMade {
            sandbox: name(sandbox.as_str())?,
            pod: Some(pod_to_wire(pod)?),
            declared: Some(declared_to_wire(declared)?),
        }),
        Event::SandboxStopping(sandbox) => Happened::SandboxStopping(name(sandbox.as_str())?),
        Event::SandboxRemoved(sandbox) => Happened::SandboxRemoved(name(sandbox.as_str())?),
        Event::ContainerCreated { call, container } => {
            Happened::ContainerCreated(ContainerMade { call: call.0, container: name(container.as_str())? })
        }
        Event::ContainerStarted(container) => Happened::ContainerStarted(name(container.as_str())?),
        Event::ContainerStopped(container) => Happened::ContainerStopped(name(container.as_str())?),
        Event::ContainerRemoved(container) => Happened::ContainerRemoved(name(container.as_str())?),
        Event::RelistAsked { call, connection } => {
            Happened::RelistAsked(Relist { call: call.0, connection: connection.0 })
        }
        Event::RelistAnswered { call, connection } => {
            Happened::RelistAnswered(Relist { call: call.0, connection: connection.0 })
        }
        Event::StatusAsked { container, connection } => Happened::StatusAsked(OfContainer {
            connection: connection.0,
            container: name(container.as_str())?,
        }),
        Event::PullPassed { call, image, credential } => {
            Happened::PullPassed(PullMade { call: call.0, image: text(image)?, credential: credential.0 })
        }
        Event::CallEnded(call) => Happened::CallEnded(call.0),
        Event::ConnectionClosed(connection) => Happened::ConnectionClosed(connection.0),
        Event::HookAsked { call, container, connection } => Happened::HookAsked(HookMade {
            call: call.0,
            connection: connection.0,
            container: name(container.as_str())?,
        }),
        Event::HookEnded(container, well) => {
            Happened::HookEnded(HookOver { container: name(container.as_str())?, well: *well })
        }
        // Each by its name: whoever adds an event is asked here whether the data path tells it.
        Event::PodSeen(_)
        | Event::PodGone(_)
        | Event::PodsListed(_)
        | Event::PodsUnread(_)
        | Event::HookBegins(_)
        | Event::InspectionStarted(_)
        | Event::SandboxInspected { .. }
        | Event::InspectionFailed(_)
        | Event::ProbeBegan(_)
        | Event::ProbeEnded(..)
        | Event::ListingStarted
        | Event::RuntimeListed { .. }
        | Event::ContainersCreated(_)
        | Event::HandedOver
        | Event::LatchesLoaded(_)
        | Event::LatchesForgotten(_)
        | Event::RecreateSeen(_)
        | Event::RecreateGone(_)
        | Event::RecreatesListed(..)
        | Event::MarksLoaded(_)
        | Event::SidecarsLoaded(_)
        | Event::MarkWritten(..)
        | Event::EffectBegan(_)
        | Event::EffectEnded(..)
        | Event::EndHinted(_)
        | Event::EndsTold(_)
        | Event::CreationEnvSet(..)
        | Event::ProbedPods(_)
        | Event::ImagesBusy(_)
        | Event::ViewFresh(_)
        | Event::KubeletPollStarted
        | Event::KubeletPollEnded => return Ok(None),
    };
    Ok(Some(EventTold { happened: Some(happened) }))
}

/// The event of these words; `None` for one that a later version tells.
pub(crate) fn event_of(told: EventTold) -> Result<Option<Event>, Beyond> {
    let Some(happened) = told.happened else { return Ok(None) };
    Ok(Some(match happened {
        Happened::SandboxCreated(made) => Event::SandboxCreated {
            sandbox: name(&made.sandbox)?.into(),
            pod: pod_of(made.pod)?,
            declared: declared_of(made.declared)?,
        },
        Happened::SandboxStopping(sandbox) => Event::SandboxStopping(name(&sandbox)?.into()),
        Happened::SandboxRemoved(sandbox) => Event::SandboxRemoved(name(&sandbox)?.into()),
        Happened::ContainerCreated(made) => {
            Event::ContainerCreated { call: CallId(made.call), container: name(&made.container)?.into() }
        }
        Happened::ContainerStarted(container) => Event::ContainerStarted(name(&container)?.into()),
        Happened::ContainerStopped(container) => Event::ContainerStopped(name(&container)?.into()),
        Happened::ContainerRemoved(container) => Event::ContainerRemoved(name(&container)?.into()),
        Happened::RelistAsked(Relist { call, connection }) => {
            Event::RelistAsked { call: CallId(call), connection: ConnectionId(connection) }
        }
        Happened::RelistAnswered(Relist { call, connection }) => {
            Event::RelistAnswered { call: CallId(call), connection: ConnectionId(connection) }
        }
        Happened::StatusAsked(asked) => Event::StatusAsked {
            container: name(&asked.container)?.into(),
            connection: ConnectionId(asked.connection),
        },
        Happened::PullPassed(pull) => Event::PullPassed {
            call: CallId(pull.call),
            image: text(&pull.image)?,
            credential: CredentialKey(pull.credential),
        },
        Happened::CallEnded(call) => Event::CallEnded(CallId(call)),
        Happened::ConnectionClosed(connection) => Event::ConnectionClosed(ConnectionId(connection)),
        Happened::HookAsked(hook) => Event::HookAsked {
            call: CallId(hook.call),
            container: name(&hook.container)?.into(),
            connection: ConnectionId(hook.connection),
        },
        Happened::HookEnded(over) => Event::HookEnded(name(&over.container)?.into(), over.well),
    }))
}

#[cfg(test)]
#[path = "../tests/remote_calls.rs"]
mod tests;
