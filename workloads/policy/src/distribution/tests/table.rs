//! Targets, copies, conflicts, drift, and what the status says of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{
        API_VERSION, Action, COPY_LABEL, FROM_ANNOTATION, HASH_ANNOTATION, KIND, NamespaceView, Plan,
        Problem, Trouble, status,
    },
    world::{NAMESPACES, World, config_map, list, secret},
};

fn trouble(namespace: &str, text: &str, met: u64) -> Trouble {
    Trouble { problem: Problem::Create, text: text.to_owned(), namespace: namespace.to_owned(), met }
}

#[rstest]
#[case::nothing(json!({}), &[])]
#[case::all(json!({ "allNamespaces": true }), &["a", "b", "c"])]
#[case::all_but(json!({ "allNamespaces": true, "excludedNamespaces": list(&["a"]) }), &["b", "c"])]
#[case::all_and_one_of_the_cluster(json!({ "allNamespaces": true, "includedNamespaces": list(&["kube-system"]) }), &["a", "b", "c", "kube-system"])]
#[case::listed(json!({ "includedNamespaces": list(&["b", "b"]) }), &["b"])]
#[case::selected(json!({ "namespaceLabelSelector": { "matchLabels": { "env": "prod" } } }), &["a", "c"])]
#[case::an_empty_selector(json!({ "namespaceLabelSelector": {} }), &[])]
#[case::together(json!({ "includedNamespaces": list(&["b"]), "namespaceLabelSelector": { "matchLabels": { "env": "prod" } }, "excludedNamespaces": list(&["c"]) }), &["a", "b"])]
fn namespaces_that_have_a_copy(#[case] targets: Value, #[case] expected: &[&str]) {
    let mut world = World::new(&config_map(), &targets, &NAMESPACES);
    world.settle();
    assert_eq!(world.has(), expected);
    let count = i32::try_from(expected.len()).unwrap();
    assert_eq!(world.counts(), (count, count, 0));
}

/// As with OpenKruise, where that is chosen.
#[rstest]
#[case::all(json!({ "allNamespaces": true }), &["a", "b", "c", "kube-public", "kube-system"])]
#[case::all_but(json!({ "allNamespaces": true, "excludedNamespaces": list(&["kube-system"]) }), &["a", "b", "c", "kube-public"])]
#[case::selected(json!({ "namespaceLabelSelector": { "matchLabels": { "env": "prod" } } }), &["a", "c", "kube-public", "kube-system"])]
#[case::listed(json!({ "includedNamespaces": list(&["b"]) }), &["b"])]
fn namespaces_of_the_cluster_are_as_all_others(#[case] targets: Value, #[case] expected: &[&str]) {
    let mut world = World::new(&config_map(), &targets, &NAMESPACES);
    world.everywhere = true;
    world.settle();
    assert_eq!(world.has(), expected);
}

/// Nobody plans after a change that is not minded, so the plan is the same then.
#[rstest]
#[case::nothing(json!({}), 0)]
#[case::all(json!({ "allNamespaces": true }), 54)]
#[case::all_but(json!({ "allNamespaces": true, "excludedNamespaces": list(&["a"]) }), 36)]
#[case::listed(json!({ "includedNamespaces": list(&["a"]) }), 18)]
#[case::one_of_the_cluster(json!({ "includedNamespaces": list(&["kube-system"]) }), 18)]
#[case::selected(json!({ "namespaceLabelSelector": { "matchLabels": { "env": "prod" } } }), 54)]
fn a_namespace_is_minded_where_the_plan_is_another_one(#[case] targets: Value, #[case] minded: usize) {
    let mut count = 0;
    for (name, _) in NAMESPACES {
        let view = |uid: &str, env: &str, terminating: bool| {
            let labels = [("env".to_owned(), env.to_owned())].into();
            Some(NamespaceView { uid: uid.to_owned(), labels, terminating })
        };
        let views = [
            None,
            view("1", "prod", false),
            view("1", "test", false),
            view("1", "prod", true),
            view("2", "prod", false),
        ];
        for (before, after) in views.iter().flat_map(|one| views.iter().map(move |other| (one, other))) {
            let planned = |view: &Option<NamespaceView>| {
                let mut world = World::new(&config_map(), &targets, &[]);
                world.namespaces.extend(view.clone().map(|view| (name.to_owned(), view)));
                world.troubles.insert(name.to_owned(), trouble("1", "no quota", 0));
                world.plan(false)
            };
            let is_minded =
                World::new(&config_map(), &targets, &[]).rules().minds(name, before.as_ref(), after.as_ref());
            count += usize::from(is_minded);
            assert!(is_minded || planned(before) == planned(after), "{name}: {before:?} {after:?}");
        }
    }
    assert_eq!(count, minded);
}

