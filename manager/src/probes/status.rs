//! The status of a marker: how many pods it selects, and what of it cannot be carried out.

use std::{borrow::Cow, collections::BTreeSet, sync::LazyLock};

use berth_proto::{
    crd::{LONGEST_MESSAGE, PodProbeMarkerStatus},
    text,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{marker::Marker, queue, resolve::Problem, room};
use crate::condition::seconds;

/// The condition.
const ACCEPTED: &str = "Accepted";
/// More problems than that are told when these are solved.
const MOST_TOLD: usize = 8;

/// Computes the status of a marker.
pub(super) fn status(marker: &Marker, now: Timestamp) -> PodProbeMarkerStatus {
    let (holds, reason, message) = match &marker.plan {
        Err(fault) => (false, "InvalidSpec", Cow::from(cut(fault))),
        Ok(_) if marker.waits => (false, "NoRoom", WAITS.as_str().into()),
        Ok(_) if !marker.crowded.is_empty() => (true, "NoRoom", crowded(marker).into()),
        Ok(_) if marker.problems.is_empty() => {
            (true, "Accepted", "the probes of the marker are carried out".into())
        }
        Ok(_) => (true, "NotOnAllPods", cut(&told(marker)).to_owned().into()),
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
        last_transition_time: known.map_or_else(|| seconds(now), |known| known.last_transition_time.clone()),
        observed_generation: None,
    };
    PodProbeMarkerStatus {
        observed_generation: marker.generation,
        // Nobody counts them for one that waits.
        matched_pods: (!marker.waits).then(|| i64::try_from(marker.matched).unwrap_or(i64::MAX)),
        conditions: vec![condition],
    }
}

/// Tells whether all of a status is in what is shown. Conditions of others may be there too.
pub(super) fn shows(shown: &PodProbeMarkerStatus, status: &PodProbeMarkerStatus) -> bool {
    shown.observed_generation == status.observed_generation
        && shown.matched_pods == status.matched_pods
        && status.conditions.iter().all(|condition| shown.conditions.contains(condition))
}

/// Said by one that waits. Without numbers that change: thousands may have to say it.
static WAITS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "of the markers of a namespace the first {} that can be carried out are, as far as they take {} MiB of memory, by the time they \
         were made and by name, and this one comes after them; delete others, or put several probes into one marker",
        queue::MOST,
        queue::ROOM >> 20,
    )
});

/// Says on how many nodes there is no room, and what else there is to say.
fn crowded(marker: &Marker) -> String {
    let pods: usize = marker.crowded.values().sum();
    let (nodes, one) = (marker.crowded.len(), marker.crowded.keys().next().map_or("", |name| name));
    let rest = if marker.problems.is_empty() { String::new() } else { format!("; {}", told(marker)) };
    let text = format!(
        "the probes do not run on {pods} pods of {nodes} nodes, one of them {one}: all probes of a node have {} KiB with their answers, \
         namespaces share them, and markers made first come first; delete markers, or make their probes fewer or smaller{rest}",
        room::OF_ALL >> 10,
    );
    cut(&text).to_owned()
}

/// A message cut to the length it may have.
pub(super) fn cut(text: &str) -> &str {
    text::cut(text, LONGEST_MESSAGE)
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
            Self::Full => format!(
                "no probe runs on {on}: those of other markers, made before, have all of the {} KiB that a pod has, or are {}; delete some",
                room::OF_POD >> 10,
                room::MARKERS_OF_POD,
            ),
            Self::Taken { probe, what, by } => format!(
                "probe {probe} runs without {what} on {on}: {by} has it, which was there first; use another name"
            ),
        }
    }
}
