//! NodeImages that are written: each tag that is asked for gets what OpenKruise's webhook fills in, so that
//! who reads the object back finds it. Pure.
//!
//! A tag that stays as it is gets nothing, nor does a copy of what is desired: agents write both, and may
//! write nothing else.

use std::collections::BTreeMap;

use berth_workloads_policy::defaults::{Filling, Object};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::review::{Request, Verdict};

/// Seconds of an attempt, and attempts after the first one, where nothing is said; agents go by the same.
const TIMEOUT_SECONDS: i64 = 600;
const BACKOFF_LIMIT: i64 = 3;
/// Owners of a copy say with it what they were copied from.
const COPY_OF: &str = "status.desiredImages";

/// Completes a NodeImage.
pub(super) fn complete(request: &Request, now: Timestamp) -> Verdict {
    let mut object = request.object.clone();
    let images = object.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for (name, image) in images.into_iter().flatten() {
        let before = request.old_object.pointer("/spec/images").and_then(|images| images.get(name));
        let before = tags(before);
        let Some(tags) = image.get_mut("tags").and_then(Value::as_array_mut) else { continue };
        let mut is_filled = false;
        for tag in tags.iter_mut() {
            let old = name_of(tag).and_then(|name| before.get(name).copied());
            if old == Some(&*tag) || is_copy(tag) {
                continue;
            }
            if let Some(tag) = tag.as_object_mut() {
                fill(tag, old, now);
                is_filled = true;
            }
        }
        if is_filled {
            tags.sort_by(|one, other| name_of(one).cmp(&name_of(other)));
        }
    }
    Verdict::Allowed { object: Some(object), warnings: Vec::new() }
}

/// Fills in what a tag leaves out. One that was there keeps the time since when it is asked for.
fn fill(tag: &mut Object, old: Option<&Value>, now: Timestamp) {
    let since = old.and_then(|old| old.get("createdAt")).filter(|since| since.is_string());
    let since = since.cloned().unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    let mut tag = Filling::new(tag, None);
    tag.set("createdAt", since);
    tag.set("pullPolicy", json!({}));
    tag.within("pullPolicy", |policy| {
        policy.set("timeoutSeconds", TIMEOUT_SECONDS);
        policy.set("backoffLimit", BACKOFF_LIMIT);
    });
}

/// Tags of an image, by name.
fn tags(image: Option<&Value>) -> BTreeMap<&str, &Value> {
    let tags = image.and_then(|image| image.get("tags")).and_then(Value::as_array);
    tags.into_iter().flatten().filter_map(|tag| Some((name_of(tag)?, tag))).collect()
}

fn name_of(tag: &Value) -> Option<&str> {
    tag.get("tag").and_then(Value::as_str)
}

fn is_copy(tag: &Value) -> bool {
    let owners = tag.get("ownerReferences").and_then(Value::as_array);
    let says = |owner: &Value| owner.get("fieldPath").and_then(Value::as_str) == Some(COPY_OF);
    owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(says))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(tags: Value) -> Value {
        json!({ "kind": "NodeImage", "metadata": { "name": "n" }, "spec": { "images": { "app": { "tags": tags } } } })
    }

    /// Tags as they are stored, written in the second `2026-01-02T00:00:00Z`.
    fn stored(tags: Value, before: Value) -> Value {
        let old_object = if before.is_null() { Value::Null } else { object(before) };
        let request = Request { object: object(tags), old_object, ..Request::default() };
        let now = "2026-01-02T00:00:00.7Z".parse().unwrap();
        let Verdict::Allowed { object: Some(mut object), .. } = complete(&request, now) else {
            panic!("not let in");
        };
        object["spec"]["images"]["app"]["tags"].take()
    }

    fn whole(tag: &str, since: &str, policy: Value) -> Value {
        json!({ "tag": tag, "createdAt": since, "pullPolicy": policy })
    }

    const NOW: &str = "2026-01-02T00:00:00Z";
    const BEFORE: &str = "2026-01-01T00:00:00Z";

    fn policy() -> Value {
        json!({ "timeoutSeconds": 600, "backoffLimit": 3 })
    }

    fn copy() -> Value {
        json!({ "tag": "v0", "ownerReferences": [{ "uid": "j", "fieldPath": COPY_OF }] })
    }

    #[rstest]
    #[case::least(json!([{ "tag": "v1" }]), Value::Null, json!([whole("v1", NOW, policy())]))]
    #[case::a_null(json!([{ "tag": "v1", "pullPolicy": null, "createdAt": null }]), Value::Null, json!([whole("v1", NOW, policy())]))]
    #[case::what_is_given_stays(
        json!([whole("v1", BEFORE, json!({ "timeoutSeconds": 5, "backoffLimit": 0, "ttlSecondsAfterFinished": 7 }))]), Value::Null,
        json!([whole("v1", BEFORE, json!({ "timeoutSeconds": 5, "backoffLimit": 0, "ttlSecondsAfterFinished": 7 }))]))]
    #[case::a_part_of_a_policy(
        json!([{ "tag": "v1", "pullPolicy": { "ttlSecondsAfterFinished": 7 } }]), Value::Null,
        json!([whole("v1", NOW, json!({ "timeoutSeconds": 600, "backoffLimit": 3, "ttlSecondsAfterFinished": 7 }))]))]
    #[case::sorted_by_tag(
        json!([{ "tag": "v2" }, { "tag": "v1" }]), Value::Null,
        json!([whole("v1", NOW, policy()), whole("v2", NOW, policy())]))]
    #[case::written_again(json!([{ "tag": "v1" }]), json!([whole("v1", BEFORE, policy())]), json!([whole("v1", BEFORE, policy())]))]
    // An agent takes out a tag, or adds a copy: the others stay as they were.
    #[case::one_that_stays(json!([{ "tag": "v2" }, copy()]), json!([{ "tag": "v2" }, { "tag": "v1" }]), json!([{ "tag": "v2" }, copy()]))]
    #[case::a_copy(json!([copy()]), Value::Null, json!([copy()]))]
    #[case::no_tag(json!([7, { "tag": 1 }]), json!("x"), json!([7, { "tag": 1, "createdAt": NOW, "pullPolicy": policy() }]))]
    #[case::no_list(json!("x"), json!([7]), json!("x"))]
    fn tags_read_back_whole(#[case] tags: Value, #[case] before: Value, #[case] expected: Value) {
        assert_eq!(stored(tags, before), expected);
    }

    #[test]
    fn what_is_stored_stays_when_it_is_written_again() {
        let first = stored(json!([{ "tag": "v1" }, copy()]), Value::Null);
        assert_eq!(stored(first.clone(), first.clone()), first);
        let request = Request { object: json!({ "spec": {} }), ..Request::default() };
        let verdict = complete(&request, Timestamp::UNIX_EPOCH);
        assert_eq!(verdict, Verdict::Allowed { object: Some(request.object), warnings: Vec::new() });
    }
}
