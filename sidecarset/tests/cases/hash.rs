//! Hashes and defaults. The expected hashes were computed by a Go program with the types of OpenKruise and
//! Kubernetes, or are those of OpenKruise's own tests.

use berth_sidecarset::{Set, complete, names::HASH, names::HASH_WITHOUT_IMAGE};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{stored, typed};

/// Everything that is encoded in a way of its own.
fn everything() -> Value {
    json!({
        "containers": [{
            "name": "mesh", "image": "mesh:1",
            "command": ["sh", "-c", "a<b && c>\"d\"\u{2028}\u{1}\t"], "args": ["\\"], "workingDir": "/w",
            "ports": [{"name": "p", "containerPort": 80, "protocol": "TCP", "hostPort": 81, "hostIP": "1.2.3.4"}],
            "envFrom": [{"prefix": "P", "configMapRef": {"name": "c", "optional": false}}, {"secretRef": {"name": "s"}}],
            "env": [
                {"name": "A", "value": "ä"},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1000m"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "E", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            ],
            "resources": {
                "limits": {"memory": "1024Mi", "cpu": "1500m", "nvidia.com/gpu": 2},
                "requests": {"cpu": "0.5", "memory": "1.5Gi", "ephemeral-storage": "1e3"},
            },
            "volumeMounts": [{
                "name": "v", "mountPath": "/v", "readOnly": true, "subPathExpr": "$(A)", "mountPropagation": "None",
            }],
            "livenessProbe": {
                "grpc": {"port": 9000}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
                "failureThreshold": 3,
            },
            "readinessProbe": {
                "httpGet": {"path": "/", "port": "http", "scheme": "HTTP", "httpHeaders": [{"name": "a", "value": ""}]},
                "terminationGracePeriodSeconds": 0,
            },
            "startupProbe": {"tcpSocket": {"port": 80}},
            "lifecycle": {"postStart": {"exec": {"command": ["m"]}}, "preStop": {"sleep": {"seconds": 0}}},
            "securityContext": {
                "runAsUser": 0, "privileged": false, "capabilities": {"add": ["NET_ADMIN"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "stdin": true, "podInjectPolicy": "AfterAppContainer",
            "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"},
            "shareVolumePolicy": {"type": "enabled"}, "shareVolumeDevicePolicy": {"type": "enabled"},
            "transferEnv": [
                {"sourceContainerName": "app", "envName": "X"},
                {"sourceContainerNameFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['b']"}},
                 "envNames": ["Y", "X"]},
            ],
        }],
        "initContainers": [
            {"name": "n", "image": "n", "restartPolicy": "Always",
             "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
            {"name": "o", "image": "o"},
        ],
    })
}

/// A set as it came, without defaults, is hashed when it is read without the annotations.
#[rstest]
#[case::one(
    json!({"containers": [{"name": "container1", "image": "test-image"}]}),
    "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78",
    "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759")]
#[case::init_containers_that_end_do_not_count(
    json!({"containers": [{"name": "container1", "image": "test-image"}],
           "initContainers": [{"name": "container1", "image": "test-image"}]}),
    "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78",
    "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759")]
#[case::native_sidecars_do(
    json!({"containers": [{"name": "container1", "image": "test-image"}],
           "initContainers": [{"name": "container1", "image": "test-image", "restartPolicy": "Always"}]}),
    "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w",
    "5725fw8bwbx249bw57v5892c847dzf48bww9zb7c86xb95264fdz26654847b2c8")]
#[case::everything(
    everything(),
    "xcw7cbcz64x2x5zf2z9f5vbb924v7x428bv6c689x4bb484fdbzx58bf7bf9c5v2",
    "c9vwf5zz5dv7672c4vb62x5cf482bf8b54cd6dxx68b9b4vcb5zdz9vvxc67bzwb"
)]
fn hashes_are_those_of_openkruise(#[case] spec: Value, #[case] hash: &str, #[case] without_image: &str) {
    let mut set = json!({"metadata": {"name": "s"}, "spec": spec});
    set["spec"]["selector"] = json!({"matchLabels": {"app": "shop"}});
    let set = Set::parse(&typed(&set)).unwrap();
    let hashes = set.hashes();
    assert_eq!((hashes.hash.as_str(), hashes.without_image.as_str()), (hash, without_image));
}

#[test]
fn hashes_are_annotations_of_the_complete_set() {
    let set = stored(&json!({"containers": [{"name": "log"}]}));
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations[HASH], "f4z74444x5c84fw5v789f59d7fwbdd47dwvbw4bv9vwx4fxv24x4b488v4d54wc4");
    assert_eq!(
        annotations[HASH_WITHOUT_IMAGE],
        "4424wfff8b57d47vb7684zc4bb5478vxwwdcz7dd2xdwbf4d4446424d4w29cwd5"
    );
}

