//! Revisions of a template: which one pods are to have, and which one those within the partition keep.
//!
//! A template that was there before gets its old revision back, name and hash: pods that still have it need
//! no update.

mod mark;

use berth_proto::{nested, template_history::TEMPLATE_HISTORY};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::{Map, Value, json};

pub use self::mark::Mark;
pub(crate) use self::mark::{CREATED_LABEL, IGNORED_LABEL};
use crate::{
    action::{Action, Target},
    hash,
    names::{HASH_LABEL, REVISION_LABEL},
    selector::Labels,
    store::{Stored, version},
    template::{PATCH, plain, same},
};

/// The longest part of an owner's name that stands in the name of a revision.
const LONGEST_OWNER: usize = 223;
/// Names of one template that may be taken. Two hashes are the same once in billions.
const MOST_TAKEN: i32 = 16;
/// Bytes that a revision takes in memory beside the values of its template, with the map of these.
const REST: usize = 1280;
/// Bytes of a key of its template without the text.
const KEY: usize = 80;

/// A revision that is on file.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// Its number; the largest is the newest.
    pub number: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Owner that decides on it; empty when there is none.
    pub owner: String,
    /// Mark that says what was decided on its images. It makes no other revision of it.
    pub mark: Option<Mark>,
    /// Template that it has.
    pub template: Map<String, Value>,
}

/// Owner of revisions, in the words of an owner reference.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Which one of that name.
    pub uid: &'a str,
    /// Its annotations.
    pub annotations: &'a Labels,
}

/// Revisions that count.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The newest: pods are to have it.
    pub update: &'a Revision,
    /// Revision that pods within the partition have.
    pub current: &'a Revision,
}

impl<'a> Owner<'a> {
    /// Owner with this metadata.
    pub(crate) fn of(meta: &'a ObjectMeta, api_version: &'a str, kind: &'a str) -> Self {
        static NONE: Labels = Labels::new();
        Self {
            api_version,
            kind,
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            annotations: meta.annotations.as_ref().unwrap_or(&NONE),
        }
    }
}

impl Revision {
    /// Reads a revision; `None`: it has no template.
    pub fn of(revision: &ControllerRevision) -> Option<Self> {
        let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.as_object()?.clone();
        template.remove(PATCH);
        let meta = &revision.metadata;
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone()?,
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            number: revision.revision,
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            owner: controller(meta.owner_references.as_deref().unwrap_or_default()).to_owned(),
            mark: Mark::of(meta.labels.as_ref()),
            template,
        })
    }

    /// Bytes that it takes in memory, about.
    pub fn memory(&self) -> usize {
        let entry = |(key, value): (&String, &Value)| {
            nested::memory(value).saturating_add(key.len()).saturating_add(KEY)
        };
        self.template.iter().map(entry).fold(REST, usize::saturating_add)
    }

    /// The same without its template, for which there is no room. It is older than any other version of it.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { version: String::new(), template: Map::new(), ..self }
    }

    /// Tells whether its template is not known.
    pub fn is_bare(&self) -> bool {
        self.version.is_empty() && self.template.is_empty()
    }

    /// Its hash alone.
    pub fn hash(&self) -> &str {
        short(&self.name)
    }

    /// Tells whether a pod with this label has it. Long and short labels mix.
    pub fn is_of(&self, label: &str) -> bool {
        !label.is_empty() && short(label) == self.hash()
    }

    /// Tells whether it is one of a template, whatever the words of either.
    pub fn has(&self, template: &Map<String, Value>) -> bool {
        same(&self.template, template)
    }

    /// Tells whether its name is one that its template gives it here. Otherwise whoever made it had another
    /// one, or the cluster has changed the template on its way.
    pub fn is_named_after_its_template(&self) -> bool {
        let data = sorted(&data(&self.template)).to_string();
        (0..=MOST_TAKEN).any(|collisions| hash::revision(data.as_bytes(), collisions) == self.hash())
    }

    /// Names it for a write.
    pub(crate) fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Owner<'_> {
    /// Reference to it as the one that decides.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}

