use proptest::{collection::btree_map, prelude::*};
use rstest::rstest;

use super::*;

fn completed(kind: &str, spec: &Value, old: Option<&Value>) -> Value {
    let object = |spec: &Value| json!({ "kind": kind, "metadata": { "name": "s" }, "spec": spec });
    let request = Request {
        object: object(spec),
        old_object: old.map(object).unwrap_or_default(),
        ..Request::default()
    };
    let Verdict::Allowed { object: Some(object), warnings } = complete(&request, true) else {
        panic!("refused")
    };
    assert!(warnings.is_empty() && object["metadata"] == request.object["metadata"]);
    object["spec"].clone()
}

fn of_pod(spec: Value) -> Value {
    json!({ "template": { "metadata": { "labels": { "app": "a" } }, "spec": spec } })
}

/// Fields that a pod has besides its own.
fn whole_pod() -> Value {
    json!({ "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30 })
}

fn with(base: Value, more: &Value) -> Value {
    let mut base = base;
    for (name, value) in more.as_object().into_iter().flatten() {
        base[name] = value.clone();
    }
    base
}

fn whole_container(more: &Value) -> Value {
    let base = json!({ "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File" });
    with(base, more)
}

/// A field of a pod as it is given, and as it is read back.
#[rstest]
#[case::nothing(json!({}), json!({}))]
#[case::given(
    json!({ "dnsPolicy": "Default", "restartPolicy": "Never", "schedulerName": "s", "securityContext": { "runAsUser": 1 },
        "terminationGracePeriodSeconds": 0 }),
    json!({ "dnsPolicy": "Default", "restartPolicy": "Never", "schedulerName": "s", "securityContext": { "runAsUser": 1 },
        "terminationGracePeriodSeconds": 0 }),
)]
#[case::null_and_empty(json!({ "dnsPolicy": "", "schedulerName": null }), json!({}))]
#[case::later_fields(json!({ "later": { "x": [1] } }), json!({ "later": { "x": [1] } }))]
#[case::container(json!({ "containers": [{ "name": "c", "image": "i:1" }] }), json!({ "containers": [whole_container(&json!({}))] }))]
#[case::init_container(json!({ "initContainers": [{ "name": "c", "image": "i:1" }] }), json!({ "initContainers": [whole_container(&json!({}))] }))]
#[case::ports(
    json!({ "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }, { "containerPort": 53, "protocol": "UDP" }] }] }),
    json!({ "containers": [whole_container(&json!({ "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 53, "protocol": "UDP" }] }))] }),
)]
#[case::ports_of_the_node(
    json!({ "hostNetwork": true, "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 0 }] }] }),
    json!({ "hostNetwork": true, "containers": [whole_container(&json!({ "ports": [
        { "containerPort": 80, "hostPort": 80, "protocol": "TCP" }, { "containerPort": 81, "hostPort": 81, "protocol": "TCP" }] }))] }),
)]
#[case::env(
    json!({ "containers": [{ "name": "c", "image": "i:1", "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }, { "name": "B" }] }] }),
    json!({ "containers": [whole_container(&json!({ "env": [
        { "name": "A", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } }, { "name": "B" }] }))] }),
)]
#[case::probes(
    json!({ "containers": [{ "name": "c", "image": "i:1", "readinessProbe": { "httpGet": { "port": 80 }, "periodSeconds": 0 },
        "livenessProbe": { "grpc": { "port": 1 }, "timeoutSeconds": 7 }, "startupProbe": { "exec": {} } }] }),
    json!({ "containers": [whole_container(&json!({
        "readinessProbe": { "httpGet": { "port": 80, "path": "/", "scheme": "HTTP" }, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 },
        "livenessProbe": { "grpc": { "port": 1, "service": "" }, "timeoutSeconds": 7, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 },
        "startupProbe": { "exec": {} } }))] }),
)]
#[case::hooks(
    json!({ "containers": [{ "name": "c", "image": "i:1", "lifecycle": { "preStop": { "httpGet": { "port": 1 } }, "postStart": { "exec": {} } } }] }),
    json!({ "containers": [whole_container(&json!({ "lifecycle": { "preStop": { "httpGet": { "port": 1, "path": "/", "scheme": "HTTP" } }, "postStart": { "exec": {} } } }))] }),
)]
#[case::volumes(
    json!({ "volumes": [{ "name": "e" }, { "name": "s", "secret": { "secretName": "x" } }, { "name": "h", "hostPath": { "path": "/" } },
        { "name": "m", "configMap": { "name": "c", "defaultMode": 256 } },
        { "name": "d", "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } },
        { "name": "p", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }, { "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } }] } },
        { "name": "v", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } }] }),
    json!({ "volumes": [{ "name": "e", "emptyDir": {} }, { "name": "s", "secret": { "secretName": "x", "defaultMode": 420 } }, { "name": "h", "hostPath": { "path": "/", "type": "" } },
        { "name": "m", "configMap": { "name": "c", "defaultMode": 256 } },
        { "name": "d", "downwardAPI": { "defaultMode": 420, "items": [{ "path": "p", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } }] } },
        { "name": "p", "projected": { "defaultMode": 420, "sources": [{ "serviceAccountToken": { "path": "t", "expirationSeconds": 3600 } }, { "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } }] } }] } },
        { "name": "v", "ephemeral": { "volumeClaimTemplate": { "spec": { "volumeMode": "Filesystem" } } } }] }),
)]
#[case::disks(
    json!({ "volumes": [{ "name": "i", "iscsi": {} }, { "name": "r", "rbd": { "pool": "p" } }, { "name": "a", "azureDisk": {} }, { "name": "s", "scaleIO": {} }] }),
    json!({ "volumes": [{ "name": "i", "iscsi": { "iscsiInterface": "default" } }, { "name": "r", "rbd": { "pool": "p", "user": "admin", "keyring": "/etc/ceph/keyring" } },
        { "name": "a", "azureDisk": { "cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false } },
        { "name": "s", "scaleIO": { "storageMode": "ThinProvisioned", "fsType": "xfs" } }] }),
)]
#[case::no_objects(json!({ "containers": [1, null], "volumes": "x" }), json!({ "containers": [1, null], "volumes": "x" }))]
fn a_template_reads_back_whole(#[case] given: Value, #[case] more: Value) {
    let mut expected = whole_pod();
    for (name, value) in more.as_object().unwrap() {
        expected[name] = value.clone();
    }
    for kind in ["CloneSet", "StatefulSet"] {
        let read = completed(kind, &of_pod(given.clone()), None);
        assert_eq!(read, of_pod(expected.clone()), "{kind}");
        // Written again, whole or as it was given, it is the same.
        assert_eq!(completed(kind, &read, Some(&read)), read);
        assert_eq!(completed(kind, &of_pod(given.clone()), Some(&read)), read);
    }
}

#[rstest]
#[case::tag("nginx:1.23", "IfNotPresent")]
#[case::latest("nginx:latest", "Always")]
#[case::no_tag("registry:5000/nginx", "Always")]
#[case::digest("nginx@sha256:0", "IfNotPresent")]
fn a_pull_policy_is_that_of_the_image(#[case] image: &str, #[case] policy: &str) {
    let pod = |image: &str| of_pod(json!({ "containers": [{ "name": "c", "image": image }] }));
    let read = completed("CloneSet", &pod(image), None);
    assert_eq!(read["template"]["spec"]["containers"][0]["imagePullPolicy"], policy);
    // Another image is no other policy: pods can follow it in place.
    for next in ["nginx:2", "nginx"] {
        let read = completed("CloneSet", &pod(next), Some(&read));
        assert_eq!(read["template"]["spec"]["containers"][0]["imagePullPolicy"], policy);
    }
}

/// The defaults of the kinds that no definition can say.
#[rstest]
#[case::in_place("CloneSet", json!({ "updateStrategy": { "type": "InPlaceIfPossible" } }), json!({ "updateStrategy": { "type": "InPlaceIfPossible", "inPlaceUpdateStrategy": {} } }))]
#[case::recreate("CloneSet", json!({ "updateStrategy": { "type": "ReCreate" } }), json!({ "updateStrategy": { "type": "ReCreate" } }))]
#[case::rolling("StatefulSet", json!({ "updateStrategy": { "type": "RollingUpdate" } }), json!({ "updateStrategy": { "type": "RollingUpdate",
    "rollingUpdate": { "partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0 } } }))]
#[case::on_delete("StatefulSet", json!({ "updateStrategy": { "type": "OnDelete" } }), json!({ "updateStrategy": { "type": "OnDelete" } }))]
#[case::rolling_in_place("StatefulSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": "InPlaceOnly" } } }),
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": "InPlaceOnly", "inPlaceUpdateStrategy": {} } } }))]
#[case::daemon("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate" } }), json!({ "updateStrategy": { "type": "RollingUpdate",
    "rollingUpdate": { "rollingUpdateType": "Standard", "partition": 0, "maxUnavailable": 1, "maxSurge": 0 } } }))]
#[case::daemon_surging("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "rollingUpdateType": "Surging" } } }),
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "rollingUpdateType": "Standard", "maxUnavailable": 0, "maxSurge": 1 } } }))]
#[case::daemon_surging_with_both_limits("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate",
        "rollingUpdate": { "rollingUpdateType": "Surging", "maxUnavailable": 1, "maxSurge": 0 } } }),
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "rollingUpdateType": "Standard", "maxUnavailable": 1, "maxSurge": 0 } } }))]
#[case::daemon_with_one_limit("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "rollingUpdateType": "" } } }),
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "rollingUpdateType": "Standard" } } }))]
#[case::daemon_surging_with_one_limit("DaemonSet", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "50%", "rollingUpdateType": "Surging" } } }),
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "50%", "maxUnavailable": 0, "rollingUpdateType": "Standard" } } }))]
#[case::empty_type("CloneSet", json!({ "updateStrategy": { "type": "" } }), json!({ "updateStrategy": { "type": "ReCreate" } }))]
#[case::empty_policies("BroadcastJob", json!({ "completionPolicy": {}, "failurePolicy": { "type": "" } }), json!({ "completionPolicy": { "type": "Always" }, "failurePolicy": { "type": "FailFast" } }))]
#[case::daemon_template("DaemonSet", of_pod(json!({ "containers": [{ "name": "c" }] })), of_pod(json!({ "containers": [{ "name": "c" }] })))]
#[case::claims("CloneSet", json!({ "volumeClaimTemplates": [{ "metadata": { "name": "d" }, "spec": {} }, { "metadata": { "name": "b" }, "spec": { "volumeMode": "Block" } },
        { "metadata": { "name": "t", "creationTimestamp": null }, "spec": {}, "status": {} }] }),
    json!({ "volumeClaimTemplates": [{ "metadata": { "name": "d" }, "spec": { "volumeMode": "Filesystem" }, "status": { "phase": "Pending" } },
        { "metadata": { "name": "b" }, "spec": { "volumeMode": "Block" }, "status": { "phase": "Pending" } },
        { "metadata": { "name": "t", "creationTimestamp": null }, "spec": { "volumeMode": "Filesystem" }, "status": { "phase": "Pending" } }] }))]
