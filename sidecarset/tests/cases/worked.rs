//! The cases that show what OpenKruise injects, by the rules of its version 1.4 with later corrections.

use rstest::rstest;
use serde_json::{Value, json};

use crate::world::row;

#[rstest]
#[case::defaults(json!([{"containers": [{"name": "log"}]}]), json!({}), json!({
    "C": "log app", "E": {"log": "IS_INJECTED=true", "app": ""},
    "A": {
        "kruise.io/sidecarset-injected-list": "s",
        "kruise.io/sidecarset-hash": "{\"s\":{\"updateTimestamp\":\"2026-11-22T14:00:00Z\",\"hash\":\"\
            f4z74444x5c84fw5v789f59d7fwbdd47dwvbw4bv9vwx4fxv24x4b488v4d54wc4\",\"sidecarSetName\":\"s\",\"sidecarList\":[\"log\"]}}",
    },
}))]
#[case::before_and_after(
    json!([{"containers": [{"name": "c1"}, {"name": "c2", "podInjectPolicy": "AfterAppContainer"}, {"name": "c3"}]}]),
    json!({}), json!({"C": "c1 c3 app c2"}))]
#[case::two_sets_in_the_order_of_their_names(
    json!([{"$name": "b", "containers": [{"name": "x"}]}, {"$name": "a", "containers": [{"name": "y"}]}]),
    json!({}), json!({"C": "y x app", "A": {"kruise.io/sidecarset-injected-list": "a,b"}}))]
#[case::init_containers_by_name(
    json!([{"initContainers": [{"name": "i2"}, {"name": "i1"}]}]),
    json!({"initContainers": [{"name": "own"}]}), json!({"I": "own i1 i2", "E": {"i1": "IS_INJECTED=true"}}))]
#[case::init_container_before(
    json!([{"initContainers": [{"name": "i2"}, {"name": "i1", "podInjectPolicy": "BeforeAppContainer"}]}]),
    json!({"initContainers": [{"name": "own"}]}), json!({"I": "i1 own i2"}))]
#[case::the_pod_has_the_container(
    json!([{"containers": [{"name": "log"}]}]),
    json!({"containers": [{"name": "app"}, {"name": "log", "image": "z", "env": [{"name": "A", "value": "1"}]}]}),
    json!({"C": "app log", "E": {"log": "IS_INJECTED=true"}, "/spec/containers/1/image": "log:1", "W": 1}))]
#[case::the_pod_has_the_init_container(
    json!([{"initContainers": [{"name": "i1"}]}]),
    json!({"initContainers": [{"name": "i1", "image": "z"}, {"name": "own"}]}),
    json!({"I": "i1 own", "/spec/initContainers/0/image": "i1:1", "W": 1}))]
#[case::the_volume_of_the_pod_wins(
    json!([{"containers": [{"name": "log", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}]),
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}),
    json!({"V": "v", "/spec/volumes/0/persistentVolumeClaim/claimName": "data"}))]
#[case::the_volume_of_a_device(
    json!([{"containers": [{"name": "log", "volumeDevices": [{"name": "d", "devicePath": "/dev/d"}]}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}]),
    json!({}), json!({"V": "d"}))]
#[case::shared_mounts(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"},
            "volumeMounts": [{"name": "v", "mountPath": "/var/log"}]}], "volumes": [{"name": "v"}]}]),
    json!({"containers": [{"name": "app", "volumeMounts": [
        {"name": "d", "mountPath": "/data"}, {"name": "l", "mountPath": "/var/log"}]}]}),
    json!({"M": {"log": "v@/var/log d@/data"}}))]
#[case::variables_of_shared_paths(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"}}]}]),
    sub_path(), json!({"E": {"log": "IS_INJECTED=true POD<"}, "M": {"log": "d@/data"}}))]
#[case::own_variables_come_first(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"},
            "env": [{"name": "POD", "value": "fix"}]}]}]),
    sub_path(), json!({"E": {"log": "POD=fix IS_INJECTED=true"}}))]
