//! Contents that the author of a set has approved, beside the spec as it is: earlier revisions, by their
//! hashes in an annotation of the set.
//!
//! The contents of revisions stand in the status, which the manager writes, and an agent runs no image on
//! the manager's word. So admission notes the hash of each spec in the object itself, within its author's
//! request; what is in the status counts only as far as it has such a hash.

use berth_proto::crd::SidecarSetSpec;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    golang::merged_text,
    history::fields_of,
    json::{Object, made, object, text},
};

/// Annotation of a set: hashes of the contents of its revisions, in lower-case hex, with commas.
pub const REVISIONS: &str = "berth.dev/revisions";

/// The most hashes that count.
const MOST: usize = 512;
/// Least number that is kept: a revision that pods still have may be older than the history's limit.
const LEAST: usize = 32;

/// SHA-256 of the contents of a revision (those of [`crate::fields_of`]), as JSON with sorted keys.
pub fn digest(fields: &Object) -> String {
    let text = merged_text(&fields.clone().into());
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tells whether the annotation has the hash of these contents.
pub fn approves(annotation: &str, fields: &Object) -> bool {
    let digest = digest(fields);
    annotation.split(',').take(MOST).any(|hash| hash.trim() == digest)
}

/// Writes the annotation of a set that is being written: what it is to be, what it is, and what was approved
/// before. `old` is the stored set, at an update. A value of the author's own is overwritten, for nothing is
/// approved but what has stood in the spec.
pub fn approve(set: &mut Value, old: Option<&Value>) {
    let stored = old.and_then(Value::as_object);
    let before = stored.and_then(|old| object(object(old, "metadata")?, "annotations"));
    let before = before.map(|annotations| text(annotations, REVISIONS)).unwrap_or_default();
    let before = before.split(',').map(str::trim).filter(|hash| is_digest(hash)).map(str::to_owned);
    let now = set.as_object().and_then(contents);
    let limit = set.pointer("/spec/revisionHistoryLimit").and_then(Value::as_u64);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0).clamp(LEAST, MOST);
    let mut hashes: Vec<String> = Vec::new();
    for hash in now.into_iter().chain(stored.and_then(contents)).map(|fields| digest(&fields)).chain(before) {
        if hashes.len() < limit && !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }
    let metadata = set.as_object_mut().and_then(|set| made(set, "metadata"));
    if let Some(annotations) = metadata.and_then(|metadata| made(metadata, "annotations")) {
        annotations.insert(REVISIONS.to_owned(), hashes.join(",").into());
    }
}

/// Contents of a set's revision as the manager files them. A spec that cannot be read has none: the API
/// server refuses it.
fn contents(set: &Object) -> Option<Object> {
    let spec: SidecarSetSpec = serde_json::from_value(set.get("spec")?.clone()).ok()?;
    serde_json::to_value(spec).ok()?.as_object().map(fields_of)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(json: &str) -> Object {
        serde_json::from_str(json).unwrap_or_default()
    }

    #[test]
    fn contents_are_known_by_their_hash() {
        let one = fields(r#"{"containers":[{"name":"a","image":"a:1"}]}"#);
        let same = fields(r#"{"containers":[{"image":"a:1","name":"a"}]}"#);
        let other = fields(r#"{"containers":[{"name":"a","image":"a:2"}]}"#);
        assert_eq!((digest(&one).len(), digest(&one)), (64, digest(&same)));
        let annotation = format!("{}, {}", "0".repeat(64), digest(&one));
        assert!(approves(&annotation, &same));
        assert!(!approves(&annotation, &other) && !approves("", &one) && !approves(",,", &one));
    }

    fn set(image: &str, revisions: Option<&str>) -> Value {
        let annotations = revisions.map(|revisions| json!({ REVISIONS: revisions }));
        json!({
            "metadata": { "name": "s", "annotations": annotations },
            "spec": {
                "selector": { "matchLabels": { "a": "b" } },
                "containers": [{ "name": "log", "image": image }],
                "patchPodMetadata": [{ "annotations": {} }],
            },
        })
    }

    fn revisions(set: &Value) -> Vec<&str> {
        set["metadata"]["annotations"][REVISIONS].as_str().unwrap_or_default().split(',').collect()
    }

    /// As its reader finds it in the history: the typed fields, without empty ones.
    fn of(image: &str) -> String {
        let fields = json!({ "containers": [{ "name": "log", "image": image }], "patchPodMetadata": [{}] });
        digest(fields.as_object().unwrap_or(&Object::new()))
    }

    #[test]
    fn a_new_set_approves_itself_alone() {
        let mut made = set("log:1", Some(&of("evil:1")));
        approve(&mut made, None);
        assert_eq!(revisions(&made), [of("log:1")]);
        let mut unreadable = json!({ "spec": { "containers": 1 } });
        approve(&mut unreadable, None);
        assert_eq!(revisions(&unreadable), [""]);
    }

    /// A value that the author writes there counts for nothing, nor does that he leaves it out.
    #[test]
    fn an_update_adds_to_what_is_stored() {
        let mut stored = set("log:1", None);
        approve(&mut stored, None);
        for given in [None, Some(of("evil:1"))] {
            let mut second = set("log:2", given.as_deref());
            approve(&mut second, Some(&stored));
            assert_eq!(revisions(&second), [of("log:2"), of("log:1")]);
            let mut back = set("log:1", given.as_deref());
            approve(&mut back, Some(&second));
            assert_eq!(revisions(&back), [of("log:1"), of("log:2")], "each once");
        }
        // A set from before this annotation: what it was is approved by standing there.
        let mut next = set("log:2", None);
        approve(&mut next, Some(&set("log:1", Some("no hash,x"))));
        assert_eq!(revisions(&next), [of("log:2"), of("log:1")]);
    }

    #[test]
    fn the_list_has_a_bound() {
        let mut stored = set("log:0", None);
        for (limit, most) in [(json!(-1), LEAST), (json!(40), 40), (json!(i32::MAX), 70)] {
            for turn in 0..70 {
                let mut next = set(&format!("log:{turn}"), None);
                next["spec"]["revisionHistoryLimit"] = limit.clone();
                approve(&mut next, Some(&stored));
                assert!(revisions(&next).len() <= most && revisions(&next)[0] == of(&format!("log:{turn}")));
                stored = next;
            }
            assert_eq!(revisions(&stored).len(), most);
        }
    }
}
