//! Stages of swaps in a pod as it is observed: which images and versions a request with swaps wants of it
//! now.
//!
//! ```text
//!   mesh-1 serves v1, mesh-2 empty   wanted: mesh-2 = v2, its version, mesh-2 works         Start
//!   mesh-1 serves v1, mesh-2 v2      wanted: what there is, until v2 has taken over         migration, time-boxed
//!   mesh-2 has taken over            wanted: mesh-1 = empty, its version 0                  Finish
//! ```
//!
//! So a swap is an update whose wish follows the pod: everything else (pulls, patches for exactly one
//! version, reports, ways back) is as for any other update, and whoever takes over after a crash sees in the
//! pod how far it is. The way back of a swap is a swap to what served before, so that nobody is without
//! service on it either. A swap that nobody asks for any more comes to rest by the same steps, see
//! [`mod@super::rest`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    in_place_update::{
        Before, MergePatch, Metadata, MetadataKey, Observed, Reset, Stage, Swap, SwapPhase, SwapReport,
        SwapStep, Twin, TwinView, TwinsView, UpdateOwner, UpdateRequest, WantedSwap,
        record::{last_batch, last_patched},
        swap_step,
    },
    model::ContainerName,
};

/// Annotation: the twin that works, by name of the sidecar.
pub const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";

/// Key of the annotation with the version of a twin.
pub fn version_key(twin: &ContainerName) -> String {
    format!("version.sidecarset.kruise.io/{twin}")
}

/// Key of the annotation with the version of the other twin.
pub fn other_version_key(twin: &ContainerName) -> String {
    format!("versionalt.sidecarset.kruise.io/{twin}")
}

/// Version of a twin, by the value of its annotation. One that is no number is none.
pub fn twin_version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// Names of the twins of a sidecar.
pub fn twins(name: &str) -> [ContainerName; 2] {
    ["1", "2"].map(|number| ContainerName::from(format!("{name}-{number}").as_str()))
}

/// A stage of one swap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Staged {
    /// Wanted images of both twins.
    pub(super) images: BTreeMap<ContainerName, Arc<str>>,
    /// Their versions.
    pub(super) metadata: Metadata,
    /// Patch of the annotation of working twins.
    pub(super) working: Option<MergePatch>,
    /// Facts for the decision; `None` where the pod lacks a twin.
    pub(super) migration: Option<Migration>,
    pub(super) report: Option<SwapReport>,
}

/// A swap as the decision sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Twin in which the version to serve is started, or serves.
    pub target: ContainerName,
    /// The other one.
    pub other: ContainerName,
    /// The one of them that does not serve now: a version in it is only under way.
    pub resting: ContainerName,
    /// Image that a later stage needs.
    pub empty_image: Arc<str>,
    /// The target has taken over.
    pub taken_over: bool,
    /// Stage that the next patch begins.
    pub stage: Option<Stage>,
    /// It is the way back.
    pub back: bool,
    /// Time that it has for that; `None`: it goes back, or there is nothing to wait for.
    pub limit: Option<Duration>,
    /// Time that a version has which is started now.
    pub given: Duration,
}

impl Migration {
    /// The twin that the next patch makes empty, where the pod's users are told of it: not where what was
    /// under way is not wanted any more.
    pub(super) fn reset(&self) -> Option<Reset> {
        let (target, other) = (self.target.clone(), self.other.clone());
        match self.stage? {
            Stage::Finish => Some(Reset { twin: other, serving: target, gave_up: false }),
            Stage::GoBack if self.back => Some(Reset { twin: target, serving: other, gave_up: true }),
            Stage::GoBack | Stage::Start => None,
        }
    }
}

/// Returns the stages of all swaps of a request, by name of the sidecar; or why one of them makes no sense.
pub(super) fn stages(request: &UpdateRequest, seen: &Observed) -> Result<Vec<Staged>, String> {
    let back = request.reported.previous.as_ref().filter(|_| request.is_going_back());
    let swaps = request.swaps.iter();
    swaps.map(|(name, wanted)| stage(name, wanted, back, &request.owner, seen)).collect()
}