#[test]
fn a_copy_says_what_openkruise_says() {
    let mut world = World::new(&config_map(), &json!({ "includedNamespaces": list(&["a"]) }), &NAMESPACES);
    world.settle();
    let copy = &world.objects["a"];
    assert_eq!(copy["data"], json!({ "lives": "3" }));
    let meta = &copy["metadata"];
    assert_eq!(meta["labels"], json!({ "app": "game", COPY_LABEL: "rd" }));
    let hash = meta["annotations"][HASH_ANNOTATION].as_str().unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    assert_eq!(meta["annotations"][FROM_ANNOTATION], "games");
    let owner = json!([{ "apiVersion": API_VERSION, "kind": KIND, "name": "games", "uid": "rd", "controller": true, "blockOwnerDeletion": true }]);
    assert_eq!(meta["ownerReferences"], owner);
    assert_eq!((&meta["namespace"], &meta["name"]), (&json!("a"), &json!("game")));
    let conditions: Vec<(&str, &str, Option<&str>)> = world
        .distribution
        .status
        .as_ref()
        .unwrap()
        .conditions
        .iter()
        .map(|one| (one.type_.as_str(), one.status.as_str(), one.reason.as_deref()))
        .collect();
    let expected = [
        "GetResourceFailed",
        "CreateResourceFailed",
        "UpdateResourceFailed",
        "DeleteResourceFailed",
        "ConflictOccurred",
        "NamespaceNotExists",
    ];
    assert_eq!(conditions, expected.map(|type_| (type_, "False", Some("Succeeded"))));
}

/// Defects of OpenKruise: `stringData` was written in each pass, and so were defaults that are left out.
#[rstest]
#[case(config_map())]
#[case(secret())]
fn at_rest_nothing_is_written(#[case] resource: Value) {
    let mut world = World::new(&resource, &json!({ "allNamespaces": true }), &NAMESPACES);
    assert_eq!(world.settle().len(), 3);
    assert_eq!(world.plan(true), Plan::default());
    if resource["kind"] == "Secret" {
        assert_eq!(world.objects["a"]["data"], json!({ "a": "eA==", "b": "eQ==" }));
    }
}

#[test]
fn namespaces_come_change_and_go() {
    let selector = json!({ "namespaceLabelSelector": { "matchLabels": { "env": "prod" } } });
    let mut world = World::new(&config_map(), &selector, &[("a", "prod"), ("b", "test")]);
    world.settle();
    assert_eq!(world.has(), ["a"]);
    world.namespace("b", "prod");
    world.namespace("n", "prod");
    world.settle();
    assert_eq!(world.has(), ["a", "b", "n"]);
    world.namespace("b", "test");
    let actions = world.settle();
    assert!(matches!(&actions[..], [Action::Delete { namespace, .. }] if namespace == "b"), "{actions:?}");
    world.namespaces.get_mut("n").unwrap().terminating = true;
    world.objects.remove("n");
    world.settle();
    assert_eq!((world.has(), world.counts()), (vec!["a"], (2, 1, 1)));
    assert_eq!(world.condition("NamespaceNotExists").failed_namespaces, ["n"]);
}

