//! The CloneSets that own entries of this node's `NodePodUpdate`, each read by its name when a new entry
//! names it: an entry is carried out only if the template of its set asks for it.
//!
//! berth-workloads writes the entries, and whoever steals its credential can. The template is its author's;
//! the agent reads it itself. The word on an entry stands as long as the entry does.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use berth_proto::crd::{CloneSet, DesiredPod};
use kube::Api;
use serde_json::{Map, Value};
use tracing::warn;

use super::words::{REFUSALS, Words};
use crate::{
    base::causes::chain,
    cluster::client::{CallError, Connection},
};

/// Kind of the owners.
const KIND: &str = "CloneSet/";
/// Label of a pod that says which revision it has.
const REVISION_LABEL: &str = "controller-revision-hash";
/// How many sets are read in one go.
const READ: usize = 64;

/// The words on entries.
#[derive(Debug, Default)]
pub(super) struct CloneSets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    words: Words<Unasked>,
    refusals: u32,
}

type Word = Result<(), Unasked>;

/// Reason why an entry is not carried out. `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unasked {
    /// There is no such set.
    #[error("there is no CloneSet {0}")]
    Absent(String),
    /// Another set has the name.
    #[error("CloneSet {0} is not the one of this entry: the set was made anew")]
    Other(String),
    /// The agent may not read it.
    #[error("the agent may not read CloneSets, which have to ask for it: kubectl apply -k deploy/rbac")]
    Forbidden,
    /// The set does not name the image.
    #[error("the template of CloneSet {set} does not name image {image} for container {container}")]
    Image {
        /// Namespace and name of the set.
        set: String,
        /// Name of the container.
        container: String,
        /// The image.
        image: String,
    },
    /// A label or an annotation that the set does not give pods.
    #[error("the template of CloneSet {set} does not give pods {key} with this value")]
    Metadata {
        /// Namespace and name of the set.
        set: String,
        /// Key of the label or annotation.
        key: String,
    },
}

impl CloneSets {
    /// The word on an entry; `None` before its set was read.
    pub(super) fn word(&self, entry: &DesiredPod) -> Option<Word> {
        if owner(entry).is_none() {
            return Some(Ok(()));
        }
        self.state().words.on(entry)
    }

    /// Reads the sets of these entries, and says its word on them. Those whose set could not be read, and
    /// those that are too many for one go, stay without.
    pub(super) async fn judge(&self, connection: &Connection, entries: &[DesiredPod]) {
        let named: BTreeSet<(&str, &str)> = entries.iter().filter_map(owner).take(READ).collect();
        for of in named {
            let (namespace, name) = of;
            let ask = async |client| Api::<CloneSet>::namespaced(client, namespace).get_opt(name).await;
            let read = match connection.ask(ask).await {
                Ok(Some(set)) => Ok(set),
                Ok(None) => Err(Unasked::Absent(format!("{namespace}/{name}"))),
                // One that comes up refuses, too, for a moment.
                Err(CallError::Refused { code: 403, .. }) if self.is_refused_again() => {
                    Err(Unasked::Forbidden)
                }
                Err(error) => {
                    warn!(set = name, error = %chain(&error), "CloneSet not read, trying again");
                    continue;
                }
            };
            let mut state = self.state();
            if read != Err(Unasked::Forbidden) {
                state.refusals = 0;
            }
            for entry in entries.iter().filter(|entry| owner(entry) == Some(of)) {
                let word = read.as_ref().map_err(Clone::clone).and_then(|set| asks_for(set, entry));
                state.words.say(entry, word);
            }
        }
    }

    /// Forgets the words on entries that are not there any more.
    pub(super) fn keep(&self, entries: &[DesiredPod]) {
        self.state().words.keep(entries);
    }

