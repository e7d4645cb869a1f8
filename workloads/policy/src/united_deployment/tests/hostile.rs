//! Objects that make no sense, and numbers as large as they can be.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{ChildView, KINDS, Kind},
    world::{World, named, spec},
};

fn set(object: &mut Value, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match (parent.as_array_mut(), value) {
        (Some(list), value) => list[key.parse::<usize>().unwrap()] = value,
        (None, Value::Null) => {
            parent.as_object_mut().unwrap().remove(key);
        }
        (None, value) => parent[key] = value,
    }
}

#[rstest]
#[case::no_labels("/selector", json!({}), "spec.selector.matchLabels is empty")]
#[case::expressions_alone("/selector",
    json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }), "spec.selector.matchLabels is empty")]
#[case::an_operator("/selector", json!({ "matchLabels": { "app": "shop" }, "matchExpressions": [
    { "key": "app", "operator": "Is" }] }), "spec.selector.matchExpressions[0] has operator \"Is\"")]
#[case::other_labels("/selector", json!({ "matchLabels": { "app": "x" } }),
    "spec.template.deploymentTemplate.spec.template.metadata.labels are not those")]
#[case::no_template("/template", json!({}), "spec.template has not exactly one")]
#[case::two_templates("/template/cloneSetTemplate", json!({ "spec": {} }), "spec.template has not exactly one")]
#[case::no_spec("/template/deploymentTemplate", json!({}), "spec.template.deploymentTemplate.spec has no template of pods")]
#[case::no_pods("/template/deploymentTemplate/spec", json!({ "template": 7 }), "spec.template.deploymentTemplate.spec has no")]
#[case::replicas_there("/template/deploymentTemplate/spec/replicas", json!(3),
    "spec.template.deploymentTemplate.spec.replicas is that of the subset")]
#[case::less_than_none("/replicas", json!(-1), "spec.replicas is -1")]
#[case::too_many("/replicas", json!(i32::MAX), "spec.replicas is 2147483647")]
#[case::one_name_twice("/topology/subsets", named(&["a", "a"]), "spec.topology.subsets[1].name is \"a\" as in another")]
#[case::no_name("/topology/subsets", named(&[""]), "spec.topology.subsets[0].name is \"\"")]
#[case::no_label("/topology/subsets", named(&["a", "A.b"]), "spec.topology.subsets[1].name is \"A.b\"")]
#[case::a_share("/topology/subsets", json!([{ "name": "a", "replicas": "110%" }]), "spec.topology.subsets[0].replicas is 110%")]
#[case::a_number("/topology/subsets", json!([{ "name": "a", "replicas": -3 }]), "spec.topology.subsets[0].replicas is -3")]
#[case::too_much("/topology/subsets", json!([{ "name": "a", "replicas": 5 }]), "spec.topology.subsets have 5 replicas together")]
#[case::too_little("/topology/subsets", json!([{ "name": "a", "replicas": 2 }]), "spec.topology.subsets have 2 replicas together")]
#[case::a_least_share("/topology/subsets", json!([{ "name": "a", "minReplicas": "110%" }]),
    "spec.topology.subsets[0].minReplicas is 110%")]
#[case::a_largest_number("/topology/subsets", json!([{ "name": "a", "maxReplicas": -3 }]),
    "spec.topology.subsets[0].maxReplicas is -3")]
#[case::less_than_the_least("/topology/subsets", json!([{ "name": "b" }, { "name": "a", "minReplicas": 3, "maxReplicas": "50%" }]),
    "spec.topology.subsets[1].maxReplicas is 2, less than the 3 of minReplicas")]
#[case::replicas_and_bounds("/topology/subsets", json!([{ "name": "a", "minReplicas": 1 }, { "name": "b", "replicas": 1 }]),
    "spec.topology.subsets[1].replicas goes not with minReplicas")]
#[case::no_place("/topology/subsets", json!([{ "name": "a", "maxReplicas": 1 }, { "name": "b", "maxReplicas": "50%" }]),
    "spec.topology.subsets all have maxReplicas, and 1 of the 4")]
#[case::adaptive("/topology/scheduleStrategy", json!({ "type": "Adaptive" }),
    "spec.topology.scheduleStrategy.type is \"Adaptive\"")]
#[case::a_partition_of_none("/updateStrategy", json!({ "manualUpdate": { "partitions": { "z": 1 } } }),
    "spec.updateStrategy.manualUpdate.partitions[\"z\"] is of no subset")]
#[case::a_partition("/updateStrategy", json!({ "manualUpdate": { "partitions": { "a": -1 } } }),
    "spec.updateStrategy.manualUpdate.partitions[\"a\"] is -1")]
fn a_bad_object_is_told_and_nothing_is_done(#[case] path: &str, #[case] value: Value, #[case] words: &str) {
    let mut good = World::new(spec(Kind::Deployment, 4, &named(&["a", "b"])));
    good.settle();
    let mut world = good;
    world.edit(|spec| set(spec, path, value));
    // What decides on the numbers comes after the revision.
    let mut plan = world.plan();
    if !plan.actions.is_empty() {
        world.carry_out(&plan);
        plan = world.plan();
    }
    assert_eq!(plan.actions, [], "{words}");
    let status = plan.status.clone().unwrap();
    let failure = status.conditions.iter().find(|one| one.type_ == "SubsetFailure").unwrap();
    let message = failure.message.as_deref().unwrap();
    assert!(message.starts_with(words) && message.contains(": "), "{message}");
    assert!(plan.notes.len() == 1 && plan.notes[0].warning);
    // It is said once, the workloads stay, and when it is mended all goes on.
    world.carry_out(&plan);
    assert!(world.plan().notes.is_empty() && world.plan().status.is_none());
    assert_eq!((world.workloads.len(), world.deleted.len()), (2, 0));
    world.edit(|all| *all = spec(Kind::Deployment, 6, &named(&["a", "b"])));
    world.settle();
    assert_eq!(world.numbers(), "a3/0 b3/0");
    assert!(world.united.status.unwrap().conditions.iter().all(|one| one.type_ != "SubsetFailure"));
}

