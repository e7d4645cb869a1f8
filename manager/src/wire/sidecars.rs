//! Sidecars of a pod, as OpenKruise's annotations tell them; a text that is not of their shape tells nothing.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::nested;
use berth_sidecarset::names;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    LONGEST_NAME,
    annotations::{STATE, UPDATE_STATE},
};
use crate::store::{Phase, SidecarsSeen};

/// The most sets of one pod that are looked at.
const MOST_SETS: usize = 256;

/// The longest hash of a set: twice that of SHA-256 as text.
const LONGEST_HASH: usize = 128;

/// A container of the pod with its image and what its status says of it.
pub(super) struct Running<'a> {
    pub(super) name: &'a str,
    /// Image in the pod's spec.
    pub(super) image: &'a str,
    /// `None` before the kubelet has said anything of it.
    pub(super) status: Option<Shown<'a>>,
}

/// Status of a container.
#[derive(Clone, Copy, Default)]
pub(super) struct Shown<'a> {
    /// `image`.
    pub(super) image: &'a str,
    /// `imageID`.
    pub(super) id: &'a str,
    /// When the process that runs was started, in seconds.
    pub(super) started: Option<i64>,
}

/// A container before its last upgrade, as the pod's record tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Before {
    /// ID of its image.
    id: String,
    /// When the pod's spec got the new image, in seconds, if anything says it.
    patched: Option<i64>,
}

/// Reads annotations, spec and status; `None` for a pod in which no set has put anything.
pub(super) fn sidecars(
    annotations: &BTreeMap<String, String>,
    containers: &[Running],
    phase: Phase,
) -> Option<Box<SidecarsSeen>> {
    let list = annotations.get(names::INJECTED_LIST)?;
    let listed = list.split(',').map(str::trim).filter(|name| (1..=LONGEST_NAME).contains(&name.len()));
    let listed = listed.take(MOST_SETS);
    let listed: Vec<_> = listed.map(str::to_owned).collect();
    if listed.is_empty() {
        return None;
    }
    let sets: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let known = |set: &str| sets.contains(set);
    let (mut hashes, mut revisions, mut without_image) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let entries = object(annotations, names::HASH);
    let before = recorded(annotations, &entries);
    for (set, entry) in entries.into_iter().filter(|(set, _)| known(set)) {
        let revision = entry.get("controllerRevision").and_then(Value::as_str);
        if let Some(revision) = revision.filter(|revision| revision.len() <= LONGEST_NAME) {
            revisions.insert(set.clone(), revision.to_owned());
        }
        hashes.extend(hash(&entry).map(|hash| (set, hash)));
    }
    for (set, entry) in object(annotations, names::HASH_WITHOUT_IMAGE) {
        without_image.extend(hash(&entry).filter(|_| known(&set)).map(|hash| (set, hash)));
    }
    let working = object(annotations, names::WORKING).into_iter().take(MOST_SETS);
    let working = working.filter_map(|(name, twin)| Some((name, twin.as_str()?.to_owned())));
    let working = working.filter(|(name, twin)| name.len().max(twin.len()) <= LONGEST_NAME);
    // As long as one container has no status, nothing is known of any.
    let complete = containers.iter().all(|container| container.status.is_some());
    let settled =
        |one: &Running| complete && is_settled(one.image, one.status.as_ref(), before.get(one.name));
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
        upgradable: BTreeMap::new(),
        ready_since: None,
    }))
}

/// Tells whether an update in place of the pod is on its way: a container runs an image from before it, or
/// there are images that come later.
pub(super) fn updates(annotations: &BTreeMap<String, String>, containers: &[Running]) -> bool {
    let state = object(annotations, UPDATE_STATE);
    let later = state.get("nextContainerImages").and_then(Value::as_object);
    if later.is_some_and(|images| !images.is_empty()) {
        return true;
    }
    let mut before = recorded(annotations, &object(annotations, names::HASH));
    let updated = state.get("updateTimestamp").and_then(seconds);
    take(&mut before, &Value::Object(state), updated);
    containers.iter().any(|one| {
        let ends = |shown: &Shown| shown.image.ends_with(&format!("/{}", one.image));
        let status = one.status.as_ref();
        !is_settled(one.image, status, before.get(one.name)) && !status.is_some_and(ends)
    })
}

/// Tells whether a container runs the image of the spec. Without a record nothing has changed since the pod
/// was made. Two tags may have one image ID, and the runtime tells one of them as it likes: then the
/// container runs the new one if it was started since the pod's spec has it.
fn is_settled(image: &str, status: Option<&Shown<'_>>, before: Option<&Before>) -> bool {
    let Some(status) = status else { return false };
    let Some(before) = before else { return true };
    let is_its = match image.split_once('@') {
        Some((_, digest)) => status.id.ends_with(digest),
        None => status.id != before.id || status.image == image,
    };
    // Both are whole seconds: one that is started in the second of the patch counts as started after it.
    is_its || status.started.zip(before.patched).is_some_and(|(started, patched)| started >= patched)
}

/// Containers before their last upgrade. An agent's record says when each was patched, by the node's clock;
/// where OpenKruise wrote it, the set's entry does, by its manager's clock.
fn recorded(
    annotations: &BTreeMap<String, String>,
    entries: &Map<String, Value>,
) -> BTreeMap<String, Before> {
    let mut recorded = BTreeMap::new();
    for (set, state) in object(annotations, STATE).into_iter().take(MOST_SETS) {
        let upgraded = entries.get(&set).and_then(|entry| seconds(entry.get("updateTimestamp")?));
        take(&mut recorded, &state, upgraded);
    }
    recorded
}

