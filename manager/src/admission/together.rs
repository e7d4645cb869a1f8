//! A WorkloadSpread and a PersistentPodState that both have rules for a new pod of one StatefulSet: each adds
//! its own, and neither takes anything away, whichever of the two is asked first.

use berth_pod_state::Rules;
use berth_proto::crd::{PersistentPodStateSpec, PodState, WorkloadSpreadSpec};
use berth_spread::{Choice, Matched, Question, Spread, choose};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

fn target(api_version: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": "StatefulSet", "name": "web" })
}

fn term(key: &str, value: &str) -> Value {
    json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] })
}

fn weighted(weight: i32, term: Value) -> Value {
    json!({ "weight": weight, "preference": term })
}

/// A pod whose template has rules of its own.
fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "annotations": { "own": "1" } },
        "spec": {
            "nodeSelector": { "disk": "ssd" },
            "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term("arch", "amd64")] },
                "preferredDuringSchedulingIgnoredDuringExecution": [weighted(1, term("own", "yes"))],
            } },
            "containers": [{ "name": "app", "image": "a" }],
        },
    })
}

fn spread(api_version: &str) -> Spread {
    let subset = |name: &str| {
        json!({ "name": name, "requiredNodeSelectorTerm": term("zone", name),
            "preferredNodeSelectorTerms": [weighted(3, term("rack", name))] })
    };
    let [mut a, mut b] = [subset("a"), subset("b")];
    (a["maxReplicas"], b["maxReplicas"]) = (2.into(), 2.into());
    let spec: WorkloadSpreadSpec =
        serde_json::from_value(json!({ "targetRef": target(api_version), "subsets": [a, b, subset("c")] }))
            .unwrap();
    Spread::parse(&spec).unwrap()
}

fn place(pod: &mut Value, spread: &Spread) {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let ordinal = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    let question = Question { pod: &name, ordinal, replicas: 5, now: Timestamp::UNIX_EPOCH };
    let Choice::Take(at) = choose(spread, &Default::default(), &question) else { panic!("not by number") };
    let matched = Matched { name: "spread".to_owned(), subset: spread.subsets[at].name.clone(), uid: None };
    berth_spread::inject(pod, &spread.subsets[at], &matched).unwrap();
}

/// Sends the pod back to the node where it ran, in this zone.
fn send_back(pod: &mut Value, api_version: &str, zone: &str) {
    let spec: PersistentPodStateSpec = serde_json::from_value(json!({
        "targetRef": target(api_version),
        "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] },
        "preferredPersistentTopology": [{ "weight": 7, "preference": { "nodeTopologyKeys": ["host"] } }],
    }))
    .unwrap();
    let labels = [("zone", zone), ("host", "n1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let state = PodState {
        node_name: Some("n1".to_owned()),
        node_topology_labels: labels.into(),
        ..PodState::default()
    };
    assert!(berth_pod_state::inject(pod, "state", &Rules::of(&spec).unwrap(), &state, true));
}

#[rstest]
fn both_add_their_rules_and_overwrite_nothing(
    #[values("apps/v1", "apps.kruise.io/v1beta1")] api_version: &str,
    #[values(true, false)] spread_first: bool,
    #[values(("web-1", "a"), ("web-3", "b"), ("web-4", "c"))] (name, zone): (&str, &str),
) {
    let (mut pod, spread) = (pod(name), spread(api_version));
    if spread_first {
        place(&mut pod, &spread);
        send_back(&mut pod, api_version, zone);
    } else {
        send_back(&mut pod, api_version, zone);
        place(&mut pod, &spread);
    }
    // Every rule that has to hold does, of all three; a pod that had its place by number goes back to it.
    assert_eq!(pod.pointer("/spec/nodeSelector"), Some(&json!({ "disk": "ssd", "zone": zone })));
    let of_both = json!({ "nodeSelectorTerms": [{ "matchExpressions": [
        { "key": "arch", "operator": "In", "values": ["amd64"] },
        { "key": "zone", "operator": "In", "values": [zone] },
    ] }] });
    assert_eq!(pod.pointer(REQUIRED), Some(&of_both));
    let mut preferred = pod.pointer(PREFERRED).unwrap().as_array().unwrap().clone();
    preferred.sort_by_key(|one| one["weight"].as_i64());
    let expected =
        [weighted(1, term("own", "yes")), weighted(3, term("rack", zone)), weighted(7, term("host", "n1"))];
    assert_eq!(preferred, expected);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(
        (&annotations["own"], &annotations[berth_pod_state::INJECTED_ANNOTATION]),
        (&json!("1"), &json!("state"))
    );
    let matched = Matched::read(annotations[berth_spread::MATCHED].as_str().unwrap()).unwrap();
    assert_eq!((&*matched.name, &*matched.subset), ("spread", zone));
}

/// Two WorkloadSpreads or two PersistentPodStates of one workload are refused at admission; here a pod
/// whose zone is another one by now. Neither rule gives way, and no pod runs where one of them forbids it.
#[test]
fn a_pod_that_both_send_elsewhere_waits() {
    let mut pod = pod("web-1");
    place(&mut pod, &spread("apps/v1"));
    send_back(&mut pod, "apps/v1", "b");
    assert_eq!(pod.pointer("/spec/nodeSelector/zone"), Some(&json!("b")));
    let required = pod.pointer(REQUIRED).unwrap().to_string();
    assert!(required.contains(r#""key":"zone","operator":"In","values":["a"]"#), "{required}");
}
