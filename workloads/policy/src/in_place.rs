//! Difference of two templates, as far as a running pod can follow it: images, labels and annotations.

mod changes;
mod gone;
mod grace;
mod shown;
mod state;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::template_history::Part;
use serde_json::{Map, Value, json};

pub(crate) use self::{
    changes::Changes,
    gone::of_gone,
    grace::{annotations_of, end_grace, open},
    update::{Obstacle, Own, Update},
};
pub use self::{
    grace::Grace,
    shown::Shown,
    state::{InPlacePhase, InPlaceState},
};
use crate::{
    action::Action,
    names::REVISION_LABEL,
    pod::PodView,
    revision::{Revision, short},
    template::same,
};

/// Annotations by which a pod's containers are ordered, which is settled when they are started.
const SETTLED: [&str; 2] = ["apps.kruise.io/container-launch-priority", "berth.dev/container-launch-plan"];

/// Change that a running pod can follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New images, by container.
    pub images: BTreeMap<String, String>,
    /// Labels that are new or have another value.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are new or have another value.
    pub annotations: BTreeMap<String, String>,
    /// Labels that the template has no more.
    pub gone_labels: BTreeSet<String>,
    /// Annotations that the template has no more.
    pub gone_annotations: BTreeSet<String>,
}

impl Change {
    /// Tells whether the pod has all of it with its metadata: no container gets another image, and none has
    /// an env that is taken from what changes.
    pub(crate) fn is_metadata_alone(&self, to: &Map<String, Value>) -> bool {
        self.images.is_empty()
            && !env_paths(to).any(|path| {
                let named = |map: &str, keys: &BTreeMap<String, String>| {
                    let key = path.strip_prefix(map).and_then(|rest| rest.strip_prefix("['"));
                    key.and_then(|rest| rest.strip_suffix("']")).is_some_and(|key| keys.contains_key(key))
                };
                named("metadata.labels", &self.labels) || named("metadata.annotations", &self.annotations)
            })
    }

    /// Parts of it that an agent looks for on the set.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let images = self.images.iter().map(|(container, image)| Part::Image { container, image });
        let labels = self.labels.iter().map(|(key, value)| Part::Label { key, value });
        let annotations = self.annotations.iter().map(|(key, value)| Part::Annotation { key, value });
        images.chain(labels).chain(annotations)
    }

    /// Returns the metadata of a merge patch that gives the pod the labels and annotations; `None`: nothing
    /// of them changes. Their values are written by the workloads and not by the node: an agent may write
    /// only what the Namespace lists.
    fn metadata(&self) -> Option<Map<String, Value>> {
        let map = |changed: &BTreeMap<String, String>, gone: &BTreeSet<String>| -> Map<String, Value> {
            let changed = changed.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
            changed.chain(gone.iter().map(|key| (key.clone(), Value::Null))).collect()
        };
        let labels = map(&self.labels, &self.gone_labels);
        let annotations = map(&self.annotations, &self.gone_annotations);
        let all = [("labels", labels), ("annotations", annotations)].into_iter();
        let all: Map<String, Value> =
            all.filter(|(_, map)| !map.is_empty()).map(|(name, map)| (name.to_owned(), map.into())).collect();
        (!all.is_empty()).then_some(all)
    }

    /// Returns it without what the pod has already. `given`: it was given the metadata of this revision.
    fn beside(&self, pod: &PodView, given: bool) -> Self {
        let mut left = self.clone();
        left.labels.retain(|key, value| pod.labels.get(key) != Some(value));
        left.gone_labels.retain(|key| pod.labels.contains_key(key));
        if given {
            left.annotations.clear();
            left.gone_annotations.clear();
        }
        left
    }

    /// Returns the same with these labels, as one patch.
    fn metadata_with(&self, labels: &[(&str, &str)]) -> Value {
        let mut metadata = self.metadata().unwrap_or_default();
        let all = metadata.entry("labels").or_insert_with(|| Map::new().into());
        if let Some(all) = all.as_object_mut() {
            all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
        }
        json!({ "metadata": metadata })
    }
}

