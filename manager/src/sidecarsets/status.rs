//! The status of a set: how many pods it has and how far they are, its revisions, and what of it is not
//! carried out.

use std::borrow::Cow;

use berth_proto::{
    crd::{LONGEST_MESSAGE, SidecarSetStatus},
    text::cut,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    accepted::{Hook, told},
    progress::Progress,
    set::Known,
};

/// Condition that says whether the set is carried out.
const ACCEPTED: &str = "Accepted";
/// Condition that says whether all pods have the newest sidecars, and what they wait for.
const UP_TO_DATE: &str = "UpToDate";

/// Computes the status of a set, which says that it is about this generation.
pub(super) fn status(
    known: &Known,
    observed: Option<i64>,
    hook: &Hook<'_>,
    progress: &Progress,
    now: Timestamp,
) -> SidecarSetStatus {
    let shown = known.shown.clone().unwrap_or_default();
    let Ok(rules) = &known.rules else {
        let fault = known.rules.as_ref().err().map(|fault| &**fault).unwrap_or_default();
        let accepted = condition(known, ACCEPTED, false, "InvalidSpec", fault.into(), now);
        // Its pods and revisions are what they were: nobody can tell them now.
        let conditions = vec![accepted];
        return SidecarSetStatus { observed_generation: observed, conditions, ..shown };
    };
    let flaw = known.filed.as_ref().and_then(|filed| filed.flaw.clone());
    let accepted = match told(hook, rules, flaw, known.pods.missing.len()) {
        Some((holds, reason, message)) => Some(condition(known, ACCEPTED, holds, reason, message, now)),
        None => shown.conditions.iter().find(|condition| condition.type_ == ACCEPTED).cloned(),
    };
    let (done, reason, message) = progress.told();
    let up_to_date = condition(known, UP_TO_DATE, done, reason, message.into(), now);
    let (pods, filed) = (&known.pods, known.filed.as_ref());
    SidecarSetStatus {
        observed_generation: observed,
        matched_pods: Some(number(pods.members.len())),
        updated_pods: Some(number(pods.counts.updated)),
        ready_pods: Some(number(pods.counts.ready)),
        updated_ready_pods: Some(number(pods.counts.updated_ready)),
        not_injected_pods: Some(number(pods.missing.len())),
        latest_revision: filed.and_then(|filed| filed.latest.clone()),
        collision_count: filed.and_then(|filed| filed.collision_count(&shown)),
        revisions: filed.map(|filed| filed.revisions.clone()).unwrap_or_default(),
        history: filed.and_then(|filed| filed.history.clone()),
        conditions: accepted.into_iter().chain([up_to_date]).collect(),
    }
}

/// Tells whether all of a status is in what is shown. Conditions of others may be there too.
pub(super) fn shows(shown: &SidecarSetStatus, status: &SidecarSetStatus) -> bool {
    let ours = SidecarSetStatus { conditions: Vec::new(), ..status.clone() };
    ours == SidecarSetStatus { conditions: Vec::new(), ..shown.clone() }
        && status.conditions.iter().all(|condition| shown.conditions.contains(condition))
}

fn condition(
    known: &Known,
    type_: &str,
    holds: bool,
    reason: &str,
    message: Cow<'_, str>,
    now: Timestamp,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let before = known.shown.iter().chain(known.sent.iter().map(|(_, sent)| sent));
    let before = before.flat_map(|before| &before.conditions);
    let same = before.into_iter().find(|before| before.type_ == type_ && before.status == status);
    let since = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: cut(&message, LONGEST_MESSAGE).to_owned(),
        last_transition_time: same.map_or(Time(since), |same| same.last_transition_time.clone()),
        observed_generation: None,
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
