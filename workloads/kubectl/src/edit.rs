//! Changes of an object, as JSON patches. Pure.
//!
//! Each is of the version that it was decided on (`test` of `resourceVersion`): what somebody else has
//! changed since is never written over.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use serde_json::{Value, json};

use crate::{status::rests, target::Kind};

/// Variable whose value a restart changes.
const RESTARTED_AT: &str = "RESTARTED_AT";

/// Patch that lets a rollout rest, or go on.
pub(crate) fn pause(kind: Kind, object: &Value, paused: bool) -> anyhow::Result<Value> {
    let (plural, name) = (kind.resource().plural, name(object));
    let is = if paused { "already paused" } else { "not paused" };
    ensure!(rests(kind, object) != paused, "{plural}.apps.kruise.io \"{name}\" is {is}");
    let strategy = &object["spec"]["updateStrategy"];
    if kind != Kind::CloneSet && strategy["type"] == "OnDelete" {
        bail!(
            "{plural}.apps.kruise.io \"{name}\" has updateStrategy type OnDelete, which has no rollout to pause"
        );
    }
    let mut patch = begun(object);
    let mut path = "/spec".to_owned();
    let fields: &[&str] =
        if kind == Kind::CloneSet { &["updateStrategy"] } else { &["updateStrategy", "rollingUpdate"] };
    let mut at = &object["spec"];
    for field in fields {
        path = format!("{path}/{field}");
        at = &at[*field];
        if !at.is_object() {
            patch.push(json!({ "op": "add", "path": path, "value": {} }));
        }
    }
    patch.push(json!({ "op": "add", "path": format!("{path}/paused"), "value": paused }));
    Ok(patch.into())
}

/// Patch that makes every pod anew: a variable of each container, because a pod could follow an annotation
/// in place.
pub(crate) fn restart(kind: Kind, object: &Value, now: &str) -> anyhow::Result<Value> {
    let strategy = &object["spec"]["updateStrategy"];
    let policy = if kind == Kind::CloneSet {
        &strategy["type"]
    } else {
        &strategy["rollingUpdate"]["podUpdatePolicy"]
    };
    ensure!(
        policy != "InPlaceOnly",
        "{}/{} makes no pods anew (InPlaceOnly): give it InPlaceIfPossible, or restart containers by ContainerRecreateRequests",
        kind.printed(),
        name(object)
    );
    let mut patch = begun(object);
    for (at, container) in containers(kind, object, "containers").iter().enumerate() {
        let path = format!("{}/containers/{at}", place(kind));
        patch.push(json!({ "op": "test", "path": format!("{path}/name"), "value": container["name"] }));
        let variable = json!({ "name": RESTARTED_AT, "value": now });
        let Some(env) = container["env"].as_array() else {
            patch.push(json!({ "op": "add", "path": format!("{path}/env"), "value": [variable] }));
            continue;
        };
        match env.iter().position(|one| one["name"] == RESTARTED_AT) {
            Some(known) => {
                patch.push(
                    json!({ "op": "replace", "path": format!("{path}/env/{known}"), "value": variable }),
                );
            }
            None => patch.push(json!({ "op": "add", "path": format!("{path}/env/-"), "value": variable })),
        }
    }
    ensure!(patch.len() > 1, "{}/{} has no containers", kind.printed(), name(object));
    Ok(patch.into())
}

/// A container and its image.
type NewImage = (String, String);

/// Splits `TYPE NAME c=img` into what names objects and what names images.
pub(crate) fn images(words: &[String]) -> anyhow::Result<(Vec<String>, Vec<NewImage>)> {
    let (mut objects, mut images) = (Vec::new(), Vec::new());
    for word in words {
        match word.split_once('=') {
            Some((container, image)) => {
                ensure!(
                    !container.is_empty() && !image.is_empty(),
                    "all image updates must be of the form container=image, as in main=web:v2, got \"{word}\""
                );
                images.push((container.to_owned(), image.to_owned()));
            }
            None => {
                ensure!(
                    images.is_empty(),
                    "all resources must be specified before image changes: {word} stands after one"
                );
                objects.push(word.clone());
            }
        }
    }
    ensure!(
        !images.is_empty(),
        "at least one image update is required: give CONTAINER=IMAGE, as in main=web:v2"
    );
    Ok((objects, images))
}

