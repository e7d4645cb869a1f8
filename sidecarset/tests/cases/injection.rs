//! Injection beyond the worked cases: copied manifests, odd pods, several of everything.

use berth_sidecarset::patch;
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    worked::with,
    world::{injected, parsed, pod, row},
};

const HASH: &str = "kruise.io/sidecarset-hash";
const ENTRY: &str = "{\"updateTimestamp\":\"2026-11-22T14:00:00Z\",\"hash\":\"\
    f4z74444x5c84fw5v789f59d7fwbdd47dwvbw4bv9vwx4fxv24x4b488v4d54wc4\",\"sidecarSetName\":\"s\",\"sidecarList\":[\"log\"]}";

fn log() -> Value {
    json!({"containers": [{"name": "log"}]})
}

#[rstest]
#[case::parsed_and_extended(
    r#"{"r":{"hash":"h","sidecarSetName":"r","sidecarList":["x"],"updateTimestamp":"2026-01-01T00:00:00Z"}}"#,
    &format!(r#"{{"r":{{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"h","sidecarSetName":"r","sidecarList":["x"]}},"s":{ENTRY}}}"#))]
#[case::old_form(r#"{"r":"h"}"#,
    &format!(r#"{{"r":{{"updateTimestamp":null,"hash":"h","sidecarSetName":"r","sidecarList":null}},"s":{ENTRY}}}"#))]
#[case::own_is_replaced(r#"{"s":"h"}"#, &format!(r#"{{"s":{ENTRY}}}"#))]
#[case::empty("", &format!(r#"{{"s":{ENTRY}}}"#))]
#[case::no_json("x", "")]
#[case::list("[]", "")]
#[case::number(r#"{"r":7}"#, "")]
fn hashes_of_a_copied_manifest(#[case] given: &str, #[case] expected: &str) {
    let expected = if expected.is_empty() {
        json!({"refused": "annotation kruise.io/sidecarset-hash of the pod is no JSON object of SidecarSets"})
    } else {
        json!({"A": {HASH: expected}})
    };
    row(&json!([log()]), &json!({"$annotations": {HASH: given}}), &expected);
}

#[rstest]
#[case::list_of_a_copied_manifest(log(), json!({"$annotations": {"kruise.io/sidecarset-injected-list": "z, a"}}),
    json!({"A": {"kruise.io/sidecarset-injected-list": "a,s,z"}}))]
#[case::working_map_of_a_copied_manifest(
    json!({"containers": [{"name": "m", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}}]}),
    json!({"$annotations": {"kruise.io/sidecarset-working-hotupgrade-container": r#"{"z":"z-2","m":"m-2"}"#}}),
    json!({"A": {"kruise.io/sidecarset-working-hotupgrade-container": r#"{"m":"m-1","z":"z-2"}"#}}))]
#[case::broken_working_map(
    json!({"containers": [{"name": "m", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}}]}),
    json!({"$annotations": {"kruise.io/sidecarset-working-hotupgrade-container": "x"}}),
    json!({"A": {"kruise.io/sidecarset-working-hotupgrade-container": r#"{"m":"m-1"}"#}}))]
#[case::own_is_injected(json!({"containers": [{"name": "log", "env": [{"name": "IS_INJECTED", "value": "no"}]}]}), json!({}),
    json!({"E": {"log": "IS_INJECTED=no"}}))]
#[case::sidecar_members_are_left_out(log(), json!({}), json!({"/spec/containers/0": {
    "name": "log", "image": "log:1", "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    "env": [{"name": "IS_INJECTED", "value": "true"}]}}))]
#[case::unknown_fields_of_the_set(json!({"containers": [{"name": "log", "tomorrow": {"a": [1.5]}}]}), json!({}),
    json!({"/spec/containers/0/tomorrow": {"a": [1.5]}}))]
#[case::unknown_fields_of_the_pod(log(), json!({"tomorrow": {"a": [1.5]}, "containers": [{"name": "app", "later": 1}]}),
    json!({"/spec/tomorrow": {"a": [1.5]}, "/spec/containers/1/later": 1}))]
#[case::volumes_that_nobody_mounts(with(log(), "volumes", json!([{"name": "v"}])), json!({}), json!({"V": ""}))]
#[case::a_volume_mounted_twice(
    json!({"containers": [{"name": "log", "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}],
           "volumes": [{"name": "v"}]}), json!({"volumes": [{"name": "own"}]}), json!({"V": "own v"}))]
#[case::a_mount_of_a_volume_that_is_none(
    json!({"containers": [{"name": "log", "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]}), json!({}),
    json!({"V": "", "M": {"log": "v@/a"}}))]
#[case::shared_mounts_of_init_containers(
    json!({"initContainers": [{"name": "i", "shareVolumePolicy": {"type": "enabled"}}]}),
    json!({"containers": [{"name": "app", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
           "initContainers": [{"name": "own", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]}),
    json!({"M": {"i": "d@/d"}}))]
#[case::shared_mounts_each_path_once(
    json!({"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"}}]}),
    json!({"containers": [{"name": "a", "volumeMounts": [{"name": "x", "mountPath": "/d"}]},
        {"name": "b", "volumeMounts": [{"name": "y", "mountPath": "/d"}, {"name": "z", "mountPath": "/e"}]}]}),
    json!({"M": {"log": "x@/d z@/e"}}))]