/// Says that a pod has what an update in place gives it, and does not come up with it. It stays: what it
/// needs may come, and another revision is the way out.
pub(crate) fn not_up<'a>(
    pods: impl Iterator<Item = (&'a PodView, Option<&'a InPlaceState>)>,
) -> Option<String> {
    let has = |pod: &PodView, known: &InPlaceState| {
        known.is_pending() && short(pod.label(REVISION_LABEL)) == short(&known.revision)
    };
    let mut waiting = pods.filter(|(pod, known)| known.is_some_and(|known| has(pod, known)));
    waiting.find_map(|(pod, _)| {
        Some(format!("pod {} is updated in place and does not come up: {}", pod.name, pod.not_up.as_deref()?))
    })
}

/// Updates whose entries have done their work, and that may be forgotten: node and pod of each.
pub(crate) type Settled = Vec<(String, String)>;

/// Forgets updates that are over. An entry that stands a while longer does no harm, and to take it away is a
/// write to the object of its node. So it goes along with a new entry for that node. The others go when no
/// update is asked for or going on any more. `goes_on`: one is going on.
pub(crate) fn forget(settled: Settled, goes_on: bool, actions: &mut Vec<Action>) {
    let asked: BTreeSet<String> = actions
        .iter()
        .filter_map(|action| match action {
            Action::UpdateInPlace(update) => Some(update.node.clone()),
            _ => None,
        })
        .collect();
    let rests = asked.is_empty() && !goes_on;
    let now = settled.into_iter().filter(|(node, _)| rests || asked.contains(node));
    // Beside the new entries: writes to one object that follow each other are one.
    let mut now: Vec<Action> = now.map(|(node, uid)| Action::ForgetInPlace { node, uid }).collect();
    let rest = actions.split_off(first_entry(actions));
    actions.append(&mut now);
    actions.extend(rest);
}

/// Place of the first entry for a node, or behind all actions.
fn first_entry(actions: &[Action]) -> usize {
    let is_entry = |action: &Action| matches!(action, Action::UpdateInPlace(_));
    actions.iter().position(is_entry).unwrap_or(actions.len())
}

/// Finds the change that brings a pod with one revision to another; `None`: a running pod cannot follow it.
/// `known`: its last update in place. Where that has not ended well, some containers may have its images and
/// others not, whatever revision the pod is labelled with; and where it was never asked for, the pod may have
/// its labels: so all images are asked for, and its node changes what differs. So a rollout to a bad image
/// goes back in place. Labels that all of these revisions have alike stay as they are: one of a hook is for
/// others to set. What an OpenKruise has left in its grace period comes along.
fn change_of(
    (revisions, changes): (&[&Revision], &Changes),
    from: &Revision,
    pod: &PodView,
    known: Option<&InPlaceState>,
    to: &Revision,
) -> Option<Change> {
    let plain = changes.of(from, to)?;
    let plain = match &pod.grace {
        Some(grace) if pod.is_in_grace(known) => grace.added_to(plain, &to.template)?,
        _ => plain,
    };
    let begun = known.filter(|known| known.phase != InPlacePhase::Done).map(|known| short(&known.revision));
    let begun: BTreeSet<&str> = begun.into_iter().chain(pod.ahead()).collect();
    if begun.is_empty() {
        return Some(plain);
    }
    let mut whole = plain;
    for begun in begun {
        let begun = match revisions.iter().find(|one| one.hash() == begun) {
            Some(begun) => changes.of(begun, to)?,
            // It may have given the pod anything.
            None => {
                let all = |key| Some(metadata(&Map::new(), &to.template, key)?.0);
                Change { labels: all("labels")?, annotations: all("annotations")?, ..Change::default() }
            }
        };
        whole.labels.extend(begun.labels);
        whole.annotations.extend(begun.annotations);
        whole.gone_labels.extend(begun.gone_labels);
        whole.gone_annotations.extend(begun.gone_annotations);
    }
    whole.images = named_images(&to.template).filter(|(_, image)| !image.is_empty()).collect();
    Some(whole)
}

