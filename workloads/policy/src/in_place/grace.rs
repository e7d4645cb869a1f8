//! Updates that an OpenKruise has left in their grace period: it labels a pod with the new revision and takes
//! it out of service first, and changes the images at the end. What waits for that it notes in an annotation.
//! Or it has left them between two batches, as the record of the update says, which an agent writes too: the
//! entry of the agent's node tells more, but it may be gone with its object.
//!
//! The annotations alone tell. Images that are not the template's tell nothing: webhooks rewrite them.

use std::collections::BTreeSet;

use k8s_openapi::{ByteString, api::core::v1::Pod};
use serde_json::{Map, Value, json};

use super::{Change, InPlacePhase, InPlaceState, SETTLED, named_images};
use crate::{
    action::Action,
    names::{GRACE_ANNOTATION, IN_PLACE_GATE, IN_PLACE_STATE_ANNOTATION, REVISION_LABEL},
    pod::PodView,
    revision::short,
};

/// The longest annotation that is read.
const LONGEST: usize = 64 << 10;
/// Fields of a record that say what waits for a later batch, and those of the other annotation that say it.
const NEXT: [(&str, &str); 3] = [
    ("nextContainerImages", "containerImages"),
    ("nextContainerRefMetadata", "containerRefMetadata"),
    ("nextContainerResources", "containerResources"),
];

/// Part of an update that waits for the end of its grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// Hash of the revision; empty where the annotation does not say it.
    revision: Box<str>,
    /// Parts of the pod that wait; `None`: nobody can tell.
    left: Option<Left>,
    /// The record of the update says it. It stays, and the entry of an agent counts more.
    is_recorded: bool,
}

/// Names of containers, labels and annotations that the update has still to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Left {
    images: BTreeSet<String>,
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
    /// Resources of containers wait, too, and no agent changes these.
    resources: bool,
}

impl Grace {
    /// Reads it off a pod; `None`: the pod has no such annotation.
    pub(crate) fn of(pod: &Pod) -> Option<Box<Self>> {
        let annotations = pod.metadata.annotations.as_ref()?;
        let Some(text) = annotations.get(GRACE_ANNOTATION) else {
            return Self::recorded(annotations.get(IN_PLACE_STATE_ANNOTATION)?, pod);
        };
        let text = if text.len() > LONGEST { "" } else { text };
        let Ok(Value::Object(spec)) = serde_json::from_str(text) else { return Some(Box::default()) };
        let revision = spec.get("revision").and_then(Value::as_str).map(short).unwrap_or_default();
        Some(Box::new(Self { revision: revision.into(), left: Left::of(&spec, pod), is_recorded: false }))
    }

    /// Reads the record of an update; `None`: nothing of it waits.
    fn recorded(text: &str, pod: &Pod) -> Option<Box<Self>> {
        if text.len() > LONGEST {
            return None;
        }
        let Ok(Value::Object(record)) = serde_json::from_str(text) else { return None };
        let revision = short(record.get("revision")?.as_str()?);
        let waits = NEXT.into_iter().filter_map(|(next, key)| {
            let all = record.get(next)?.as_object().filter(|all| !all.is_empty())?;
            Some((key.to_owned(), Value::Object(all.clone())))
        });
        let spec: Map<String, Value> = waits.collect();
        let left = (!revision.is_empty() && !spec.is_empty()).then(|| Left::of(&spec, pod))?;
        Some(Box::new(Self { revision: revision.into(), left, is_recorded: true }))
    }

    fn is_of(&self, label: &str, is_shut: bool) -> bool {
        if self.revision.is_empty() { is_shut } else { *self.revision == *short(label) }
    }

    fn is_over(&self) -> bool {
        self.left.as_ref().is_some_and(|left| *left == Left::default())
    }

    /// Adds what waits to a change to this template; `None`: a running pod cannot follow it.
    pub(super) fn added_to(&self, change: Change, to: &Map<String, Value>) -> Option<Change> {
        let mut change = change;
        let images = named_images(to).filter(|(_, image)| !image.is_empty());
        let Some(left) = &self.left else {
            let all = |key| Some(super::metadata(&Map::new(), to, key)?.0);
            change.images.extend(images);
            change.labels.extend(all("labels")?);
            change.annotations.extend(all("annotations")?);
            return Some(change);
        };
        if left.resources || SETTLED.iter().any(|key| left.annotations.contains(*key)) {
            return None;
        }
        change.images.extend(images.filter(|(name, _)| left.images.contains(name)));
        let given = |map: &str, key: &String| {
            let value =
                to.get("metadata").and_then(|metadata| metadata.get(map)).and_then(|all| all.get(key));
            value.map(|value| Some(value.as_str()?.to_owned()))
        };
        for (map, keys, values, gone) in [
            ("labels", &left.labels, &mut change.labels, &mut change.gone_labels),
            ("annotations", &left.annotations, &mut change.annotations, &mut change.gone_annotations),
        ] {
            for key in keys {
                match given(map, key) {
                    Some(value) => drop(values.insert(key.clone(), value?)),
                    None => drop(gone.insert(key.clone())),
                }
            }
        }
        Some(change)
    }
}

