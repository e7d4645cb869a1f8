//! Check that a SidecarSet itself asks for what an entry of that owner wants: its image for its container,
//! and no metadata but what comes with it. Pure.
//!
//! The manager writes the entries, and whoever steals its credential can. The set is its author's; the
//! agent reads it itself. Contents of earlier revisions stand in the status, which the manager writes too:
//! they count only as far as the set's own annotation has their hash.

use std::collections::{BTreeMap, BTreeSet};

use berth_policy::in_place_update::MergePatch;
use berth_proto::crd::{DesiredPod, SidecarSet};
use berth_sidecarset::{REVISIONS, approves, decode, fields_of, names};
use serde_json::{Map, Value};

/// The most revisions that are looked at.
const MOST_REVISIONS: usize = 512;

/// A SidecarSet, reduced to what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetView {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    /// Images by container, of the spec and of approved revisions.
    images: BTreeMap<String, BTreeSet<String>>,
    /// The same with the image of the twin that rests, of containers with hot upgrades.
    twins: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Values of `patchPodMetadata`, of the same.
    annotations: BTreeMap<String, BTreeSet<String>>,
}

/// Reason why an entry is not carried out. `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::update) enum Unasked {
    /// There is no such set.
    #[error("there is no SidecarSet {0}")]
    Absent(String),
    /// Another set has the name.
    #[error("SidecarSet {set} has UID {uid}, not the one of this entry: the set was made anew")]
    Other {
        /// Name of the set.
        set: String,
        /// Its UID.
        uid: String,
    },
    /// The agent may not read it.
    #[error("the agent may not read SidecarSets, which have to ask for it: kubectl apply -k deploy/rbac")]
    Forbidden,
    /// The set does not name the image.
    #[error(
        "SidecarSet {set} does not name image {image} for container {container}, neither in its spec nor in a \
         revision that its annotation {REVISIONS} has: correct the set"
    )]
    Image {
        /// Name of the set.
        set: String,
        /// Name of the container.
        container: String,
        /// The image.
        image: String,
    },
    /// The set does not name the two images of a swap.
    #[error(
        "SidecarSet {set} does not name image {image} with hotUpgradeEmptyImage {empty} for container {container}, neither \
         in its spec nor in a revision that its annotation {REVISIONS} has: correct the set"
    )]
    Swap {
        /// Name of the set.
        set: String,
        /// Name of the container.
        container: String,
        /// The image.
        image: String,
        /// Image of the twin that rests.
        empty: String,
    },
    /// An annotation that the set does not give pods.
    #[error(
        "SidecarSet {set} does not give pods annotation {key} with this value: name it in patchPodMetadata"
    )]
    Annotation {
        /// Name of the set.
        set: String,
        /// Key of the annotation.
        key: String,
    },
    /// A label; no set gives pods one.
    #[error("a SidecarSet gives pods no labels, and this entry has {0}")]
    Label(String),
}

impl SetView {
    /// The view of a set as it is now.
    pub(super) fn of(set: &SidecarSet) -> Self {
        let mut view = Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            uid: set.metadata.uid.clone().unwrap_or_default(),
            version: set.metadata.resource_version.clone().unwrap_or_default(),
            ..Self::default()
        };
        if let Ok(Value::Object(spec)) = serde_json::to_value(&set.spec) {
            view.add(&fields_of(&spec));
        }
        let approved = set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISIONS));
        let history = set.status.as_ref().and_then(|status| status.history.as_deref());
        if let (Some(approved), Some(history)) = (approved, history) {
            // One that cannot be read approves nothing.
            for content in decode(history).unwrap_or_default().iter().take(MOST_REVISIONS) {
                if approves(approved, &content.fields) {
                    view.add(&content.fields);
                }
            }
        }
        view
    }

    fn add(&mut self, fields: &Map<String, Value>) {
        for container in objects(fields, "containers") {
            if let (Some(name), Some(image)) = (text(container, "name"), text(container, "image")) {
                // One with hot upgrades has no container of its own name: it is swapped, or not at all.
                match empty_image(container) {
                    Some(empty) => {
                        let twins = self.twins.entry(name.to_owned()).or_default();
                        twins.insert((image.to_owned(), empty.to_owned()));
                    }
                    None => drop(self.images.entry(name.to_owned()).or_default().insert(image.to_owned())),
                }
            }
        }
        for patch in objects(fields, "patchPodMetadata") {
            for (key, value) in patch.get("annotations").and_then(Value::as_object).into_iter().flatten() {
                if let Some(value) = value.as_str() {
                    self.annotations.entry(key.clone()).or_default().insert(value.to_owned());
                }
            }
        }
    }

    /// Checks that the set asks for all of this entry.
    pub(super) fn asks_for(&self, entry: &DesiredPod) -> Result<(), Unasked> {
        let set = || self.name.clone();
        if self.uid != entry.owner_uid {
            return Err(Unasked::Other { set: set(), uid: self.uid.clone() });
        }
        if let Some(label) = entry.labels.keys().next() {
            return Err(Unasked::Label(label.clone()));
        }
        for container in &entry.containers {
            if !self.images.get(&container.name).is_some_and(|images| images.contains(&container.image)) {
                let (container, image) = (container.name.clone(), container.image.clone());
                return Err(Unasked::Image { set: set(), container, image });
            }
        }
        for swap in &entry.swaps {
            let wanted = (swap.image.clone(), swap.empty_image.clone());
            if !self.twins.get(&swap.name).is_some_and(|twins| twins.contains(&wanted)) {
                let (container, (image, empty)) = (swap.name.clone(), wanted);
                return Err(Unasked::Swap { set: set(), container, image, empty });
            }
        }
        let given = |key: &str, value: &str| self.annotations.get(key).is_some_and(|all| all.contains(value));
        // Each set has its own member there.
        let hash = |key: &str, value: &str| {
            key == names::HASH
                && MergePatch::parse(value)
                    .is_ok_and(|patch| patch.members().all(|member| member == self.name))
        };
        let injected = |key: &str, value: &str| key == names::INJECTED_LIST && value == self.name;
        let set_to = entry.annotations.iter().find(|(key, value)| !given(key, value));
        let merged =
            entry.merge_annotations.iter().find(|(key, value)| !given(key, value) && !hash(key, value));
        let defaults =
            entry.default_annotations.iter().find(|(key, value)| !given(key, value) && !injected(key, value));
        match set_to.or(merged).or(defaults) {
            Some((key, _)) => Err(Unasked::Annotation { set: set(), key: key.clone() }),
            None => Ok(()),
        }
    }
}