#[case::sidecars_of_a_copied_manifest_share_nothing(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"},
            "transferEnv": [{"sourceContainerName": "app2", "envName": "A"}]}]}]),
    json!({"containers": [{"name": "app"}, {"name": "app2",
        "env": [{"name": "IS_INJECTED", "value": "true"}, {"name": "A", "value": "1"}, {"name": "P", "value": "p"}],
        "volumeMounts": [{"name": "d", "mountPath": "/data", "subPathExpr": "$(P)"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true A=1"}, "M": {"log": ""}}))]
#[case::transferred_variables_are_sorted(
    json!([transfer(json!([{"sourceContainerName": "app", "envName": "B", "envNames": ["C", "A"]}]))]),
    apps(), json!({"E": {"log": "IS_INJECTED=true A=2 B=b C=c"}}))]
#[case::the_earlier_entry_wins(
    json!([transfer(json!([{"sourceContainerName": "app", "envName": "A"}, {"sourceContainerName": "app2", "envName": "A"}]))]),
    apps(), json!({"E": {"log": "IS_INJECTED=true A=2"}}))]
#[case::own_wins_over_transferred(
    json!([{"containers": [{"name": "log", "env": [{"name": "B", "value": "0"}],
            "transferEnv": [{"sourceContainerName": "app", "envName": "B"}]}]}]),
    apps(), json!({"E": {"log": "B=0 IS_INJECTED=true"}}))]
#[case::init_containers_are_no_source(
    json!([transfer(json!([{"sourceContainerName": "init", "envName": "A"}]))]),
    json!({"initContainers": [{"name": "init", "env": [{"name": "A", "value": "1"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true"}, "W": 1}))]
#[case::sidecars_of_another_set_are_no_source(
    json!([transfer(json!([{"sourceContainerName": "mesh", "envName": "A"}])),
           {"$name": "a", "containers": [{"name": "mesh", "env": [{"name": "A", "value": "1"}]}]}]),
    json!({}), json!({"C": "mesh log app", "E": {"log": "IS_INJECTED=true"}, "W": 1}))]
#[case::transferred_wins_over_shared_paths(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"},
            "transferEnv": [{"sourceContainerName": "app", "envName": "A"}]}]}]),
    json!({"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}, {"name": "app2",
        "env": [{"name": "A", "value": "2"}], "volumeMounts": [{"name": "d", "mountPath": "/d", "subPathExpr": "$(A)"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true A=1"}}))]
#[case::of_equal_names_the_last_is_transferred(
    json!([transfer(json!([{"sourceContainerName": "app", "envName": "A"}]))]),
    json!({"containers": [twice()]}), json!({"E": {"log": "IS_INJECTED=true A=2"}}))]
#[case::of_equal_names_the_first_is_for_paths(
    json!([{"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"}}]}]),
    json!({"containers": [twice()]}), json!({"E": {"log": "IS_INJECTED=true A=1"}}))]
