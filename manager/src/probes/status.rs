//! The status of a marker: how many pods it selects, and what of it cannot be carried out.

use std::{borrow::Cow, collections::BTreeSet};

use berth_proto::crd::PodProbeMarkerStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{marker::Marker, resolve::Problem};

/// The condition.
const ACCEPTED: &str = "Accepted";
/// More problems than that are told when these are solved.
const MOST_TOLD: usize = 8;

/// What it is to be.
pub(super) fn status(marker: &Marker, now: Timestamp) -> PodProbeMarkerStatus {
    let (holds, reason, message) = match &marker.plan {
        Err(fault) => (false, "InvalidSpec", Cow::from(&**fault)),
        Ok(_) if marker.problems.is_empty() => {
            (true, "Accepted", "the probes of the marker are carried out".into())
        }
        Ok(_) => (true, "NotOnAllPods", told(marker).into()),
    };
    let status = if holds { "True" } else { "False" };
    let known = marker.shown.iter().chain(marker.sent.iter().map(|(_, sent)| sent));
    let known = known
        .flat_map(|known| &known.conditions)
        .find(|known| known.type_ == ACCEPTED && known.status == status);
    let condition = Condition {
        type_: ACCEPTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into_owned(),
        last_transition_time: known.map_or_else(|| time(now), |known| known.last_transition_time.clone()),
        observed_generation: None,
    };
    PodProbeMarkerStatus {
        observed_generation: marker.generation,
        matched_pods: Some(i64::try_from(marker.matched).unwrap_or(i64::MAX)),
        conditions: vec![condition],
    }
}

/// Whether all of a status is in what is shown. Conditions of others may be there too.
pub(super) fn shows(shown: &PodProbeMarkerStatus, status: &PodProbeMarkerStatus) -> bool {
    shown.observed_generation == status.observed_generation
        && shown.matched_pods == status.matched_pods
        && status.conditions.iter().all(|condition| shown.conditions.contains(condition))
}

/// Times are written in seconds, so that what comes back is what was sent.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn told(marker: &Marker) -> String {
    let mut told: Vec<_> =
        marker.problems.iter().take(MOST_TOLD).map(|(problem, pods)| problem.told(pods)).collect();
    if let Some(more) = marker.problems.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
        told.push(format!("and {more} more of the kind"));
    }
    told.join("; ")
}

impl Problem {
    fn told(&self, pods: &BTreeSet<Box<str>>) -> String {
        let on = match (pods.len(), pods.first()) {
            (1, Some(name)) => format!("pod {name}"),
            (count, Some(name)) => format!("{count} pods, one of them {name}"),
            (_, None) => "no pod".to_owned(),
        };
        match self {
            Self::Container { probe, container } => format!(
                "probe {probe} does not run on {on}: there is no container {container}; correct containerName, or select other pods"
            ),
            Self::Port { probe, container, port } => format!(
                "probe {probe} does not run on {on}: container {container} has no port named {port}; give the port as a number, or its name to the container"
            ),
            Self::Taken { probe, what, by } => format!(
                "probe {probe} runs without {what} on {on}: {by} has it, which was there first; use another name"
            ),
        }
    }
}