#[case::another_kind("SidecarSet", of_pod(json!({})), of_pod(json!({})))]
fn a_kind_has_its_defaults(#[case] kind: &str, #[case] given: Value, #[case] read: Value) {
    assert_eq!(completed(kind, &given, None), read);
    assert_eq!(completed(kind, &given, Some(&read)), read);
}

/// A patch of the type alone, as clients make it: what they read then is there.
#[rstest]
#[case::rolls("StatefulSet", json!({ "type": "OnDelete" }), json!({ "type": "RollingUpdate" }),
    json!({ "type": "RollingUpdate",
        "rollingUpdate": { "partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0 } }))]
#[case::in_place("StatefulSet", json!({ "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": "ReCreate" } }),
    json!({ "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": "InPlaceIfPossible" } }),
    json!({ "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": {} } }))]
#[case::daemons("DaemonSet", json!({ "type": "OnDelete" }), json!({ "type": "RollingUpdate" }),
    json!({ "type": "RollingUpdate",
        "rollingUpdate": { "rollingUpdateType": "Standard", "partition": 0, "maxUnavailable": 1, "maxSurge": 0 } }))]
#[case::of_before("DaemonSet", json!({ "type": "RollingUpdate" }), json!({ "type": "RollingUpdate" }),
    json!({ "type": "RollingUpdate",
        "rollingUpdate": { "rollingUpdateType": "Standard", "partition": 0, "maxUnavailable": 1, "maxSurge": 0 } }))]
