//! Objects that programs of several versions write: where such an object cannot be read as a whole, each
//! entry of its lists is read by itself. One that cannot be read, as a newer program wrote it, is left out
//! and told of, and holds none of the others up.
//!
//! An entry that is left out is there. Who takes the absence of one for a word has to look among those that
//! cannot be read, too, and who writes a list as a whole has to write them again as they are.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, api::ObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Map, Value};

use super::{
    DesiredImage, DesiredPod, ImageSpec, ImageStatus, NodeImage, NodePodProbe, NodePodUpdate, PodProbe,
    PodProbeStatus, PullStatus, UpdatedPod,
};
use crate::{quoting::unquoted, text::cut};

/// Entries of a list whose faulty field is looked for. Each look reads the entry again, for each field.
const MOST_SEARCHED: usize = 8;
/// Longest text about one entry.
const MOST_TOLD: usize = 512;
/// Fields of an entry that are tried for that.
const MOST_FIELDS: usize = 64;
/// Weight of all that is kept in the place of entries of one list. Each of these may be small, and have stood
/// for one that was as large as an object may be.
const MOST_KEPT: usize = 768 << 10;

/// An object, and the entries of its lists that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Partly<K> {
    /// The object, without them.
    pub object: K,
    /// Entries that are left out.
    pub unreadable: Vec<Unreadable>,
}

/// An entry of a list or a map that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// The field that has the entries.
    pub list: &'static str,
    /// The key of the entry in a map; empty in a list.
    pub key: String,
    /// The entry as it stands there.
    pub entry: Value,
    /// The field, where it was found, and what is wrong with it. It has no value of the entry.
    pub why: String,
}

/// A kind with lists whose entries may be read by themselves.
pub trait ByEntry: DeserializeOwned {
    /// Takes the entries that cannot be read out of an object of the kind.
    fn part(object: &mut Value) -> Vec<Unreadable>;
}

impl Unreadable {
    /// Returns a text of the entry, such as its `uid`; empty where there is none.
    pub fn text(&self, field: &str) -> &str {
        self.entry.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Says which entry it is and what is wrong with it, for people: no longer than a few lines.
    pub fn told(&self) -> String {
        let name = if self.key.is_empty() { self.text("uid") } else { self.key.as_str() };
        let owner = self.text("owner");
        let comma = if owner.is_empty() { "" } else { "," };
        let of = format!("{}[{name}{comma}{owner}]: {}", self.list, self.why);
        cut(&of, MOST_TOLD).to_owned()
    }
}

impl ByEntry for NodePodUpdate {
    fn part(object: &mut Value) -> Vec<Unreadable> {
        let mut unreadable = part::<DesiredPod>(object, "status", "desiredPods");
        unreadable.extend(part::<UpdatedPod>(object, "status", "pods"));
        unreadable.extend(part::<Condition>(object, "status", "conditions"));
        unreadable
    }
}

impl ByEntry for NodeImage {
    fn part(object: &mut Value) -> Vec<Unreadable> {
        let mut unreadable = part::<ImageSpec>(object, "spec", "images");
        unreadable.extend(part::<DesiredImage>(object, "status", "desiredImages"));
        unreadable.extend(part::<PullStatus>(object, "status", "pulls"));
        unreadable.extend(part::<ImageStatus>(object, "status", "imageStatuses"));
        unreadable.extend(part::<Condition>(object, "status", "conditions"));
        unreadable
    }
}

impl ByEntry for NodePodProbe {
    fn part(object: &mut Value) -> Vec<Unreadable> {
        let mut unreadable = part::<PodProbe>(object, "spec", "podProbes");
        unreadable.extend(part::<PodProbe>(object, "status", "desiredPodProbes"));
        unreadable.extend(part::<PodProbeStatus>(object, "status", "podProbeStatuses"));
        unreadable.extend(part::<Condition>(object, "status", "conditions"));
        unreadable
    }
}

// === impl Partly ===

impl<K> From<K> for Partly<K> {
    fn from(object: K) -> Self {
        Self { object, unreadable: Vec::new() }
    }
}

impl<'de, K: ByEntry> Deserialize<'de> for Partly<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(from)?;
        // Nearly always. Always from a borrowed value: from one that is owned it is the same code once more.
        if let Ok(object) = K::deserialize(&value) {
            return Ok(Self::from(object));
        }
        let unreadable = K::part(&mut value);
        let object = K::deserialize(&value).map_err(D::Error::custom)?;
        Ok(Self { object, unreadable })
    }
}

impl<K: Resource> Resource for Partly<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

/// Returns what is kept of that which stood in the place of entries before: as much as has room together. The
/// rest is as if it had never been read.
pub fn kept<T>(before: impl Iterator<Item = T>, weight: impl Fn(&T) -> usize) -> impl Iterator<Item = T> {
    let mut left = MOST_KEPT;
    before.filter(move |one| {
        let less = left.checked_sub(weight(one));
        left = less.unwrap_or(left);
        less.is_some()
    })
}

