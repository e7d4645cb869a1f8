//! Conflicts with other sets that may take the same pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    fault::Fault,
    set::{Policy, Set},
    sidecar::Sidecar,
};

/// Faults of the set beside those that may take a pod of its own.
pub(super) fn check(set: &Set, others: &[&Set], faults: &mut Vec<Fault>) {
    for other in others {
        // One stands in for the other: no pod has both.
        let replaces =
            set.canary_of.as_deref() == Some(&other.name) || other.canary_of.as_deref() == Some(&set.name);
        let meet = set.selector.may_overlap(&other.selector) && set.namespaces.may_overlap(&other.namespaces);
        if meet && !replaces {
            containers(set, other, faults);
            volumes(set, other, faults);
            annotations(set, other, faults);
        }
    }
}

/// Names that the sidecars of a set have in a pod, those without a suffix included.
fn names<'a>(sidecars: impl Iterator<Item = &'a Sidecar>) -> BTreeSet<String> {
    sidecars.flat_map(|sidecar| sidecar.names().into_iter().chain([sidecar.name.clone()])).collect()
}

fn containers(set: &Set, other: &Set, faults: &mut Vec<Fault>) {
    let taken = names(other.newest.sidecars());
    for (field, sidecars) in [("containers", &set.newest.containers), ("initContainers", &set.newest.init)] {
        for (at, sidecar) in sidecars.iter().enumerate() {
            if let Some(name) = names([sidecar].into_iter()).intersection(&taken).next() {
                let message = format!(
                    "container {name} already exist in {}, which may take the same pods: rename it, or \
                     narrow a selector",
                    other.name
                );
                faults.push(Fault::new(format!("spec.{field}[{at}].name"), message));
            }
        }
    }
}

fn volumes(set: &Set, other: &Set, faults: &mut Vec<Fault>) {
    for (name, volume) in &set.newest.volumes {
        if other.newest.volumes.get(name).is_some_and(|there| there != volume) {
            let message = format!(
                "volume {name} is in conflict with sidecarset {}: make both equal, or rename one",
                other.name
            );
            faults.push(Fault::new("spec.volumes", message));
        }
    }
}

fn annotations(set: &Set, other: &Set, faults: &mut Vec<Fault>) {
    let policies = |set: &Set| -> BTreeMap<String, Policy> {
        let patches = set.newest.metadata.iter();
        patches.flat_map(|patch| patch.annotations.keys().map(|key| (key.clone(), patch.policy))).collect()
    };
    let taken = policies(other);
    for (key, policy) in policies(set) {
        let Some(theirs) = taken.get(&key) else { continue };
        let overwrites = [policy, *theirs].contains(&Policy::Overwrite);
        if overwrites && ![policy, *theirs].contains(&Policy::Retain) {
            let message = format!(
                "annotation {key} is in conflict with sidecarset {}: only one of them may set it by Overwrite",
                other.name
            );
            faults.push(Fault::new("spec.patchPodMetadata", message));
        }
    }
}
