//! Standing of one pod towards one set: whether it counts, and how far it is. By OpenKruise 1.4: the pod says
//! that it has the set, and has all containers of it.

use super::spec::{Rules, Sidecar};
use crate::store::{Pod, PodStage, Sidecars};

/// A pod towards a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is none of the set's.
    Outside,
    /// It is selected, and has none of the sidecars although it was made when pods got them.
    NotInjected,
    /// It is selected and has the sidecars.
    Member(State),
}

/// How far a pod of a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// It has the newest sidecars.
    pub(super) updated: bool,
    /// It is Ready and runs what its spec says; of twins, one rests.
    pub(super) ready: bool,
}

/// Circumstances of a pod that are not in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The set's name.
    pub(super) set: &'a str,
    /// Time since which the set asks for such pods, in seconds.
    pub(super) since: i64,
    /// The set reaches the pod's namespace.
    pub(super) reached: bool,
    /// Pods that are made there get the sidecars.
    pub(super) injected: bool,
}

/// Judges a pod; `stood_in_for` says whether the pod has another set instead.
pub(super) fn judge(
    rules: &Rules,
    place: Place<'_>,
    pod: &Pod,
    stood_in_for: impl Fn(&Sidecars) -> bool,
) -> Standing {
    if !place.reached || pod.stage != PodStage::Active || !rules.selects(&pod.labels) {
        return Standing::Outside;
    }
    let sidecars = pod.sidecars.as_deref();
    match sidecars.filter(|sidecars| sidecars.lists(place.set)) {
        Some(sidecars) if rules.containers.iter().all(|one| is_there(one, sidecars)) => {
            Standing::Member(state(rules, place.set, sidecars))
        }
        Some(_) => Standing::Outside,
        None => {
            let made_with_it = place.injected && !pod.mirror && i64::from(pod.created) > place.since;
            let instead = sidecars.is_some_and(stood_in_for);
            if made_with_it && !rules.paused && !instead { Standing::NotInjected } else { Standing::Outside }
        }
    }
}

fn state(rules: &Rules, set: &str, sidecars: &Sidecars) -> State {
    let updated = sidecars.hash(set).is_some_and(|hash| **hash == *rules.hashes.hash);
    let settled = |one: &Sidecar| is_settled(one, sidecars) && rests(one, sidecars);
    let ready = sidecars.ready && rules.containers.iter().all(settled);
    State { updated, ready }
}

/// Tells whether the pod has the container; of one with hot upgrades both twins, and one of them works.
fn is_there(one: &Sidecar, sidecars: &Sidecars) -> bool {
    match one.empty {
        None => sidecars.image(&one.name).is_some(),
        Some(_) => {
            let twins = berth_sidecarset::names::twins(&one.name);
            twins.iter().all(|twin| sidecars.image(twin).is_some()) && sidecars.working(&one.name).is_some()
        }
    }
}

/// Tells whether the container, or both twins, run what the pod's spec says.
pub(super) fn is_settled(one: &Sidecar, sidecars: &Sidecars) -> bool {
    match one.empty {
        None => sidecars.is_settled(&one.name),
        Some(_) => berth_sidecarset::names::twins(&one.name).iter().all(|twin| sidecars.is_settled(twin)),
    }
}

/// The twin that does not work.
fn resting(one: &Sidecar, sidecars: &Sidecars) -> Option<String> {
    let working = sidecars.working(&one.name)?;
    berth_sidecarset::names::twins(&one.name).into_iter().find(|twin| **twin != **working)
}

/// Tells whether one of the twins has the set's image, is the working one, and the other one rests. One
/// without twins has nothing to swap.
pub(super) fn is_swapped(one: &Sidecar, sidecars: &Sidecars) -> bool {
    one.empty.is_none() || serving(one, sidecars) == Some(&*one.image) && rests(one, sidecars)
}

/// Tells whether the twin that does not work is on the empty image.
fn rests(one: &Sidecar, sidecars: &Sidecars) -> bool {
    let Some(empty) = &one.empty else { return true };
    resting(one, sidecars).and_then(|twin| sidecars.image(&twin)).is_some_and(|image| **image == **empty)
}

/// Image that serves now.
fn serving<'a>(one: &Sidecar, sidecars: &'a Sidecars) -> Option<&'a str> {
    let name: &str = match one.empty {
        None => &one.name,
        Some(_) => sidecars.working(&one.name)?,
    };
    sidecars.image(name).map(|image| &**image)
}
