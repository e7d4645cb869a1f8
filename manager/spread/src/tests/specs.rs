//! Faults of a spec are said by field and remedy.

use rstest::rstest;
use serde_json::{Value, json};

use super::{parsed, target};

fn required(expression: Value) -> Value {
    json!({"subsets": [{"name": "a", "requiredNodeSelectorTerm": {"matchExpressions": [expression]}}]})
}

fn tolerates(toleration: Value) -> Value {
    json!({"subsets": [{"name": "a", "tolerations": [toleration]}]})
}

#[rstest]
#[case::good(json!({}), "")]
#[case::none(json!({"subsets": []}), "spec.subsets: there are none")]
#[case::two_of_a_name(json!({"subsets": [{"name": "a"}, {"name": "a"}]}), "spec.subsets[1].name")]
#[case::no_name(json!({"subsets": [{"name": ""}]}), "spec.subsets[0].name")]
#[case::odd_share(json!({"subsets": [{"name": "a", "maxReplicas": "x"}]}), "spec.subsets[0].maxReplicas: give a number")]
#[case::large_share(json!({"subsets": [{"name": "a", "maxReplicas": "101%"}]}), "from 0% to 100%")]
#[case::negative(json!({"subsets": [{"name": "a", "maxReplicas": -1}]}), "spec.subsets[0].maxReplicas")]
#[case::both(json!({"subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": "10%"}]}), "only numbers, or only shares")]
#[case::too_much(json!({"subsets": [{"name": "a", "maxReplicas": "60%"}, {"name": "b", "maxReplicas": "60%"}, {"name": "c"}]}), "120% together")]
#[case::too_little(json!({"subsets": [{"name": "a", "maxReplicas": "60%"}, {"name": "b", "maxReplicas": "30%"}]}), "90% together")]
#[case::all(json!({"subsets": [{"name": "a", "maxReplicas": "60%"}, {"name": "b", "maxReplicas": "40%"}]}), "")]
#[case::ordered_share(json!({"targetRef": target("StatefulSet"), "subsets": [{"name": "a", "maxReplicas": "100%"}]}), "a StatefulSet are by number")]
#[case::odd_kind(json!({"targetRef": target("DaemonSet")}), "spec.targetRef: give a CloneSet")]
#[case::odd_name(json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a'b"}}), "spec.targetRef.name")]
#[case::no_name_of_target(json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": ""}}), "spec.targetRef.name")]
#[case::odd_strategy(json!({"scheduleStrategy": {"type": "Sometimes"}}), "spec.scheduleStrategy.type")]
#[case::fixed_seconds(json!({"scheduleStrategy": {"type": "Fixed", "adaptive": {}}}), "spec.scheduleStrategy.adaptive")]
#[case::last_limited_without_details(json!({"scheduleStrategy": {"type": "Adaptive"}, "subsets": [{"name": "a"}, {"name": "b", "maxReplicas": 1}]}), "")]
#[case::last_limited(json!({"scheduleStrategy": {"type": "Adaptive", "adaptive": {}}, "subsets": [{"name": "a"}, {"name": "b", "maxReplicas": 1}]}), "leave out its maxReplicas")]
#[case::too_long(json!({"scheduleStrategy": {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 148}}, "subsets": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}), "give 0 to 147 s")]
#[case::long(json!({"scheduleStrategy": {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 147}}, "subsets": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}), "")]
#[case::empty_term(json!({"subsets": [{"name": "a", "requiredNodeSelectorTerm": {}}]}), "spec.subsets[0].requiredNodeSelectorTerm")]
#[case::odd_weight(json!({"subsets": [{"name": "a", "preferredNodeSelectorTerms": [{"weight": 0, "preference": {}}]}]}), "give 1 to 100")]
#[case::odd_operator(required(json!({"key": "zone", "operator": "Is", "values": ["a"]})), "spec.subsets[0].requiredNodeSelectorTerm.matchExpressions[0].operator: give In")]
#[case::odd_key(required(json!({"key": "a b", "operator": "Exists"})), "matchExpressions[0].key: is no key")]
#[case::no_values(required(json!({"key": "zone", "operator": "In"})), "matchExpressions[0].values: give some to In")]
#[case::values_of_any(required(json!({"key": "zone", "operator": "Exists", "values": ["a"]})), "matchExpressions[0].values: give some to In")]
#[case::good_expression(required(json!({"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["a"]})), "")]
#[case::odd_field(json!({"subsets": [{"name": "a", "requiredNodeSelectorTerm": {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]}}]}), "requiredNodeSelectorTerm.matchFields[0]: give metadata.name")]
#[case::odd_preference(json!({"subsets": [{"name": "a", "preferredNodeSelectorTerms": [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}}]}]}), "preferredNodeSelectorTerms[0].preference.matchExpressions[0].values")]
#[case::tolerates_nothing(tolerates(json!({})), "spec.subsets[0].tolerations[0]: without a key")]
#[case::tolerates_all(tolerates(json!({"operator": "Exists"})), "")]
#[case::a_value_of_any(tolerates(json!({"key": "k", "operator": "Exists", "value": "v"})), "tolerations[0].value: the operator Exists")]
#[case::odd_effect(tolerates(json!({"key": "k", "effect": "Never"})), "tolerations[0].effect: give NoSchedule")]
#[case::odd_seconds(tolerates(json!({"key": "k", "effect": "NoSchedule", "tolerationSeconds": 1})), "tolerations[0].tolerationSeconds")]
#[case::good_toleration(tolerates(json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 1})), "")]
#[case::filtered(json!({"targetFilter": {"selector": {"matchLabels": {"a": "b"}}}}), "spec.targetFilter: would leave pods out")]
#[case::counted_otherwise(json!({"targetFilter": {"replicasPathList": ["spec.replicas"]}}), "spec.targetFilter: would leave pods out")]
#[case::not_filtered(json!({"targetFilter": {}}), "")]
#[case::odd_patch(json!({"subsets": [{"name": "a", "patch": {"spec": 1}}]}), "spec.subsets[0].patch")]
fn wrong_ones(#[case] part: Value, #[case] says: &str) {
    let mut spec = json!({"targetRef": target("Deployment"), "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}]});
    spec.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
    let said = parsed(spec).err().unwrap_or_default();
    assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
}

#[test]
fn a_large_patch_is_refused() {
    let patch = json!({"metadata": {"annotations": {"a": "x".repeat(65_536)}}});
    let spec = json!({"targetRef": target("Deployment"), "subsets": [{"name": "a", "patch": patch}]});
    assert!(parsed(spec).unwrap_err().contains("64 KiB"));
}

#[test]
fn whose_pods_they_are() {
    let of = |kind: &str| super::spread(kind, json!([{"name": "a"}])).target;
    assert!(of("Deployment").is("apps/v1beta9", "Deployment", "web"));
    assert!(!of("Deployment").is("extensions/v1", "Deployment", "web"));
    assert!(of("Deployment").may_have("apps/v1", "ReplicaSet", "web-5d4"));
    for other in ["webs-5d4", "web", "web-a b", "web-/x", "web-?x"] {
        assert!(!of("Deployment").may_have("apps/v1", "ReplicaSet", other), "{other}");
    }
    assert!(!of("ReplicaSet").may_have("apps/v1", "ReplicaSet", "web-5d4"));
    assert!(of("CloneSet").obeys_costs() && !of("Job").obeys_costs() && of("StatefulSet").is_ordered());
}
