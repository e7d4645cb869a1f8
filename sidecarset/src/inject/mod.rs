//! Injection: from a pod that is made, and the sets, to the pod with its sidecars.
//!
//! Nothing of the pod that is not named here is touched, known or not. The pod is changed at the very end:
//! one that is refused stays as it was. Asked again about what it gave, it changes nothing, for the API
//! server asks once for each webhook.

mod annotations;
mod build;
mod env;
mod merge;
mod metadata;
mod mounts;

use serde_json::Value;

use self::{
    annotations::{Entry, HashEntries},
    build::Build,
};
use crate::{
    fault::Refusal,
    json::{Object, list, object, objects, text},
    matching::{Context, candidates, labels},
    names,
    revision::choose,
    set::{Revision, Set},
};

/// The most containers that are injected into one pod.
const MOST_CONTAINERS: usize = 256;

/// Outcome of an injection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Sets that the pod has now, by name, each with the name of its revision if that is recorded.
    pub sets: Vec<(String, Option<String>)>,
    /// Doubtful things that the author of the pod should hear of.
    pub warnings: Vec<String>,
}

/// Injects into the pod what the sets have for it.
pub fn inject(pod: &mut Value, sets: &[&Set], cx: Context) -> Result<Injected, Refusal> {
    let Some(fields) = pod.as_object() else { return Err(shape("the whole", "an object")) };
    let sets = candidates(fields, sets, &cx);
    if sets.is_empty() {
        return Ok(Injected::default());
    }
    check_shape(fields)?;
    let changes = changes(fields, &sets, cx)?;
    Ok(changes.apply(pod))
}

/// Members of the pod as they become.
struct Changes {
    annotations: Object,
    /// Lists of the spec, by name.
    lists: Vec<(&'static str, Vec<Value>)>,
    injected: Injected,
}

fn changes(pod: &Object, sets: &[&Set], cx: Context) -> Result<Changes, Refusal> {
    let empty = Object::new();
    let metadata = object(pod, "metadata").unwrap_or(&empty);
    let spec = object(pod, "spec").unwrap_or(&empty);
    let pod_labels = labels(metadata, "labels");
    let given = labels(metadata, "annotations");
    let before = HashEntries::read(&given, names::HASH)?;
    let mut revisions: Vec<(&Set, &Revision)> = Vec::new();
    for set in sets {
        revisions.push((set, choose(set, &pod_labels, before.hash_of(set.name()), cx.draw)?));
    }

    let mut annotations = given;
    for (set, revision) in &revisions {
        metadata::patch(&mut annotations, &set.name, &revision.metadata)?;
    }
    let mut injected = Injected::default();
    let mut hash = HashEntries::read(&annotations, names::HASH)?;
    let mut without_image = HashEntries::read(&annotations, names::HASH_WITHOUT_IMAGE)?;
    let mut build = Build::new(spec, &revisions, &pod_labels, &annotations);
    for (set, revision) in &revisions {
        build.revision(set, revision)?;
        let entry = Entry::new(&set.name, revision, cx.now);
        without_image.insert(&set.name, entry.clone().without_image(revision));
        hash.insert(&set.name, entry);
        injected.sets.push((set.name.clone(), revision.name.clone()));
    }
    let built = build.finish();
    injected.warnings = built.warnings;

    let mut lists = Vec::new();
    if built.init.is_empty() && built.containers.is_empty() {
        // Metadata alone; the pod is not counted as one that has the set.
        injected.sets.clear();
    } else {
        annotations.insert(names::HASH.into(), hash.to_json());
        annotations.insert(names::HASH_WITHOUT_IMAGE.into(), without_image.to_json());
        let names = revisions.iter().map(|(set, _)| set.name.as_str());
        let list = annotations::with_names(annotations.get(names::INJECTED_LIST), names);
        annotations.insert(names::INJECTED_LIST.into(), list);
        annotations::hot(&mut annotations, &built.hot);
        lists = vec![
            ("initContainers", merge::containers(list_of(spec, "initContainers"), built.init)),
            ("containers", merge::containers(list_of(spec, "containers"), built.containers)),
            ("volumes", merge::by_name(list_of(spec, "volumes"), built.volumes, false)),
            ("imagePullSecrets", merge::by_name(list_of(spec, "imagePullSecrets"), built.secrets, true)),
        ];
    }
    let annotations = annotations.into_iter().map(|(key, value)| (key, value.into())).collect();
    Ok(Changes { annotations, lists, injected })
}

fn list_of(spec: &Object, member: &str) -> Vec<Value> {
    list(spec, member).to_vec()
}

impl Changes {
    fn apply(self, pod: &mut Value) -> Injected {
        let Some(pod) = pod.as_object_mut() else { return self.injected };
        if let Some(metadata) = crate::json::made(pod, "metadata")
            && !(self.annotations.is_empty() && object(metadata, "annotations").is_none())
        {
            metadata.insert("annotations".to_owned(), self.annotations.into());
        }
        if let Some(spec) = crate::json::made(pod, "spec") {
            for (member, list) in self.lists {
                if !(list.is_empty() && spec.get(member).is_none()) {
                    spec.insert(member.to_owned(), list.into());
                }
            }
        }
        self.injected
    }
}

fn shape(field: impl Into<String>, wanted: &'static str) -> Refusal {
    Refusal::Shape { field: field.into(), wanted }
}

/// Refuses a pod of which something would be lost: a member that is rewritten has to be of its type.
fn check_shape(pod: &Object) -> Result<(), Refusal> {
    for member in ["metadata", "spec"] {
        if pod.get(member).is_some_and(|value| !value.is_object() && !value.is_null()) {
            return Err(shape(member, "an object"));
        }
    }
    let annotations = object(pod, "metadata").and_then(|metadata| metadata.get("annotations"));
    let texts = |value: &Value| value.as_object().is_some_and(|all| all.values().all(Value::is_string));
    if annotations.is_some_and(|value| !value.is_null() && !texts(value)) {
        return Err(shape("metadata.annotations", "an object of texts"));
    }
    for member in ["initContainers", "containers", "volumes", "imagePullSecrets"] {
        let value = object(pod, "spec").and_then(|spec| spec.get(member));
        let objects = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_object));
        if value.is_some_and(|value| !value.is_null() && !objects(value)) {
            return Err(shape(format!("spec.{member}"), "a list of objects"));
        }
    }
    Ok(())
}

/// Tells whether the container was injected, by whatever set.
fn is_injected(container: &Object) -> bool {
    objects(container, "env")
        .any(|env| text(env, "name") == names::IS_INJECTED && text(env, "value") == "true")
}