#[case::clones("CloneSet", json!({ "type": "ReCreate" }), json!({ "type": "InPlaceIfPossible" }),
    json!({ "type": "InPlaceIfPossible", "inPlaceUpdateStrategy": {} }))]
// berth-workloads takes names out of podsToDelete, and its policy lets it change nothing else.
#[case::clones_of_before("CloneSet", json!({ "type": "InPlaceOnly" }), json!({ "type": "InPlaceOnly" }),
    json!({ "type": "InPlaceOnly" }))]
#[case::at_rest("CloneSet", json!({ "type": "InPlaceOnly" }), json!({ "type": "ReCreate" }), json!({ "type": "ReCreate" }))]
fn a_strategy_has_what_its_type_asks_for(
    #[case] kind: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] read: Value,
) {
    let of = |strategy: &Value| json!({ "updateStrategy": strategy });
    assert_eq!(completed(kind, &of(&new), Some(&of(&old))), of(&read));
}

/// A child of a UnitedDeployment has the template that it would have by itself.
#[test]
fn children_have_the_defaults_of_pods() {
    let claims = |more: Value| json!([{ "metadata": { "name": "d" }, "spec": more }]);
    for child in CHILDREN {
        let with = |pod: &Value, claims: Value| {
            let mut spec = of_pod(pod.clone());
            spec["volumeClaimTemplates"] = claims;
            json!({ "template": { child: { "spec": spec } }, "topology": {} })
        };
        let (given, mut read) = (with(&json!({}), claims(json!({}))), with(&whole_pod(), claims(json!({}))));
        let claim = &mut read["template"][child]["spec"]["volumeClaimTemplates"][0];
        claim["spec"]["volumeMode"] = json!("Filesystem");
        claim["status"] = json!({ "phase": "Pending" });
        assert_eq!(completed("UnitedDeployment", &given, None), read, "{child}");
        assert_eq!(completed("UnitedDeployment", &given, Some(&given)), given, "{child}: as it was");
    }
}

