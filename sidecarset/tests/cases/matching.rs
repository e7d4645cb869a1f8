//! Which pods a set takes, and which of its revisions they get.

use berth_sidecarset::{Content, Set, encode, fields_of};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    worked::with,
    world::{injected, parsed, pod, row, stored, typed},
};

fn log() -> Value {
    json!({"containers": [{"name": "log"}]})
}

fn selecting(selector: Value) -> Value {
    with(log(), "selector", selector)
}

fn expression(operator: &str, values: Value) -> Value {
    selecting(json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}))
}

#[rstest]
#[case::label(log(), json!({}), true)]
#[case::other_value(log(), json!({"$labels": {"app": "x"}}), false)]
#[case::no_labels(log(), json!({"$labels": {}}), false)]
#[case::empty_selector(selecting(json!({})), json!({}), false)]
#[case::both_parts(selecting(json!({"matchLabels": {"app": "shop"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
    json!({}), false)]
#[case::within(expression("In", json!(["a", "b"])), json!({"$labels": {"tier": "b"}}), true)]
#[case::within_absent(expression("In", json!(["a"])), json!({}), false)]
#[case::not_within(expression("NotIn", json!(["a"])), json!({"$labels": {"tier": "b"}}), true)]
#[case::not_within_absent(expression("NotIn", json!(["a"])), json!({}), true)]
#[case::not_within_but_is(expression("NotIn", json!(["a"])), json!({"$labels": {"tier": "a"}}), false)]
#[case::exists(expression("Exists", json!([])), json!({"$labels": {"tier": ""}}), true)]
#[case::absent(expression("DoesNotExist", json!([])), json!({}), true)]
#[case::absent_but_is(expression("DoesNotExist", json!([])), json!({"$labels": {"tier": ""}}), false)]
#[case::namespace(with(log(), "namespace", json!("default")), json!({}), true)]
#[case::other_namespace(with(log(), "namespace", json!("other")), json!({}), false)]
#[case::namespace_labels(with(log(), "namespaceSelector", json!({"matchLabels": {"team": "shop"}})), json!({}), true)]
#[case::other_namespace_labels(with(log(), "namespaceSelector", json!({"matchLabels": {"team": "x"}})), json!({}), false)]
fn takes(#[case] set: Value, #[case] pod: Value, #[case] taken: bool) {
    let containers = if taken { "log app" } else { "app" };
    row(&json!([set]), &pod, &json!({"C": containers}));
}

#[rstest]
#[case("/metadata/namespace", json!("other"), "app")]
#[case("/metadata/deletionTimestamp", json!("2026-11-22T14:00:00Z"), "app")]
#[case("/status", json!({"phase": "Failed"}), "app")]
#[case("/status", json!({"phase": "Succeeded"}), "app")]
#[case("/status", json!({"phase": "Pending"}), "log app")]
fn states_of_a_pod(#[case] path: &str, #[case] value: Value, #[case] containers: &str) {
    let set = parsed(&with(log(), "namespace", json!("default")));
    let mut pod = pod(&json!({}));
    let (parent, member) = path.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[member] = value;
    injected(&mut pod, &[set], 0).unwrap();
    let names = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>().join(" "), containers);
}

/// No label is a namespace's that cannot be read.
#[test]
fn namespaces_that_cannot_be_read() {
    let set = parsed(&with(
        log(),
        "namespaceSelector",
        json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
    ));
    let labels = [("app".to_owned(), "shop".to_owned())].into();
    assert!(set.takes(&labels, "default", Some(&[("a".to_owned(), "b".to_owned())].into())));
    assert!(!set.takes(&labels, "default", None));
}

#[test]
fn a_canary_takes_the_place_of_its_base() {
    let canary = with(
        json!({"$name": "t", "containers": [{"name": "canary"}]}),
        "$annotations",
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "s"}),
    );
    row(&json!([log(), canary.clone()]), &json!({}), &json!({"C": "canary app"}));
    let elsewhere = with(canary, "namespace", json!("other"));
    row(&json!([log(), elsewhere]), &json!({}), &json!({"C": "log app"}));
}

/// A set whose newest image is `log:3`, with `log:1` (version `stable`) and `log:2` in its history.
fn with_history(injection: Value, update: Value) -> Set {
    let named = |number: usize| {
        let set = stored(&json!({"containers": [{"name": "log", "image": format!("log:{number}")}]}));
        let annotations = &set["metadata"]["annotations"];
        let content =
            Content { name: format!("s-{number}"), fields: fields_of(set["spec"].as_object().unwrap()) };
        let revision = json!({
            "name": content.name, "revision": number,
            "hash": annotations["kruise.io/sidecarset-hash"],
            "hashWithoutImage": annotations["kruise.io/sidecarset-hash-without-image"],
            "customVersion": if number == 1 { json!("stable") } else { Value::Null },
        });
        (content, revision)
    };
    let (contents, mut revisions): (Vec<_>, Vec<_>) = [1, 2, 3].map(named).into_iter().unzip();
    // In the list, not in the history: as when somebody else wrote one of them.
    revisions.push(json!({"name": "s-0", "revision": 0}));
    let mut set = stored(&json!({"containers": [{"name": "log", "image": "log:3"}]}));
    set["spec"]["injectionStrategy"] = injection;
    set["spec"]["updateStrategy"] = update;
    set["status"] =
        json!({"latestRevision": "s-3", "revisions": revisions, "history": encode(&contents).unwrap()});
    Set::parse(&typed(&set)).unwrap()
}

