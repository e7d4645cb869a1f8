//! Annotations that say of a pod which sidecars it has, in OpenKruise's shapes.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::nested;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    fault::Refusal,
    golang::{merged_text, quoted},
    json::text,
    names,
    selector::Labels,
    set::Revision,
};

/// Sidecars of one set as a pod has them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    time: Value,
    hash: String,
    set: String,
    list: Value,
    revision: String,
}

/// Entries of all sets, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HashEntries(BTreeMap<String, Entry>);

impl Entry {
    pub(super) fn new(set: &str, revision: &Revision, now: Timestamp) -> Self {
        let native = revision.init.iter().filter(|sidecar| sidecar.native);
        let running = native.chain(&revision.containers);
        let list: BTreeSet<&str> = running.map(|sidecar| sidecar.name.as_str()).collect();
        Self {
            time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
            hash: revision.hashes.hash.clone(),
            set: set.to_owned(),
            list: json!(list),
            revision: revision.name.clone().unwrap_or_default(),
        }
    }

    /// The same for the hash without images, which names no revision.
    pub(super) fn without_image(self, revision: &Revision) -> Self {
        Self { hash: revision.hashes.without_image.clone(), revision: String::new(), ..self }
    }

    fn read(set: &str, value: &Value) -> Option<Self> {
        match value {
            // As versions before 1.0 wrote it.
            Value::String(hash) => Some(Self {
                time: Value::Null,
                hash: hash.clone(),
                set: set.to_owned(),
                list: Value::Null,
                revision: String::new(),
            }),
            Value::Object(fields) => Some(Self {
                time: fields.get("updateTimestamp").cloned().unwrap_or_default(),
                hash: text(fields, "hash").to_owned(),
                set: text(fields, "sidecarSetName").to_owned(),
                list: fields.get("sidecarList").cloned().unwrap_or_default(),
                revision: text(fields, "controllerRevision").to_owned(),
            }),
            _ => None,
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str("{\"updateTimestamp\":");
        out.push_str(&merged_text(&self.time));
        out.push_str(",\"hash\":");
        quoted(&self.hash, out);
        out.push_str(",\"sidecarSetName\":");
        quoted(&self.set, out);
        out.push_str(",\"sidecarList\":");
        out.push_str(&merged_text(&self.list));
        if !self.revision.is_empty() {
            out.push_str(",\"controllerRevision\":");
            quoted(&self.revision, out);
        }
        out.push('}');
    }
}

impl HashEntries {
    /// Entries of the annotation with this key; none when it is absent or empty.
    pub(super) fn read(annotations: &Labels, key: &'static str) -> Result<Self, Refusal> {
        let Some(text) = annotations.get(key).filter(|text| !text.is_empty()) else {
            return Ok(Self::default());
        };
        let flaw = || Refusal::Annotation { key };
        let read = nested::read_text(text).ok_or_else(flaw)?;
        let entries = read.as_object().ok_or_else(flaw)?.iter();
        let entries = entries.map(|(set, value)| Some((set.clone(), Entry::read(set, value)?)));
        entries.collect::<Option<_>>().map(Self).ok_or_else(flaw)
    }

    /// Hash that the pod has of this set.
    pub(super) fn hash_of(&self, set: &str) -> Option<&str> {
        self.0.get(set).map(|entry| entry.hash.as_str())
    }

    pub(super) fn insert(&mut self, set: &str, entry: Entry) {
        self.0.insert(set.to_owned(), entry);
    }

    pub(super) fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (at, (set, entry)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            quoted(set, &mut out);
            out.push(':');
            entry.write(&mut out);
        }
        out.push('}');
        out
    }
}

/// List of names with commas, sorted, to which these are added.
pub(super) fn with_names<'a>(before: Option<&'a String>, names: impl Iterator<Item = &'a str>) -> String {
    let before = before.into_iter().flat_map(|list| list.split(',')).map(str::trim);
    let all: BTreeSet<&str> = before.chain(names).filter(|name| !name.is_empty()).collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

/// Writes of each sidecar with hot upgrades the versions of its twins, and which of them works.
pub(super) fn hot(annotations: &mut Labels, sidecars: &[String]) {
    if sidecars.is_empty() {
        return;
    }
    let working = annotations.get(names::WORKING).and_then(|text| nested::read_text(text));
    let working = working.unwrap_or_else(|| json!({}));
    let mut all: BTreeMap<String, Value> = working
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, twin)| twin.is_string())
        .map(|(name, twin)| (name.clone(), twin.clone()))
        .collect();
    for sidecar in sidecars {
        let [first, second] = names::twins(sidecar);
        annotations.insert(names::version_key(&first), "1".to_owned());
        annotations.insert(names::other_version_key(&first), "0".to_owned());
        annotations.insert(names::version_key(&second), "0".to_owned());
        annotations.insert(names::other_version_key(&second), "1".to_owned());
        all.insert(sidecar.clone(), first.into());
    }
    annotations.insert(names::WORKING.to_owned(), merged_text(&json!(all)));
}
