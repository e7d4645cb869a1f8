//! PersistentPodState: where the pods of a StatefulSet ran, and how a pod that is made anew comes back there.
//!
//! ```text
//!   pods that are Ready, their nodes ▶ record ▶ status.podStates ▶ inject ▶ pod that is made anew
//!   annotations of a StatefulSet     ▶ annotations ▶ the PersistentPodState that is to be there
//! ```
//!
//! A record is made from what a pod that is Ready has now; OpenKruise misses a change of the keys alone. A
//! place that no node has any more is not asked for: OpenKruise leaves such a pod Pending for ever.

pub mod annotations;
mod inject;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::{NodeTopologyTerm, PersistentPodState, PodState};

pub use self::inject::{INJECTED_ANNOTATION, inject};
use crate::{fault::Fault, selector::Labels};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "PersistentPodState";
/// The most bytes of all records of a status: an object has 1.5 MiB at most.
const MOST_BYTES: usize = 768 << 10;
/// The longest annotation that is recorded.
const LONGEST_ANNOTATION: usize = 4096;
/// The most keys of one term.
const MOST_KEYS: usize = 64;

/// A PersistentPodState's spec, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    required: Vec<String>,
    preferred: Vec<(i32, Vec<String>)>,
    annotations: Vec<String>,
    when_deleted: bool,
}

/// A StatefulSet, reduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Pods that it wants.
    pub replicas: i32,
    /// Numbers that it leaves out.
    pub reserved: BTreeSet<i32>,
}

/// A pod of the StatefulSet, reduced.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Node that it runs on, where it is Ready and is not being deleted.
    pub ready_on: Option<&'a str>,
    /// Its annotations.
    pub annotations: &'a Labels,
}

/// Records that are to be on file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// By the names of pods.
    pub states: BTreeMap<String, PodState>,
    /// Pods for which there was no room.
    pub left_out: usize,
}

impl Rules {
    /// Reads and checks the spec.
    pub fn of(object: &PersistentPodState) -> Result<Self, Fault> {
        let spec = &object.spec;
        let target = &spec.target_ref;
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
        if target.kind != "StatefulSet" || !matches!(group, "apps" | "apps.kruise.io") {
            let why = "is no StatefulSet of apps or apps.kruise.io: name one";
            return Err(Fault::new("spec.targetRef", why));
        }
        let when_deleted = match spec.persistent_pod_state_retention_policy.as_deref().unwrap_or_default() {
            "" | "WhenScaled" => false,
            "WhenDeleted" => true,
            other => {
                let why = format!("is {other:?}: give WhenScaled or WhenDeleted");
                return Err(Fault::new("spec.persistentPodStateRetentionPolicy", why));
            }
        };
        let required = spec.required_persistent_topology.as_ref();
        let required = required.map(|term| keys("spec.requiredPersistentTopology", term)).transpose()?;
        let mut preferred = Vec::new();
        for (at, term) in spec.preferred_persistent_topology.iter().enumerate() {
            let field = format!("spec.preferredPersistentTopology[{at}]");
            if !(1..=100).contains(&term.weight) {
                let why = format!("is {}: give 1 to 100", term.weight);
                return Err(Fault::new(format!("{field}.weight"), why));
            }
            preferred.push((term.weight, keys(&format!("{field}.preference"), &term.preference)?));
        }
        if required.is_none() && preferred.is_empty() {
            let why =
                "has neither requiredPersistentTopology nor preferredPersistentTopology: give one of them";
            return Err(Fault::new("spec", why));
        }
        let annotations = spec.persistent_pod_annotations.iter().map(|one| one.key.clone()).collect();
        Ok(Self { required: required.unwrap_or_default(), preferred, annotations, when_deleted })
    }

    fn keys(&self) -> impl Iterator<Item = &String> {
        self.required.iter().chain(self.preferred.iter().flat_map(|(_, keys)| keys))
    }
}

fn keys(field: &str, term: &NodeTopologyTerm) -> Result<Vec<String>, Fault> {
    let (field, given) = (format!("{field}.nodeTopologyKeys"), &term.node_topology_keys);
    if given.len() > MOST_KEYS {
        return Err(Fault::new(field, format!("has {} keys: give at most {MOST_KEYS}", given.len())));
    }
    if let Some(at) = given.iter().position(String::is_empty) {
        return Err(Fault::new(format!("{field}[{at}]"), "is empty: give the key of a label of nodes"));
    }
    Ok(given.clone())
}

/// Decides on the records. Without a target, there are none: it is gone, or its deletion has begun.
pub fn record<'a>(
    rules: &Rules,
    target: Option<&Target>,
    pods: &[PodView<'_>],
    labels_of: impl Fn(&str) -> Option<&'a Labels>,
    before: &BTreeMap<String, PodState>,
) -> Records {
    let Some(target) = target else { return Records::default() };
    let mut states = before.clone();
    if !rules.when_deleted {
        let there: BTreeSet<&str> = pods.iter().map(|pod| pod.name).collect();
        states.retain(|name, _| there.contains(name.as_str()) || target.wants(name));
    }
    let mut bytes = states.iter().map(|(name, state)| size(name, state)).fold(0, usize::saturating_add);
    let mut left_out = 0_usize;
    for pod in pods {
        // A node that is not seen yet, or any more, says nothing: the record stays.
        let Some((node, labels)) = pod.ready_on.and_then(|node| Some((node, labels_of(node)?))) else {
            continue;
        };
        let of = |from: &Labels, key: &String| Some((key.clone(), from.get(key)?.clone()));
        let annotations = rules.annotations.iter().filter_map(|key| of(pod.annotations, key));
        let state = PodState {
            node_name: Some(node.to_owned()),
            node_topology_labels: rules.keys().filter_map(|key| of(labels, key)).collect(),
            annotations: annotations.filter(|(_, value)| value.len() <= LONGEST_ANNOTATION).collect(),
        };
        let known = states.get(pod.name).map_or(0, |known| size(pod.name, known));
        let sum = bytes.saturating_sub(known).saturating_add(size(pod.name, &state));
        if sum > MOST_BYTES {
            left_out = left_out.saturating_add(1);
            continue;
        }
        bytes = sum;
        states.insert(pod.name.to_owned(), state);
    }
    Records { states, left_out }
}

fn size(name: &str, state: &PodState) -> usize {
    let texts = state.node_topology_labels.iter().chain(&state.annotations);
    let texts = texts.map(|(key, value)| key.len().saturating_add(value.len()).saturating_add(8));
    let node = state.node_name.as_ref().map_or(0, String::len);
    // Names of fields and quotes.
    texts.fold(name.len().saturating_add(node).saturating_add(80), usize::saturating_add)
}

impl Target {
    /// Tells whether it wants the pod of this name; one without a number is not judged.
    fn wants(&self, name: &str) -> bool {
        let number = name.rsplit_once('-').and_then(|(_, number)| number.parse::<i32>().ok());
        let Some(number) = number else { return true };
        let below = self.reserved.range(..number).filter(|reserved| **reserved >= 0).count();
        let below = i32::try_from(below).unwrap_or(i32::MAX);
        !self.reserved.contains(&number) && number.saturating_sub(below) < self.replicas
    }
}