/// Takes out of a list or a map what is no `T`.
fn part<T: DeserializeOwned>(object: &mut Value, within: &str, list: &'static str) -> Vec<Unreadable> {
    let mut unreadable = Vec::new();
    let mut is_read = |key: &str, entry: &mut Value| {
        let error = match T::deserialize(&*entry) {
            Ok(_) => return true,
            Err(error) => error.to_string(),
        };
        let field = if unreadable.len() < MOST_SEARCHED { faulty::<T>(entry, &error) } else { None };
        let why = unquoted(&error);
        let why = field.map_or_else(|| why.clone(), |field| format!("{field}: {why}"));
        unreadable.push(Unreadable { list, key: key.to_owned(), entry: entry.take(), why });
        false
    };
    match object.get_mut(within).and_then(|part| part.get_mut(list)) {
        Some(Value::Array(entries)) => entries.retain_mut(|entry| is_read("", entry)),
        Some(Value::Object(entries)) => entries.retain(|key, entry| is_read(key, entry)),
        _ => {}
    }
    unreadable
}

/// The field for which an entry is no `T`: without it the error is not the same.
fn faulty<T: DeserializeOwned>(entry: &Value, error: &str) -> Option<String> {
    // That names the field, and another one that is missing would come before it.
    if error.starts_with("missing field") {
        return None;
    }
    let fields = entry.as_object()?;
    let is_of = |name: &&String| {
        let others = fields.iter().filter(|(other, _)| other != name);
        let others: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        match T::deserialize(&Value::Object(others)) {
            Ok(_) => true,
            Err(other) => other.to_string() != error,
        }
    };
    fields.keys().take(MOST_FIELDS).find(is_of).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(entry: Value) -> Value {
        let sound = json!({ "uid": "a", "namespace": "n", "name": "a", "revision": "r" });
        let phase = json!({ "uid": "a", "revision": "r", "phase": "Paused" });
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate", "metadata": { "name": "node" }, "spec": {},
            "status": { "desiredPods": [sound, entry], "pods": [phase], "features": ["f/v9"] },
        })
    }

    /// Rows: an entry of a `NodePodUpdate`, and what is said of it.
    #[test]
    fn an_entry_that_cannot_be_read_holds_no_other_one_up() {
        let with = |field: &str, value: Value| {
            let mut entry = json!({ "uid": "b", "namespace": "n", "name": "b", "revision": "r" });
            entry[field] = value;
            entry
        };
        let table = [
            (with("pull", json!("Never")), "pull: unknown variant, expected `Required` or `BestEffort`"),
            (with("attempt", json!("first")), "attempt: invalid type: string, expected i32"),
            (with("uid", json!(7)), "uid: invalid type: integer, expected a string"),
            (with("containers", json!([{ "name": "a" }])), "missing field `image`"),
            (json!({ "uid": "b", "namespace": "n", "name": "b" }), "missing field `revision`"),
            (json!("b"), "invalid type: string, expected struct DesiredPod"),
        ];
        for (entry, why) in table {
            let object = update(entry.clone());
            assert!(serde_json::from_value::<NodePodUpdate>(object.clone()).is_err(), "as a whole");
            let read: Partly<NodePodUpdate> = serde_json::from_value(object).unwrap();
            let status = read.object.status.unwrap();
            assert_eq!((status.desired_pods.len(), status.pods.len()), (1, 0), "{why}");
            assert_eq!(status.features, ["f/v9"]);
            let told: Vec<_> = read.unreadable.iter().map(|one| (one.list, &*one.why)).collect();
            let phases = "`Pending`, `Updating`, `RollingBack`, `Completed`, `Succeeded`, `Failed`";
            let phase = format!("phase: unknown variant, expected one of {phases}");
            assert_eq!(told, [("desiredPods", why), ("pods", phase.as_str())]);
            assert_eq!(read.unreadable[0].entry, entry, "as it stands there");
        }
    }

    #[test]
    fn all_lists_of_the_objects_of_nodes() {
        let wrong = json!([7]);
        let image = json!({
            "metadata": { "name": "n" }, "spec": { "images": { "app": 7, "db": { "tags": [] } } },
            "status": { "desiredImages": wrong, "pulls": wrong, "imageStatuses": { "app": 7 }, "conditions": wrong },
        });
        let read: Partly<NodeImage> = serde_json::from_value(image).unwrap();
        let lists: Vec<_> = read.unreadable.iter().map(|one| (one.list, &*one.key)).collect();
        let (images, statuses) = (("images", "app"), ("imageStatuses", "app"));
        assert_eq!(lists, [images, ("desiredImages", ""), ("pulls", ""), statuses, ("conditions", "")]);
        assert_eq!(read.object.spec.images.len(), 1);
        let probe = json!({
            "metadata": { "name": "n" }, "spec": { "podProbes": wrong },
            "status": { "desiredPodProbes": wrong, "podProbeStatuses": wrong, "conditions": wrong },
        });
        let read: Partly<NodePodProbe> = serde_json::from_value(probe).unwrap();
        let lists: Vec<_> = read.unreadable.iter().map(|one| one.list).collect();
        assert_eq!(lists, ["podProbes", "desiredPodProbes", "podProbeStatuses", "conditions"]);
    }

    #[test]
    fn what_is_kept_has_room_together() {
        let weights = [MOST_KEPT + 1, MOST_KEPT - 9, 10, 9, 1, 0];
        assert_eq!(kept(weights.into_iter(), |weight| *weight).collect::<Vec<_>>(), [MOST_KEPT - 9, 9, 0]);
    }

    /// An error beside the entries is one of the object.
    #[test]
    fn an_object_that_is_wrong_beside_its_entries_is_none() {
        let mut object = update(json!(7));
        object["status"]["renewTime"] = json!({});
        assert!(serde_json::from_value::<Partly<NodePodUpdate>>(object).is_err());
    }
}