#[case::no_mount_at_an_own_device(
    json!({"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"},
        "volumeDevices": [{"name": "d", "devicePath": "/d"}]}], "volumes": [{"name": "d"}]}),
    json!({"containers": [{"name": "a", "volumeMounts": [{"name": "x", "mountPath": "/d"}]}]}),
    json!({"M": {"log": "d@/d"}}))]
#[case::shared_devices(
    json!({"containers": [{"name": "log", "shareVolumeDevicePolicy": {"type": "enabled"}}]}),
    json!({"containers": [{"name": "a", "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}]}),
    json!({"M": {"log": "x@/dev/x"}}))]
#[case::devices_are_not_shared_of_their_own_accord(
    json!({"containers": [{"name": "log", "shareVolumePolicy": {"type": "enabled"}}]}),
    json!({"containers": [{"name": "a", "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}]}),
    json!({"M": {"log": ""}}))]
#[case::source_by_an_annotation_of_the_set(
    json!({"containers": [{"name": "log", "transferEnv": [
        {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['src']"}}, "envName": "A"}]}],
        "patchPodMetadata": [{"annotations": {"src": "app"}}]}),
    json!({"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true A=1"}}))]
#[case::transferred_to_init_containers(
    json!({"initContainers": [{"name": "i", "transferEnv": [{"sourceContainerName": "app", "envName": "A"}]}]}),
    json!({"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}]}),
    json!({"E": {"i": "IS_INJECTED=true A=1"}}))]
#[case::a_container_that_is_replaced_is_no_source(
    json!({"containers": [{"name": "log", "transferEnv": [{"sourceContainerName": "log", "envName": "A"}]}]}),
    json!({"containers": [{"name": "app"}, {"name": "log", "env": [{"name": "A", "value": "1"}]}]}),
    json!({"E": {"log": "IS_INJECTED=true"}}))]
#[case::merging_deletes(json!({"containers": [{"name": "log"}],
    "patchPodMetadata": [{"annotations": {"k": r#"{"a":null,"b":{"c":null,"d":1}}"#}, "patchPolicy": "MergePatchJson"}]}),
    json!({"$annotations": {"k": r#"{"z":0,"a":1,"b":{"c":2}}"#}}), json!({"A": {"k": r#"{"b":{"d":1},"z":0}"#}}))]
#[case::merging_deletes_nothing(json!({"containers": [{"name": "log"}],
    "patchPodMetadata": [{"annotations": {"k": r#"{"a":null,"b":1}"#}, "patchPolicy": "MergePatchJson"}]}),
    json!({}), json!({"A": {"k": r#"{"b":1}"#}}))]
#[case::metadata_alone(json!({"patchPodMetadata": [{"annotations": {"k": "1"}}]}), json!({}),
    json!({"C": "app", "/metadata/annotations": {"k": "1"}}))]
#[case::init_container_of_the_name(log(), json!({"initContainers": [{"name": "log"}]}),
    json!({"refused": "an init container of the pod has that name too"}))]
#[case::container_of_the_name(json!({"initContainers": [{"name": "app"}]}), json!({}),
    json!({"refused": "a container of the pod has that name too"}))]
#[case::containers_of_no_type(log(), json!({"containers": {}}), json!({"refused": "spec.containers of the pod is not a list"}))]
#[case::volumes_of_no_type(log(), json!({"volumes": [1]}), json!({"refused": "spec.volumes of the pod is not a list"}))]
#[case::annotations_of_no_type(log(), json!({"$annotations": {"a": 1}}), json!({"refused": "metadata.annotations of the pod"}))]
#[case::many_containers(json!({"containers": (0..129).map(|n| json!({"name": format!("m{n}"), "image": "i",
    "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}})).collect::<Vec<_>>()}), json!({}),
    json!({"refused": "more than 256 containers"}))]
#[case::many_bytes(json!({"containers": (0..200).map(|n| json!({"name": format!("m{n}"), "image": "i",
    "shareVolumePolicy": {"type": "enabled"}})).collect::<Vec<_>>()}),
    json!({"containers": [{"name": "app", "volumeMounts": (0..300).map(|n| json!({"name": "v", "mountPath": format!("/{n}")}))
        .collect::<Vec<_>>()}]}),
    json!({"refused": "bytes of containers"}))]