/// Finds the change from one template to another; `None`: a running pod cannot follow it.
pub fn change(from: &Map<String, Value>, to: &Map<String, Value>) -> Option<Change> {
    let (labels, gone_labels) = metadata(from, to, "labels")?;
    let (annotations, gone_annotations) = metadata(from, to, "annotations")?;
    if SETTLED.iter().any(|key| annotations.contains_key(*key) || gone_annotations.contains(*key)) {
        return None;
    }
    let mut change = Change { labels, annotations, gone_labels, gone_annotations, ..Change::default() };
    let (mut old, mut new) = (from.clone(), to.clone());
    for template in [&mut old, &mut new] {
        for key in ["labels", "annotations"] {
            if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove(key);
            }
        }
    }
    let before = images(&mut old);
    let after = images(&mut new);
    if !same(&old, &new) || before.len() != after.len() {
        return None;
    }
    for ((name, from), (same, to)) in before.into_iter().zip(after) {
        if name != same || to.is_empty() {
            return None;
        }
        if from != to {
            change.images.insert(name, to);
        }
    }
    Some(change)
}

/// Takes the images of the containers out of a template.
fn images(template: &mut Map<String, Value>) -> Vec<(String, String)> {
    let containers = template.get_mut("spec").and_then(|spec| spec.get_mut("containers"));
    let containers = containers.and_then(Value::as_array_mut).into_iter().flatten();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    containers
        .filter_map(Value::as_object_mut)
        .map(|one| {
            let image = one.remove("image");
            (text(one.get("name")), text(image.as_ref()))
        })
        .collect()
}

/// Names of the containers of a template, each with its image.
fn named_images(template: &Map<String, Value>) -> impl Iterator<Item = (String, String)> {
    let containers = template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    let text = |one: &Value, key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let containers = containers.into_iter().flatten().filter(|one| one.is_object());
    containers.map(move |one| (text(one, "name"), text(one, "image")))
}

/// Paths of the fields that env of the containers is taken from.
fn env_paths(template: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let containers = template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    let env = containers.into_iter().flatten().filter_map(|one| one.get("env").and_then(Value::as_array));
    env.flatten().filter_map(|one| one.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str))
}