impl Left {
    /// Reads it; `None`: it is not as OpenKruise writes it. What the pod has already is left out.
    fn of(spec: &Map<String, Value>, pod: &Pod) -> Option<Self> {
        let map = |key: &str| match spec.get(key) {
            None | Some(Value::Null) => Some(Map::new()),
            Some(Value::Object(map)) => Some(map.clone()),
            Some(_) => None,
        };
        let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let has = |name: &str, image: &Value| {
            containers.iter().any(|one| one.name == name && one.image.as_deref() == image.as_str())
        };
        let images = map("containerImages")?.into_iter().filter(|(name, image)| !has(name, image));
        let mut left = Self {
            images: images.map(|(name, _)| name).collect(),
            resources: !map("containerResources")?.is_empty(),
            ..Self::default()
        };
        if let Some(patch) = spec.get("metaDataPatch").filter(|patch| !patch.is_null()) {
            // Bytes, as JSON has them: in base64.
            let ByteString(patch) = serde_json::from_value(patch.clone()).ok()?;
            let patch: Value = serde_json::from_slice(&patch).ok()?;
            left.add(patch.get("metadata").unwrap_or(&Value::Null), pod);
        }
        map("containerRefMetadata")?.values().for_each(|metadata| left.add(metadata, pod));
        Some(left)
    }

    /// Adds keys of a patch of metadata. Of a pod's annotations few are known, so all of these wait.
    fn add(&mut self, patch: &Value, pod: &Pod) {
        let there = pod.metadata.labels.as_ref();
        let keys = |map: &str| patch.get(map).and_then(Value::as_object).into_iter().flatten();
        let has = |key: &str, value: &Value| {
            there.and_then(|labels| labels.get(key)).map(String::as_str) == value.as_str()
        };
        let labels = keys("labels").filter(|(key, value)| !has(key, value));
        self.labels.extend(labels.map(|(key, _)| key.clone()));
        self.annotations.extend(keys("annotations").map(|(key, _)| key.clone()));
    }
}

impl PodView {
    /// Tells whether its label says a revision whose images it does not have: an OpenKruise has left it in
    /// the grace period of that update or between two batches, and its node has not carried it out since.
    /// `known`: its last update in place. A pod with another label was given another revision since. An
    /// annotation that says no revision counts while the gate is shut: anybody may have written it.
    pub(crate) fn is_in_grace(&self, known: Option<&InPlaceState>) -> bool {
        let label = self.label(REVISION_LABEL);
        let is_shut = self.gate == Some(false);
        let has_it = |known: &InPlaceState| {
            known.phase == InPlacePhase::Done && short(&known.revision) == short(label)
        };
        let counts = |grace: &Grace| !grace.is_recorded || known.is_none();
        let waits = |grace: &Grace| grace.is_of(label, is_shut) && !grace.is_over() && counts(grace);
        self.grace.as_deref().is_some_and(waits) && !known.is_some_and(has_it)
    }

    /// Returns a merge patch of its metadata that takes the annotation off; `None`: it has none.
    pub(super) fn without_grace(&self) -> Option<Value> {
        let noted = self.grace.as_ref().filter(|grace| !grace.is_recorded);
        noted.map(|_| json!({ "metadata": { "annotations": { GRACE_ANNOTATION: null } } }))
    }
}

/// Annotations of a template, for a new pod: nothing of it waits for a grace period.
pub(crate) fn annotations_of(metadata: &Map<String, Value>) -> Map<String, Value> {
    let mut annotations = metadata.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    annotations.remove(GRACE_ANNOTATION);
    annotations
}

/// Ends what an OpenKruise has left of an update of the pod: the annotation goes when the pod has what it
/// tells of, or something else. It goes before the entry of the node that says so.
pub(crate) fn end_grace(pod: &PodView, known: Option<&InPlaceState>) -> Option<Action> {
    let patch = pod.without_grace()?;
    let done = known.filter(|known| known.phase == InPlacePhase::Done);
    if pod.is_in_grace(known) {
        // An entry of before says nothing of the pod any more.
        let forget =
            |known: &InPlaceState| Action::ForgetInPlace { node: known.node.clone(), uid: pod.uid.clone() };
        return done.map(forget);
    }
    (known.is_none() || done.is_some()).then(|| Action::PatchPod(pod.target(), patch))
}

/// Adds writes of conditions, but opens no gate of a pod that these actions update or delete: what an
/// OpenKruise has taken out of service for an update stays out for the next one.
pub(crate) fn open(gates: Vec<Action>, actions: &mut Vec<Action>) {
    let taken: BTreeSet<String> = actions
        .iter()
        .filter_map(|action| match action {
            Action::UpdateInPlace(update) => Some(update.uid.clone()),
            Action::DeletePod(target) => Some(target.uid.clone()),
            _ => None,
        })
        .collect();
    let is_gate = |patch: &Value| {
        let conditions = patch.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|one| one["type"] == IN_PLACE_GATE)
    };
    let stays_shut = |action: &Action| match action {
        Action::PatchPodStatus(pod, patch) => taken.contains(&pod.uid) && is_gate(patch),
        _ => false,
    };
    actions.extend(gates.into_iter().filter(|action| !stays_shut(action)));
}

#[cfg(test)]
mod tests;
