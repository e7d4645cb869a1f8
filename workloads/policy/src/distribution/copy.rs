//! Copies: reduced for the picture, and built anew from the manifest.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher},
};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Map, Value, json};

use super::{
    API_VERSION, COPY_LABEL, FROM_ANNOTATION, HASH_ANNOTATION, KIND, Kind, Rules,
    body::{self, Hash},
};
use crate::{
    action::Target,
    store::{Stored, version},
};

/// A copy, reduced: of its content there are only hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyView {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// UID of the distribution that it is of.
    pub owner: String,
    /// It is being deleted.
    pub terminating: bool,
    name: String,
    uid: String,
    version: String,
    body: Hash,
    /// Hashes of its labels and annotations.
    marks: BTreeSet<u64>,
}

impl Stored for CopyView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

impl CopyView {
    /// Reduces a Secret; `None`: it is no copy.
    pub fn of_secret(secret: &Secret) -> Option<Self> {
        Self::of(Kind::Secret, &secret.metadata, || body::of_secret(secret))
    }

    /// Reduces a ConfigMap; `None`: it is no copy.
    pub fn of_config_map(map: &ConfigMap) -> Option<Self> {
        Self::of(Kind::ConfigMap, &map.metadata, || body::of_config_map(map))
    }

    fn of(kind: Kind, meta: &ObjectMeta, body: impl FnOnce() -> Hash) -> Option<Self> {
        let owner = owner(meta)?.to_owned();
        let labels = meta.labels.iter().flatten().map(|(key, value)| mark("label", key, value));
        let annotations = meta.annotations.iter().flatten();
        let annotations = annotations.map(|(key, value)| mark("annotation", key, value));
        Some(Self {
            kind,
            namespace: meta.namespace.clone()?,
            owner,
            terminating: meta.deletion_timestamp.is_some(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            version: meta.resource_version.clone().unwrap_or_default(),
            body: body(),
            marks: labels.chain(annotations).collect(),
        })
    }

    /// Tells whether it is the copy that these rules ask for, and not one of an older name.
    pub(super) fn is_of(&self, rules: &Rules) -> bool {
        self.kind == rules.kind && self.name == rules.name
    }

    /// Tells whether it says what the manifest says; labels and annotations beside that may be there.
    pub fn is_current(&self, rules: &Rules) -> bool {
        let marks = rules.labels.iter().map(|(key, value)| mark("label", key, value));
        let mut marks =
            marks.chain(rules.annotations.iter().map(|(key, value)| mark("annotation", key, value)));
        self.body == rules.body && marks.all(|mark| self.marks.contains(&mark))
    }

    pub(super) fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

/// Tells whether an object is a copy of the distribution with this UID.
pub fn is_of(meta: &ObjectMeta, uid: &str) -> bool {
    !uid.is_empty() && owner(meta) == Some(uid)
}

/// UID of the distribution that decides on an object.
fn owner(meta: &ObjectMeta) -> Option<&str> {
    let mut owners = meta.owner_references.iter().flatten();
    let is_distribution = |api_version: &str| api_version.starts_with("apps.kruise.io/");
    owners
        .find(|one| one.controller == Some(true) && one.kind == KIND && is_distribution(&one.api_version))
        .map(|one| one.uid.as_str())
}

fn mark(what: &str, key: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (what, key, value).hash(&mut hasher);
    hasher.finish()
}

impl Rules {
    /// Builds the copy of a namespace.
    pub fn copy(&self, namespace: &str) -> Value {
        let mut copy = Map::new();
        copy.insert("apiVersion".to_owned(), "v1".into());
        copy.insert("kind".to_owned(), self.kind.name().into());
        for field in ["data", "stringData", "binaryData", "immutable", "type"] {
            if let Some(value) = self.manifest.0.get(field) {
                copy.insert(field.to_owned(), value.clone());
            }
        }
        let owner = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.distribution,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        });
        let meta = json!({
            "namespace": namespace,
            "name": self.name,
            "labels": self.labels,
            "annotations": self.annotations,
            "ownerReferences": [owner],
        });
        copy.insert("metadata".to_owned(), meta);
        Value::Object(copy)
    }

    /// Labels and annotations that Berth and OpenKruise put on each copy.
    pub(super) fn add_marks(&mut self, hash: String) {
        self.labels.insert(COPY_LABEL.to_owned(), self.uid.clone());
        self.annotations.insert(HASH_ANNOTATION.to_owned(), hash);
        self.annotations.insert(FROM_ANNOTATION.to_owned(), self.distribution.clone());
    }
}

/// A copy with what the object that is there has beside it: its labels, annotations, finalizers and other
/// owners stay. It takes the place of just this object in just this version.
pub fn merged(mut copy: Value, there: &ObjectMeta) -> Value {
    let meta = &mut copy["metadata"];
    for (field, known) in [("labels", &there.labels), ("annotations", &there.annotations)] {
        let mut all = json!(known.clone().unwrap_or_default());
        if let (Some(all), Some(own)) = (all.as_object_mut(), meta[field].as_object()) {
            all.extend(own.clone());
        }
        meta[field] = all;
    }
    let others = there.owner_references.iter().flatten().filter(|owner| owner.controller != Some(true));
    let others = others.map(|owner| json!(owner));
    if let Some(owners) = meta["ownerReferences"].as_array_mut() {
        owners.extend(others);
    }
    if let Some(finalizers) = there.finalizers.as_ref().filter(|finalizers| !finalizers.is_empty()) {
        meta["finalizers"] = json!(finalizers);
    }
    meta["uid"] = json!(there.uid);
    meta["resourceVersion"] = json!(there.resource_version);
    copy
}
