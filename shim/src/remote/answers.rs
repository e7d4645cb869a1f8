//! Answers of the agent on the line, from and to the words of the policy.

use std::time::Duration;

use berth_policy::{Amendment, ContainerName, HoldReason, Nudge, Refusal, Showing};

use super::{
    calls::{Beyond, list, name, order_of, order_to_wire, pod_of, pod_to_wire, text},
    message::{Answers, HeldCall, Nothing, NudgeOf, Nudges, Refused},
};
use crate::gate::{Answer, Decision};

/// The number of a state on the line; 0 is none.
pub(crate) fn showing_to_wire(showing: Showing) -> u32 {
    match showing {
        Showing::Truth => 1,
        Showing::OtherDefinition => 2,
        Showing::StillRunning => 3,
        Showing::NotStarted => 4,
        Showing::Completed => 5,
    }
}

pub(crate) fn showing_of(number: u32) -> Option<Showing> {
    Some(match number {
        1 => Showing::Truth,
        2 => Showing::OtherDefinition,
        3 => Showing::StillRunning,
        4 => Showing::NotStarted,
        5 => Showing::Completed,
        _ => return None,
    })
}

pub(crate) fn decision_to_wire(decision: &Decision) -> Answers {
    match decision {
        Decision::Pass(None) => Answers::Pass(Nothing {}),
        Decision::Pass(Some(Amendment::StopTimeout(timeout))) => Answers::StopTimeout(timeout.as_secs()),
        Decision::Refuse(refusal) => Answers::Refuse(refusal_to_wire(refusal)),
    }
}

pub(crate) fn decision_of(answer: Answers) -> Result<Decision, Beyond> {
    Ok(match answer {
        Answers::Pass(_) => Decision::Pass(None),
        // A larger one would be negative in the message, and the container be killed at once.
        Answers::StopTimeout(seconds) if i64::try_from(seconds).is_ok() => {
            Decision::Pass(Some(Amendment::StopTimeout(Duration::from_secs(seconds))))
        }
        Answers::Refuse(refused) => Decision::Refuse(refusal_of(refused)?),
        _ => return Err(Beyond("the answer to a call")),
    })
}

pub(crate) fn answer_to_wire(answer: &Answer) -> Answers {
    match answer {
        // Env values are in the table.
        Answer::Pass | Answer::WithEnv(_) => Answers::Pass(Nothing {}),
        Answer::Shown(showing) => Answers::Shown(showing_to_wire(*showing)),
        Answer::Nudged(nudges) => Answers::Nudged(Nudges {
            // The next list takes those that are too many or cannot be told.
            nudges: nudges
                .iter()
                .take(super::calls::MAX_LIST)
                .filter_map(|nudge| nudge_to_wire(nudge).ok())
                .collect(),
        }),
        Answer::Done => Answers::Done(Nothing {}),
        Answer::Pulled(image_ref) => match text(image_ref) {
            Ok(image_ref) => Answers::Pulled(image_ref),
            Err(_) => Answers::Pass(Nothing {}),
        },
    }
}

pub(crate) fn answer_of(answer: Answers) -> Result<Answer, Beyond> {
    Ok(match answer {
        Answers::Pass(_) => Answer::Pass,
        Answers::Shown(number) => Answer::Shown(showing_of(number).ok_or(Beyond("a state"))?),
        Answers::Done(_) => Answer::Done,
        Answers::Nudged(nudges) => Answer::Nudged(list(&nudges.nudges, nudge_of)?),
        Answers::Pulled(image_ref) => Answer::Pulled(text(&image_ref)?),
        Answers::StopTimeout(_) | Answers::Refuse(_) => return Err(Beyond("the answer to a question")),
    })
}

fn nudge_to_wire(nudge: &Nudge) -> Result<NudgeOf, Beyond> {
    Ok(NudgeOf {
        pod: Some(pod_to_wire(&nudge.pod)?),
        sandbox: name(nudge.sandbox.as_str())?,
        container: name(nudge.container.as_str())?,
    })
}

fn nudge_of(nudge: &NudgeOf) -> Result<Nudge, Beyond> {
    Ok(Nudge {
        pod: pod_of(nudge.pod.clone())?,
        sandbox: name(&nudge.sandbox)?.into(),
        container: name(&nudge.container)?.into(),
    })
}

/// Names for people: those that fit.
fn names(names: &[ContainerName]) -> Vec<String> {
    names.iter().take(super::calls::MAX_LIST).filter_map(|container| name(container.as_str()).ok()).collect()
}

fn names_of(names: &[String]) -> Result<Vec<ContainerName>, Beyond> {
    list(names, |container| Ok(name(container)?.into()))
}

fn refusal_to_wire(refusal: &Refusal) -> Refused {
    let of = |kind| Refused { kind, ..Refused::default() };
    match refusal {
        Refusal::Waiting(containers) => Refused { containers: names(containers), ..of(1) },
        Refusal::BadOrder(error) => Refused { order: Some(order_to_wire(error)), ..of(2) },
        Refusal::Terminating => of(3),
        Refusal::PodUnknown => of(4),
        Refusal::RuntimeSilent => of(5),
        Refusal::Draining => of(6),
        Refusal::AgentAway => of(7),
    }
}

fn refusal_of(refused: Refused) -> Result<Refusal, Beyond> {
    Ok(match refused.kind {
        1 => Refusal::Waiting(names_of(&refused.containers)?),
        2 => Refusal::BadOrder(order_of(refused.order.unwrap_or_default())?),
        3 => Refusal::Terminating,
        4 => Refusal::PodUnknown,
        5 => Refusal::RuntimeSilent,
        6 => Refusal::Draining,
        7 => Refusal::AgentAway,
        _ => return Err(Beyond("the kind of a refusal")),
    })
}

pub(crate) fn held_to_wire(question: u64, why: &HoldReason) -> HeldCall {
    let kind = match why {
        HoldReason::PodUnknown => 1,
        HoldReason::Inspection => 2,
        // An older shim knows no more.
        HoldReason::NotReady(_) | HoldReason::SameSecond(_) => 3,
        HoldReason::PodKillUnclear => 4,
        HoldReason::StillRunning(_) => 5,
        HoldReason::AgentAway => 6,
    };
    HeldCall { question, why: kind, containers: names(why.waiting_for()) }
}

pub(crate) fn held_of(held: &HeldCall) -> Result<HoldReason, Beyond> {
    Ok(match held.why {
        1 => HoldReason::PodUnknown,
        2 => HoldReason::Inspection,
        3 => HoldReason::NotReady(names_of(&held.containers)?),
        4 => HoldReason::PodKillUnclear,
        5 => HoldReason::StillRunning(names_of(&held.containers)?),
        6 => HoldReason::AgentAway,
        _ => return Err(Beyond("the reason of a hold")),
    })
}