impl Stored for Revision {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

/// Finds the revisions that count, or the write that comes first. `current`: name of the current one, as the
/// status has it. One that nobody owns could not be adopted: it counts as it is, where the owner has none.
pub fn settle<'a>(
    owner: Owner<'_>,
    template: &Map<String, Value>,
    revisions: &[&'a Revision],
    current: Option<&str>,
    collisions: i32,
) -> Result<Live<'a>, Box<Action>> {
    let newest = revisions.iter().copied().max_by_key(|one| (one.number, one.created, one.name.as_str()));
    let next = newest.map_or(1, |newest| newest.number.saturating_add(1));
    let newest_of = |is_same: &dyn Fn(&Map<String, Value>) -> bool| {
        let equal = revisions.iter().copied().filter(|one| is_same(&one.template));
        equal.max_by_key(|one| (!one.owner.is_empty(), one.number, one.created, one.name.as_str()))
    };
    // What templates mean is looked at when none is as it stands there: that is the rare and the dear one.
    let equal = newest_of(&|one| one == template).or_else(|| {
        let wanted = plain(template);
        newest_of(&|one| plain(one) == wanted)
    });
    let Some(update) = equal else {
        return Err(Box::new(Action::CreateRevision(new(owner, template, next, collisions))));
    };
    if !update.owner.is_empty() && newest.is_some_and(|newest| newest.number > update.number) {
        return Err(Box::new(Action::RaiseRevision(update.target(), next)));
    }
    let current = revisions.iter().find(|one| Some(one.name.as_str()) == current).copied().unwrap_or(update);
    Ok(Live { update, current })
}

fn new(owner: Owner<'_>, template: &Map<String, Value>, number: i64, collisions: i32) -> Value {
    let data = data(template);
    let hash = hash::revision(sorted(&data).to_string().as_bytes(), collisions);
    let cut = owner.name.char_indices().map(|(at, _)| at).find(|at| *at >= LONGEST_OWNER);
    let name = format!("{}-{hash}", &owner.name[..cut.unwrap_or(owner.name.len())]);
    let labels = template.get("metadata").and_then(|metadata| metadata.get("labels"));
    let mut labels = labels.and_then(Value::as_object).cloned().unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.as_str().into());
    // Clients compare it with the label of pods.
    if owner.kind == "DaemonSet" {
        labels.insert(REVISION_LABEL.to_owned(), hash.into());
    }
    let mut annotations = owner.annotations.clone();
    // It grows, and is about the owner.
    annotations.remove(TEMPLATE_HISTORY);
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "namespace": owner.namespace,
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner.reference()],
        },
        "data": data,
        "revision": number,
    })
}

/// Data of a revision of a template.
fn data(template: &Map<String, Value>) -> Value {
    let mut content = template.clone();
    content.insert(PATCH.to_owned(), "replace".into());
    json!({ "spec": { "template": content } })
}

/// The same with the keys of all objects sorted, whatever order they came in.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            Value::Object(keys.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Revisions beyond the limit that nothing needs, the oldest first; one that nobody owns stays. `is_live`: a
/// pod has it, or it counts.
pub fn surplus(revisions: &[&Revision], limit: usize, is_live: impl Fn(&Revision) -> bool) -> Vec<Action> {
    let is_surplus = |one: &&Revision| !one.owner.is_empty() && !is_live(one);
    let mut rest: Vec<&Revision> = revisions.iter().copied().filter(is_surplus).collect();
    rest.sort_by_key(|one| (one.number, one.created, one.name.as_str()));
    let surplus = rest.len().saturating_sub(limit);
    rest.into_iter().take(surplus).map(|one| Action::DeleteRevision(one.target())).collect()
}

/// UID of the owner that decides; empty when there is none.
pub(crate) fn controller(owners: &[OwnerReference]) -> &str {
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
        .unwrap_or_default()
}

/// Hash at the end of a name or a label.
pub(crate) fn short(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
