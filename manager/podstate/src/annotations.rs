//! The PersistentPodState that the annotations of a StatefulSet ask for.
//!
//! It has the name of the StatefulSet, which owns it. One of that name that somebody else has made is left
//! alone: OpenKruise deletes it.

use berth_proto::crd::PersistentPodState;
use serde_json::{Value, json};

use crate::{API_VERSION, Fault, KIND, Labels, MOST_KEYS, TargetName};

/// Annotation of a StatefulSet: with the value `true` it has a PersistentPodState.
pub const AUTOMATIC: &str = "kruise.io/auto-generate-persistent-pod-state";
/// Annotation: keys of labels of nodes that are required, with commas between them.
const REQUIRED: &str = "kruise.io/required-persistent-topology";
/// Annotation: keys of labels of nodes that are preferred.
const PREFERRED: &str = "kruise.io/preferred-persistent-topology";
/// Annotation: keys of annotations of pods that are recorded.
const RECORDED: &str = "kruise.io/persistent-pod-annotations";
/// All of them.
pub const ALL: [&str; 4] = [AUTOMATIC, REQUIRED, PREFERRED, RECORDED];
/// Fields that annotations may leave out.
const OPTIONAL: [&str; 3] =
    ["requiredPersistentTopology", "preferredPersistentTopology", "persistentPodAnnotations"];
/// The longest key: a DNS name, a slash, and 63 letters.
const LONGEST_KEY: usize = 317;

/// A StatefulSet of either group, reduced.
#[derive(Clone, Copy, Debug)]
pub struct SetView<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// It is being deleted.
    pub terminating: bool,
    /// Its annotations.
    pub annotations: &'a Labels,
}

/// An object that is written, as it was seen: one that has changed since refuses the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// The version that the write was decided on.
    pub version: String,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes the PersistentPodState.
    Create(Value),
    /// Gives it this spec, by a JSON merge patch.
    Update(Target, Value),
    /// Deletes it.
    Delete(Target),
}

/// Tells whether a StatefulSet owns the object.
pub fn is_owned(object: &PersistentPodState, uid: &str) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Decides on the next write, by the object that has the name of the StatefulSet.
pub fn plan(set: &SetView<'_>, there: Option<&PersistentPodState>) -> Result<Option<Action>, Fault> {
    // With the set, the garbage collector takes it.
    if set.terminating {
        return Ok(None);
    }
    let own = there.filter(|there| is_owned(there, set.uid));
    if set.annotations.get(AUTOMATIC).map(String::as_str) != Some("true") {
        let going = own.filter(|own| own.metadata.deletion_timestamp.is_none());
        return Ok(going.map(|own| Action::Delete(target(own))));
    }
    let mut spec = spec(set)?;
    // It cannot be changed, and the version of its group is no difference.
    if let Some(target) = own.map(|own| &own.spec.target_ref)
        && TargetName::of(&target.api_version, &target.kind, &target.name)
            == TargetName::of(set.api_version, "StatefulSet", set.name)
    {
        spec["targetRef"]["apiVersion"] = json!(target.api_version);
    }
    match (own, there) {
        (Some(own), _) => {
            let wanted: Option<berth_proto::crd::PersistentPodStateSpec> =
                serde_json::from_value(spec.clone()).ok();
            // What the definition fills in is no difference.
            let mut known = own.spec.clone();
            known.persistent_pod_state_retention_policy = None;
            if wanted.as_ref() == Some(&known) || own.metadata.deletion_timestamp.is_some() {
                return Ok(None);
            }
            // By a merge patch: what is not asked for any more goes.
            for field in OPTIONAL {
                if let Some(fields) = spec.as_object_mut() {
                    fields.entry(field).or_insert(Value::Null);
                }
            }
            // Nothing asks for one, so that of a hand stays.
            if let Some(policy) = &own.spec.persistent_pod_state_retention_policy {
                spec["persistentPodStateRetentionPolicy"] = json!(policy);
            }
            Ok(Some(Action::Update(target(own), spec)))
        }
        (None, Some(_)) => {
            let why = format!("asks for {KIND} {}, which is there already: delete one of the two", set.name);
            Err(Fault::new(format!("metadata.annotations[{AUTOMATIC}]"), why))
        }
        (None, None) => Ok(Some(Action::Create(json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "namespace": set.namespace,
                "name": set.name,
                "ownerReferences": [{
                    "apiVersion": set.api_version,
                    "kind": "StatefulSet",
                    "name": set.name,
                    "uid": set.uid,
                    "controller": true,
                }],
            },
            "spec": spec,
        })))),
    }
}

fn target(object: &PersistentPodState) -> Target {
    let meta = &object.metadata;
    Target {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
    }
}

fn spec(set: &SetView<'_>) -> Result<Value, Fault> {
    let (required, preferred) = (keys(set, REQUIRED)?, keys(set, PREFERRED)?);
    if required.is_empty() && preferred.is_empty() {
        let why = format!("is missing, and so is {PREFERRED}: name labels of nodes in one of them");
        return Err(Fault::new(format!("metadata.annotations[{REQUIRED}]"), why));
    }
    let mut spec = json!({
        "targetRef": { "apiVersion": set.api_version, "kind": "StatefulSet", "name": set.name },
    });
    if !required.is_empty() {
        spec["requiredPersistentTopology"] = json!({ "nodeTopologyKeys": required });
    }
    if !preferred.is_empty() {
        spec["preferredPersistentTopology"] =
            json!([{ "weight": 100, "preference": { "nodeTopologyKeys": preferred } }]);
    }
    let recorded = keys(set, RECORDED)?;
    if !recorded.is_empty() {
        let recorded: Vec<Value> = recorded.iter().map(|key| json!({ "key": key })).collect();
        spec["persistentPodAnnotations"] = json!(recorded);
    }
    Ok(spec)
}

/// Keys of an annotation.
fn keys<'a>(set: &SetView<'a>, annotation: &str) -> Result<Vec<&'a str>, Fault> {
    let mut all = Vec::new();
    let given = set.annotations.get(annotation).map(String::as_str).unwrap_or_default();
    for key in given.split(',').map(str::trim).filter(|key| !key.is_empty()) {
        let of_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        if key.len() > LONGEST_KEY || !key.bytes().all(of_key) {
            let key: String = key.chars().take(64).collect();
            let why = format!("has {key:?}, which is no key: give keys with commas between them");
            return Err(Fault::new(format!("metadata.annotations[{annotation}]"), why));
        }
        if !all.contains(&key) {
            all.push(key);
        }
        if all.len() > MOST_KEYS {
            let why = format!("has more than {MOST_KEYS} keys: name fewer");
            return Err(Fault::new(format!("metadata.annotations[{annotation}]"), why));
        }
    }
    Ok(all)
}