    fn is_refused_again(&self) -> bool {
        let mut state = self.state();
        state.refusals = state.refusals.saturating_add(1);
        state.refusals >= REFUSALS
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespace and name of the set that an entry is of: a set's pods are in its own namespace.
fn owner(entry: &DesiredPod) -> Option<(&str, &str)> {
    entry.owner.strip_prefix(KIND).map(|name| (entry.namespace.as_str(), name))
}

/// Checks that the template of the set asks for all of this entry.
fn asks_for(set: &CloneSet, entry: &DesiredPod) -> Word {
    let name = format!("{}/{}", entry.namespace, set.metadata.name.as_deref().unwrap_or_default());
    if set.metadata.uid.as_ref() != Some(&entry.owner_uid) {
        return Err(Unasked::Other(name));
    }
    let template = &set.spec.template.0;
    for container in &entry.containers {
        if image(template, &container.name) != Some(&container.image) {
            let (container, image) = (container.name.clone(), container.image.clone());
            return Err(Unasked::Image { set: name, container, image });
        }
    }
    let given = |field: &str, key: &str, value: &str| {
        let all = template.get("metadata").and_then(|metadata| metadata.get(field));
        all.and_then(|all| all.get(key)).and_then(Value::as_str) == Some(value)
    };
    let label =
        entry.labels.iter().find(|(key, value)| *key != REVISION_LABEL && !given("labels", key, value));
    let annotation = entry.annotations.iter().find(|(key, value)| !given("annotations", key, value));
    let others = entry.merge_annotations.iter().chain(&entry.default_annotations).next();
    match label.or(annotation).or(others) {
        Some((key, _)) => Err(Unasked::Metadata { set: name, key: key.clone() }),
        None => Ok(()),
    }
}

/// Image of a container of a template.
fn image<'a>(template: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let containers = template.get("spec")?.get("containers")?.as_array()?;
    let container = containers.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))?;
    container.get("image")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_its_template_names_is_asked_for() {
        let set: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": { "namespace": "shop", "name": "web", "uid": "u" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web", "version": "2" }, "annotations": { "conf": "b" } },
                    "spec": { "containers": [{ "name": "main", "image": "main:2" }, { "name": "log", "image": "log:1" }] },
                },
            },
        }))
        .unwrap();
        let entry = |change: Value| -> DesiredPod {
            let mut entry = json!({
                "uid": "p", "namespace": "shop", "name": "web-a", "owner": "CloneSet/web", "ownerUid": "u",
                "revision": "web-3",
            });
            for (key, value) in change.as_object().unwrap() {
                entry[key] = value.clone();
            }
            serde_json::from_value(entry).unwrap()
        };
        let image = |name: &str, image: &str| json!({ "containers": [{ "name": name, "image": image }] });
        let table = [
            (image("main", "main:2"), None),
            (image("main", "main:1"), Some("does not name image main:1 for container main")),
            (image("log", "main:2"), Some("for container log")),
            (image("other", "main:2"), Some("for container other")),
            (json!({ "ownerUid": "v" }), Some("was made anew")),
            (json!({ "labels": { REVISION_LABEL: "web-3", "version": "2" } }), None),
            (json!({ "labels": { "version": "3" } }), Some("version with this value")),
            (json!({ "annotations": { "conf": "b" } }), None),
            (json!({ "annotations": { "conf": "c" } }), Some("conf with this value")),
            (json!({ "mergeAnnotations": { "conf": "{}" } }), Some("conf with this value")),
            (json!({ "defaultAnnotations": { "conf": "b" } }), Some("conf with this value")),
        ];
        for (change, why) in table {
            let word = asks_for(&set, &entry(change.clone())).map_err(|why| why.to_string());
            match why {
                None => assert_eq!(word, Ok(()), "{change}"),
                Some(why) => {
                    assert!(word.as_ref().is_err_and(|text| text.contains(why)), "{change}: {word:?}");
                }
            }
        }
        let plain = entry(json!({ "owner": "" }));
        assert_eq!(CloneSets::default().word(&plain), Some(Ok(())), "entries of others are theirs");
    }
}
