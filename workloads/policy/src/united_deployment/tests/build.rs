//! Workloads, as they are built.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{HASH_ANNOTATION, KINDS, Kind, update},
    world::{World, named, pods, spec, template},
};
use crate::defaults::{Filling, of_set};

/// The workload of a subset of which so much is given, with so much in its template.
fn built(kind: Kind, of_template: &Value, of_subset: &Value) -> Value {
    let mut subset = json!({ "name": "a" });
    subset.as_object_mut().unwrap().extend(of_subset.as_object().cloned().unwrap());
    let mut given = spec(kind, 3, &json!([subset, { "name": "b" }]));
    given["template"] = template(kind, "a:1", of_template);
    let mut world = World::new(given);
    world.settle();
    world.of("a").clone()
}

fn terms(workload: &Value) -> &Value {
    let affinity = &workload["spec"]["template"]["spec"]["affinity"];
    &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

#[rstest]
#[case(Kind::StatefulSet, "apps/v1", "StatefulSet", "apps.kruise.io/controller-revision-hash")]
#[case(Kind::AdvancedStatefulSet, "apps.kruise.io/v1beta1", "StatefulSet", "controller-revision-hash")]
#[case(Kind::CloneSet, "apps.kruise.io/v1alpha1", "CloneSet", "apps.kruise.io/controller-revision-hash")]
#[case(Kind::Deployment, "apps/v1", "Deployment", "apps.kruise.io/controller-revision-hash")]
fn a_workload_is_its_template_and_its_subset(
    #[case] kind: Kind,
    #[case] api_version: &str,
    #[case] name: &str,
    #[case] revision_label: &str,
) {
    let mut world = World::new(spec(kind, 3, &named(&["a", "b"])));
    world.settle();
    let revision = world.revisions[0].name.clone();
    let workload = world.of("a");
    assert_eq!((workload["apiVersion"].as_str(), workload["kind"].as_str()), (Some(api_version), Some(name)));
    let meta = &workload["metadata"];
    assert!(meta["name"].as_str().unwrap().starts_with("shop-a-"), "{meta}");
    assert_eq!(
        meta["labels"],
        json!({
            "app": "shop", "team": "sales", "apps.kruise.io/subset-name": "a",
            "apps.kruise.io/controller-revision-hash": revision, revision_label: revision,
        })
    );
    assert_eq!(meta["annotations"]["note"], "n");
    assert_eq!(meta["ownerReferences"][0]["kind"], "UnitedDeployment");
    assert_eq!(meta["ownerReferences"][0]["controller"], true);
    let spec = &workload["spec"];
    assert_eq!(
        spec["selector"],
        json!({ "matchLabels": { "app": "shop", "apps.kruise.io/subset-name": "a" } })
    );
    assert_eq!(
        spec["template"]["metadata"]["labels"],
        json!({
            "app": "shop", "apps.kruise.io/subset-name": "a",
            "apps.kruise.io/controller-revision-hash": revision,
        })
    );
    // Newer fields stay; nothing is said of nodes, not even an empty term.
    assert_eq!((&spec["aFieldOfLater"], &spec["replicas"]), (&json!({ "deep": [1] }), &json!(1)));
    assert_eq!(spec["template"]["spec"], pods("a:1")["spec"]);
}

/// OpenKruise copies some fields of a spec, and of a Deployment nearly none.
#[rstest]
#[case(Kind::StatefulSet, json!({ "serviceName": "s", "podManagementPolicy": "Parallel", "minReadySeconds": 3,
    "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] }))]
#[case(Kind::AdvancedStatefulSet, json!({ "reserveOrdinals": [1], "scaleStrategy": { "maxUnavailable": 2 },
    "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } }))]
#[case(Kind::CloneSet, json!({ "minReadySeconds": 3, "lifecycle": { "preDelete": { "finalizersHandler": ["x/y"] } } }))]
#[case(Kind::Deployment, json!({ "minReadySeconds": 3, "paused": true, "progressDeadlineSeconds": 9,
    "strategy": { "type": "Recreate" } }))]
fn the_whole_spec_is_copied(#[case] kind: Kind, #[case] given: Value) {
    let workload = built(kind, &given, &json!({}));
    for (key, value) in given.as_object().unwrap() {
        assert_eq!(workload["spec"][key], *value, "{key}");
    }
}

#[rstest]
#[case::none(json!({}), json!(null))]
#[case::no_expressions(json!({ "nodeSelectorTerm": {} }), json!(null))]
#[case::an_empty_list(json!({ "nodeSelectorTerm": { "matchExpressions": [] } }), json!(null))]
#[case::fields_alone(
    json!({ "nodeSelectorTerm": { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] } }),
    json!(null))]
#[case::one(
    json!({ "nodeSelectorTerm": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] } }),
    json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }]))]
