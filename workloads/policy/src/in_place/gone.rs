//! Updates of pods that their set has no more: somebody else has deleted them, or they were given free. No
//! other plan would take their entries away: each takes room in the object of its node, and keeps the
//! revision that it names on file.

use std::collections::{BTreeMap, BTreeSet};

use super::{InPlaceState, Settled};
use crate::pod::PodView;

/// Finds updates of none of these pods, which are all that the set has, or may adopt.
pub(crate) fn of_gone(in_place: &BTreeMap<String, InPlaceState>, pods: &[&PodView]) -> Settled {
    if in_place.is_empty() {
        return Settled::new();
    }
    let there: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    let gone = in_place.iter().filter(|(uid, _)| !there.contains(uid.as_str()));
    gone.map(|(uid, known)| (known.node.clone(), uid.clone())).collect()
}
