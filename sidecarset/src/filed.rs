//! ControllerRevisions that say what the status of a set says. OpenKruise keeps its revisions there, and its
//! clients look for them. The manager looks whether they are there, where it is told to, and takes nothing
//! else from them: a forged one delays `status.observedGeneration` of its set by some seconds.

use std::collections::BTreeMap;

use berth_proto::crd::SidecarSetRevision;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::{
    history::{Content, FIELDS, HistoryError, decode},
    json::Object,
    names::{CUSTOM_VERSION, HASH, HASH_WITHOUT_IMAGE},
};

/// Label of a ControllerRevision: the name of its set.
pub const SET_LABEL: &str = "kruise.io/sidecarset-name";
/// The longest value of a label.
const LONGEST_LABEL: usize = 63;
/// Changes of one plan; the rest is decided anew.
const MOST_CHANGES: usize = 64;

/// A set, reduced to its revisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FiledSet {
    /// Name of the set.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its labels, which the ControllerRevisions get.
    pub labels: BTreeMap<String, String>,
    /// `status.revisions`.
    pub revisions: Vec<SidecarSetRevision>,
    /// `status.history`.
    pub history: String,
}

/// A ControllerRevision that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiledRevision {
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of the set that decides on it.
    pub owner: String,
    /// Its number.
    pub number: i64,
    /// Version that the set's author gave it.
    pub custom_version: Option<String>,
}

/// A write that brings ControllerRevisions closer to the status.
#[derive(Clone, Debug, PartialEq)]
pub enum Refile {
    /// Makes one.
    Make(Value),
    /// Changes the number and the label of one, by a JSON merge patch.
    Change(FiledRevision, Value),
    /// Deletes one that the status has not any more.
    Delete(FiledRevision),
}

/// Reasons why revisions are not filed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefileError {
    /// A label takes no name as long as this.
    #[error(
        "the name of the set has more than {LONGEST_LABEL} characters, which label {SET_LABEL} of a ControllerRevision does not take; \
         its revisions are in status.revisions alone"
    )]
    LongName,
    /// The contents cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl FiledRevision {
    /// Reduces a ControllerRevision; one that no SidecarSet decides on is none that counts.
    pub fn of(object: &ControllerRevision) -> Option<Self> {
        let meta = &object.metadata;
        let owner = meta.owner_references.iter().flatten().find(|owner| {
            owner.controller == Some(true)
                && owner.kind == "SidecarSet"
                && owner.api_version.starts_with("apps.kruise.io/")
        })?;
        Some(Self {
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: owner.uid.clone(),
            number: object.revision,
            custom_version: meta.labels.as_ref().and_then(|labels| labels.get(CUSTOM_VERSION)).cloned(),
        })
    }

    /// Tells whether it has what the patch of a [`Refile::Change`] says.
    pub fn has(&self, patch: &Value) -> bool {
        let custom_version = patch["metadata"]["labels"][CUSTOM_VERSION].as_str();
        patch["revision"] == self.number && custom_version == self.custom_version.as_deref()
    }
}

/// Writes for a set, given its ControllerRevisions; those that make some come first.
pub fn refile(set: &FiledSet, there: &[&FiledRevision]) -> Result<Vec<Refile>, RefileError> {
    if set.name.len() > LONGEST_LABEL {
        return Err(RefileError::LongName);
    }
    let known = |name: &str| there.iter().copied().find(|one| one.name == name);
    let mut writes = Vec::new();
    if set.revisions.iter().any(|one| known(&one.name).is_none()) {
        let contents = decode(&set.history)?;
        let missing = set.revisions.iter().filter(|one| known(&one.name).is_none());
        // One without contents is none that anybody could get.
        writes.extend(missing.filter_map(|one| Some(Refile::Make(made(set, one, content(&contents, one)?)))));
    }
    for revision in &set.revisions {
        let Some(one) = known(&revision.name) else { continue };
        if differs(one, revision) {
            let labels = json!({ CUSTOM_VERSION: revision.custom_version });
            let patch = json!({ "metadata": { "labels": labels }, "revision": revision.revision });
            writes.push(Refile::Change(one.clone(), patch));
        }
    }
    let stays = |one: &FiledRevision| set.revisions.iter().any(|revision| revision.name == one.name);
    writes.extend(there.iter().filter(|one| !stays(one)).map(|one| Refile::Delete((*one).clone())));
    writes.truncate(MOST_CHANGES);
    Ok(writes)
}

/// Tells whether the ControllerRevisions of a set of this name are those of its `status.revisions`, with
/// their numbers and versions, and no others. A name that cannot be filed lacks none.
pub fn is_filed(name: &str, revisions: &[SidecarSetRevision], there: &[&FiledRevision]) -> bool {
    let is_there = |revision: &SidecarSetRevision| {
        there.iter().any(|one| one.name == revision.name && !differs(one, revision))
    };
    name.len() > LONGEST_LABEL || there.len() == revisions.len() && revisions.iter().all(is_there)
}

fn differs(one: &FiledRevision, revision: &SidecarSetRevision) -> bool {
    one.number != revision.revision || one.custom_version != revision.custom_version
}

fn content<'a>(contents: &'a [Content], revision: &SidecarSetRevision) -> Option<&'a Object> {
    contents.iter().find(|content| content.name == revision.name).map(|content| &content.fields)
}

fn made(set: &FiledSet, revision: &SidecarSetRevision, fields: &Object) -> Value {
    let mut spec: Object = FIELDS
        .iter()
        .map(|field| ((*field).to_owned(), fields.get(*field).cloned().unwrap_or_default()))
        .collect();
    spec.insert("$patch".to_owned(), "replace".into());
    let mut labels = set.labels.clone();
    labels.remove(CUSTOM_VERSION);
    labels.extend(revision.custom_version.clone().map(|version| (CUSTOM_VERSION.to_owned(), version)));
    labels.insert(SET_LABEL.to_owned(), set.name.clone());
    let hashes = [(HASH, &revision.hash), (HASH_WITHOUT_IMAGE, &revision.hash_without_image)];
    let annotations: BTreeMap<&str, &String> =
        hashes.into_iter().filter_map(|(name, hash)| Some((name, hash.as_ref()?))).collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision.name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1alpha1",
                "kind": "SidecarSet",
                "name": set.name,
                "uid": set.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "data": { "spec": spec },
        "revision": revision.revision,
    })
}