fn a_subset_without_expressions_gives_no_empty_term(#[case] subset: Value, #[case] expected: Value) {
    for kind in KINDS {
        assert_eq!(*terms(&built(kind, &json!({}), &subset)), expected, "{kind:?}");
    }
}

/// Terms are alternatives: each of them has to be true of the subset's nodes.
#[test]
fn expressions_go_into_every_term() {
    let disk = json!({ "key": "disk", "operator": "Exists" });
    let zone = json!({ "key": "zone", "operator": "NotIn", "values": ["a"] });
    let mut template = pods("a:1");
    template["spec"]["tolerations"] = json!([{ "key": "old", "operator": "Exists" }]);
    template["spec"]["affinity"] = json!({
        "podAntiAffinity": {},
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [disk] }, { "matchFields": [] },
        ]}},
    });
    let subset = json!({
        "nodeSelectorTerm": { "matchExpressions": [zone] },
        "tolerations": [{ "key": "edge", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1 }],
    });
    for kind in KINDS {
        let workload = built(kind, &json!({ "template": template }), &subset);
        assert_eq!(
            *terms(&workload),
            json!([{ "matchExpressions": [disk, zone] }, { "matchFields": [], "matchExpressions": [zone] }])
        );
        assert_eq!(
            workload["spec"]["template"]["spec"]["tolerations"],
            json!([
                { "key": "old", "operator": "Exists" },
                { "key": "edge", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1 },
            ])
        );
        assert_eq!(workload["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"], json!({}));
    }
}

#[test]
fn a_patch_changes_the_pods_of_its_subset_and_no_labels_of_ours() {
    let patch = json!({
        "metadata": { "labels": { "apps.kruise.io/subset-name": "z", "size": "small" } },
        "spec": { "containers": [{ "name": "main", "env": [{ "name": "ZONE", "value": "a" }] }] },
    });
    let mut world =
        World::new(spec(Kind::CloneSet, 2, &json!([{ "name": "a", "patch": patch }, { "name": "b" }])));
    world.settle();
    let of = |subset: &str| world.of(subset)["spec"]["template"].clone();
    assert_eq!(of("a")["spec"]["containers"][0]["env"][0]["value"], "a");
    assert_eq!(of("a")["spec"]["containers"][0]["image"], "a:1");
    assert_eq!(of("a")["metadata"]["labels"]["size"], "small");
    assert_eq!(of("a")["metadata"]["labels"]["apps.kruise.io/subset-name"], "a");
    assert_eq!(of("b")["spec"], pods("a:1")["spec"]);
    // It is followed when it changes.
    world.edit(|spec| spec["topology"]["subsets"][0]["patch"]["spec"]["hostNetwork"] = true.into());
    world.settle();
    assert_eq!(world.of("a")["spec"]["template"]["spec"]["hostNetwork"], true);
}

/// OpenKruise writes the partitions of all subsets into one rolling update that they share.
#[rstest]
#[case(Kind::StatefulSet, json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 2 } } }), "a2/2 b3/1")]
#[case(Kind::AdvancedStatefulSet,
    json!({ "updateStrategy": { "rollingUpdate": { "podUpdatePolicy": "InPlaceIfPossible" } } }), "a2/2 b3/1")]
#[case(Kind::CloneSet, json!({ "updateStrategy": { "type": "InPlaceOnly", "partition": "50%" } }), "a2/2 b3/1")]
#[case(Kind::Deployment, json!({}), "a2/0 b3/0")]
#[case(Kind::StatefulSet, json!({ "updateStrategy": { "type": "OnDelete" } }), "a2/0 b3/0")]
#[case(Kind::StatefulSet, json!({}), "a2/2 b3/1")]
fn each_subset_has_a_partition_of_its_own(#[case] kind: Kind, #[case] given: Value, #[case] expected: &str) {
    let mut all = spec(kind, 5, &named(&["a", "b"]));
    all["template"] = template(kind, "a:1", &given);
    all["updateStrategy"] = json!({ "manualUpdate": { "partitions": { "a": 5, "b": 1 } } });
    let mut world = World::new(all);
    world.settle();
    assert_eq!(world.numbers(), expected);
    for (key, value) in given["updateStrategy"]["rollingUpdate"].as_object().into_iter().flatten() {
        assert_eq!(world.of("a")["spec"]["updateStrategy"]["rollingUpdate"][key], *value);
    }
    let status = world.united.status.unwrap().update_status.unwrap();
    assert_eq!(json!(status.current_partitions), json!({ "a": 2, "b": 1 }));
}

