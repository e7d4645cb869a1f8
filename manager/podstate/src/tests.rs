use std::collections::BTreeMap;

use berth_proto::crd::{Numbers, PersistentPodState, PodState};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    annotations::{Action, SetView, plan},
    *,
};

fn object(spec: &Value) -> PersistentPodState {
    let mut whole = json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web" } });
    whole.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
    serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": { "namespace": "ns", "name": "web", "uid": "pps", "resourceVersion": "7" },
        "spec": whole,
    }))
    .unwrap()
}

fn rules(spec: &Value) -> Rules {
    Rules::of(&object(spec).spec).unwrap()
}

fn both() -> Value {
    json!({
        "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] },
        "preferredPersistentTopology": [{ "weight": 7, "preference": { "nodeTopologyKeys": ["host", "rack"] } }],
        "persistentPodAnnotations": [{ "key": "address" }],
    })
}

fn labels(given: &[(&str, &str)]) -> Labels {
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn state(node: &str, given: &[(&str, &str)]) -> PodState {
    PodState { node_name: Some(node.to_owned()), node_topology_labels: labels(given), ..PodState::default() }
}

/// Records after one look at pods, each with the node on which it is Ready.
fn recorded(
    spec: &Value,
    replicas: Option<i32>,
    pods: &[(&str, Option<&str>)],
    before: &[&str],
) -> BTreeMap<String, PodState> {
    let nodes = BTreeMap::from([
        ("n1", labels(&[("zone", "z1"), ("host", "n1"), ("else", "x")])),
        ("n2", labels(&[("zone", "z2"), ("host", "n2"), ("rack", "r2")])),
    ]);
    let annotations = labels(&[("address", "10.0.0.7"), ("else", "x")]);
    let pods: Vec<PodView<'_>> = pods
        .iter()
        .map(|(name, ready_on)| PodView { name, ready_on: *ready_on, annotations: &annotations })
        .collect();
    let target =
        replicas.map(|replicas| Target { replicas, start: 0, reserved: Numbers::from_iter([(1, 1)]) });
    let before = before.iter().map(|name| ((*name).to_owned(), state("old", &[("zone", "z0")]))).collect();
    record(&rules(spec), target.as_ref(), &pods, |node| nodes.get(node).cloned(), &before).states
}

#[test]
fn a_pod_that_is_ready_is_recorded_with_what_its_node_has() {
    let states =
        recorded(&both(), Some(3), &[("web-0", Some("n1")), ("web-2", Some("n2")), ("web-3", None)], &[]);
    assert_eq!(states.keys().collect::<Vec<_>>(), ["web-0", "web-2"], "one that is not Ready is not");
    let expected = PodState {
        annotations: labels(&[("address", "10.0.0.7")]),
        ..state("n1", &[("zone", "z1"), ("host", "n1")])
    };
    assert_eq!(states["web-0"], expected);
    assert_eq!(
        states["web-2"].node_topology_labels,
        labels(&[("zone", "z2"), ("host", "n2"), ("rack", "r2")])
    );
}

/// Keys that change, and a node that is another one, are followed; a node that nobody knows says nothing.
#[test]
fn a_record_follows() {
    let states =
        recorded(&both(), Some(3), &[("web-0", Some("n1")), ("web-2", Some("gone"))], &["web-0", "web-2"]);
    assert_eq!(states["web-0"].node_topology_labels, labels(&[("zone", "z1"), ("host", "n1")]));
    assert_eq!(states["web-2"], state("old", &[("zone", "z0")]));
}

#[rstest]
#[case::numbers_that_are_wanted(json!({}), Some(3), &["web-0", "web-2", "web-3"])]
#[case::scaled_in(json!({}), Some(1), &["web-0"])]
#[case::to_nothing(json!({}), Some(0), &[])]
#[case::kept(json!({ "persistentPodStateRetentionPolicy": "WhenDeleted" }), Some(0), &["web-0", "web-1", "web-2", "web-3", "web-4"])]
#[case::the_set_is_gone(json!({ "persistentPodStateRetentionPolicy": "WhenDeleted" }), None, &[])]
fn records_end_with_their_numbers(#[case] more: Value, #[case] replicas: Option<i32>, #[case] left: &[&str]) {
    let mut spec = both();
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let before = ["web-0", "web-1", "web-2", "web-3", "web-4"];
    let states = recorded(&spec, replicas, &[], &before);
    assert_eq!(states.keys().map(String::as_str).collect::<Vec<_>>(), left);
}

/// Numbers of a StatefulSet of Kubernetes may begin later; OpenKruise forgets all of those.
#[rstest]
#[case::first(5, &[], "web-5", true)]
#[case::last(5, &[], "web-7", true)]
#[case::below(5, &[], "web-4", false)]
#[case::above(5, &[], "web-8", false)]
#[case::one_is_left_out(5, &[(6, 6)], "web-8", true)]
#[case::left_out(5, &[(6, 6)], "web-6", false)]
#[case::left_out_below_the_first(5, &[(2, 2)], "web-8", false)]
#[case::a_range_is_left_out(5, &[(6, 9)], "web-11", true)]
#[case::beyond_a_range(5, &[(6, 9)], "web-12", false)]
#[case::a_long_range(0, &[(1, 2_147_483_647)], "web-2147483649", true)]
#[case::the_end_of_numbers(i32::MAX, &[], "web-2147483647", true)]
fn numbers(#[case] start: i32, #[case] reserved: &[(i64, i64)], #[case] name: &str, #[case] wanted: bool) {
    let target = Target { replicas: 3, start, reserved: reserved.iter().copied().collect() };
    assert_eq!(target.wants(name), wanted);
}

#[test]
fn a_pod_that_is_there_keeps_its_record() {
    let states = recorded(&both(), Some(1), &[("web-3", None)], &["web-0", "web-3", "odd"]);
    assert_eq!(states.keys().collect::<Vec<_>>(), ["odd", "web-0", "web-3"]);
}

#[test]
fn records_have_a_bound() {
    let (rules, target) = (rules(&both()), Target { replicas: i32::MAX, ..Target::default() });
    let names: Vec<String> = (0..8000).map(|number| format!("web-{number}")).collect();
    let (annotations, node) = (labels(&[]), labels(&[("zone", &"z".repeat(100))]));
    let views: Vec<PodView<'_>> =
        names.iter().map(|name| PodView { name, ready_on: Some("n"), annotations: &annotations }).collect();
    let Records { states, left_out } =
        record(&rules, Some(&target), &views, |_| Some(node.clone()), &BTreeMap::new());
    assert!(left_out > 0 && states.len() + left_out == 8000, "{left_out}");
    assert!(serde_json::to_vec(&states).unwrap().len() < 1 << 20);
    // Known ones are followed also when there is no room.
    let again = record(&rules, Some(&target), &views, |_| Some(node.clone()), &states);
    assert_eq!((again.states, again.left_out), (states, left_out));
}

/// 64 terms of 64 keys each, and 10,000 pods: what counts is the labels that a node has. 40 million keys
/// would be looked up if it were the keys.
#[test]
fn many_keys_are_few_labels() {
    let terms = (0..64).map(|term| {
        let keys: Vec<String> = (0..64).map(|key| format!("key-{term}-{key}")).collect();
        json!({ "weight": 1, "preference": { "nodeTopologyKeys": keys } })
    });
    let rules = rules(&json!({ "preferredPersistentTopology": terms.collect::<Vec<_>>() }));
    let target = Target { replicas: i32::MAX, ..Target::default() };
    let names: Vec<String> = (0..10_000).map(|number| format!("web-{number}")).collect();
    let (annotations, node) = (labels(&[]), labels(&[("key-63-63", "a"), ("key-64-0", "b")]));
    let views: Vec<PodView<'_>> =
        names.iter().map(|name| PodView { name, ready_on: Some("n"), annotations: &annotations }).collect();
    let Records { states, .. } =
        record(&rules, Some(&target), &views, |_| Some(node.clone()), &BTreeMap::new());
    assert_eq!(states["web-0"], state("n", &[("key-63-63", "a")]));
}

fn injected(pod: Value, spec: &Value, state: &PodState, is_there: bool) -> (bool, Value) {
    let mut pod = pod;
    let changed = inject(&mut pod, "web", &rules(spec), state, is_there);
    (changed, pod)
}

#[test]
fn a_pod_made_anew_is_sent_back() {
    let given =
        json!({ "spec": { "nodeSelector": { "zone": "z9", "a": "b" }, "affinity": { "podAffinity": {} } } });
    let known = state("n1", &[("zone", "z1"), ("host", "n1")]);
    let (changed, pod) = injected(given, &both(), &known, true);
    assert!(changed);
    assert_eq!(pod["spec"]["nodeSelector"], json!({ "zone": "z1", "a": "b" }));
    let term = json!({
        "weight": 7, "preference": { "matchExpressions": [{ "key": "host", "operator": "In", "values": ["n1"] }] },
    });
    let preferred =
        &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(*preferred, json!([term]));
    assert_eq!(pod["spec"]["affinity"]["podAffinity"], json!({}));
    assert_eq!(pod["metadata"]["annotations"][INJECTED_ANNOTATION], "web");
}

/// A defect of OpenKruise: a pod that requires a place that is gone was Pending for ever.
#[test]
fn a_place_that_no_node_has_is_not_required() {
    let known = state("n1", &[("zone", "z1"), ("host", "n1")]);
    let (changed, pod) = injected(json!({ "spec": {} }), &both(), &known, false);
    assert!(changed && pod["spec"]["nodeSelector"].is_null(), "{pod}");
    assert!(pod["spec"]["affinity"]["nodeAffinity"].is_object());
}

#[rstest]
#[case::nothing_recorded(json!({ "spec": {} }), &[])]
#[case::another_key(json!({ "spec": {} }), &[("else", "x")])]
#[case::no_spec(json!({}), &[("zone", "z1")])]
#[case::strange(json!({ "spec": { "nodeSelector": 1, "affinity": [] } }), &[("zone", "z1"), ("host", "n1")])]
fn others_stay_as_they_are(#[case] pod: Value, #[case] known: &[(&str, &str)]) {
    assert_eq!(injected(pod.clone(), &both(), &state("n1", known), true), (false, pod));
}

#[rstest]
#[case::no_topology(json!({}), "spec has neither")]
#[case::a_weight(json!({ "preferredPersistentTopology": [{ "weight": 0, "preference": { "nodeTopologyKeys": ["a"] } }] }), "spec.preferredPersistentTopology[0].weight is 0")]
#[case::an_empty_key(json!({ "requiredPersistentTopology": { "nodeTopologyKeys": ["a", ""] } }), "spec.requiredPersistentTopology.nodeTopologyKeys[1] is empty")]
#[case::too_many(json!({ "requiredPersistentTopology": { "nodeTopologyKeys": vec!["a"; 65] } }), "spec.requiredPersistentTopology.nodeTopologyKeys has 65 keys")]
#[case::a_policy(json!({ "persistentPodStateRetentionPolicy": "Never" }), "spec.persistentPodStateRetentionPolicy is \"Never\"")]
#[case::a_target(json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } }), "spec.targetRef is no StatefulSet")]
fn wrong_specs_are_named_by_field(#[case] spec: Value, #[case] words: &str) {
    let fault = Rules::of(&object(&spec).spec).unwrap_err().to_string();
    assert!(fault.starts_with(words), "{fault}");
}

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const PREFERRED: &str = "kruise.io/preferred-persistent-topology";

fn planned(given: &[(&str, &str)], there: Option<&PersistentPodState>) -> Result<Option<Action>, String> {
    let annotations = labels(given);
    let set = SetView {
        api_version: "apps/v1",
        namespace: "ns",
        name: "web",
        uid: "set",
        terminating: false,
        annotations: &annotations,
    };
    plan(&set, there).map_err(|fault| fault.to_string())
}

fn owned(spec: &Value, uid: &str) -> PersistentPodState {
    let mut object = object(spec);
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true }]);
    object.metadata.owner_references = serde_json::from_value(owner).unwrap();
    object
}