/// Takes the containers of one record, which was written at `updated` if it does not say itself when.
fn take(recorded: &mut BTreeMap<String, Before>, state: &Value, updated: Option<i64>) {
    let patched = patched(state);
    let containers = state.get("lastContainerStatuses").and_then(Value::as_object);
    for (name, status) in containers.into_iter().flatten().take(MOST_SETS) {
        let id = status.get("imageID").and_then(Value::as_str).unwrap_or_default().to_owned();
        recorded.insert(name.clone(), Before { id, patched: patched.get(&**name).copied().or(updated) });
    }
}

/// Returns when each container was patched last, in seconds.
fn patched(state: &Value) -> BTreeMap<&str, i64> {
    let mut patched = BTreeMap::new();
    for batch in state.get("containerBatchesRecord").and_then(Value::as_array).into_iter().flatten() {
        let Some(time) = batch.get("timestamp").and_then(seconds) else { continue };
        let names = batch.get("containers").and_then(Value::as_array);
        for name in names.into_iter().flatten().filter_map(Value::as_str) {
            let last = patched.entry(name).or_insert(i64::MIN);
            *last = time.max(*last);
        }
    }
    patched
}

fn seconds(time: &Value) -> Option<i64> {
    Some(time.as_str()?.parse::<Timestamp>().ok()?.as_second())
}

fn object(annotations: &BTreeMap<String, String>, key: &str) -> Map<String, Value> {
    match annotations.get(key).and_then(|text| nested::read_text(text)) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Versions before 1.0 wrote nothing but the hash.
fn hash(entry: &Value) -> Option<String> {
    let text = entry.as_str().or_else(|| entry.get("hash")?.as_str())?;
    Some(text.to_owned()).filter(|text| (1..=LONGEST_HASH).contains(&text.len()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Status that the kubelet shows, with the second in which the container was started.
    fn shown(image: &'static str, id: &'static str, started: i64) -> Option<Shown<'static>> {
        Some(Shown { image, id, started: Some(started) })
    }

    /// A record with no time at all.
    fn theirs(id: &str) -> Option<Before> {
        Some(Before { id: id.to_owned(), patched: None })
    }

    /// The record of one that was patched in second 100.
    fn ours(id: &str) -> Option<Before> {
        Some(Before { id: id.to_owned(), patched: Some(100) })
    }

    #[rstest]
    #[case::never_upgraded("a:2", shown("docker.io/a:1", "sha256:1", 9), None, true)]
    #[case::no_status("a:2", None, None, false)]
    #[case::another_image("a:2", shown("other", "sha256:2", 9), theirs("sha256:1"), true)]
    #[case::still_the_old_one("a:2", shown("a:1", "sha256:1", 9), theirs("sha256:1"), false)]
    #[case::the_same_by_two_names("a:2", shown("a:2", "sha256:1", 9), theirs("sha256:1"), true)]
    #[case::by_digest("a@sha256:9", shown("x", "a@sha256:9", 9), theirs("sha256:9"), true)]
    #[case::another_digest("a@sha256:9", shown("x", "a@sha256:8", 9), theirs("sha256:7"), false)]
    #[case::two_tags_of_one_image("a:2", shown("a:1", "sha256:1", 101), ours("sha256:1"), true)]
    #[case::in_the_second_of_the_patch("a:2", shown("a:1", "sha256:1", 100), ours("sha256:1"), true)]
    #[case::not_restarted_yet("a:2", shown("a:1", "sha256:1", 99), ours("sha256:1"), false)]
    #[case::it_does_not_run("a:2", Some(Shown { started: None, ..shown("a:1", "sha256:1", 0).unwrap() }), ours("sha256:1"), false)]
    #[case::a_digest_of_another_kind("a@sha256:9", shown("x", "sha256:1", 101), ours("sha256:1"), true)]
    fn settled(
        #[case] image: &str,
        #[case] status: Option<Shown<'_>>,
        #[case] before: Option<Before>,
        #[case] yes: bool,
    ) {
        assert_eq!(is_settled(image, status.as_ref(), before.as_ref()), yes);
    }

    /// Two swaps: the second one is the last that `web-2` had a part in, and nothing else counts.
    #[test]
    fn a_record_says_when_a_container_was_patched() {
        let state = r#"{"s":{"revision":"s-2","updateTimestamp":"1970-01-01T00:00:10Z",
            "lastContainerStatuses":{"web-1":{"imageID":"i"},"web-2":{"imageID":"j"},"log":{"imageID":"k"}},
            "containerBatchesRecord":[{"timestamp":"1970-01-01T00:00:11Z","containers":["web-2"]},
                {"timestamp":"no time","containers":["web-2"]},
                {"timestamp":"1970-01-01T00:00:20Z","containers":["web-1","web-2"]},
                {"timestamp":"1970-01-01T00:00:15Z","containers":["web-2",7]},7]}}"#;
        let annotations = [(STATE.to_owned(), state.to_owned())].into();
        let times = |entries: Value| {
            let recorded = recorded(&annotations, entries.as_object().unwrap());
            assert_eq!(recorded["log"].id, "k");
            ["web-1", "web-2", "log", "app"].map(|name| recorded.get(name).map(|before| before.patched))
        };
        assert_eq!(times(json!({})), [Some(Some(20)), Some(Some(20)), Some(None), None]);
        // Where the record says nothing, as OpenKruise's do, the set's entry counts.
        let entry =
            json!({ "s": { "updateTimestamp": "1970-01-01T00:00:30Z" }, "t": { "updateTimestamp": 7 } });
        assert_eq!(times(entry), [Some(Some(20)), Some(Some(20)), Some(Some(30)), None]);
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