/// Entries that are new or changed, and keys of those that are gone; `None`: one is no text.
fn metadata(
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    key: &str,
) -> Option<(BTreeMap<String, String>, BTreeSet<String>)> {
    let of = |template: &Map<String, Value>| {
        let all = template.get("metadata").and_then(|metadata| metadata.get(key));
        all.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (from, to) = (of(from), of(to));
    let gone = from.keys().filter(|key| !to.contains_key(*key)).cloned().collect();
    let changed = to.into_iter().filter(|(key, value)| from.get(key) != Some(value));
    let changed: Option<_> = changed.map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect();
    Some((changed?, gone))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn template(spec: Value, labels: Value) -> Map<String, Value> {
        json!({ "metadata": { "labels": labels }, "spec": spec }).as_object().cloned().unwrap()
    }

    fn spec(image: &str) -> Value {
        json!({ "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": image, "env": [1] }] })
    }

    #[test]
    fn images_labels_and_annotations_are_followed() {
        let (from, to) = (
            template(spec("b:1"), json!({ "x": "1" })),
            template(spec("b:2"), json!({ "x": "2", "y": "1" })),
        );
        let change = change(&from, &to).unwrap();
        assert_eq!(change.images, BTreeMap::from([("b".to_owned(), "b:2".to_owned())]));
        assert_eq!(change.labels.len(), 2);
    }

    #[rstest]
    #[case::a_field(json!({ "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] }))]
    #[case::a_container(json!({ "containers": [{ "name": "a", "image": "a:1" }] }))]
    #[case::another_order(json!({ "containers": [{ "name": "b", "image": "b:1", "env": [1] }, { "name": "a", "image": "a:1" }] }))]
    #[case::a_new_field(json!({ "containers": spec("b:1")["containers"], "later": 1 }))]
    #[case::no_image(json!({ "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "env": [1] }] }))]
    fn nothing_else_is(#[case] to: Value) {
        assert_eq!(change(&template(spec("b:1"), json!({})), &template(to, json!({}))), None);
    }

    /// A client with types changes the image alone, and writes the rest as it understands it.
    #[test]
    fn another_spelling_is_no_change() {
        let resources = |cpu: &str| json!({ "limits": { "cpu": cpu } });
        let with = |image: &str, resources: Value| {
            let container = json!({ "name": "a", "image": image, "resources": resources });
            template(json!({ "containers": [container] }), json!({}))
        };
        let change = change(&with("a:1", resources("1000m")), &with("a:2", resources("1"))).unwrap();
        assert_eq!(change.images, BTreeMap::from([("a".to_owned(), "a:2".to_owned())]));
    }

    #[test]
    fn what_is_over_is_forgotten_along_with_a_new_entry_or_at_the_end() {
        let update = |node: &str| {
            Action::UpdateInPlace(crate::action::InPlaceUpdate {
                node: node.to_owned(),
                name: "p".to_owned(),
                uid: "p".to_owned(),
                revision: "new".to_owned(),
                attempt: 0,
                generation: None,
                images: BTreeMap::new(),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                grace_seconds: None,
            })
        };
        let settled = || ["a", "b"].map(|node| (node.to_owned(), format!("on-{node}"))).to_vec();
        for (asked, goes_on, forgotten) in [
            (vec![], false, vec!["on-a", "on-b"]),
            (vec![], true, vec![]),
            (vec!["b", "c"], true, vec!["on-b"]),
            (vec!["c"], false, vec![]),
        ] {
            let mut actions = vec![Action::KeepPodsToDelete(Vec::new())];
            actions.extend(asked.iter().map(|node| update(node)));
            forget(settled(), goes_on, &mut actions);
            let at = |action: &Action| matches!(action, Action::ForgetInPlace { .. });
            let now: Vec<&str> = actions
                .iter()
                .filter_map(|action| match action {
                    Action::ForgetInPlace { uid, .. } => Some(uid.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(now, forgotten, "{asked:?} {goes_on}");
            assert_eq!(actions.len(), 1 + asked.len() + forgotten.len());
            assert!(actions[1..=forgotten.len()].iter().all(at), "beside the new entries");
        }
    }

    #[test]
    fn a_label_that_is_gone_goes_from_the_pod() {
        let (from, to) = (template(spec("b:1"), json!({ "x": "1" })), template(spec("b:1"), json!({})));
        let patch = change(&from, &to).unwrap().metadata_with(&[("revision", "b")]);
        assert_eq!(patch, json!({ "metadata": { "labels": { "x": null, "revision": "b" } } }));
    }

    #[test]
    fn the_order_of_a_pod_is_settled() {
        let with = |value: Value| {
            let mut template = template(spec("b:1"), json!({}));
            template["metadata"]["annotations"] = value;
            template
        };
        let ordered = with(json!({ "apps.kruise.io/container-launch-priority": "Ordered" }));
        assert_eq!(change(&with(json!({})), &ordered), None);
        assert_eq!(change(&ordered, &with(json!({}))), None);
    }

    /// Containers that read a label or annotation have to be restarted, which their node does.
    #[rstest]
    #[case::unread(json!({}), json!({ "x": "2" }), true)]
    #[case::read(json!({ "fieldRef": { "fieldPath": "metadata.labels['x']" } }), json!({ "x": "2" }), false)]
    #[case::another(json!({ "fieldRef": { "fieldPath": "metadata.labels['y']" } }), json!({ "x": "2" }), true)]
    #[case::an_annotation(
        json!({ "fieldRef": { "fieldPath": "metadata.annotations['x']" } }), json!({ "x": "2" }), true
    )]
    #[case::gone(json!({ "fieldRef": { "fieldPath": "metadata.labels['x']" } }), json!({}), true)]
    fn metadata_alone(#[case] source: Value, #[case] labels: Value, #[case] alone: bool) {
        let spec = json!({ "containers": [{ "name": "a", "image": "a:1", "env": [{ "name": "X", "valueFrom": source }] }] });
        let (from, to) = (template(spec.clone(), json!({ "x": "1" })), template(spec, labels));
        let change = change(&from, &to).unwrap();
        assert_eq!(change.is_metadata_alone(&to), alone);
    }
}
