//! From the policy's reports to `NodeImage.status`: the part of it that is the agent's.
//!
//! Two views of the same: `pulls` answers `desiredImages` one by one, `imageStatuses` shows every wanted
//! image by name and tag as OpenKruise's tools read it. In that one two wishes for one image are one entry:
//! the one that is furthest from its end, so that it never says more than is so.

use berth_policy::{WishPhase, WishReport};
use berth_proto::{
    crd::{ImagePhase, ImageStatus, ImageTagStatus, NodeImageStatus, PullStatus, SyncStatus},
    image::Reference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::base::{
    clock::Clock,
    status::{bounded, said, whole_second},
};

/// The condition that says whether everything that is asked for can be done.
const ACCEPTED: &str = "Accepted";

/// Facts that a status tells.
#[derive(Debug)]
pub(super) struct Told<'a> {
    /// Reports on the wishes of this object, whose keys begin with `prefix`.
    pub(super) reports: &'a [WishReport],
    /// Prefix of their keys.
    pub(super) prefix: &'a str,
    /// Faults: wishes that cannot be done.
    pub(super) faults: &'a [String],
    /// `sealingKey`, where the agent has one.
    pub(super) sealing_key: Option<&'a str>,
}

/// The agent's fields. Times that this process does not know stay as they were.
pub(super) fn status(
    told: &Told<'_>,
    previous: &NodeImageStatus,
    clock: &Clock,
    now: Time,
) -> NodeImageStatus {
    let mut status = NodeImageStatus {
        sealing_key: told.sealing_key.map(str::to_owned),
        first_sync_status: previous.first_sync_status.clone().or_else(|| Some(first_sync(now.clone()))),
        conditions: vec![accepted(told.faults, previous, now)],
        ..NodeImageStatus::default()
    };
    for report in told.reports {
        let Some(key) = report.id.key.strip_prefix(told.prefix) else { continue };
        let spec = key.strip_prefix("spec/");
        if spec.is_none() {
            let before = previous.pulls.iter().find(|before| before.uid == key);
            let before = before.filter(|before| before.version.unwrap_or_default() == report.version);
            status.pulls.push(PullStatus {
                uid: key.to_owned(),
                version: Some(report.version),
                phase: phase(report.phase),
                progress: Some(report.percent().into()),
                start_time: time(report.started, before.and_then(|before| before.start_time.clone()), clock),
                completion_time: time(
                    report.ended,
                    before.and_then(|before| before.completion_time.clone()),
                    clock,
                ),
                image_id: report.image_id.clone(),
                message: said(&report.message),
            });
        }
        // It was parsed before it became a wish.
        let Ok(reference) = report.image.given.parse::<Reference>() else { continue };
        // By the name that stands in `spec.images`: the user's own, or OpenKruise's for the image of a job.
        let name = spec.map_or_else(|| reference.familiar_name(), |_| reference.name().to_owned());
        let tag = tag(report, &name, reference.entry(), previous, clock);
        let tags = &mut status.image_statuses.entry(name).or_insert(ImageStatus { tags: Vec::new() });
        match tags.tags.iter_mut().find(|there| there.tag == tag.tag) {
            Some(there) if distance(there.phase) < distance(tag.phase) => *there = tag,
            Some(_) => {}
            None => tags.tags.push(tag),
        }
    }
    count(&mut status);
    status
}

fn tag(
    report: &WishReport,
    name: &str,
    entry: &str,
    previous: &NodeImageStatus,
    clock: &Clock,
) -> ImageTagStatus {
    let before = previous.image_statuses.get(name);
    let before = before.and_then(|before| before.tags.iter().find(|before| before.tag == entry));
    let before = before.filter(|before| before.version.unwrap_or_default() == report.version);
    ImageTagStatus {
        tag: entry.to_owned(),
        phase: phase(report.phase),
        progress: Some(report.percent().into()),
        start_time: time(report.started, before.and_then(|before| before.start_time.clone()), clock),
        completion_time: time(report.ended, before.and_then(|before| before.completion_time.clone()), clock),
        version: Some(report.version),
        // As OpenKruise writes it.
        image_id: report.image_id.as_ref().map(|id| format!("{name}@{id}")),
        message: said(&report.message),
    }
}

fn time(instant: Option<std::time::Instant>, before: Option<Time>, clock: &Clock) -> Option<Time> {
    instant.map(|instant| Time(whole_second(clock.instant_as_wall(instant)))).or(before)
}

fn count(status: &mut NodeImageStatus) {
    let tags = status.image_statuses.values().flat_map(|image| &image.tags);
    let phases: Vec<ImagePhase> = tags.map(|tag| tag.phase).collect();
    let number = |count: usize| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let count = |phase| number(phases.iter().filter(|other| **other == phase).count());
    status.desired = number(phases.len());
    status.waiting = count(ImagePhase::Waiting);
    status.pulling = count(ImagePhase::Pulling);
    status.succeeded = count(ImagePhase::Succeeded);
    status.failed = count(ImagePhase::Failed);
}

fn first_sync(now: Time) -> SyncStatus {
    SyncStatus { sync_at: Some(now), status: Some("Succeeded".to_owned()), message: None }
}

fn accepted(faults: &[String], previous: &NodeImageStatus, now: Time) -> Condition {
    let (status, reason) = if faults.is_empty() { ("True", "Accepted") } else { ("False", "InvalidSpec") };
    let before =
        previous.conditions.iter().find(|before| before.type_ == ACCEPTED && before.status == status);
    Condition {
        type_: ACCEPTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&faults.join("; ")),
        last_transition_time: before.map_or(now, |before| before.last_transition_time.clone()),
        observed_generation: None,
    }
}

pub(super) fn phase(phase: WishPhase) -> ImagePhase {
    match phase {
        WishPhase::Waiting => ImagePhase::Waiting,
        WishPhase::Pulling => ImagePhase::Pulling,
        WishPhase::Succeeded => ImagePhase::Succeeded,
        WishPhase::Failed => ImagePhase::Failed,
    }
}

/// Distance of a phase from the end: what succeeded has none left.
fn distance(phase: ImagePhase) -> u8 {
    match phase {
        ImagePhase::Succeeded => 0,
        ImagePhase::Failed => 1,
        ImagePhase::Pulling => 2,
        ImagePhase::Waiting => 3,
    }
}

/// The same, but for how far running pulls are: what changes all the time and is not urgent.
pub(super) fn without_progress(status: &NodeImageStatus) -> NodeImageStatus {
    let mut status = status.clone();
    status.pulls.iter_mut().for_each(|pull| pull.progress = None);
    for tag in status.image_statuses.values_mut().flat_map(|image| &mut image.tags) {
        tag.progress = None;
    }
    status
}