/// Only in the version that has the field.
#[rstest]
#[case::older("v1alpha1", json!({}), None)]
#[case::newer("v1beta1", json!({}), Some(json!({ "whenDeleted": "Retain", "whenScaled": "Retain" })))]
#[case::given("v1beta1", json!({ "whenScaled": "Delete" }), Some(json!({ "whenDeleted": "Retain", "whenScaled": "Delete" })))]
fn claims_are_kept(#[case] version: &str, #[case] given: Value, #[case] read: Option<Value>) {
    let mut object =
        json!({ "apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet", "spec": {} });
    if given != json!({}) {
        object["spec"]["persistentVolumeClaimRetentionPolicy"] = given;
    }
    let request = Request { object, ..Request::default() };
    let Verdict::Allowed { object: Some(object), .. } = complete(&request, true) else { panic!("refused") };
    assert_eq!(object["spec"].get("persistentVolumeClaimRetentionPolicy"), read.as_ref());
}

/// As with OpenKruise's gate: who compares an object with what was applied finds the same template. One that
/// has defaults keeps them, so its revision stays.
#[rstest]
#[case("CloneSet")]
#[case("StatefulSet")]
#[case("BroadcastJob")]
fn a_template_stays_as_it_was_given_where_that_is_chosen(#[case] kind: &str) {
    let mut spec = of_pod(json!({ "containers": [{ "name": "c", "image": "i:1" }] }));
    spec["updateStrategy"] = json!({});
    let object = |spec: &Value| json!({ "kind": kind, "metadata": { "name": "s" }, "spec": spec });
    let written = |old_object: Value| {
        let request = Request { object: object(&spec), old_object, ..Request::default() };
        match complete(&request, false) {
            Verdict::Allowed { object: Some(object), .. } => object["spec"]["template"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let whole = completed(kind, &spec, None);
    assert_ne!(whole["template"], spec["template"], "nothing is tested");
    assert_eq!(written(Value::Null), spec["template"]);
    assert_eq!(written(object(&spec)), spec["template"]);
    assert_eq!(written(object(&whole)), whole["template"]);
}

/// How a pod that ends is restarted its author says: OpenKruise would write `Always` and refuse it then.
#[test]
fn a_job_has_the_restart_policy_that_it_says() {
    let mut pod = whole_pod();
    pod.as_object_mut().unwrap().remove("restartPolicy");
    assert_eq!(completed("BroadcastJob", &of_pod(json!({})), None), of_pod(pod.clone()));
    for job in ["jobTemplate", "broadcastJobTemplate"] {
        let given = json!({ "template": { job: { "spec": of_pod(json!({})) } } });
        let read = json!({ "template": { job: { "spec": of_pod(pod.clone()) } } });
        assert_eq!(completed("AdvancedCronJob", &given, None), read);
    }
}

/// An object from before, whose template has no defaults: an update gives it none, so that its revision is
/// the same, and a change of an image is one of the image alone.
#[test]
fn a_template_that_exists_gets_no_new_fields() {
    let pod = |image: &str| {
        of_pod(json!({ "containers": [{ "name": "c", "image": image, "ports": [{ "containerPort": 1 }] }],
            "volumes": [{ "name": "s", "secret": {} }] }))
    };
    for kind in ["CloneSet", "StatefulSet", "BroadcastJob"] {
        assert_eq!(completed(kind, &pod("i:1"), Some(&pod("i:1"))), pod("i:1"), "{kind}");
        assert_eq!(completed(kind, &pod("i:2"), Some(&pod("i:1"))), pod("i:2"), "{kind}");
    }
    // A container that comes with the update is a new one.
    let mut more = pod("i:1");
    more["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "name": "n", "image": "n:1" }));
    let read = completed("CloneSet", &more, Some(&pod("i:1")));
    assert_eq!(read["template"]["spec"]["containers"][0]["terminationMessagePolicy"], "File");
    assert_eq!(read["template"]["spec"]["containers"][1], pod("i:1")["template"]["spec"]["containers"][0]);
    assert!(read["template"]["spec"].get("dnsPolicy").is_none());
}

fn value() -> impl Strategy<Value = Value> {
    let names = [
        "name",
        "metadata",
        "spec",
        "template",
        "containers",
        "initContainers",
        "volumes",
        "ports",
        "hostPort",
        "containerPort",
        "hostNetwork",
        "image",
        "imagePullPolicy",
        "readinessProbe",
        "httpGet",
        "periodSeconds",
        "secret",
        "env",
        "valueFrom",
        "fieldRef",
        "updateStrategy",
        "type",
        "rollingUpdate",
        "volumeClaimTemplates",
        "items",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(0)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        Just(json!("RollingUpdate")),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(proptest::sample::select(names.to_vec()), inner, 0..6).prop_map(|map| Value::Object(
                map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    /// No object that exists changes by being written as it is: there is no rollout with a new version of the
    /// manager. And nothing that is given changes, whatever it is.
    #[test]
    fn what_exists_stays(spec in value(), template in value(), pod in value()) {
        let given = with(json!({ "template": with(json!({ "spec": pod }), &template) }), &spec);
        for kind in ["CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob", "AdvancedCronJob"] {
            let mut kept = completed(kind, &given, Some(&given));
            prop_assert_eq!(completed(kind, &kept, Some(&kept)), kept.clone());
            // A strategy alone gets what its type asks for.
            kept["updateStrategy"] = given["updateStrategy"].clone();
            let mut given = given.clone();
            given["updateStrategy"] = given["updateStrategy"].clone();
            prop_assert_eq!(&kept, &given);
            let read = completed(kind, &given, None);
            prop_assert_eq!(completed(kind, &read, Some(&read)), read.clone());
        }
    }
}