#[test]
fn a_listed_namespace_that_is_not_there_is_told_and_heals() {
    let mut world = World::new(&config_map(), &json!({ "includedNamespaces": list(&["x"]) }), &[]);
    world.settle();
    assert_eq!(world.counts(), (1, 0, 1));
    let condition = world.condition("NamespaceNotExists");
    assert_eq!(
        (condition.status.as_str(), &condition.failed_namespaces[..]),
        ("True", &["x".to_owned()][..])
    );
    world.namespace("x", "");
    world.settle();
    assert_eq!((world.has(), world.counts()), (vec!["x"], (1, 1, 0)));
    assert_eq!(world.condition("NamespaceNotExists").status, "False");
}

/// Objects that it has not made are never written or deleted; when one is out of the way, the copy comes.
#[test]
fn an_object_in_the_way_stays_and_is_told() {
    let mut world = World::new(&config_map(), &json!({ "allNamespaces": true }), &[("a", ""), ("b", "")]);
    let foreign = json!({ "kind": "ConfigMap", "metadata": { "name": "game" }, "data": { "mine": "1" } });
    world.put("a", foreign);
    let before = world.objects["a"].clone();
    world.settle();
    assert_eq!(world.objects["a"], before);
    assert_eq!(world.counts(), (2, 1, 1));
    assert_eq!(world.condition("ConflictOccurred").failed_namespaces, ["a"]);
    assert!(world.plan(false).actions.is_empty(), "it waits");
    // A defect of OpenKruise: nothing tried again.
    world.objects.remove("a");
    world.settle();
    assert_eq!((world.has(), world.counts()), (vec!["a", "b"], (2, 2, 0)));
    // Of the same name, and of a distribution before this one.
    let mut old = world.objects["a"].clone();
    old["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    world.put("a", old.clone());
    world.settle();
    assert_eq!(world.objects["a"]["metadata"]["ownerReferences"], old["metadata"]["ownerReferences"]);
    assert_eq!(world.condition("ConflictOccurred").failed_namespaces, ["a"]);
}

#[rstest]
#[case::another_value("/data/lives", json!("99"))]
#[case::one_more("/data/more", json!("1"))]
#[case::immutable("/immutable", json!(true))]
#[case::a_label("/metadata/labels/app", json!("other"))]
#[case::its_hash("/metadata/annotations/kruise.io~1resourcedistribution.resource.hashcode", json!("x"))]
#[case::the_label("/metadata/labels/berth.dev~1distribution", Value::Null)]
fn drift_is_put_right(#[case] path: &str, #[case] value: Value) {
    let mut world = World::new(&config_map(), &json!({ "includedNamespaces": list(&["a"]) }), &NAMESPACES);
    world.settle();
    let right = world.objects["a"].clone();
    let mut wrong = right.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    let map = wrong.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        map.remove(&key).map(drop).unwrap();
    } else {
        map.insert(key, value);
    }
    world.put("a", wrong);
    assert_eq!(world.settle().len(), 1);
    let strip = |mut object: Value| {
        object["metadata"]["resourceVersion"].take();
        object
    };
    assert_eq!(strip(world.objects["a"].clone()), strip(right));
}