#[case::source_by_label(
    json!([transfer(json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['biz']"}}, "envName": "A"}]))]),
    with(apps(), "$labels", json!({"app": "shop", "biz": "app"})), json!({"E": {"log": "IS_INJECTED=true A=2"}}))]
#[case::source_by_a_label_that_is_missing(
    json!([transfer(json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['biz']"}}, "envName": "A"}]))]),
    apps(), json!({"E": {"log": "IS_INJECTED=true"}, "W": 1}))]
#[case::resource_of_the_sidecar_itself(
    json!([transfer(json!([{"sourceContainerName": "app", "envName": "CPU"}]))]),
    json!({"containers": [{"name": "app", "env": [
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}]}),
    json!({"E": {"log": "IS_INJECTED=true CPU<"},
           "/spec/containers/0/env/1/valueFrom/resourceFieldRef": {"resource": "limits.cpu"}}))]
#[case::references_stay_as_they_are(
    json!([transfer(json!([{"sourceContainerName": "app", "envName": "URL"}]))]),
    json!({"containers": [{"name": "app", "env": [{"name": "URL", "value": "$(HOST):80"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true URL=$(HOST):80"}}))]
#[case::pull_secrets_each_once(
    json!([{"containers": [{"name": "log"}], "imagePullSecrets": [{"name": "b"}, {"name": "c"}]}]),
    json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}), json!({"S": "a b c"}))]
#[case::retain(json!([metadata("Retain", "2")]), noted("1"), json!({"A": {"k": "1"}}))]
#[case::retain_of_nothing(json!([metadata("Retain", "2")]), json!({}), json!({"A": {"k": "2"}}))]
#[case::overwrite(json!([metadata("Overwrite", "2")]), noted("1"), json!({"A": {"k": "2"}}))]
#[case::merge(json!([metadata("MergePatchJson", r#"{"log":1}"#)]), noted(r#"{"main":2}"#),
    json!({"A": {"k": r#"{"log":1,"main":2}"#}}))]
#[case::merge_into_nothing(json!([metadata("MergePatchJson", r#"{ "z":1, "log":1 }"#)]), json!({}),
    json!({"A": {"k": r#"{ "z":1, "log":1 }"#}}))]
#[case::merge_into_a_number(json!([metadata("MergePatchJson", r#"{"log":1}"#)]), noted("7"),
    json!({"A": {"k": r#"{"log":1}"#}}))]
#[case::merge_into_no_json(json!([metadata("MergePatchJson", r#"{"log":1}"#)]), noted("x=1"),
    json!({"refused": "SidecarSet s, spec.patchPodMetadata: the pod's annotation k is no JSON"}))]
#[case::merge_of_two_sets(
    json!([with(metadata("MergePatchJson", r#"{"b":"<2>"}"#), "$name", json!("t")),
           with(metadata("MergePatchJson", r#"{"a":1}"#), "containers", json!([{"name": "other"}]))]),
    json!({}), json!({"A": {"k": r#"{"a":1,"b":"\u003c2\u003e"}"#}}))]
#[case::of_two_that_retain_the_first_by_name_wins(
    json!([with(metadata("Retain", "2"), "$name", json!("t")),
           with(metadata("Retain", "1"), "containers", json!([{"name": "other"}]))]),
    json!({}), json!({"A": {"k": "1"}}))]
#[case::paused(json!([{"containers": [{"name": "log"}], "injectionStrategy": {"paused": true}}]), json!({}),
    json!({"C": "app", "/metadata/annotations": null}))]
#[case::init_containers_alone(json!([{"initContainers": [{"name": "i1"}]}]), json!({}), json!({
    "A": {"kruise.io/sidecarset-hash": "{\"s\":{\"updateTimestamp\":\"2026-11-22T14:00:00Z\",\"hash\":\"\
        x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48\",\"sidecarSetName\":\"s\",\"sidecarList\":[]}}"},
}))]
#[case::launch_priority_is_left_to_its_own_webhook(
    json!([{"containers": [{"name": "log", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]}]}]),
    json!({}), json!({"E": {"log": "KRUISE_CONTAINER_PRIORITY=1 IS_INJECTED=true"}}))]
#[case::copies_of_static_pods_stay_as_they_are(
    json!([{"containers": [{"name": "log"}]}]),
    json!({"$annotations": {"kubernetes.io/config.mirror": "x"}}), json!({"C": "app"}))]
fn injects(#[case] sets: Value, #[case] pod: Value, #[case] expected: Value) {
    row(&sets, &pod, &expected);
}

#[rstest]
#[case::twins(json!([hot()]), json!({}), json!({
    "C": "mesh-1 mesh-2 app",
    "/spec/containers/0/image": "mesh:1",
    "/spec/containers/1/image": "e:1",
    "E": {"mesh-1": "OWN=1 IS_INJECTED=true SIDECARSET_VERSION< SIDECARSET_VERSION_ALT<"},
    "/spec/containers/1/env/2/valueFrom/fieldRef": {
        "apiVersion": "v1", "fieldPath": "metadata.annotations['version.sidecarset.kruise.io/mesh-2']"},
    "/spec/containers/1/env/3/valueFrom/fieldRef": {
        "apiVersion": "v1", "fieldPath": "metadata.annotations['versionalt.sidecarset.kruise.io/mesh-2']"},
    "A": {
        "version.sidecarset.kruise.io/mesh-1": "1", "versionalt.sidecarset.kruise.io/mesh-1": "0",
        "version.sidecarset.kruise.io/mesh-2": "0", "versionalt.sidecarset.kruise.io/mesh-2": "1",
        "kruise.io/sidecarset-working-hotupgrade-container": r#"{"mesh":"mesh-1"}"#,
    },
}))]
#[case::one_map_for_all_sets(
    json!([hot(), with(with(hot(), "$name", json!("t")), "containers", json!([{"name": "envoy",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}}]))]),
    json!({}),
    json!({"C": "mesh-1 mesh-2 envoy-1 envoy-2 app", "A": {
        "kruise.io/sidecarset-working-hotupgrade-container": r#"{"envoy":"envoy-1","mesh":"mesh-1"}"#}}))]
#[case::a_container_with_the_name_of_a_twin(
    json!([{"containers": [hot_container(json!({})), {"name": "mesh-1"}]}]), json!({}),
    json!({"refused": "SidecarSet s, container mesh-1: SidecarSet s has that name too"}))]
#[case::no_empty_image(
    json!([{"containers": [{"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}]}]), json!({}),
    json!({"refused": "container mesh: upgradeStrategy.hotUpgradeEmptyImage is required"}))]
#[case::ports_of_the_node(
    json!([{"containers": [hot_container(json!({"ports": [{"containerPort": 80}]}))]}]), json!({"hostNetwork": true}),
    json!({"refused": "both twins of a HotUpgrade claim its ports"}))]
#[case::ports_of_the_pod(
    json!([{"containers": [hot_container(json!({"ports": [{"containerPort": 80}]}))]}]), json!({}),
    json!({"C": "mesh-1 mesh-2 app"}))]
#[case::native_sidecars_have_twins_too(
    json!([{"initContainers": [hot_container(json!({"restartPolicy": "Always"}))]}]), json!({}),
    json!({"I": "mesh-1 mesh-2", "C": "app"}))]