fn injects(#[case] set: Value, #[case] pod: Value, #[case] expected: Value) {
    row(&json!([set]), &pod, &expected);
}

/// Two sets with one container were written at the same moment.
#[test]
fn one_name_of_two_sets() {
    row(
        &json!([log(), with(log(), "$name", json!("t"))]),
        &json!({}),
        &json!({"refused": "SidecarSet t, container log: SidecarSet s has that name too"}),
    );
}

#[test]
fn secrets_and_volumes_of_two_sets() {
    let with_parts = |name: &str, secret: &str| {
        json!({
            "$name": name,
            "containers": [{"name": name, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v"}], "imagePullSecrets": [{"name": secret}, {"name": "both"}],
        })
    };
    row(
        &json!([with_parts("b", "x"), with_parts("a", "y")]),
        &json!({}),
        &json!({"C": "a b app", "V": "v", "S": "y both x"}),
    );
}

/// Applying the patch to the pod that came gives the one that is wanted, and it names nothing else.
#[test]
fn the_patch_has_what_changed() {
    let set = parsed(&with(log(), "imagePullSecrets", json!([{"name": "a"}])));
    let before = pod(&json!({"volumes": [{"name": "v"}], "tomorrow": 1}));
    let mut after = before.clone();
    injected(&mut after, &[set], 0).unwrap();
    let operations = patch(&before, &after);
    let paths: Vec<_> = operations.iter().map(|operation| operation["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/metadata/annotations", "/spec/containers", "/spec/imagePullSecrets"]);
    let mut patched = before.clone();
    for operation in &operations {
        let (parent, member) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
        assert_eq!(operation["op"], "add");
        patched.pointer_mut(parent).unwrap()[member] = operation["value"].clone();
    }
    assert_eq!(patched, after);
    assert!(patch(&after, &after).is_empty());
    assert_eq!(
        patch(&json!({"spec": {"a/b~": 1}}), &json!({"spec": {}})),
        [json!({"op": "remove", "path": "/spec/a~1b~0"})]
    );
}
