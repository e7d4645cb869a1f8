//! Entry of a pod in the object of its node: images that differ, and the annotations that ride along.

use std::collections::BTreeMap;

use berth_proto::crd::{DesiredPod, PodPull, PodService, TwinSwap, UpdateContainer};
use berth_sidecarset::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use super::{
    spec::{Policy, Rules, Sidecar},
    standing::is_swapped,
};
use crate::{
    condition::seconds,
    store::{Key, Pod},
};

/// Kind of the owners of these entries.
pub(super) const KIND: &str = "SidecarSet";

/// Owner of the entries of a set.
pub(super) fn owner(set: &str) -> String {
    format!("{KIND}/{set}")
}

/// A set and its newest revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest<'a> {
    pub(super) set: &'a str,
    pub(super) uid: &'a str,
    pub(super) revision: &'a str,
    pub(super) rules: &'a Rules,
}

/// Tells whether the sidecars that differ have twins.
pub(super) fn needs_swap(rules: &Rules, pod: &Pod) -> bool {
    let Some(sidecars) = pod.sidecars.as_deref() else { return false };
    rules.containers.iter().any(|one| !is_swapped(one, sidecars))
}

/// Builds the entry of a pod.
pub(super) fn entry(newest: Newest<'_>, key: &Key, pod: &Pod, attempt: i32, now: Timestamp) -> DesiredPod {
    let rules = newest.rules;
    let sidecars = pod.sidecars.as_deref();
    let differs = |name: &str, image: &str| {
        sidecars.and_then(|sidecars| sidecars.image(name)).is_some_and(|has| **has != *image)
    };
    let cold = rules.containers.iter().filter(|one| one.empty.is_none());
    let changed = cold.filter(|one| differs(&one.name, &one.image));
    let differs = |one: &&Sidecar| sidecars.is_some_and(|sidecars| !is_swapped(one, sidecars));
    let hot = rules.containers.iter().filter(differs);
    let swaps = hot.filter_map(|one| {
        Some(TwinSwap {
            name: one.name.to_string(),
            image: one.image.to_string(),
            empty_image: one.empty.as_deref()?.to_owned(),
            version: 0,
            migration_seconds: one.migration_seconds,
        })
    });
    let Time(now) = seconds(now);
    let (mut annotations, mut merged, mut defaults) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for patch in &rules.metadata {
        let of_policy = match patch.policy {
            Policy::Overwrite => &mut annotations,
            Policy::Merge => &mut merged,
            Policy::Retain => &mut defaults,
        };
        of_policy.extend(patch.annotations.clone());
    }
    merged.insert(names::HASH.to_owned(), hash(newest, now).to_string());
    DesiredPod {
        attempt,
        // The agent has none of the pod's secrets; and a bad image shows in the pod, as OpenKruise's users
        // know it.
        pull: PodPull::BestEffort,
        containers: changed
            .map(|one| UpdateContainer { name: one.name.to_string(), image: one.image.to_string() })
            .collect(),
        swaps: swaps.collect(),
        annotations,
        merge_annotations: merged,
        default_annotations: defaults,
        ..of_pod(newest, key, pod, newest.revision.to_owned(), now)
    }
}

/// Builds the entry by which a pod is told whether it can be upgraded. Its revision is none of the set's: the
/// answer to it is none to an upgrade.
pub(super) fn word(newest: Newest<'_>, key: &Key, pod: &Pod, upgradable: bool, now: Timestamp) -> DesiredPod {
    let revision = format!("{}/upgradable={upgradable}", newest.revision);
    DesiredPod { upgradable: Some(upgradable), ..of_pod(newest, key, pod, revision, now) }
}

/// Builds what all entries of a set have: which pod, whose, and since when.
fn of_pod(newest: Newest<'_>, key: &Key, pod: &Pod, revision: String, now: Timestamp) -> DesiredPod {
    DesiredPod {
        uid: pod.uid.to_string(),
        owner: owner(newest.set),
        owner_uid: newest.uid.to_owned(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        revision,
        service: PodService::Keep,
        since: Some(seconds(now)),
        ..DesiredPod::default()
    }
}

/// Patch of the annotation: this set's member from then on.
fn hash(Newest { set, revision, rules, .. }: Newest<'_>, now: Timestamp) -> Value {
    let entry = json!({
        "updateTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "hash": rules.hashes.hash,
        "sidecarSetName": set,
        "sidecarList": rules.sidecars,
        "controllerRevision": revision,
    });
    Value::Object(Map::from_iter([(set.to_owned(), entry)]))
}
