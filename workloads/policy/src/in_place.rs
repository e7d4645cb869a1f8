//! Difference of two templates, as far as a running pod can follow it: images, labels and annotations.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{action::Action, revision::Revision};

/// Change that a running pod can follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New images, by container.
    pub images: BTreeMap<String, String>,
    /// Labels that are new or have another value.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are new or have another value.
    pub annotations: BTreeMap<String, String>,
}

/// Standing of an update in place, as the node tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPlaceState {
    /// Node that carries it out.
    pub node: String,
    /// Name of the revision that the pod gets.
    pub revision: String,
    /// Number of the try.
    pub attempt: i32,
    /// How far it is.
    pub phase: InPlacePhase,
}

/// How far an update in place is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlacePhase {
    /// Asked for, or going on.
    Pending,
    /// The pod has the revision.
    Done,
    /// It cannot be done; why.
    Failed(String),
}

/// Updates whose entries have done their work, and that may be forgotten: node and pod of each.
pub(crate) type Settled = Vec<(String, String)>;

/// Forgets updates that are over. An entry that stands a while longer does no harm, and to take it away is a
/// write to the object of its node: so it goes along with a new entry for that node, and the others when no
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
    let at = actions.iter().position(|action| matches!(action, Action::UpdateInPlace(_)));
    let at = at.unwrap_or(actions.len());
    let rest = actions.split_off(at);
    actions.append(&mut now);
    actions.extend(rest);
}

/// Finds the change that brings a pod with one revision to another; `None`: a running pod cannot follow it.
/// `known`: its last update in place. Where that has not ended well, some containers may have its images and
/// others not, whatever revision the pod is labelled with: so all of the new template is asked for, and its
/// node changes what differs. So a rollout to a bad image goes back in place.
pub(crate) fn change_of(
    revisions: &[&Revision],
    from: &Revision,
    known: Option<&InPlaceState>,
    to: &Revision,
) -> Option<Change> {
    let plain = change(&from.template, &to.template)?;
    let Some(begun) = known.filter(|known| known.phase != InPlacePhase::Done) else { return Some(plain) };
    if let Some(begun) = revisions.iter().find(|one| one.name == begun.revision) {
        change(&begun.template, &to.template)?;
    }
    let mut template = to.template.clone();
    let images = images(&mut template).into_iter().filter(|(_, image)| !image.is_empty()).collect();
    let none = Map::new();
    let all = |key| added(&none, &to.template, key);
    Some(Change { images, labels: all("labels")?, annotations: all("annotations")? })
}

/// Finds the change from one template to another; `None`: a running pod cannot follow it.
pub fn change(from: &Map<String, Value>, to: &Map<String, Value>) -> Option<Change> {
    let mut change = Change {
        labels: added(from, to, "labels")?,
        annotations: added(from, to, "annotations")?,
        ..Change::default()
    };
    let (mut old, mut new) = (from.clone(), to.clone());
    for template in [&mut old, &mut new] {
        for key in ["labels", "annotations"] {
            if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove(key);
            }
        }
        if template.get("metadata").is_some_and(is_empty) {
            template.remove("metadata");
        }
    }
    let before = images(&mut old);
    let after = images(&mut new);
    if old != new || before.len() != after.len() {
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

fn is_empty(metadata: &Value) -> bool {
    metadata.as_object().is_none_or(|fields| fields.values().all(Value::is_null))
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

/// Entries that are new or changed; `None`: one is gone, or is no text.
fn added(from: &Map<String, Value>, to: &Map<String, Value>, key: &str) -> Option<BTreeMap<String, String>> {
    let of = |template: &Map<String, Value>| {
        let all = template.get("metadata").and_then(|metadata| metadata.get(key));
        all.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (from, to) = (of(from), of(to));
    if from.keys().any(|key| !to.contains_key(key)) {
        return None;
    }
    let changed = to.into_iter().filter(|(key, value)| from.get(key) != Some(value));
    changed.map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
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

    #[test]
    fn what_is_over_is_forgotten_along_with_a_new_entry_or_at_the_end() {
        let update = |node: &str| {
            Action::UpdateInPlace(crate::action::InPlaceUpdate {
                node: node.to_owned(),
                name: "p".to_owned(),
                uid: "p".to_owned(),
                revision: "new".to_owned(),
                attempt: 0,
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
    fn a_label_that_is_gone_is_not_followed() {
        let (from, to) = (template(spec("b:1"), json!({ "x": "1" })), template(spec("b:1"), json!({})));
        assert_eq!(change(&from, &to), None);
    }
}
