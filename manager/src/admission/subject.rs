//! Pods that a budget is asked about, and what makes one unavailable. Pure.

use serde_json::{Map, Value};

use super::review::{Request, is_part};
use crate::{
    budgets::Operation,
    store::{Object, PodSeen, PodStage},
    wire::{self, Watched},
};

/// Annotation of a pod that no budget limits.
pub(super) const NO_PROTECT: &str = "pub.kruise.io/no-protect";
/// A label with it takes a pod out of service.
pub(super) const UNAVAILABLE: &str = "unavailable-pod.kruise.io/";
/// Length of a pod's name at most. The status of a budget gets it, and nobody knows who sent it.
const LONGEST_NAME: usize = 253;
/// The readiness gate of updates in place.
pub(super) const GATE: &str = "InPlaceUpdateReady";

/// The pod that is asked about.
pub(super) struct Subject {
    pub(super) pod: PodSeen,
    pub(super) operation: Operation,
    pub(super) dry_run: bool,
}

/// The pod, if what is asked for makes it unavailable.
pub(super) fn changed(request: &Request) -> Option<Subject> {
    let operation = match (request.operation.as_str(), request.sub_resource.as_str()) {
        ("DELETE", "") => Operation::Delete,
        ("UPDATE", "") if changes(&request.old_object, &request.object) => Operation::Update,
        ("UPDATE", "status") if closes(&request.old_object, &request.object) => Operation::Update,
        _ => return None,
    };
    let pod = limited(request.old_object.clone())?;
    Some(Subject { pod, operation, dry_run: request.dry_run })
}

/// The pod, if budgets limit what happens to it: one that has ended, is being deleted or is exempt goes.
pub(super) fn limited(pod: Value) -> Option<PodSeen> {
    if pod["metadata"]["annotations"][NO_PROTECT] == "true" {
        return None;
    }
    let Ok(Object::Pod(seen)) = serde_json::from_value::<Watched<wire::Pods>>(pod).map(Watched::into_object)
    else {
        return None;
    };
    // The pod is read by it as well.
    let is_one = seen.name.len() <= LONGEST_NAME && is_part(&seen.name) && !seen.mirror;
    Some(seen).filter(|seen| is_one && seen.stage == PodStage::Active)
}

/// Tells whether an update makes the pod unavailable: its spec changes, or it is marked.
pub(super) fn changes(old: &Value, new: &Value) -> bool {
    let before = labels(old);
    // Nobody has checked how many there are: each is looked up.
    let is_new = |mark: &String| before.is_none_or(|before| !before.contains_key(mark));
    let mut marks = labels(new).into_iter().flat_map(Map::keys).filter(|key| key.starts_with(UNAVAILABLE));
    old["spec"] != new["spec"] || marks.any(is_new)
}

fn labels(pod: &Value) -> Option<&Map<String, Value>> {
    pod["metadata"]["labels"].as_object()
}

/// Tells whether the readiness gate of updates in place is closed: the update begins with it, and afterwards
/// the pod is not available any more.
pub(super) fn closes(old: &Value, new: &Value) -> bool {
    let is = |pod: &Value, status: &str| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|one| one["type"] == GATE && one["status"] == status)
    };
    is(old, "True") && is(new, "False")
}

#[cfg(test)]
mod tests;
