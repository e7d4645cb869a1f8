//! Rules and patches, put into pods.

use rstest::rstest;
use serde_json::{Map, Value, json};

use super::spread;
use crate::{MATCHED, Matched, inject, is_merged, merge, metadata};

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[rstest]
#[case::resources(
    json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}}),
    json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}}),
    json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "2"}}}, {"name": "b"}]}})
)]
#[case::env(
    json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}]}})
)]
#[case::labels(json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {"labels": {"b": "2"}}}), json!({"metadata": {"labels": {"a": "1", "b": "2"}}}))]
#[case::null_takes_away(json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {"labels": {"a": null}}}), json!({"metadata": {"labels": {}}}))]
#[case::plain_lists_are_replaced(json!({"spec": {"tolerations": [{"key": "a"}]}}), json!({"spec": {"tolerations": [{"key": "b"}]}}), json!({"spec": {"tolerations": [{"key": "b"}]}}))]
#[case::item_goes(json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}), json!({"spec": {"volumes": [{"name": "a", "$patch": "delete"}]}}), json!({"spec": {"volumes": [{"name": "b"}]}}))]
#[case::list_is_replaced(json!({"spec": {"volumes": [{"name": "a"}]}}), json!({"spec": {"volumes": [{"$patch": "replace"}, {"name": "b"}]}}), json!({"spec": {"volumes": [{"name": "b"}]}}))]
#[case::map_is_replaced(json!({"spec": {"nodeSelector": {"a": "1"}}}), json!({"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}}), json!({"spec": {"nodeSelector": {"b": "2"}}}))]
#[case::order_says_nothing(json!({"spec": {"volumes": [{"name": "a"}]}}), json!({"spec": {"$setElementOrder/volumes": [{"name": "a"}]}}), json!({"spec": {"volumes": [{"name": "a"}]}}))]
#[case::finalizers(json!({"metadata": {"finalizers": ["a"]}}), json!({"metadata": {"finalizers": ["a", "b"]}}), json!({"metadata": {"finalizers": ["a", "b"]}}))]
#[case::where_there_is_nothing(json!({}), json!({"spec": {"containers": [{"name": "a"}]}}), json!({"spec": {"containers": [{"name": "a"}]}}))]
fn merges(#[case] mut pod: Value, #[case] patch: Value, #[case] expected: Value) {
    merge(&mut pod, &map(&patch)).unwrap();
    assert_eq!(pod, expected);
}

#[test]
fn a_patch_that_changes_nothing_is_told() {
    let pod = json!({"metadata": {"labels": {"a": "1"}, "annotations": {"x": "1"}}, "spec": {"containers": [{"name": "a"}]}});
    let annotation = json!({"metadata": {"labels": {"a": "1"}, "annotations": {"x": "2"}}});
    let is_merged = |patch: &Value| is_merged(&pod, &map(patch), &mut 1_000);
    assert_eq!(is_merged(&annotation), Ok(true), "annotations aside");
    assert_eq!(is_merged(&json!({"metadata": {"labels": {"a": "2"}}})), Ok(false));
}