#[case::other_init_containers_have_none(
    json!([{"initContainers": [hot_container(json!({}))]}]), json!({}), json!({"I": "mesh"}))]
fn injects_twins(#[case] sets: Value, #[case] pod: Value, #[case] expected: Value) {
    row(&sets, &pod, &expected);
}

/// The value with one member more, or another one.
pub(crate) fn with(mut value: Value, member: &str, content: Value) -> Value {
    value[member] = content;
    value
}

fn hot() -> Value {
    json!({"containers": [hot_container(json!({"env": [{"name": "OWN", "value": "1"}]}))]})
}

fn hot_container(mut more: Value) -> Value {
    more["name"] = json!("mesh");
    more["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"});
    more
}

fn transfer(entries: Value) -> Value {
    json!({"containers": [{"name": "log", "transferEnv": entries}]})
}

fn apps() -> Value {
    json!({"containers": [
        {"name": "app", "env": [{"name": "C", "value": "c"}, {"name": "B", "value": "b"}, {"name": "A", "value": "2"}]},
        {"name": "app2", "env": [{"name": "A", "value": "3"}]},
    ]})
}

fn twice() -> Value {
    json!({"name": "app", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
           "volumeMounts": [{"name": "d", "mountPath": "/d", "subPathExpr": "$(A)"}]})
}

fn sub_path() -> Value {
    json!({"containers": [{"name": "app",
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "d", "mountPath": "/data", "subPathExpr": "$(POD)/$(ZZ)"}]}]})
}

fn metadata(policy: &str, value: &str) -> Value {
    json!({"containers": [{"name": "log"}], "patchPodMetadata": [{"annotations": {"k": value}, "patchPolicy": policy}]})
}

fn noted(value: &str) -> Value {
    json!({"$annotations": {"k": value}})
}
