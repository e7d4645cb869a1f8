//! PersistentPodState: where the pods of a StatefulSet ran, and how a pod that is made anew comes back there.
//!
//! ```text
//!   pods that are Ready, their nodes ▶ record ▶ status.podStates ▶ inject ▶ pod that is made anew
//!   annotations of a StatefulSet     ▶ annotations ▶ the PersistentPodState that is to be there
//! ```
//!
//! A record is made from what a pod that is Ready has now; OpenKruise misses a change of the keys alone. A
//! place that no node has any more is not asked for: OpenKruise leaves such a pod Pending for ever.
//!
//! The manager records and injects, `berth-workloads` makes the objects that annotations ask for. Nothing
//! here reads a clock or knows of clients.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod annotations;
mod fault;
mod inject;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::{NodeTopologyTerm, Numbers, PersistentPodStateSpec, PodState};

pub use self::{
    fault::Fault,
    inject::{INJECTED_ANNOTATION, inject},
};

/// Labels of an object, or annotations.
pub type Labels = BTreeMap<String, String>;

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
/// The most terms of a spec.
const MOST_TERMS: usize = 64;

/// A PersistentPodState's spec, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    target: TargetName,
    required: Vec<String>,
    preferred: Vec<(i32, Vec<String>)>,
    annotations: Vec<String>,
    when_deleted: bool,
}

/// Name of a StatefulSet, of the namespace of its PersistentPodState.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetName {
    /// It is one of `apps.kruise.io`, and not one of Kubernetes.
    pub advanced: bool,
    /// Its name.
    pub name: String,
}

/// A StatefulSet, reduced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Pods that it wants.
    pub replicas: i32,
    /// Its first number.
    pub start: i32,
    /// Numbers that it leaves out.
    pub reserved: Numbers,
}

/// A pod of the StatefulSet, reduced.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Node that it runs on, where it is Ready and is not being deleted.
    pub ready_on: Option<&'a str>,
    /// Its annotations, those that are recorded at least.
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
    pub fn of(spec: &PersistentPodStateSpec) -> Result<Self, Fault> {
        let target = &spec.target_ref;
        let Some(target) = TargetName::of(&target.api_version, &target.kind, &target.name) else {
            let why = "is no StatefulSet of apps or apps.kruise.io: name one";
            return Err(Fault::new("spec.targetRef", why));
        };
        if spec.preferred_persistent_topology.len() > MOST_TERMS {
            let why =
                format!("has {} terms: give at most {MOST_TERMS}", spec.preferred_persistent_topology.len());
            return Err(Fault::new("spec.preferredPersistentTopology", why));
        }
        if spec.persistent_pod_annotations.len() > MOST_KEYS {
            let why = format!("has {} keys: give at most {MOST_KEYS}", spec.persistent_pod_annotations.len());
            return Err(Fault::new("spec.persistentPodAnnotations", why));
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
        Ok(Self { target, required: required.unwrap_or_default(), preferred, annotations, when_deleted })
    }

    /// Returns the same without what is recorded: that may be half a MiB of keys.
    #[must_use]
    pub fn of_target(self) -> Self {
        Self { required: Vec::new(), preferred: Vec::new(), annotations: Vec::new(), ..self }
    }

    /// Returns the StatefulSet.
    pub fn target(&self) -> &TargetName {
        &self.target
    }

    /// Returns the keys of annotations of pods that are recorded.
    pub fn annotations(&self) -> &[String] {
        &self.annotations
    }

    /// Returns the labels of a record that are required.
    pub fn required(&self, state: &PodState) -> Labels {
        known(&self.required, state)
    }

    /// Returns the keys of labels of nodes that are recorded.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.required.iter().chain(self.preferred.iter().flat_map(|(_, keys)| keys))
    }
}

/// Labels of a record with these keys.
fn known(keys: &[String], state: &PodState) -> Labels {
    let one = |key: &String| Some((key.clone(), state.node_topology_labels.get(key)?.clone()));
    keys.iter().filter_map(one).collect()
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
/// `labels_of` a node are those of the rules' keys at least; `None`: it is not known.
pub fn record(
    rules: &Rules,
    target: Option<&Target>,
    pods: &[PodView<'_>],
    labels_of: impl Fn(&str) -> Option<Labels>,
    before: &BTreeMap<String, PodState>,
) -> Records {
    let Some(target) = target else { return Records::default() };
    let mut states = before.clone();
    // Thousands, where an author wants it, and a node has a few labels.
    let keys: BTreeSet<&str> = rules.keys().map(String::as_str).collect();
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
            node_topology_labels: labels.into_iter().filter(|(key, _)| keys.contains(key.as_str())).collect(),
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

// === impl TargetName ===

impl TargetName {
    /// Reads a reference to a workload; `None`: it is no StatefulSet.
    pub fn of(api_version: &str, kind: &str, name: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let advanced = match group {
            "apps" => false,
            "apps.kruise.io" => true,
            _ => return None,
        };
        (kind == "StatefulSet" && !name.is_empty()).then(|| Self { advanced, name: name.to_owned() })
    }
}

// === impl Target ===

impl Target {
    /// Tells whether it wants the pod of this name; one without a number is not judged.
    fn wants(&self, name: &str) -> bool {
        let number = name.rsplit_once('-').and_then(|(_, number)| number.parse::<i64>().ok());
        let Some(number) = number else { return true };
        let start = i64::from(self.start);
        if number < start || self.reserved.contains(number) {
            return false;
        }
        // As the number would be counted without those that are left out.
        let reserved = self.reserved.count(start, number);
        number.saturating_sub(start).saturating_sub(reserved) < i64::from(self.replicas)
    }
}