#[test]
fn what_others_wrote_on_a_workload_stays() {
    let mut current = json!({
        "metadata": { "labels": { "app": "old", "x": "1" }, "annotations": { "a": "1" } },
        "spec": { "replicas": 1, "gone": 1, "scaleStrategy": { "podsToDelete": ["p"] } },
    });
    let mut wanted = json!({
        "metadata": { "labels": { "app": "new" }, "annotations": { HASH_ANNOTATION: "h" } },
        "spec": { "replicas": 2 },
    });
    let mut deployment = current.clone();
    update(Kind::CloneSet, &mut current, &wanted);
    assert_eq!(
        current,
        json!({
            "metadata": { "labels": { "app": "new", "x": "1" }, "annotations": { "a": "1", HASH_ANNOTATION: "h" } },
            "spec": { "replicas": 2, "scaleStrategy": { "podsToDelete": ["p"] } },
        })
    );
    // The names of the workload stay where the template has none; what else it says is followed.
    for (of_template, expected) in [
        (json!(null), json!({ "podsToDelete": ["p"] })),
        (json!({}), json!({ "podsToDelete": ["p"] })),
        (json!({ "maxUnavailable": 1 }), json!({ "podsToDelete": ["p"], "maxUnavailable": 1 })),
        (json!({ "podsToDelete": null }), json!({ "podsToDelete": ["p"] })),
        (json!({ "podsToDelete": [] }), json!({ "podsToDelete": ["p"] })),
        (json!({ "podsToDelete": ["q"] }), json!({ "podsToDelete": ["q"] })),
    ] {
        let mut current = current.clone();
        wanted["spec"]["scaleStrategy"] = of_template.clone();
        update(Kind::CloneSet, &mut current, &wanted);
        assert_eq!(current["spec"], json!({ "replicas": 2, "scaleStrategy": expected }), "{of_template}");
    }
    current["spec"].as_object_mut().unwrap().remove("scaleStrategy");
    wanted["spec"]["scaleStrategy"] = json!({});
    update(Kind::CloneSet, &mut current, &wanted);
    assert_eq!(current["spec"], wanted["spec"]);
    update(Kind::Deployment, &mut deployment, &wanted);
    assert_eq!(deployment["spec"], wanted["spec"]);
}

/// A webhook fills in defaults where there is one, and may be away or another one at the next write.
#[rstest]
#[case(Kind::CloneSet)]
#[case(Kind::AdvancedStatefulSet)]
fn defaults_of_a_webhook_stay(#[case] kind: Kind) {
    let claims = json!([{ "metadata": { "name": "data" }, "spec": {} }]);
    let mut given = spec(kind, 3, &named(&["a"]));
    given["template"] = template(kind, "a:1", &json!({ "volumeClaimTemplates": claims }));
    let mut world = World::new(given);
    world.settle();
    let raw = world.of("a")["spec"].clone();
    for (_, workload) in world.workloads.values_mut() {
        let spec = workload["spec"].as_object_mut().unwrap();
        of_set(&mut Filling::new(spec, None));
    }
    let parts =
        |world: &World| ["template", "volumeClaimTemplates"].map(|part| world.of("a")["spec"][part].clone());
    let filled = parts(&world);
    assert_eq!(filled[0]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!(filled[1][0]["spec"]["volumeMode"], "Filesystem");
    world.edit(|spec| spec["replicas"] = 4.into());
    world.settle();
    assert_eq!((world.numbers().as_str(), parts(&world)), ("a4/0", filled.clone()));
    // Another image is a change of the image, and of the label that says it.
    let image = |image: &str| json!({ "volumeClaimTemplates": claims, "template": pods(image) });
    world.edit(|spec| spec["template"] = template(kind, "", &image("a:2")));
    world.settle();
    let [mut pods, claims_now] = parts(&world);
    assert_eq!((&pods["spec"]["containers"][0]["image"], &claims_now), (&json!("a:2"), &filled[1]));
    pods["spec"]["containers"][0]["image"] = "a:1".into();
    pods["metadata"] = filled[0]["metadata"].clone();
    assert_eq!(pods, filled[0]);
    // One that has none gets none.
    for (_, workload) in world.workloads.values_mut() {
        workload["spec"] = raw.clone();
    }
    world.edit(|spec| spec["replicas"] = 5.into());
    world.settle();
    assert!(world.of("a")["spec"]["template"]["spec"]["dnsPolicy"].is_null());
}

/// The name of a StatefulSet and a hash are the value of a label.
#[rstest]
#[case("shop", "a", "shop-a-")]
#[case("shop.of.a.name", "subset-1", "shop.of.a.name-subset-1-")]
fn names(#[case] name: &str, #[case] subset: &str, #[case] base: &str) {
    let long = "s".repeat(63);
    for (name, subset, base) in [(name, subset, base), (&"u".repeat(52), long.as_str(), "uuu")] {
        let mut world = World::new(spec(Kind::StatefulSet, 1, &named(&[subset])));
        world.united.metadata.name = Some(name.to_owned());
        world.settle();
        let made = world.of(subset)["metadata"]["name"].as_str().unwrap();
        assert!(made.starts_with(base) && made.len() <= 52, "{made}");
    }
}
