//! Sidecars of a pod, as OpenKruise's annotations tell them; a text that is not of their shape tells nothing.

use std::collections::BTreeMap;

use berth_sidecarset::names;
use serde_json::{Map, Value};

use super::annotations::{STATE, UPDATE_STATE};
use crate::seen::{Phase, SidecarsSeen};

/// The most sets of one pod that are looked at.
const MOST_SETS: usize = 256;

/// A container of the pod with its image and what its status says of it.
pub(super) struct Running<'a> {
    pub(super) name: &'a str,
    /// Image in the pod's spec.
    pub(super) image: &'a str,
    /// `image` and `imageID` of its status; `None` without a status.
    pub(super) status: Option<(&'a str, &'a str)>,
}

/// Reads annotations, spec and status; `None` for a pod in which no set has put anything.
pub(super) fn sidecars(
    annotations: &BTreeMap<String, String>,
    containers: &[Running],
    phase: Phase,
) -> Option<Box<SidecarsSeen>> {
    let list = annotations.get(names::INJECTED_LIST)?;
    let listed = list.split(',').map(str::trim).filter(|name| !name.is_empty()).take(MOST_SETS);
    let listed: Vec<_> = listed.map(str::to_owned).collect();
    if listed.is_empty() {
        return None;
    }
    let known = |set: &str| listed.iter().any(|name| name == set);
    let (mut hashes, mut revisions, mut without_image) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (set, entry) in object(annotations, names::HASH).into_iter().filter(|(set, _)| known(set)) {
        if let Some(revision) = entry.get("controllerRevision").and_then(Value::as_str) {
            revisions.insert(set.clone(), revision.to_owned());
        }
        hashes.extend(hash(&entry).map(|hash| (set, hash)));
    }
    for (set, entry) in object(annotations, names::HASH_WITHOUT_IMAGE) {
        without_image.extend(hash(&entry).filter(|_| known(&set)).map(|hash| (set, hash)));
    }
    let working = object(annotations, names::WORKING).into_iter().take(MOST_SETS);
    let working = working.filter_map(|(name, twin)| Some((name, twin.as_str()?.to_owned())));
    let before = recorded(annotations);
    // As long as one container has no status, nothing is known of any.
    let complete = containers.iter().all(|container| container.status.is_some());
    let settled =
        |one: &Running| complete && is_settled(one.image, one.status, before.get(one.name).map(|id| &**id));
    Some(Box::new(SidecarsSeen {
        hashes,
        without_image,
        revisions,
        working: working.collect(),
        images: containers.iter().map(|one| (one.name.to_owned(), one.image.to_owned())).collect(),
        unsettled: containers.iter().filter(|one| !settled(one)).map(|one| one.name.to_owned()).collect(),
        listed,
        phase,
        ready: false,
        ready_since: None,
    }))
}

/// Whether an update in place of the pod is on its way: a container runs an image from before it, or there
/// are images that come later.
pub(super) fn updates(annotations: &BTreeMap<String, String>, containers: &[Running]) -> bool {
    let state = object(annotations, UPDATE_STATE);
    let later = state.get("nextContainerImages").and_then(Value::as_object);
    if later.is_some_and(|images| !images.is_empty()) {
        return true;
    }
    let last = state.get("lastContainerStatuses").and_then(Value::as_object);
    let mut before = recorded(annotations);
    for (name, status) in last.into_iter().flatten().take(MOST_SETS) {
        before.insert(name.clone(), status["imageID"].as_str().unwrap_or_default().to_owned());
    }
    containers.iter().any(|one| {
        let ends = |(named, _): (&str, &str)| named.ends_with(&format!("/{}", one.image));
        let before = before.get(one.name).map(|id| &**id);
        !is_settled(one.image, one.status, before) && !one.status.is_some_and(ends)
    })
}

/// Whether a container runs the image of the spec. `before` is the ID of its image before the last upgrade,
/// if it had one: without it nothing has changed since the pod was made.
fn is_settled(image: &str, status: Option<(&str, &str)>, before: Option<&str>) -> bool {
    let Some((named, id)) = status else { return false };
    match (image.split_once('@'), before) {
        (_, None) => true,
        (Some((_, digest)), _) => id.ends_with(digest),
        (None, Some(before)) => id != before || named == image,
    }
}

/// IDs of the images before the last upgrade, by container.
fn recorded(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut ids = BTreeMap::new();
    for (_, state) in object(annotations, STATE).into_iter().take(MOST_SETS) {
        let containers = state.get("lastContainerStatuses").and_then(Value::as_object);
        for (name, status) in containers.into_iter().flatten() {
            let id = status.get("imageID").and_then(Value::as_str).unwrap_or_default();
            ids.insert(name.clone(), id.to_owned());
        }
    }
    ids
}

fn object(annotations: &BTreeMap<String, String>, key: &str) -> Map<String, Value> {
    annotations.get(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Versions before 1.0 wrote nothing but the hash.
fn hash(entry: &Value) -> Option<String> {
    let text = entry.as_str().or_else(|| entry.get("hash")?.as_str())?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::never_upgraded("a:2", Some(("docker.io/a:1", "sha256:1")), None, true)]
    #[case::no_status("a:2", None, None, false)]
    #[case::another_image("a:2", Some(("other", "sha256:2")), Some("sha256:1"), true)]
    #[case::still_the_old_one("a:2", Some(("a:1", "sha256:1")), Some("sha256:1"), false)]
    #[case::the_same_by_two_names("a:2", Some(("a:2", "sha256:1")), Some("sha256:1"), true)]
    #[case::by_digest("a@sha256:9", Some(("x", "a@sha256:9")), Some("sha256:9"), true)]
    #[case::another_digest("a@sha256:9", Some(("x", "a@sha256:8")), Some("sha256:7"), false)]
    fn settled(
        #[case] image: &str,
        #[case] status: Option<(&str, &str)>,
        #[case] before: Option<&str>,
        #[case] yes: bool,
    ) {
        assert_eq!(is_settled(image, status, before), yes);
    }

    fn of(annotations: &[(&str, &str)]) -> Option<Box<SidecarsSeen>> {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        sidecars(&annotations.collect(), &[], Phase::Running)
    }

    #[rstest]
    #[case::of_now(
        r#"{"s":{"hash":"h","controllerRevision":"s-1"},"gone":{"hash":"g"}}"#,
        Some("h"),
        Some("s-1")
    )]
    #[case::without_a_revision(r#"{"s":{"hash":"h"}}"#, Some("h"), None)]
    #[case::of_old(r#"{"s":"h"}"#, Some("h"), None)]
    #[case::of_another_set(r#"{"t":{"hash":"h"}}"#, None, None)]
    #[case::no_object(r#"["s"]"#, None, None)]
    #[case::no_json("s", None, None)]
    #[case::no_hash(r#"{"s":{"hash":7}}"#, None, None)]
    fn hashes_of_a_pod(#[case] text: &str, #[case] hash: Option<&str>, #[case] revision: Option<&str>) {
        let seen = of(&[(names::INJECTED_LIST, "s, r"), (names::HASH, text)]).unwrap();
        assert_eq!(seen.hashes.get("s").map(String::as_str), hash);
        assert_eq!(seen.revisions.get("s").map(String::as_str), revision);
        assert_eq!(
            (seen.listed, seen.hashes.len()),
            (vec!["s".into(), "r".into()], usize::from(hash.is_some()))
        );
    }

    #[test]
    fn a_pod_without_sets_has_none() {
        assert_eq!(of(&[(names::HASH, "{}")]), None);
        assert_eq!(of(&[(names::INJECTED_LIST, " , ")]), None);
    }
}