/// Patch that gives containers other images; `None`: they have them.
pub(crate) fn set_images(kind: Kind, object: &Value, images: &[NewImage]) -> anyhow::Result<Option<Value>> {
    let mut patch = begun(object);
    for (path, container, image) in changed(kind, object, images)? {
        patch.push(json!({ "op": "test", "path": format!("{path}/name"), "value": container["name"] }));
        patch.push(json!({ "op": "add", "path": format!("{path}/image"), "value": image }));
    }
    Ok((patch.len() > 1).then(|| patch.into()))
}

/// The object with other images, where no API server has it; `None`: it has them.
pub(crate) fn with_images(kind: Kind, object: &Value, images: &[NewImage]) -> anyhow::Result<Option<Value>> {
    let changed = changed(kind, object, images)?;
    let mut new = object.clone();
    for (path, _, image) in &changed {
        if let Some(container) = new.pointer_mut(path).and_then(Value::as_object_mut) {
            container.insert("image".to_owned(), (*image).into());
        }
    }
    Ok((!changed.is_empty()).then_some(new))
}

/// Containers that get other images: the path of each, the container, and the image.
fn changed<'a>(
    kind: Kind,
    object: &'a Value,
    images: &'a [NewImage],
) -> anyhow::Result<Vec<(String, &'a Value, &'a str)>> {
    let mut changed = Vec::new();
    let mut missing: Vec<_> = images.iter().map(|(name, _)| name.as_str()).collect();
    for list in ["initContainers", "containers"] {
        for (at, container) in containers(kind, object, list).iter().enumerate() {
            // The last one that names it counts.
            let given = images.iter().rfind(|(name, _)| name == "*" || container["name"] == name.as_str());
            missing.retain(|name| *name != "*" && container["name"] != *name);
            let Some((_, image)) = given.filter(|(_, image)| container["image"] != image.as_str()) else {
                continue;
            };
            changed.push((format!("{}/{list}/{at}", place(kind)), container, image.as_str()));
        }
    }
    if let Some(name) = missing.first() {
        bail!("unable to find container named \"{name}\"");
    }
    Ok(changed)
}

/// Names of pods as they were given, without blanks and each once.
pub(crate) fn pod_names(given: &[String]) -> anyhow::Result<Vec<String>> {
    let (mut names, mut known) = (Vec::new(), BTreeSet::new());
    for name in given.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        if known.insert(name) {
            names.push(name.to_owned());
        }
    }
    ensure!(!names.is_empty(), "no pod is named: give --pods NAME,...");
    Ok(names)
}

/// Patch that takes pods out of a CloneSet. Those that are on their way already count no second time.
pub(crate) fn scale_down(object: &Value, pods: &[(String, Option<Value>)]) -> anyhow::Result<Value> {
    let (set, uid) = (name(object), &object["metadata"]["uid"]);
    let listed = object["spec"]["scaleStrategy"]["podsToDelete"].as_array().cloned().unwrap_or_default();
    let mut new = Vec::new();
    for (pod, found) in pods {
        let Some(found) = found else { bail!("pods \"{pod}\" not found") };
        let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let is_owned = owners.iter().any(|owner| owner["controller"] == true && owner["uid"] == *uid);
        ensure!(is_owned, "pod {pod} is not of cloneset {set}: name only pods of it");
        ensure!(
            found["metadata"]["deletionTimestamp"].is_null(),
            "pod {pod} is being deleted already: leave it out"
        );
        if !listed.iter().any(|one| one == pod.as_str()) {
            new.push(Value::from(pod.as_str()));
        }
    }
    let count = i64::try_from(new.len())?;
    ensure!(count > 0, "all of these pods are in podsToDelete of cloneset {set} already");
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    ensure!(
        replicas >= count,
        "cloneset {set} has {replicas} replicas, fewer than the {count} pods that are named"
    );
    let mut patch = begun(object);
    if !object["spec"]["scaleStrategy"].is_object() {
        patch.push(json!({ "op": "add", "path": "/spec/scaleStrategy", "value": {} }));
    }
    let all: Vec<_> = listed.into_iter().chain(new).collect();
    patch.push(json!({ "op": "add", "path": "/spec/scaleStrategy/podsToDelete", "value": all }));
    patch.push(json!({ "op": "add", "path": "/spec/replicas", "value": replicas.saturating_sub(count) }));
    Ok(patch.into())
}

fn begun(object: &Value) -> Vec<Value> {
    vec![
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"] }),
    ]
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Path of what has the lists of containers.
fn place(kind: Kind) -> &'static str {
    if kind == Kind::SidecarSet { "/spec" } else { "/spec/template/spec" }
}