/// The stage of one swap. `back`: the pod as it was before, to which it returns.
fn stage(
    name: &str,
    wanted: &WantedSwap,
    back: Option<&Before>,
    owner: &UpdateOwner,
    seen: &Observed,
) -> Result<Staged, String> {
    let names = twins(name);
    let [Some(first), Some(second)] = names.each_ref().map(|twin| view(twin, seen)) else {
        // A container that is not there is told by its name.
        let Some(image) = &wanted.image else { return Ok(Staged::default()) };
        let images = names.into_iter().zip([image.clone(), wanted.empty_image.clone()]);
        return Ok(Staged { images: images.collect(), ..Staged::default() });
    };
    let value = |key: &MetadataKey| seen.metadata.get(key).map(String::as_str);
    let mut pod = TwinsView { first, second, served: None };
    pod.served = served(name, &pod, &wanted.empty_image, value);
    let image = match (&wanted.image, back) {
        (None, back) => resting(&pod, &wanted.empty_image, back.is_some()),
        (Some(image), None) => Some(image.clone()),
        (Some(_), Some(before)) => served_before(name, before, &wanted.empty_image),
    };
    // Nothing served before: there is nothing to return to.
    let Some(image) = image else { return Ok(Staged::default()) };
    let name_of = |twin: Twin| match twin {
        Twin::First => names[0].clone(),
        Twin::Second => names[1].clone(),
    };
    // A version that this request did not start has the time that its own gave it, as far as that is known.
    let limit = |twin: Twin| {
        let is_asked = wanted.image.as_ref() == Some(&pod.of(twin).image);
        let started = last_batch(&seen.records, &name_of(twin)).and_then(|batch| batch.migration);
        started.filter(|_| !is_asked).unwrap_or(wanted.limit)
    };
    // The time of one that is wanted is over when the decision says so, which has the pod return then.
    let gave_up = pod.served.is_some_and(|served| {
        let new = served.other();
        let is_wanted = pod.of(new).image == image && pod.of(served).image != image;
        !is_wanted && (back.is_some() || is_late(&name_of(new), limit(new), owner, seen))
    });
    let swap = Swap { image, empty_image: wanted.empty_image.clone(), version: wanted.version };
    let step = swap_step(&swap, &pod, gave_up);
    let (target, phase) = match &step {
        SwapStep::Refused(why) => return Err(format!("sidecar {name}: {why}")),
        SwapStep::Done(serving) => (*serving, SwapPhase::Done),
        SwapStep::Wait(target) => (*target, SwapPhase::Migrating),
        SwapStep::Patch(patch) => match patch.stage {
            Stage::Start => (patch.working, SwapPhase::Pending),
            Stage::Finish => (patch.working, SwapPhase::Emptying),
            Stage::GoBack => (patch.working.other(), SwapPhase::Returning),
        },
    };
    let mut staged = Staged {
        images: [Twin::First, Twin::Second].map(|twin| (name_of(twin), pod.of(twin).image.clone())).into(),
        metadata: current_versions(&names, seen),
        working: None,
        migration: Some(Migration {
            target: name_of(target),
            other: name_of(target.other()),
            resting: name_of(match phase {
                SwapPhase::Done | SwapPhase::Emptying => target.other(),
                SwapPhase::Pending | SwapPhase::Migrating | SwapPhase::Returning => target,
            }),
            empty_image: wanted.empty_image.clone(),
            taken_over: phase == SwapPhase::Emptying,
            stage: match &step {
                SwapStep::Patch(patch) => Some(patch.stage),
                SwapStep::Wait(_) | SwapStep::Done(_) | SwapStep::Refused(_) => None,
            },
            back: back.is_some(),
            limit: (phase == SwapPhase::Migrating).then(|| limit(target)),
            given: wanted.limit,
        }),
        report: Some(SwapReport { name: name.to_owned(), working: working(name, value), step: phase }),
    };
    let mut set = |key: String, version: u64| {
        staged.metadata.insert(MetadataKey::Annotation(key), version.to_string());
    };
    match step {
        SwapStep::Patch(patch) => {
            patch.versions.iter().for_each(|(twin, version)| set(version_key(&name_of(*twin)), *version));
            let others = patch.other_versions.iter();
            others.for_each(|(twin, version)| set(other_version_key(&name_of(*twin)), *version));
            staged.images.extend(patch.images.into_iter().map(|(twin, image)| (name_of(twin), image)));
            staged.working = Some(working_patch(name, &name_of(patch.working)));
        }
        SwapStep::Done(serving) => staged.working = Some(working_patch(name, &name_of(serving))),
        SwapStep::Wait(_) | SwapStep::Refused(_) => {}
    }
    Ok(staged)
}