#[rstest]
#[case("nginx", "Always")]
#[case("nginx:latest", "Always")]
#[case("registry:5000/nginx", "Always")]
#[case("nginx:1.23", "IfNotPresent")]
#[case("registry:5000/nginx:1.23", "IfNotPresent")]
#[case("nginx@sha256:0123", "IfNotPresent")]
#[case("nginx:latest@sha256:0123", "Always")]
fn pull_policies(#[case] image: &str, #[case] policy: &str) {
    let set = stored(&json!({"containers": [{"name": "log", "image": image}]}));
    assert_eq!(set["spec"]["containers"][0]["imagePullPolicy"], policy);
}

/// From a tag to `latest` and back is then a change of the image alone.
#[test]
fn a_pull_policy_that_is_left_out_stays() {
    let old = stored(&json!({"containers": [{"name": "log", "image": "nginx"}]}));
    let mut new = old.clone();
    new["spec"]["containers"] =
        json!([{"name": "log", "image": "nginx:1.23"}, {"name": "other", "image": "nginx:1.23"}]);
    complete(&mut new, Some(&old)).unwrap();
    assert_eq!(new["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(new["spec"]["containers"][1]["imagePullPolicy"], "IfNotPresent");
    let mut same = old.clone();
    same["spec"]["containers"] = json!([{"name": "log", "image": "nginx:1.23"}]);
    complete(&mut same, Some(&old)).unwrap();
    assert_eq!(
        same["metadata"]["annotations"][HASH_WITHOUT_IMAGE],
        old["metadata"]["annotations"][HASH_WITHOUT_IMAGE]
    );
    assert_ne!(same["metadata"]["annotations"][HASH], old["metadata"]["annotations"][HASH]);
}

#[test]
fn defaults() {
    let set = stored(&json!({
        "containers": [{"name": "log",
            "ports": [{"containerPort": 1}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "transferEnv": [{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
            "livenessProbe": {"httpGet": {"port": 1}}, "readinessProbe": {"periodSeconds": 3},
            "startupProbe": {"httpGet": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
            "resources": {"limits": {"cpu": "0.0001", "memory": "1024Mi"}, "requests": {"cpu": 0.0001, "memory": 5}},
        }],
        "initContainers": [{"name": "init"}],
        "patchPodMetadata": [{"annotations": {"a": "b"}}],
        "injectionStrategy": {"revision": {"revisionName": "x"}},
        "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/"}}],
    }));
    let spec = &set["spec"];
    let expected = json!({
        "/updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0},
        "/revisionHistoryLimit": 10,
        "/patchPodMetadata/0/patchPolicy": "Retain",
        "/injectionStrategy/revision/policy": "Always",
        "/containers/0/podInjectPolicy": "BeforeAppContainer",
        "/initContainers/0/podInjectPolicy": "AfterAppContainer",
        "/containers/0/upgradeStrategy/upgradeType": "ColdUpgrade",
        "/containers/0/shareVolumePolicy/type": "disabled",
        "/containers/0/ports/0/protocol": "TCP",
        "/containers/0/env/0/valueFrom/fieldRef/apiVersion": "v1",
        "/containers/0/transferEnv/0/sourceContainerNameFrom/fieldRef/apiVersion": "v1",
        "/containers/0/livenessProbe": {"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
        "/containers/0/readinessProbe":
            {"timeoutSeconds": 1, "periodSeconds": 3, "successThreshold": 1, "failureThreshold": 3},
        "/containers/0/startupProbe": {"httpGet": {"port": 1}},
        "/containers/0/lifecycle/preStop/httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
        "/containers/0/resources/limits": {"cpu": "1m", "memory": "1024Mi"},
        "/containers/0/resources/requests": {"cpu": "1m", "memory": 5},
        "/volumes/0/emptyDir": {},
        "/volumes/1/secret/defaultMode": 420,
        "/volumes/2/hostPath/type": "",
    });
    for (path, value) in expected.as_object().unwrap() {
        assert_eq!(spec.pointer(path), Some(value), "{path}");
    }
    let mut again = set.clone();
    complete(&mut again, Some(&set)).unwrap();
    assert_eq!(again, set, "completed twice");
}

#[rstest]
#[case(json!({"containers": [{"name": "log", "image": 7}]}), "spec.containers[0].image")]
#[case(json!({"containers": [{"name": "log", "env": {}}]}), "spec.containers[0].env")]
#[case(json!({"containers": [{"name": "log", "ports": [{"containerPort": 4294967296_i64}]}]}),
    "spec.containers[0].ports[0].containerPort")]
#[case(json!({"containers": [{"name": "log", "resources": {"limits": {"cpu": "much"}}}]}),
    "spec.containers[0].resources.limits[cpu]")]
#[case(json!({"containers": {}}), "spec.containers")]
#[case(json!({"initContainers": [{"name": "a", "tty": "yes"}]}), "spec.initContainers[0].tty")]
#[case(json!({"updateStrategy": 1}), "spec.updateStrategy")]
fn types_that_no_go_program_reads(#[case] spec: Value, #[case] field: &str) {
    let fault = complete(&mut json!({"spec": spec}), None).unwrap_err();
    assert_eq!(fault.field, field, "{fault}");
}