#[test]
fn a_partition_in_the_template_of_a_stateful_set_is_told() {
    for kind in [Kind::StatefulSet, Kind::AdvancedStatefulSet] {
        let mut all = spec(kind, 4, &named(&["a"]));
        all["template"][kind.member()]["spec"]["updateStrategy"] =
            json!({ "rollingUpdate": { "partition": 1 } });
        let text = World::new(all).plan().notes[0].text.clone();
        assert!(text.contains("updateStrategy.rollingUpdate.partition is that of the subset: "), "{text}");
    }
}

#[test]
fn a_name_leaves_room_for_a_hash() {
    let mut world = World::new(spec(Kind::CloneSet, 4, &named(&["a"])));
    world.united.metadata.name = Some("u".repeat(53));
    assert!(world.plan().notes[0].text.starts_with("metadata.name has 53 letters: 52 leave room"));
    world.united.metadata.name = Some("u".repeat(52));
    world.settle();
    let label = &world.of("a")["metadata"]["labels"]["apps.kruise.io/controller-revision-hash"];
    assert!(label.as_str().unwrap().len() <= 63, "{label}");
}

/// Templates whose parts are of other types than Kubernetes has them: told, and no panic.
#[rstest]
#[case("/metadata/labels", json!({ "app": "shop", "n": null }), None)]
#[case("/metadata/annotations", json!(7), None)]
#[case("/spec", json!(7), Some("spec is no object"))]
#[case("/spec", json!(null), None)]
#[case("/spec/tolerations", json!({}), Some("tolerations is no list"))]
#[case("/spec/affinity", json!("x"), Some("affinity is no object"))]
#[case("/spec/affinity", json!({ "nodeAffinity": [] }), Some("nodeAffinity is no object"))]
#[case("/spec/affinity", json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [7] } } }), Some("has a nodeSelectorTerm that is no object"))]
#[case("/spec/affinity", json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{ "matchExpressions": 7 }] } } }), Some("matchExpressions is no list"))]
fn odd_templates(#[case] path: &str, #[case] value: Value, #[case] words: Option<&str>) {
    let subsets = json!([{
        "name": "a", "tolerations": [{ "key": "x" }],
        "nodeSelectorTerm": { "matchExpressions": [{ "key": "z", "operator": "Exists" }] },
    }]);
    for kind in KINDS {
        let mut all = spec(kind, 1, &subsets);
        set(&mut all, &format!("/template/{}/spec/template{path}", kind.member()), value.clone());
        let mut world = World::new(all);
        for _ in 0..3 {
            let plan = world.plan();
            world.carry_out(&plan);
        }
        let failure = world.united.status.as_ref().unwrap().conditions.iter();
        let failure = failure.filter(|one| one.type_ == "SubsetFailure").find_map(|one| one.message.clone());
        match words {
            None => assert_eq!((failure, world.workloads.len()), (None, 1), "{kind:?}"),
            Some(words) => {
                assert!(failure.as_ref().is_some_and(|text| text.contains(words)), "{kind:?}: {failure:?}");
                assert!(world.workloads.is_empty());
            }
        }
    }
}

/// A template has room for thousands of terms, and each gets all that its subset asks for.
#[rstest]
#[case::many(100_000, false)]
#[case::some(100, true)]
fn expressions_go_not_into_too_many_terms(#[case] terms: usize, #[case] is_made: bool) {
    let values: Vec<String> = (0..500).map(|number| format!("zone-{number}")).collect();
    let expressions = json!([{ "key": "zone", "operator": "In", "values": values }]);
    let subsets = json!([{ "name": "a", "nodeSelectorTerm": { "matchExpressions": expressions } }]);
    let mut all = spec(Kind::Deployment, 1, &subsets);
    let terms = json!({ "nodeSelectorTerms": vec![json!({}); terms] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
    set(&mut all, "/template/deploymentTemplate/spec/template/spec/affinity", affinity);
    let mut world = World::new(all);
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(&plan);
    }
    let failure = world.united.status.as_ref().unwrap().conditions.iter();
    let failure = failure.filter(|one| one.type_ == "SubsetFailure").find_map(|one| one.message.clone());
    assert_eq!((world.workloads.len() == 1, failure.is_none()), (is_made, is_made), "{failure:?}");
    assert!(failure.is_none_or(|text| text.contains("affinity has 100000 nodeSelectorTerms, and each gets")));
}

/// Whatever a workload says of itself.
#[test]
fn workloads_that_say_odd_things() {
    let odd = [json!(i64::MAX), json!(i64::MIN), json!(-1), json!("50%"), json!(1.5), json!(null), json!([])];
    for kind in KINDS {
        for number in &odd {
            let mut world = World::new(spec(kind, 1_000_000, &named(&["a", "b"])));
            world.settle();
            for (_, object) in world.workloads.values_mut() {
                object["spec"]["replicas"] = number.clone();
                object["spec"]["updateStrategy"] =
                    json!({ "partition": number, "rollingUpdate": { "partition": number } });
                object["status"] =
                    json!({ "replicas": number, "readyReplicas": number, "observedGeneration": number });
            }
            world.settle();
            assert_eq!(world.children().iter().map(|child| child.wanted).sum::<i64>(), 1_000_000);
        }
        let empty = ChildView::of(kind, &Default::default(), &Value::Null);
        assert_eq!((empty.owner.as_str(), empty.replicas, empty.is_observed), ("", 0, true));
    }
}