#[test]
fn annotations_make_keep_and_end_it() {
    let given = [(AUTO, "true"), (REQUIRED, "zone,  rack,zone"), (PREFERRED, "host")];
    let Ok(Some(Action::Create(made))) = planned(&given, None) else { panic!("nothing is made") };
    let spec = json!({
        "targetRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web" },
        "requiredPersistentTopology": { "nodeTopologyKeys": ["zone", "rack"] },
        "preferredPersistentTopology": [{ "weight": 100, "preference": { "nodeTopologyKeys": ["host"] } }],
    });
    assert_eq!(made["spec"], spec);
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "set");
    // As the API server shows it, with its default.
    let mut defaulted = spec.clone();
    defaulted["persistentPodStateRetentionPolicy"] = "WhenScaled".into();
    assert_eq!(planned(&given, Some(&owned(&defaulted, "set"))), Ok(None));
    let old = owned(&json!({ "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] } }), "set");
    let Ok(Some(Action::Update(target, wanted))) = planned(&given, Some(&old)) else {
        panic!("it stays old")
    };
    let mut patch = spec.clone();
    patch["persistentPodAnnotations"] = Value::Null;
    assert_eq!((target.uid.as_str(), &wanted), ("pps", &patch), "what is not asked for goes");
    let by_hand = json!({
        "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] },
        "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    let Ok(Some(Action::Update(_, wanted))) = planned(&given, Some(&owned(&by_hand, "set"))) else {
        panic!("it stays old")
    };
    assert_eq!(wanted["persistentPodStateRetentionPolicy"], "WhenDeleted", "nothing asks for another one");
    // The annotation that says what is recorded is looked at alone, too.
    let recorded = "kruise.io/persistent-pod-annotations";
    let more = planned(&[(AUTO, "true"), (REQUIRED, "zone"), (recorded, "ip")], Some(&old));
    let Ok(Some(Action::Update(_, wanted))) = more else { panic!("it is not followed") };
    assert_eq!(wanted["persistentPodAnnotations"], json!([{ "key": "ip" }]));
    let ends = planned(&[(REQUIRED, "zone")], Some(&old));
    assert!(matches!(&ends, Ok(Some(Action::Delete(target))) if target.uid == "pps"), "{ends:?}");
}

/// One that another version of the group was written into stays as it is: a target cannot be changed.
#[test]
fn the_version_of_a_group_is_no_difference() {
    let mut there = owned(&json!({ "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] } }), "set");
    there.spec.target_ref.api_version = "apps/v1beta2".to_owned();
    assert_eq!(planned(&[(AUTO, "true"), (REQUIRED, "zone")], Some(&there)), Ok(None));
}

/// A defect of OpenKruise: one that was made by hand was deleted, and written over.
#[test]
fn one_that_somebody_else_has_made_is_left_alone() {
    for there in [object(&both()), owned(&both(), "another")] {
        assert_eq!(planned(&[(AUTO, "false")], Some(&there)), Ok(None));
        let fault = planned(&[(AUTO, "true"), (REQUIRED, "zone")], Some(&there)).unwrap_err();
        assert!(fault.contains("is there already: delete one of the two"), "{fault}");
    }
}

#[rstest]
#[case::none(&[(AUTO, "true")], "metadata.annotations[kruise.io/required-persistent-topology] is missing")]
#[case::blank(&[(AUTO, "true"), (REQUIRED, " , ")], "metadata.annotations[kruise.io/required-persistent-topology] is missing")]
#[case::no_key(&[(AUTO, "true"), (PREFERRED, "a b")], "metadata.annotations[kruise.io/preferred-persistent-topology] has \"a b\"")]
fn wrong_annotations_are_named(#[case] given: &[(&str, &str)], #[case] words: &str) {
    let fault = planned(given, None).unwrap_err();
    assert!(fault.starts_with(words), "{fault}");
}
