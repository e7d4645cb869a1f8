//! `spec.images` as OpenKruise's clients read it: a tag goes when its time after its end is over, and where
//! that is chosen tags that jobs want stand in it with their owners.
//!
//! OpenKruise's controller sees to both. Berth's manager writes status alone, so the agent of the node does
//! it, in its own object. A copy of what is desired says by the `fieldPath` of its owners that it is one, and
//! asks for nothing. What others have written stays as it is until its time is over.

use std::{collections::BTreeMap, time::Duration};

use berth_proto::{
    crd::{ImagePhase, ImageSpec, ImageTagSpec, NodeImageStatus, SandboxConfig},
    image::Reference,
    size,
};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};

/// Part of the object that a copy is of.
const COPY_OF: &str = "status.desiredImages";
/// Owners that OpenKruise's clients know.
const OWNER_VERSION: &str = "apps.kruise.io/v1alpha1";
const OWNER_KIND: &str = "ImagePullJob";
/// Most names that the definition of the kind takes, and most wishes that are shown.
const MOST: usize = 256;
/// Most bytes of all copies: the object has each wish twice then, and etcd takes 1.5 MB.
const LARGEST: usize = 128 << 10;

/// Contents of `spec.images`, by name.
pub(super) type Images = BTreeMap<String, ImageSpec>;

/// Changes that are due.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Due {
    /// Members that are to be merged into `spec.images`; null takes a name out.
    pub(super) changes: BTreeMap<String, Value>,
    /// When the next time is over.
    pub(super) again: Option<Timestamp>,
}

/// Copies under one name.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// By tag.
    tags: BTreeMap<String, ImageTagSpec>,
    sandbox: Option<SandboxConfig>,
}

/// Tells whether a tag was copied from what is desired.
pub(super) fn is_copy(tag: &ImageTagSpec) -> bool {
    let mut owners = tag.owner_references.iter();
    !tag.owner_references.is_empty() && owners.all(|owner| owner.field_path.as_deref() == Some(COPY_OF))
}

/// Compares `spec.images` with what is to stand there, of jobs these copies.
pub(super) fn due(
    images: &Images,
    status: &NodeImageStatus,
    mut copies: BTreeMap<String, Copies>,
    now: Timestamp,
) -> Due {
    let mut due = Due::default();
    for (name, image) in images {
        let mut copied = copies.remove(name).unwrap_or_default().tags;
        let mut tags = Vec::with_capacity(image.tags.len());
        for tag in &image.tags {
            if is_copy(tag) {
                tags.extend(copied.remove(&tag.tag));
                continue;
            }
            let over = over_at(name, tag, status);
            if over.is_some_and(|over| over <= now) {
                continue;
            }
            due.again = due.again.into_iter().chain(over).min();
            copied.remove(&tag.tag);
            tags.push(tag.clone());
        }
        tags.extend(copied.into_values());
        if tags != image.tags {
            let left = if tags.is_empty() { Value::Null } else { json!({ "tags": tags }) };
            due.changes.insert(name.clone(), left);
        }
    }
    let room = MOST.saturating_sub(images.len());
    for (name, Copies { tags, sandbox }) in copies.into_iter().take(room) {
        let tags: Vec<ImageTagSpec> = tags.into_values().collect();
        due.changes.insert(name, json!({ "tags": tags, "sandboxConfig": sandbox }));
    }
    due
}

/// Returns when the time of a tag after its end is over.
fn over_at(name: &str, tag: &ImageTagSpec, status: &NodeImageStatus) -> Option<Timestamp> {
    let kept = tag.pull_policy.as_ref()?.ttl_seconds_after_finished?;
    let told = status.image_statuses.get(name)?.tags.iter().find(|told| told.tag == tag.tag)?;
    let is_its_own = told.version.unwrap_or_default() == tag.version.unwrap_or_default();
    let has_ended = matches!(told.phase, ImagePhase::Succeeded | ImagePhase::Failed);
    let ended = told.completion_time.as_ref().filter(|_| is_its_own && has_ended)?;
    ended.0.checked_add(Duration::from_secs(kept.max(0).unsigned_abs().into())).ok()
}