fn revision(fields: Value) -> Value {
    json!({"revision": fields})
}

#[rstest]
#[case::newest(json!({}), json!({}), 0, "log:3 s-3")]
#[case::both_names_empty(revision(json!({"revisionName": ""})), json!({}), 0, "log:3 s-3")]
#[case::always(revision(json!({"revisionName": "s-1"})), json!({}), 99, "log:1 s-1")]
#[case::version(revision(json!({"customVersion": "stable"})), json!({}), 99, "log:1 s-1")]
#[case::missing(revision(json!({"revisionName": "s-9"})), json!({}), 0, "there is no revision s-9")]
#[case::missing_version(revision(json!({"customVersion": "old"})), json!({}), 0, "there is no revision old")]
#[case::no_content(revision(json!({"revisionName": "s-0"})), json!({}), 0, "there is no revision s-0")]
#[case::share_below(partial(), json!({"partition": "90%"}), 89, "log:1 s-1")]
#[case::share_above(partial(), json!({"partition": "90%"}), 90, "log:3 s-3")]
#[case::whole_share(partial(), json!({"partition": "100%"}), 99, "log:1 s-1")]
#[case::no_share(partial(), json!({"partition": "0%"}), 0, "log:3 s-3")]
#[case::number(partial(), json!({"partition": 9}), 0, "log:3 s-3")]
#[case::no_partition(partial(), json!({}), 0, "log:3 s-3")]
#[case::paused(partial(), json!({"paused": true}), 99, "log:1 s-1")]
#[case::not_selected(partial(), json!({"selector": {"matchLabels": {"canary": "y"}}}), 99, "log:1 s-1")]
#[case::selects_nothing(partial(), json!({"selector": {}}), 0, "log:3 s-3")]
#[case::selected(partial(), json!({"selector": {"matchLabels": {"app": "shop"}}}), 0, "log:3 s-3")]
#[case::selected_share(partial(), json!({"selector": {"matchLabels": {"app": "shop"}}, "partition": "10%"}), 9, "log:1 s-1")]
fn revisions(#[case] injection: Value, #[case] update: Value, #[case] draw: u8, #[case] expected: &str) {
    let set = [with_history(injection, update)];
    let mut pod = pod(&json!({}));
    match injected(&mut pod, &set, draw) {
        Err(refusal) => assert!(refusal.to_string().contains(expected), "{refusal}"),
        Ok(_) => {
            let hash = pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap();
            let hash: Value = serde_json::from_str(hash).unwrap();
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            assert_eq!(format!("{image} {}", hash["s"]["controllerRevision"].as_str().unwrap()), expected);
            let expected = stored(&json!({"containers": [{"name": "log", "image": image}]}));
            assert_eq!(hash["s"]["hash"], expected["metadata"]["annotations"]["kruise.io/sidecarset-hash"]);
            // Asked for again, another draw changes nothing.
            let once = pod.clone();
            injected(&mut pod, &set, 100 - draw).unwrap();
            assert_eq!(pod, once);
        }
    }
}

fn partial() -> Value {
    revision(json!({"revisionName": "s-1", "policy": "Partial"}))
}

/// Ninety of a hundred pods get it.
#[test]
fn the_share_is_that_of_the_partition() {
    let set = [with_history(partial(), json!({"partition": "90%"}))];
    let named = (0..100).filter(|draw| {
        let mut pod = pod(&json!({}));
        injected(&mut pod, &set, *draw).unwrap();
        pod["spec"]["containers"][0]["image"] == "log:1"
    });
    assert_eq!(named.count(), 90);
}

/// Between an edit and its record the name of the revision before would be wrong.
#[test]
fn a_revision_that_is_not_recorded_has_no_name() {
    let mut set = stored(&log());
    set["status"] =
        json!({"latestRevision": "s-old", "revisions": [{"name": "s-old", "revision": 1, "hash": "other"}]});
    let mut pod = pod(&json!({}));
    injected(&mut pod, &[Set::parse(&typed(&set)).unwrap()], 0).unwrap();
    assert!(
        !pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
            .as_str()
            .unwrap()
            .contains("controllerRevision")
    );
}