/// Rows: a patch of `metadata`, and what a running pod gets of it.
#[rstest]
#[case::new_ones(
    json!({"labels": {"zone": "a"}, "annotations": {"note": "b"}}),
    json!({"labels": {"zone": "a"}, "annotations": {"note": "b"}})
)]
#[case::another_value(json!({"labels": {"app": "x", "tier": "2"}}), json!({"labels": {"tier": "2"}}))]
#[case::all_is_there(json!({"labels": {"app": "x"}, "annotations": {"x": "1"}}), json!({}))]
#[case::nothing_is_taken_off(json!({"labels": {"tier": null, "zone": "a"}}), json!({"labels": {"zone": "a"}}))]
#[case::nothing_is_replaced(json!({"labels": {"$patch": "replace", "zone": "a"}}), json!({"labels": {"zone": "a"}}))]
#[case::no_text(json!({"labels": {"zone": 1}, "annotations": ["x"]}), json!({}))]
#[case::nothing_else(json!({"finalizers": ["a"], "name": "b", "ownerReferences": [{"uid": "c"}]}), json!({}))]
#[case::keys_of_others(
    json!({
        "labels": {
            "pod-template-hash": "1", "controller-revision-hash": "2", "apps.kruise.io/x": "3", "kubernetes.io/x": "4",
            "topology.kubernetes.io/zone": "5", "my-kubernetes.io/x": "6", "kubernetes.io": "7", "x.org/kubernetes.io": "8",
        },
        "annotations": {MATCHED: "9", crate::COST: "10", "berth.dev/x": "11"},
    }),
    json!({"labels": {"kubernetes.io": "7", "my-kubernetes.io/x": "6", "x.org/kubernetes.io": "8"}})
)]
fn a_pod_that_was_there_before_gets_metadata(#[case] patch: Value, #[case] given: Value) {
    let pod = json!({"metadata": {"labels": {"app": "x", "tier": "1"}, "annotations": {"x": "1"}}});
    assert_eq!(Value::Object(metadata(&pod, &map(&json!({"metadata": patch, "spec": {"a": 1}})))), given);
    // One without any.
    let bare = metadata(&json!({"metadata": {}}), &map(&json!({"metadata": {"labels": {"zone": "a"}}})));
    assert_eq!(Value::Object(bare), json!({"labels": {"zone": "a"}}));
}

fn term(zone: &str) -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]})
}

/// Rows: what the pod has at a place, the patch there, and how it ends. Compared are at most some millions.
#[rstest]
#[case::usual("/spec/env", 1_000, 100, true)]
#[case::long("/spec/env", 100_000, 4_500, false)]
#[case::plain_values("/metadata/finalizers", 0, 16_000, false)]
#[case::values_that_go("/metadata/$deleteFromPrimitiveList/finalizers", 100_000, 4_500, false)]
#[case::keys_that_stay("/spec/$retainKeys", 0, 16_000, true)]
fn lists_that_are_too_long_are_not_compared(
    #[case] place: &str,
    #[case] known: usize,
    #[case] items: usize,
    #[case] merged: bool,
) {
    let (part, list) = place[1..].split_once('/').unwrap();
    let all = |count: usize, prefix: &str| -> Vec<Value> {
        let name = |at| format!("{prefix}{at}");
        (0..count).map(|at| if list == "env" { json!({"name": name(at)}) } else { json!(name(at)) }).collect()
    };
    let name = list.rsplit('/').next().unwrap();
    let mut pod = json!({ part: { name: all(known, "a") } });
    let patch = json!({ part: { list: all(items, "b") } });
    let error = merge(&mut pod, &map(&patch)).err();
    assert_eq!(error.is_none(), merged, "{error:?}");
    assert!(error.is_none_or(|error| error.contains(name)));
}

/// Injects a subset that asks nodes for these rules into a pod of so many empty terms.
fn of_terms(terms: usize, rules: Vec<Value>) -> Result<(), String> {
    let subsets = json!([{ "name": "a", "requiredNodeSelectorTerm": {"matchExpressions": rules} }]);
    let spread = spread("CloneSet", subsets);
    let terms = json!({"nodeSelectorTerms": vec![json!({}); terms]});
    let mut pod = json!({"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": terms,
    }}}});
    inject(&mut pod, &spread.subsets[0], &Matched::default())
}

/// Each term gets the rules, and a term of a pod is three bytes.
#[rstest]
#[case::usual(16, 128, true)]
#[case::many_terms(100_000, 1, false)]
#[case::many_of_both(2_000, 128, false)]
fn rules_are_not_written_into_too_many_terms(#[case] terms: usize, #[case] rules: usize, #[case] put: bool) {
    let rule = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let error = of_terms(terms, vec![rule; rules]).err();
    assert_eq!(error.is_none(), put, "{error:?}");
}