/// Tags that jobs want, by name as OpenKruise writes it. What is too large is not shown at all: a part would
/// say that the rest is not wanted.
pub(super) fn copies(status: &NodeImageStatus) -> BTreeMap<String, Copies> {
    let mut copies: BTreeMap<String, Copies> = BTreeMap::new();
    if status.desired_images.len() > MOST {
        return copies;
    }
    for desired in &status.desired_images {
        let Some(by) = desired.wanted_by.as_ref().filter(|by| by.kind == OWNER_KIND) else { continue };
        let Ok(reference) = desired.image.parse::<Reference>() else { continue };
        let of_name = copies.entry(reference.familiar_name()).or_default();
        of_name.sandbox = desired.sandbox_config.clone().or(of_name.sandbox.take());
        let tag = of_name.tags.entry(reference.entry().to_owned()).or_insert_with(|| ImageTagSpec {
            tag: reference.entry().to_owned(),
            pull_policy: desired.pull_policy.clone(),
            image_pull_policy: desired.image_pull_policy,
            ..ImageTagSpec::default()
        });
        let since = [&tag.created_at, &desired.since].into_iter().flatten().map(|time| time.0).max();
        tag.created_at = since.map(Time);
        tag.version = tag.version.max(desired.version);
        tag.owner_references.push(ObjectReference {
            api_version: Some(OWNER_VERSION.to_owned()),
            kind: Some(OWNER_KIND.to_owned()),
            namespace: Some(by.namespace.clone()),
            name: Some(by.name.clone()),
            uid: Some(desired.uid.clone()),
            field_path: Some(COPY_OF.to_owned()),
            resource_version: None,
        });
    }
    let sizes = copies.iter().map(|(name, copies)| size::bytes(&(name, &copies.tags, &copies.sandbox)));
    if sizes.fold(0, usize::saturating_add) > LARGEST {
        copies.clear();
    }
    copies
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::NodeImage;

    use super::*;

    const AT: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z

    fn due_at(spec: &Value, status: &Value, at: i64) -> Due {
        let object = json!({ "metadata": { "name": "node" }, "spec": { "images": spec }, "status": status });
        let object: NodeImage = serde_json::from_value(object).expect("an object");
        let now = Timestamp::from_second(at).expect("a time");
        let status = object.status.unwrap_or_default();
        due(&object.spec.images, &status, copies(&status), now)
    }

    fn desired(uid: &str, image: &str) -> Value {
        json!({ "uid": uid, "image": image, "since": "2026-01-01T00:00:00Z", "version": 1,
            "sandboxConfig": { "labels": { "a": "b" } },
            "wantedBy": { "kind": "ImagePullJob", "namespace": "shop", "name": uid } })
    }

    fn copy(tag: &str, uids: &[&str]) -> Value {
        let owner = |uid: &&str| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "namespace": "shop",
                "name": uid, "uid": uid, "fieldPath": "status.desiredImages" })
        };
        json!({ "tag": tag, "createdAt": "2026-01-01T00:00:00Z", "version": 1,
            "ownerReferences": uids.iter().map(owner).collect::<Value>() })
    }

    #[test]
    fn what_jobs_want_stands_there_with_its_owners() {
        let none = json!({});
        let wanted = |uids: &[&str]| {
            let desired: Value = uids.iter().map(|uid| desired(uid, "docker.io/library/app:v1")).collect();
            json!({ "desiredImages": desired })
        };
        let own = json!({ "tag": "v1" });
        let tags = |tags: Value| json!({ "app": { "tags": tags } });
        let sandbox = json!({ "labels": { "a": "b" } });
        let new = |tags: Value| json!({ "app": { "tags": tags, "sandboxConfig": sandbox } });
        for (what, spec, status, expected) in [
            ("nothing is wanted", none.clone(), json!({}), none.clone()),
            ("a job wants it", none.clone(), wanted(&["j"]), new(json!([copy("v1", &["j"])]))),
            ("two jobs want it", none.clone(), wanted(&["i", "j"]), new(json!([copy("v1", &["i", "j"])]))),
            ("it stands there", tags(json!([copy("v1", &["j"])])), wanted(&["j"]), none.clone()),
            (
                "one of two jobs is over",
                tags(json!([copy("v1", &["i", "j"])])),
                wanted(&["j"]),
                tags(json!([copy("v1", &["j"])])),
            ),
            ("the job is over", tags(json!([copy("v1", &["j"])])), json!({}), json!({ "app": null })),
            ("somebody else asks for it", tags(json!([own])), wanted(&["j"]), none.clone()),
            (
                "somebody else asks for another tag",
                tags(json!([{ "tag": "v0" }])),
                wanted(&["j"]),
                tags(json!([{ "tag": "v0" }, copy("v1", &["j"])])),
            ),
            (
                "the job is over, and somebody else asks for another tag",
                tags(json!([copy("v1", &["j"]), { "tag": "v0" }])),
                json!({}),
                tags(json!([{ "tag": "v0" }])),
            ),
        ] {
            let due = due_at(&spec, &status, AT);
            assert_eq!(json!(due.changes), expected, "{what}");
            assert_eq!(due.again, None, "{what}");
        }
    }

    #[test]
    fn a_tag_goes_when_its_time_after_its_end_is_over() {
        let tag = |version: i64| json!({ "tag": "v1", "version": version, "pullPolicy": { "ttlSecondsAfterFinished": 20 } });
        let told = |phase: &str| {
            json!({ "imageStatuses": { "app": { "tags": [{ "tag": "v1", "version": 1, "phase": phase,
                "completionTime": "2026-01-01T00:00:00Z" }] } } })
        };
        let again = Some(Timestamp::from_second(AT + 20).expect("a time"));
        let (ended, none) = (told("Succeeded"), json!({}));
        for (what, tag, status, at, expected, again) in [
            ("not ended", tag(1), json!({}), AT + 60, none.clone(), None),
            ("pulled", tag(1), told("Pulling"), AT + 60, none.clone(), None),
            ("not yet", tag(1), ended.clone(), AT + 19, none.clone(), again),
            ("over", tag(1), ended.clone(), AT + 20, json!({ "app": null }), None),
            ("failed, and over", tag(1), told("Failed"), AT + 20, json!({ "app": null }), None),
            ("asked for anew", tag(2), ended.clone(), AT + 60, none.clone(), None),
            ("kept for ever", json!({ "tag": "v1", "version": 1 }), ended.clone(), AT + 60, none, None),
        ] {
            let due = due_at(&json!({ "app": { "tags": [tag] } }), &status, at);
            assert_eq!((json!(due.changes), due.again), (expected, again), "{what}");
        }
    }

    #[test]
    fn what_is_too_much_is_not_shown() {
        let one = |at: usize| desired(&at.to_string(), &format!("app{at}"));
        let many = |count: usize| (0..count).map(one).collect::<Value>();
        let wanted = |desired: Value| json!({ "desiredImages": desired });
        let shown = |desired: Value| due_at(&json!({}), &wanted(desired), AT).changes.len();
        assert_eq!(shown(many(256)), 256);
        assert_eq!(shown(many(257)), 0, "too many");
        let mut large = desired("j", "app");
        large["sandboxConfig"]["annotations"] = json!({ "a": "x".repeat(LARGEST) });
        assert_eq!(shown(json!([large])), 0, "too large");
        // Other names leave room for a few.
        let own: serde_json::Map<_, _> =
            (0..255).map(|at| (format!("own{at}"), json!({ "tags": [{ "tag": "v1" }] }))).collect();
        let due = due_at(&own.into(), &wanted(many(9)), AT);
        assert_eq!(due.changes.len(), 1);
    }
}
