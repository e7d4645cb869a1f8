//! Entries that the template of a workload asks for, or had before, and entries that nothing asks for.

use serde_json::json;

use super::*;

/// Workload of a kind, and an entry of it with a change.
fn of(kind: &str) -> (DynamicObject, impl Fn(Value) -> DesiredPod) {
    let set = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": kind,
        "metadata": { "namespace": "shop", "name": "web", "uid": "u" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web", "version": "2" }, "annotations": { "conf": "b" } },
                "spec": { "containers": [{ "name": "main", "image": "main:2" }, { "name": "log", "image": "log:1" }] },
            },
        },
    }));
    let owner = format!("{kind}/web");
    let entry = move |change: Value| -> DesiredPod {
        let mut entry = json!({
            "uid": "p", "namespace": "shop", "name": "web-a", "owner": owner, "ownerUid": "u",
            "revision": "web-3",
        });
        for (key, value) in change.as_object().unwrap() {
            entry[key] = value.clone();
        }
        serde_json::from_value(entry).unwrap()
    };
    (set.unwrap(), entry)
}

#[test]
fn only_what_its_template_names_is_asked_for() {
    let image = |name: &str, image: &str| json!({ "containers": [{ "name": name, "image": image }] });
    let table = [
        (image("main", "main:2"), None),
        (image("main", "main:1"), Some("does not name image main:1 for container main")),
        (image("log", "main:2"), Some("for container log")),
        (image("other", "main:2"), Some("for container other")),
        (json!({ "ownerUid": "v" }), Some("was made anew")),
        (json!({ "labels": { REVISION_LABEL: "web-3", "version": "2" } }), None),
        (json!({ "labels": { "version": "3" } }), Some("version with this value")),
        (json!({ "labels": { TEMPLATE_HASH_LABEL: "4" } }), Some("pod-template-hash with this value")),
        (json!({ "labels": { TEMPLATE_HASH_LABEL: "web-3" } }), Some("pod-template-hash with this value")),
        (json!({ "annotations": { "conf": "b" } }), None),
        (json!({ "annotations": { "conf": "c" } }), Some("conf with this value")),
        (json!({ "mergeAnnotations": { "conf": "{}" } }), Some("conf with this value")),
        (json!({ "defaultAnnotations": { "conf": "b" } }), Some("conf with this value")),
        // Of a pod that has twins, as of a SidecarSet.
        (
            json!({ "swaps": [{ "name": "log", "image": "log:1", "emptyImage": "main:2" }] }),
            Some("asks for no swaps, and this entry has one of log"),
        ),
    ];
    for (kind, _, _) in KINDS {
        let (set, entry) = of(kind);
        for (change, why) in &table {
            let word = asks_for(&set, &entry(change.clone())).map_err(|why| why.to_string());
            match why {
                None => assert_eq!(word, Ok(()), "{change}"),
                Some(why) => {
                    let says = |text: &String| text.contains(why) && text.contains(kind);
                    assert!(word.as_ref().is_err_and(says), "{change}: {word:?}");
                }
            }
        }
    }
}

/// CloneSets alone look back, and only where a partition keeps pods.
#[test]
fn what_earlier_templates_had_is_asked_for_where_pods_are_kept() {
    let image = |name: &str, image: &str| json!({ "containers": [{ "name": name, "image": image }] });
    let noted = [
        Part::Image { container: "main", image: "main:1" },
        Part::Label { key: "version", value: "1" },
        Part::Annotation { key: "conf", value: "a" },
    ];
    let noted = noted.map(Part::digest).join(",");
    let whole = json!({
        "containers": [{ "name": "main", "image": "main:1" }],
        "labels": { REVISION_LABEL: "web-3", "version": "1" }, "annotations": { "conf": "a" },
    });
    let entries = [
        (whole, true),
        (image("main", "main:1"), true),
        (image("main", "evil:1"), false),
        (image("log", "main:1"), false),
        (json!({ "labels": { "version": "0" } }), false),
        (json!({ "labels": { "conf": "a" } }), false),
        (json!({ "annotations": { "version": "1" } }), false),
        (json!({ "mergeAnnotations": { "conf": "a" } }), false),
        (json!({ "defaultAnnotations": { "conf": "a" } }), false),
    ];
    let partitions = [
        (json!(1), true),
        (json!("50%"), true),
        (json!(0), false),
        (json!(-1), false),
        (json!("0%"), false),
        (Value::Null, false),
    ];
    for (kind, _, _) in KINDS {
        let (mut set, entry) = of(kind);
        set.metadata.annotations = Some([(TEMPLATE_HISTORY.to_owned(), noted.clone())].into());
        for (partition, keeps) in &partitions {
            set.data["spec"]["updateStrategy"] = json!({ "partition": partition });
            for (change, has_stood) in &entries {
                let word = asks_for(&set, &entry(change.clone()));
                let expect = kind == "CloneSet" && *keeps && *has_stood;
                assert_eq!(word.is_ok(), expect, "{kind}, {partition}, {change}: {word:?}");
            }
        }
        set.metadata.annotations = None;
        set.data["spec"]["updateStrategy"] = json!({ "partition": 1 });
        assert!(asks_for(&set, &entry(image("main", "main:1"))).is_err(), "{kind}: nothing is noted");
    }
}

/// Only that the agent may not read is no matter of when it looked.
#[test]
fn what_comes_too_late_is_told_from_what_cannot_be_done() {
    let text = || "web".to_owned();
    for (why, reason) in [
        (Unasked::Absent(text()), FailureReason::NotAskedFor),
        (Unasked::Other(text()), FailureReason::NotAskedFor),
        (Unasked::Image { set: text(), container: text(), image: text() }, FailureReason::NotAskedFor),
        (Unasked::Metadata { set: text(), key: text() }, FailureReason::NotAskedFor),
        (Unasked::Swap { set: text(), name: text() }, FailureReason::InvalidRequest),
        (Unasked::Forbidden(KINDS[0].2), FailureReason::InvalidRequest),
    ] {
        assert_eq!(Failure::from(why.clone()).reason, reason, "{why}");
    }
}

#[test]
fn the_hash_of_the_revision_is_a_clone_sets() {
    for (kind, _, _) in KINDS {
        let (set, entry) = of(kind);
        let word = asks_for(&set, &entry(json!({ "labels": { TEMPLATE_HASH_LABEL: "3" } })));
        assert_eq!(word.is_ok(), kind == "CloneSet", "{kind}: {word:?}");
    }
}

#[test]
fn entries_of_workloads_wait_for_a_word_and_those_of_others_do_not() {
    for (kind, _, _) in KINDS {
        let (_, entry) = of(kind);
        assert_eq!(Workloads::default().word(&entry(json!({}))), None, "{kind} was not read yet");
    }
    let (_, entry) = of("SidecarSet");
    for owner in ["", "SidecarSet/web"] {
        assert_eq!(Workloads::default().word(&entry(json!({ "owner": owner }))), Some(Ok(())));
    }
}