/// Image of the twin that rests, of a container with hot upgrades.
fn empty_image(container: &Map<String, Value>) -> Option<&str> {
    let strategy = container.get("upgradeStrategy")?.as_object()?;
    (text(strategy, "upgradeType") == Some("HotUpgrade")).then(|| text(strategy, "hotUpgradeEmptyImage"))?
}

fn objects<'a>(of: &'a Map<String, Value>, member: &str) -> impl Iterator<Item = &'a Map<String, Value>> {
    of.get(member).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn text<'a>(of: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    of.get(member).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use berth_sidecarset::{Content, approve, complete, digest, encode};
    use serde_json::json;

    use super::*;

    fn fields(image: &str) -> Map<String, Value> {
        let fields = json!({
            "containers": [
                { "name": "mesh", "image": image },
                { "name": "log", "image": "log:1" },
                {
                    "name": "hot", "image": image,
                    "upgradeStrategy": { "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1" },
                },
            ],
            "patchPodMetadata": [{ "annotations": { "oom": "5" } }, { "annotations": { "conf": "{\"a\":1}" } }],
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    /// A set with `mesh:3`; its history has `mesh:1` and `mesh:2`, and its author approved `mesh:2`.
    fn set() -> SidecarSet {
        let content = |name: &str, image| Content { name: name.to_owned(), fields: fields(image) };
        let history = encode(&[content("s-1", "mesh:1"), content("s-2", "mesh:2")]).unwrap();
        let mut spec = fields("mesh:3");
        spec.insert("selector".to_owned(), json!({ "matchLabels": { "a": "b" } }));
        serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "SidecarSet",
            "metadata": {
                "name": "s", "uid": "u", "resourceVersion": "7",
                "annotations": { REVISIONS: format!("{},{}", "0".repeat(64), digest(&fields("mesh:2"))) },
            },
            "spec": spec,
            "status": { "history": history },
        }))
        .unwrap()
    }

    fn entry(change: Value) -> DesiredPod {
        let mut entry = json!({
            "uid": "p", "namespace": "shop", "name": "web", "owner": "SidecarSet/s", "ownerUid": "u", "revision": "s-3",
        });
        for (key, value) in change.as_object().unwrap() {
            entry[key] = value.clone();
        }
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn only_what_its_set_names_is_asked_for() {
        let image = |name: &str, image: &str| json!({ "containers": [{ "name": name, "image": image }] });
        let swap = |name: &str, image: &str, empty: &str| json!({ "swaps": [{ "name": name, "image": image, "emptyImage": empty }] });
        let hash = |patch: &str| json!({ "mergeAnnotations": { names::HASH: patch } });
        let table = [
            (image("mesh", "mesh:3"), None),
            (image("mesh", "mesh:2"), None),
            (image("mesh", "mesh:1"), Some("does not name image mesh:1 for container mesh")),
            (image("mesh", "evil:1"), Some("does not name image evil:1")),
            (image("log", "mesh:3"), Some("for container log")),
            (image("main", "mesh:3"), Some("for container main")),
            (swap("hot", "mesh:3", "empty:1"), None),
            (swap("hot", "mesh:2", "empty:1"), None),
            (swap("hot", "mesh:1", "empty:1"), Some("image mesh:1 with hotUpgradeEmptyImage empty:1")),
            (swap("hot", "evil:1", "empty:1"), Some("image evil:1 with")),
            (swap("hot", "mesh:3", "evil:1"), Some("hotUpgradeEmptyImage evil:1 for container hot")),
            (swap("hot", "empty:1", "mesh:3"), Some("hotUpgradeEmptyImage mesh:3")),
            (swap("mesh", "mesh:3", "empty:1"), Some("for container mesh")),
            (image("hot", "mesh:3"), Some("for container hot")),
            (image("hot-1", "mesh:3"), Some("for container hot-1")),
            (json!({ "annotations": { names::WORKING: "{}" } }), Some("working-hotupgrade-container")),
            (
                json!({ "annotations": { "version.sidecarset.kruise.io/hot-1": "7" } }),
                Some("version.sidecarset"),
            ),
            (json!({ "ownerUid": "v" }), Some("has UID u")),
            (json!({ "labels": { "app": "web" } }), Some("no labels, and this entry has app")),
            (json!({ "annotations": { "oom": "5" } }), None),
            (json!({ "annotations": { "oom": "6" } }), Some("annotation oom")),
            (json!({ "annotations": { "kubectl.kubernetes.io/x": "" } }), Some("annotation kubectl")),
            (json!({ "mergeAnnotations": { "conf": "{\"a\":1}" } }), None),
            (json!({ "mergeAnnotations": { "conf": "{\"a\":2}" } }), Some("annotation conf")),
            (hash(r#"{"s":{"hash":"h"}}"#), None),
            (hash(r#"{"t":{"hash":"h"}}"#), Some("annotation kruise.io/sidecarset-hash")),
            (hash(r#"{"s":{},"t":null}"#), Some("annotation kruise.io/sidecarset-hash")),
            (hash("no JSON"), Some("annotation kruise.io/sidecarset-hash")),
            (json!({ "annotations": { names::HASH: "{}" } }), Some("annotation kruise.io/sidecarset-hash")),
            (json!({ "defaultAnnotations": { names::INJECTED_LIST: "s", "oom": "5" } }), None),
            (json!({ "defaultAnnotations": { names::INJECTED_LIST: "s,t" } }), Some("injected-list")),
        ];
        let view = SetView::of(&set());
        for (change, expect) in table {
            let result = view.asks_for(&entry(change.clone())).map_err(|error| error.to_string());
            match expect {
                None => assert_eq!(result, Ok(()), "{change}"),
                Some(part) => {
                    assert!(result.as_ref().is_err_and(|error| error.contains(part)), "{change} {result:?}");
                }
            }
        }
    }

    #[test]
    fn without_its_authors_word_no_history_counts() {
        let mut set = set();
        set.metadata.annotations = None;
        let old = entry(json!({ "containers": [{ "name": "mesh", "image": "mesh:2" }] }));
        assert!(SetView::of(&set).asks_for(&old).is_err());
        let mut broken = self::set();
        broken.status.as_mut().unwrap().history = Some("no history".to_owned());
        assert!(SetView::of(&broken).asks_for(&old).is_err());
    }

    /// The author went from `mesh:1` to `mesh:2`, each time past admission, and the manager filed both; what
    /// it files besides counts for nothing.
    #[test]
    fn an_earlier_revision_counts_once_admission_has_noted_it() {
        let written = |image: &str, old: Option<&Value>| {
            let mut spec = Value::from(fields(image));
            spec["selector"] = json!({ "matchLabels": { "a": "b" } });
            let mut set = json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
                "metadata": { "name": "s", "uid": "u" }, "spec": spec,
            });
            complete(&mut set, old).unwrap();
            approve(&mut set, old);
            set
        };
        let first = written("mesh:1", None);
        let second = written("mesh:2", Some(&first));
        let filed = |set: &Value| {
            let set: SidecarSet = serde_json::from_value(set.clone()).unwrap();
            let Value::Object(spec) = serde_json::to_value(&set.spec).unwrap() else { panic!("no object") };
            Content { name: "r".to_owned(), fields: fields_of(&spec) }
        };
        let mut invented = filed(&first);
        invented.fields["containers"][0]["image"] = "evil:1".into();
        let mut set: SidecarSet = serde_json::from_value(second.clone()).unwrap();
        let history = Some(encode(&[filed(&first), invented, filed(&second)]).unwrap());
        set.status = Some(berth_proto::crd::SidecarSetStatus { history, ..Default::default() });
        let view = SetView::of(&set);
        let asks = |image: &str| {
            view.asks_for(&entry(json!({ "containers": [{ "name": "mesh", "image": image }] }))).is_ok()
        };
        assert!(asks("mesh:1") && asks("mesh:2"));
        assert!(!asks("evil:1") && !asks("mesh:3"));
    }
}