#[test]
fn what_others_add_to_a_copy_stays() {
    let mut world = World::new(&config_map(), &json!({ "includedNamespaces": list(&["a"]) }), &NAMESPACES);
    world.settle();
    let mut touched = world.objects["a"].clone();
    touched["metadata"]["labels"]["theirs"] = "1".into();
    touched["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.put("a", touched);
    assert!(world.plan(true).actions.is_empty(), "it is no drift");
    world.distribution.spec.resource.0["data"] = json!({ "lives": "4" });
    world.distribution.metadata.generation = Some(2);
    assert_eq!(world.settle().len(), 1);
    let meta = &world.objects["a"]["metadata"];
    assert_eq!((&meta["labels"]["theirs"], &meta["finalizers"]), (&json!("1"), &json!(["example.com/hold"])));
    assert_eq!(world.objects["a"]["data"], json!({ "lives": "4" }));
}

/// A defect of OpenKruise: metadata of the manifest that changed reached no copy.
#[test]
fn a_label_of_the_manifest_that_changes_reaches_the_copies() {
    let mut world = World::new(&config_map(), &json!({ "allNamespaces": true }), &NAMESPACES);
    world.settle();
    let hash = world.objects["a"]["metadata"]["annotations"][HASH_ANNOTATION].clone();
    world.distribution.spec.resource.0["metadata"]["labels"]["app"] = "arcade".into();
    world.distribution.metadata.generation = Some(2);
    assert_eq!(world.settle().len(), 3);
    let meta = &world.objects["a"]["metadata"];
    assert_eq!(meta["labels"]["app"], "arcade");
    assert_ne!(meta["annotations"][HASH_ANNOTATION], hash);
    assert_eq!(world.distribution.status.as_ref().unwrap().observed_generation, Some(2));
}

#[test]
fn one_that_goes_writes_nothing() {
    let mut world = World::new(&config_map(), &json!({ "allNamespaces": true }), &NAMESPACES);
    let time = json!("2026-01-01T00:00:00Z");
    world.distribution.metadata.deletion_timestamp = serde_json::from_value(time).unwrap();
    assert_eq!(world.plan(true), Plan::default());
}

#[test]
fn many_namespaces_take_several_plans_and_are_counted_and_not_all_listed() {
    let mut world = World::new(&config_map(), &json!({ "allNamespaces": true }), &[]);
    for number in 0..600 {
        world.namespace(&format!("ns-{number:03}"), "");
    }
    let plan = world.plan(true);
    assert_eq!((plan.actions.len(), plan.more), (256, true));
    for name in world.namespaces.keys() {
        world.troubles.insert(name.clone(), trouble(&format!("uid-{name}"), &"ä".repeat(5000), 0));
    }
    world.distribution.status = world.plan(false).status;
    assert_eq!(world.counts(), (600, 0, 600));
    let condition = world.condition("CreateResourceFailed");
    assert_eq!(condition.failed_namespaces.len(), status::MOST_LISTED);
    let reason = condition.reason.as_deref().unwrap();
    assert!(reason.starts_with("472 more namespaces") && reason.chars().count() == 1024, "{reason}");
    // A namespace that was made anew has no trouble.
    world.namespaces.get_mut("ns-000").unwrap().uid = "new".to_owned();
    assert_eq!(world.plan(false).actions, [Action::Create { namespace: "ns-000".to_owned() }]);
}

/// A plan ends after some errors. Those that it does not come to are first in the next one.
#[test]
fn namespaces_without_trouble_come_first_and_then_those_that_met_it_longest_ago() {
    let mut world = World::new(&config_map(), &json!({ "allNamespaces": true }), &[]);
    ["a", "b", "c", "d", "e"].iter().for_each(|name| world.namespace(name, ""));
    for (name, met) in [("a", 7), ("b", 3), ("d", 7)] {
        world.troubles.insert(name.to_owned(), trouble(&format!("uid-{name}"), "a webhook", met));
    }
    for (retry, order) in [(true, "c e b a d"), (false, "c e")] {
        let actions = world.plan(retry).actions;
        let names: Vec<&str> = actions.iter().map(Action::namespace).collect();
        assert_eq!(names.join(" "), order);
    }
}

#[test]
fn the_time_of_a_condition_moves_with_its_status_alone() {
    let mut world = World::new(&config_map(), &json!({ "includedNamespaces": list(&["x"]) }), &[]);
    world.settle();
    let status = world.distribution.status.as_mut().unwrap();
    let early: Time = serde_json::from_value(json!("2020-01-01T00:00:00Z")).unwrap();
    status.conditions.iter_mut().for_each(|one| one.last_transition_time = Some(early.clone()));
    world.namespace("x", "");
    world.settle();
    assert_eq!(world.condition("ConflictOccurred").last_transition_time, Some(early.clone()));
    assert_ne!(world.condition("NamespaceNotExists").last_transition_time, Some(early));
}