fn view(twin: &ContainerName, seen: &Observed) -> Option<TwinView> {
    let container = seen.containers.iter().find(|container| container.name == *twin)?;
    let runs = container.is_running() && !container.is_image_stale();
    // One that runs the right image may be from before, and be stopped for a version of the pod that the
    // kubelet has still to come to; one that is newer than the kubelet's last word is not.
    let proven =
        container.is_ready() && seen.kubelet_knows || container.is_early_ready() && seen.kubelet_told;
    let version = seen.metadata.get(&MetadataKey::Annotation(version_key(twin)));
    Some(TwinView {
        image: container.image.clone(),
        version: twin_version(version.map(String::as_str)),
        has_taken_over: runs && proven,
        is_taking_over: runs,
    })
}

/// The version in this twin has had its time to take over. So has one of which no record says since when it
/// is there. A record that its owner has written since counts from its beginning.
fn is_late(twin: &ContainerName, limit: Duration, owner: &UpdateOwner, seen: &Observed) -> bool {
    let began = || seen.records.get(owner).map(|record| record.update_timestamp);
    last_patched(&seen.records, twin).or_else(began).is_none_or(|at| seen.since(at) >= limit)
}

fn current_versions(names: &[ContainerName; 2], seen: &Observed) -> Metadata {
    let keys = names.iter().flat_map(|twin| [version_key(twin), other_version_key(twin)]);
    let keys = keys.map(MetadataKey::Annotation);
    keys.filter_map(|key| Some((key.clone(), seen.metadata.get(&key)?.clone()))).collect()
}

/// The twin that the pod says works.
fn working<'a>(name: &str, value: impl Fn(&MetadataKey) -> Option<&'a str>) -> Option<ContainerName> {
    let text = value(&MetadataKey::Annotation(WORKING.to_owned()))?;
    let all: Value = serde_json::from_str(text).ok()?;
    let working = all.get(name)?.as_str()?;
    twins(name).into_iter().find(|twin| twin.as_str() == working)
}

/// The twin that served before a swap that is under way, by the pod alone: the first patch makes the new one
/// the working one, and gives it the larger version.
fn served<'a>(
    name: &str,
    pod: &TwinsView,
    empty: &Arc<str>,
    value: impl Fn(&MetadataKey) -> Option<&'a str>,
) -> Option<Twin> {
    match (pod.first.image == *empty, pod.second.image == *empty) {
        (true, true) => None,
        (true, false) => Some(Twin::Second),
        (false, true) => Some(Twin::First),
        (false, false) => {
            let [first, second] = twins(name);
            match working(name, value) {
                Some(new) if new == first => Some(Twin::Second),
                Some(new) if new == second => Some(Twin::First),
                _ if pod.first.version < pod.second.version => Some(Twin::First),
                _ if pod.second.version < pod.first.version => Some(Twin::Second),
                _ => None,
            }
        }
    }
}

/// Image with which twins come to rest: that of the version under way, or on the way back that of the twin
/// that served before it. Where nobody knows which one that is, any does: the swap is refused.
fn resting(pod: &TwinsView, empty: &Arc<str>, back: bool) -> Option<Arc<str>> {
    let served = pod.served.unwrap_or(Twin::First);
    let (old, new) = (&pod.of(served).image, &pod.of(served.other()).image);
    let image = if back || *new == *empty { old } else { new };
    (*image != *empty).then(|| image.clone())
}

/// Image that served in the pod as it was before.
fn served_before(name: &str, before: &Before, empty: &Arc<str>) -> Option<Arc<str>> {
    let value = |key: &MetadataKey| before.metadata.get(key).and_then(Option::as_deref);
    let twin = |name: &ContainerName| {
        let version = twin_version(value(&MetadataKey::Annotation(version_key(name))));
        Some(TwinView { image: before.images.get(name)?.clone(), version, ..TwinView::default() })
    };
    let [first, second] = twins(name);
    let pod = TwinsView { first: twin(&first)?, second: twin(&second)?, served: None };
    served(name, &pod, empty, value).map(|twin| pod.of(twin).image.clone())
}

fn working_patch(name: &str, twin: &ContainerName) -> MergePatch {
    MergePatch::of(name, twin.as_str())
}