/// A rule may have hundreds of values: these have 190 KB together.
#[rstest]
#[case::one(1, true)]
#[case::five(5, true)]
#[case::six(6, false)]
fn long_rules_are_not_written_into_many_terms(#[case] terms: usize, #[case] put: bool) {
    let values: Vec<String> = (0..512).map(|number| format!("v{number:019}")).collect();
    let rule = json!({"key": "zone", "operator": "In", "values": values});
    let error = of_terms(terms, vec![rule; 16]).err();
    assert_eq!(error.is_none(), put, "{error:?}");
}

#[test]
fn a_pod_gets_the_rules_of_its_subset() {
    let subsets = json!([{
        "name": "a", "maxReplicas": 1, "requiredNodeSelectorTerm": term("a"),
        "preferredNodeSelectorTerms": [{"weight": 2, "preference": term("x")}],
        "tolerations": [{"key": "t"}], "patch": {"metadata": {"labels": {"subset": "a"}}},
    }]);
    let spread = spread("CloneSet", subsets);
    let matched = Matched { name: "ws".into(), subset: "a".into(), uid: Some("u".into()) };
    let mut pod = json!({"spec": {"tolerations": [{"key": "own"}], "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("1"), {"matchFields": []}]},
    }}}});
    inject(&mut pod, &spread.subsets[0], &matched).unwrap();
    let nodes = &pod["spec"]["affinity"]["nodeAffinity"];
    let terms = &nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    // A node must have one of the terms, so each has the rule.
    assert_eq!(terms[0]["matchExpressions"][1], term("a")["matchExpressions"][0]);
    assert_eq!(terms[1]["matchExpressions"], term("a")["matchExpressions"]);
    assert_eq!(nodes["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"], 2);
    assert_eq!(pod["spec"]["tolerations"], json!([{"key": "own"}, {"key": "t"}]));
    assert_eq!(pod["metadata"]["labels"], json!({"subset": "a"}));
    let read = Matched::read(pod["metadata"]["annotations"][MATCHED].as_str().unwrap());
    assert_eq!(read, Some(matched));
    let mut plain = json!({"spec": {}});
    inject(&mut plain, &spread.subsets[0], &Matched::default()).unwrap();
    let required =
        &plain["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"], json!([term("a")]));
}

/// The list of the patch stays where two cannot be merged. No patch says which subset the pod is in.
#[test]
fn a_patch_comes_after_the_rules() {
    let subsets = json!([{
        "name": "a", "tolerations": [{"key": "t"}], "requiredNodeSelectorTerm": term("a"),
        "patch": {"metadata": {"annotations": {MATCHED: "x"}}, "spec": {"tolerations": [{"key": "p"}]}},
    }]);
    let spread = spread("CloneSet", subsets);
    let matched = Matched { name: "ws".into(), subset: "a".into(), uid: None };
    let mut pod = json!({"spec": {"tolerations": [{"key": "own"}]}});
    inject(&mut pod, &spread.subsets[0], &matched).unwrap();
    assert_eq!(pod["spec"]["tolerations"], json!([{"key": "p"}]));
    assert!(pod["spec"]["affinity"]["nodeAffinity"].is_object());
    assert_eq!(Matched::read(pod["metadata"]["annotations"][MATCHED].as_str().unwrap()), Some(matched));
}

#[rstest]
#[case::openkruise(r#"{"name":"ws","subset":"a"}"#, true)]
#[case::no_json("ws", false)]
#[case::a_list("[]", false)]
#[case::no_subset(r#"{"name":"ws"}"#, false)]
#[case::a_number(r#"{"name":1,"subset":"a"}"#, false)]
fn annotations(#[case] text: &str, #[case] is: bool) {
    assert_eq!(Matched::read(text).is_some(), is);
}

/// A text may stand for eighty times as much memory, and nobody has checked how long that of a new pod is.
#[test]
fn an_annotation_of_many_maps_says_nothing() {
    let text =
        |maps: usize| format!(r#"{{"name":"ws","subset":"a","more":[{}{{}}]}}"#, r#"{"a":1},"#.repeat(maps));
    assert!(Matched::read(&text(1_000)).is_some());
    assert!(Matched::read(&text(100_000)).is_none());
}