fn containers<'a>(kind: Kind, object: &'a Value, list: &str) -> &'a [Value] {
    let all = object.pointer(place(kind)).and_then(|spec| spec.get(list)?.as_array());
    all.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(spec: Value) -> Value {
        json!({ "metadata": { "name": "s", "uid": "u", "resourceVersion": "7" }, "spec": spec })
    }

    /// Steps of a patch after the first one, which names the version.
    fn steps(patch: &Value) -> Vec<String> {
        let all = patch.as_array().unwrap();
        assert_eq!(all[0], json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }));
        let text = |step: &Value| {
            format!("{} {} {}", step["op"].as_str().unwrap(), step["path"].as_str().unwrap(), step["value"])
        };
        all[1..].iter().map(text).collect()
    }

    #[rstest]
    #[case::clone(Kind::CloneSet, json!({ "updateStrategy": {} }), &["add /spec/updateStrategy/paused true"])]
    #[case::bare(Kind::CloneSet, json!({}), &["add /spec/updateStrategy {}", "add /spec/updateStrategy/paused true"])]
    #[case::stateful(Kind::StatefulSet, json!({ "updateStrategy": { "rollingUpdate": { "partition": 1 } } }), &["add /spec/updateStrategy/rollingUpdate/paused true"])]
    #[case::daemon(Kind::DaemonSet, json!({ "updateStrategy": { "type": "RollingUpdate" } }),
        &["add /spec/updateStrategy/rollingUpdate {}", "add /spec/updateStrategy/rollingUpdate/paused true"])]
    fn a_rollout_rests(#[case] kind: Kind, #[case] spec: Value, #[case] expected: &[&str]) {
        let object = object(spec);
        assert_eq!(steps(&pause(kind, &object, true).unwrap()), expected);
        let error = pause(kind, &object, false).unwrap_err().to_string();
        assert!(error.ends_with(".apps.kruise.io \"s\" is not paused"), "{error}");
    }

    #[test]
    fn what_rests_goes_on() {
        let set = object(json!({ "updateStrategy": { "paused": true } }));
        assert_eq!(
            steps(&pause(Kind::CloneSet, &set, false).unwrap()),
            ["add /spec/updateStrategy/paused false"]
        );
        let error = pause(Kind::CloneSet, &set, true).unwrap_err().to_string();
        assert_eq!(error, "clonesets.apps.kruise.io \"s\" is already paused");
        let by_hand = object(json!({ "updateStrategy": { "type": "OnDelete" } }));
        assert!(pause(Kind::StatefulSet, &by_hand, true).unwrap_err().to_string().contains("OnDelete"));
    }

    #[test]
    fn every_container_is_restarted() {
        let set = object(json!({ "template": { "spec": { "containers": [
            { "name": "a" }, { "name": "b", "env": [] }, { "name": "c", "env": [{ "name": "X" }, { "name": RESTARTED_AT, "value": "old" }] }] } } }));
        let variable = r#"{"name":"RESTARTED_AT","value":"now"}"#;
        assert_eq!(
            steps(&restart(Kind::CloneSet, &set, "now").unwrap()),
            [
                "test /spec/template/spec/containers/0/name \"a\"".to_owned(),
                format!("add /spec/template/spec/containers/0/env [{variable}]"),
                "test /spec/template/spec/containers/1/name \"b\"".to_owned(),
                format!("add /spec/template/spec/containers/1/env/- {variable}"),
                "test /spec/template/spec/containers/2/name \"c\"".to_owned(),
                format!("replace /spec/template/spec/containers/2/env/1 {variable}"),
            ]
        );
        let mut only = set;
        only["spec"]["updateStrategy"] = json!({ "type": "InPlaceOnly" });
        assert!(restart(Kind::CloneSet, &only, "now").unwrap_err().to_string().contains("InPlaceOnly"));
    }

    #[rstest]
    #[case::one(&[("b", "b:2")], &["test /spec/template/spec/containers/1/name \"b\"", "add /spec/template/spec/containers/1/image \"b:2\""])]
    #[case::init(&[("i", "i:2")], &["test /spec/template/spec/initContainers/0/name \"i\"", "add /spec/template/spec/initContainers/0/image \"i:2\""])]
    #[case::all(&[("*", "a:1")], &["test /spec/template/spec/initContainers/0/name \"i\"", "add /spec/template/spec/initContainers/0/image \"a:1\"",
        "test /spec/template/spec/containers/1/name \"b\"", "add /spec/template/spec/containers/1/image \"a:1\""])]
    #[case::same(&[("a", "a:1")], &[])]
    fn containers_get_images(#[case] images: &[(&str, &str)], #[case] expected: &[&str]) {
        let set =
            object(json!({ "template": { "spec": { "initContainers": [{ "name": "i", "image": "i:1" }],
            "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] } } }));
        let images: Vec<_> =
            images.iter().map(|(name, image)| ((*name).to_owned(), (*image).to_owned())).collect();
        let patch = set_images(Kind::CloneSet, &set, &images).unwrap();
        assert_eq!(patch.as_ref().map(steps).unwrap_or_default(), expected);
        let unknown = [("z".to_owned(), "z:1".to_owned())];
        assert_eq!(
            set_images(Kind::CloneSet, &set, &unknown).unwrap_err().to_string(),
            "unable to find container named \"z\""
        );
    }

    #[test]
    fn sidecars_get_images_where_they_are() {
        let set = object(json!({ "containers": [{ "name": "a", "image": "a:1" }] }));
        let images = [("*".to_owned(), "a:2".to_owned())];
        let patch = set_images(Kind::SidecarSet, &set, &images).unwrap().unwrap();
        assert_eq!(
            steps(&patch),
            ["test /spec/containers/0/name \"a\"", "add /spec/containers/0/image \"a:2\""]
        );
        assert!(set_images(Kind::CloneSet, &set, &images).is_err(), "it has no template");
    }

    #[test]
    fn objects_of_files_get_images_here() {
        let set = object(json!({ "template": { "spec": { "containers": [
            { "name": "a", "image": "a:1" }, { "name": "b" }, "odd"] } } }));
        let images = [("*".to_owned(), "c:1".to_owned())];
        let same = [("a".to_owned(), "a:1".to_owned())];
        assert_eq!(with_images(Kind::DaemonSet, &set, &same).unwrap(), None);
        let new = with_images(Kind::DaemonSet, &set, &images).unwrap().unwrap();
        let containers = json!([{ "name": "a", "image": "c:1" }, { "name": "b", "image": "c:1" }, "odd"]);
        assert_eq!(new["spec"]["template"]["spec"]["containers"], containers);
        assert_eq!(new["metadata"], set["metadata"]);
        assert!(with_images(Kind::DaemonSet, &set, &[("z".to_owned(), "z:1".to_owned())]).is_err());
    }

    #[rstest]
    #[case("cloneset/a", "at least one image update is required: give CONTAINER=IMAGE, as in main=web:v2")]
    #[case("cloneset/a c=", "container=image")]
    #[case("c=i cloneset/a", "before image changes")]
    fn wrong_words_are_told(#[case] words: &str, #[case] says: &str) {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        assert!(images(&words).unwrap_err().to_string().contains(says));
    }

    fn pod(owner: &str, deleted: bool) -> Option<Value> {
        let deleted = deleted.then_some("2026-07-02T10:00:00Z");
        Some(
            json!({ "metadata": { "deletionTimestamp": deleted, "ownerReferences": [{ "uid": owner, "controller": true }] } }),
        )
    }

    #[test]
    fn pods_go_with_their_replicas() {
        let set = object(json!({ "replicas": 3, "scaleStrategy": { "podsToDelete": ["p-0"] } }));
        let names =
            pod_names(&["p-1 ".to_owned(), " p-0".to_owned(), "p-1".to_owned(), String::new()]).unwrap();
        assert_eq!(names, ["p-1", "p-0"]);
        let pods: Vec<_> = names.into_iter().map(|name| (name, pod("u", false))).collect();
        assert_eq!(
            steps(&scale_down(&set, &pods).unwrap()),
            ["add /spec/scaleStrategy/podsToDelete [\"p-0\",\"p-1\"]", "add /spec/replicas 2"]
        );
        assert!(pod_names(&[" ".to_owned()]).is_err());
    }

    #[rstest]
    #[case::absent(None, 3, "pods \"p-1\" not found")]
    #[case::of_another(pod("v", false), 3, "is not of cloneset s")]
    #[case::going(pod("u", true), 3, "is being deleted already")]
    #[case::too_many(pod("u", false), 0, "has 0 replicas")]
    fn pods_that_cannot_go_are_told(#[case] pod: Option<Value>, #[case] replicas: i64, #[case] says: &str) {
        let set = object(json!({ "replicas": replicas }));
        let error = scale_down(&set, &[("p-1".to_owned(), pod)]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
