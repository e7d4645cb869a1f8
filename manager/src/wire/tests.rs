//! Objects as API servers send them.

mod bounds;

use berth_proto::crd::UpdatePhase;
use serde_json::json;

use super::*;
use crate::store::{MarkerSeen, NodePodProbeSeen, PodSeen, PodStage, RecreateSeen, Role, UpdateSeen};

fn pod(value: Value) -> PodSeen {
    let watched: Watched<Pods> = serde_json::from_value(value).unwrap();
    match watched.into_object() {
        Object::Pod(pod) => pod,
        other => panic!("{other:?}"),
    }
}

fn request(value: Value) -> RecreateSeen {
    let watched: Watched<Requests> = serde_json::from_value(value).unwrap();
    match watched.into_object() {
        Object::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

fn update(value: Value) -> UpdateSeen {
    let watched: Watched<Updates> = serde_json::from_value(value).unwrap();
    match watched.into_object() {
        Object::Update(request) => *request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_in_full() {
    let pod = pod(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7",
            "labels": { "a": "b" }, "managedFields": [{ "manager": "kubelet", "fieldsV1": { "f:status": {} } }],
        },
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{ "name": "sidecar", "restartPolicy": "Always" }, { "name": "init", "image": "i" }],
            "containers": [
                { "name": "a", "env": [{ "name": "X", "value": "y" }], "ports": [
                    { "name": "http", "containerPort": 8080, "protocol": "TCP" }, { "containerPort": 9 },
                    { "name": "", "containerPort": 10 }, { "name": "odd", "containerPort": 70000 },
                ] },
                { "name": "late", "ports": null },
            ],
            "volumes": [{ "name": "v", "emptyDir": {} }],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{ "ip": "10.0.0.7" }],
            "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Initialized", "status": "True" }],
            "initContainerStatuses": [
                { "name": "sidecar", "containerID": "containerd://s", "restartCount": 3 },
                { "name": "init", "containerID": "containerd://i", "restartCount": 0 },
            ],
            "containerStatuses": [{ "name": "a", "containerID": "containerd://a", "restartCount": 1 }],
        },
    }));
    assert_eq!((pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()), ("default", "p", "u"));
    assert_eq!((pod.node.as_deref(), pod.stage), (Some("node-1"), PodStage::Active));
    assert_eq!((pod.initialized, pod.ip), (true, Some([10, 0, 0, 7].into())));
    let ports: Vec<_> = pod.containers.iter().map(|container| container.ports.as_slice()).collect();
    assert_eq!(ports, [&[], &[], [("http".to_owned(), 8080)].as_slice(), &[]], "those with a name");
    let containers: Vec<_> = pod
        .containers
        .iter()
        .map(|container| {
            (container.name.as_str(), container.role, container.id.as_deref(), container.restarts)
        })
        .collect();
    let expected = [
        ("sidecar", Role::Sidecar, Some("containerd://s"), 3),
        ("init", Role::Init, Some("containerd://i"), 0),
        ("a", Role::Regular, Some("containerd://a"), 1),
        ("late", Role::Regular, None, 0),
    ];
    assert_eq!(containers, expected);
}

/// Times that a kubelet writes by protobuf have no bounds, and an API server shows them as they are.
#[test]
fn a_time_that_makes_no_sense_hides_no_pod() {
    let time = "292277026596-12-04T15:30:07Z";
    let pod = pod(json!({
        "metadata": {
            "name": "p", "namespace": "default", "annotations": { "kruise.io/sidecarset-injected-list": "s" },
        },
        "spec": { "containers": [{ "name": "a", "image": "i" }] },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }],
            "containerStatuses": [{ "name": "a", "state": { "running": { "startedAt": time } } }],
        },
    }));
    let sidecars = pod.sidecars.unwrap();
    assert!(sidecars.ready && sidecars.ready_since.is_none() && sidecars.unsettled.is_empty());
}

#[test]
fn a_pod_at_its_ends() {
    let with = |deletion: Option<&str>, phase: &str| {
        pod(json!({
            "metadata": { "name": "p", "deletionTimestamp": deletion },
            "spec": { "containers": null },
            "status": { "phase": phase, "containerStatuses": null },
        }))
    };
    assert_eq!(with(None, "Pending").stage, PodStage::Active);
    assert_eq!(with(None, "Succeeded").stage, PodStage::Finished);
    assert_eq!(with(None, "Failed").stage, PodStage::Finished);
    assert_eq!(with(Some("2026-01-01T00:00:00Z"), "Running").stage, PodStage::Terminating);
}

/// By such a label somebody takes a pod out of service that is Ready.
#[test]
fn a_ready_pod_may_be_marked_as_unavailable() {
    let available = |labels: Value| {
        pod(json!({
            "metadata": { "name": "p", "labels": labels },
            "spec": { "containers": [] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .available
    };
    assert!(available(json!({ "app": "a" })));
    assert!(!available(json!({ "app": "a", "unavailable-pod.kruise.io/drain": "" })));
}

#[test]
fn a_pod_on_its_way() {
    let with = |status: Value| {
        pod(json!({ "metadata": { "name": "p" }, "spec": { "containers": [] }, "status": status }))
    };
    for status in [
        json!({}),
        json!({ "podIP": "", "conditions": null }),
        json!({ "conditions": [{ "type": "Initialized", "status": "False" }] }),
        json!({ "conditions": [{ "type": "PodScheduled", "status": "True" }] }),
    ] {
        let pod = with(status);
        assert_eq!((pod.initialized, pod.ip), (false, None));
    }
    assert_eq!(with(json!({ "podIP": "fd00::7" })).ip.unwrap().to_string(), "fd00::7");
}

#[test]
fn a_node_is_its_name_and_only_metadata_are_asked_for() {
    let node = json!({ "kind": "PartialObjectMetadata", "metadata": { "name": "n", "labels": {} } });
    let watched: Watched<Nodes> = serde_json::from_value(node).unwrap();
    assert!(matches!(watched.into_object(), Object::Node(node) if node.name == "n"));
    assert!(Watched::<Nodes>::metadata_api() && !Watched::<Pods>::metadata_api());
}

/// A CRD of another version, or none of ours, has let it in; the list it is in must stay readable.
#[test]
fn a_request_that_makes_no_sense_is_read_all_the_same() {
    let good = json!({ "podName": "p", "containers": [{ "name": "a" }] });
    let metadata = json!({ "name": "r", "namespace": "default", "uid": "u", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z" });
    let read = request(json!({ "metadata": metadata, "spec": good }));
    assert_eq!(read.spec.unwrap().pod_name, "p");
    assert_eq!(read.created.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert!(read.status.unwrap().node_name.is_none());

    let odd =
        request(json!({ "metadata": metadata, "spec": { "podName": 5 }, "status": { "phase": "Dancing" } }));
    assert!(odd.spec.unwrap_err().contains("podName") || odd.status.unwrap_err().contains("Dancing"));
    assert!(request(json!({ "metadata": metadata })).spec.is_err());
}

#[test]
fn a_request_to_update_in_full() {
    let read = update(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ContainerUpdateRequest",
        "metadata": { "name": "u", "namespace": "shop", "uid": "of-u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{ "manager": "kubectl" }] },
        "spec": {
            "podName": "p", "containers": [{ "name": "a", "image": "r.example.com/a:2" }],
            "metadata": { "labels": { "tier": "web" } },
            "strategy": { "gracePeriodSeconds": 5, "failurePolicy": "Ignore" },
            "rollbackOnFailure": true, "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 60,
        },
        "status": {
            "phase": "RollingBack", "nodeName": "node-1", "podUID": "of-p",
            "containerUpdateStates": [{ "name": "a", "phase": "Failed", "message": "why" }],
            "previous": { "containers": [{ "name": "a", "image": "r.example.com/a:1" }] },
        },
    }));
    assert_eq!((read.namespace.as_str(), read.name.as_str(), read.uid.as_str()), ("shop", "u", "of-u"));
    let (spec, status) = (read.spec.unwrap(), read.status.unwrap());
    assert_eq!((spec.pod_name.as_str(), spec.containers[0].image.as_str()), ("p", "r.example.com/a:2"));
    assert_eq!(status.phase, Some(UpdatePhase::RollingBack));
    assert_eq!((status.node_name.as_deref(), status.pod_uid.as_deref()), (Some("node-1"), Some("of-p")));

    let odd = update(json!({ "metadata": { "name": "u" }, "spec": {}, "status": { "phase": "Recreating" } }));
    assert!(odd.spec.unwrap_err().contains("podName"));
    assert!(odd.status.unwrap_err().contains("Recreating"), "a phase of the other kind");
}

#[test]
fn the_two_kinds_of_requests_have_their_paths() {
    assert_eq!(
        Watched::<Requests>::url_path(&(), Some("shop")),
        "/apis/apps.kruise.io/v1alpha1/namespaces/shop/containerrecreaterequests"
    );
    assert_eq!(Watched::<Updates>::url_path(&(), None), "/apis/berth.dev/v1alpha1/containerupdaterequests");
}

#[test]
fn a_node_image_is_what_is_wanted_and_what_is_said_of_it() {
    let watched: Watched<NodeImages> = serde_json::from_value(json!({
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "of-node" }] },
        "spec": { "images": { "a": { "tags": [{ "tag": "1" }] } } },
        "status": {
            "desiredImages": [{ "uid": "j", "image": "a:1", "version": 1 }, { "image": "of another version" }],
            "pulls": [{ "uid": "j", "version": 1, "phase": "Pulling", "progress": 5 }, { "uid": "x", "phase": "Dancing" }],
            "sealingKey": "key", "imageStatuses": { "a": { "tags": [] } },
        },
    }))
    .unwrap();
    let Object::NodeImage(seen) = watched.into_object() else { panic!("another kind") };
    assert_eq!((&*seen.name, &*seen.uid, &*seen.resource_version), ("n", "u", "7"));
    assert_eq!((seen.owner.as_deref(), seen.sealing_key.as_deref()), (Some("of-node"), Some("key")));
    assert_eq!((seen.desired.len(), seen.pulls.len()), (1, 1), "what cannot be read is passed over");
    assert_eq!(seen.alone, None);
}

#[test]
fn a_node_image_may_say_that_it_has_no_node() {
    for (labels, says_so) in [
        (json!({ "apps.kruise.io/fake-nodeimage": "true", "zone": "a" }), true),
        (json!({ "apps.kruise.io/fake-nodeimage": "" }), true),
        (json!({ "zone": "a" }), false),
        (Value::Null, false),
    ] {
        let object = json!({ "metadata": { "name": "n", "labels": labels }, "spec": {} });
        let watched: Watched<NodeImages> = serde_json::from_value(object).unwrap();
        let Object::NodeImage(seen) = watched.into_object() else { panic!("another kind") };
        let wanted = says_so.then(|| serde_json::from_value(labels).unwrap());
        assert_eq!(seen.alone, wanted);
    }
}

#[test]
fn a_job_that_makes_no_sense_is_read_all_the_same() {
    let watched: Watched<Jobs> = serde_json::from_value(json!({
        "metadata": { "name": "j", "namespace": "shop", "uid": "u", "resourceVersion": "7" },
        "spec": { "image": 5 }, "status": { "desired": "many" },
    }))
    .unwrap();
    let Object::ImagePullJob(seen) = watched.into_object() else { panic!("another kind") };
    assert!(seen.spec.is_err() && seen.status.is_err() && seen.name == "j");
}

fn marker(value: Value) -> MarkerSeen {
    let watched: Watched<Markers> = serde_json::from_value(value).unwrap();
    match watched.into_object() {
        Object::PodProbeMarker(marker) => *marker,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_marker_in_full_and_one_that_makes_no_sense() {
    let metadata = json!({ "name": "m", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z" });
    let probe = json!({ "name": "p", "containerName": "c", "probe": { "tcpSocket": { "port": "http" } },
        "markerPolicy": [{ "state": "Failed", "labels": { "a": "b" } }] });
    let seen = marker(json!({
        "metadata": metadata, "spec": { "selector": { "matchLabels": { "a": "b" } }, "probes": [probe] },
        "status": { "observedGeneration": 2, "matchedPods": 5 },
    }));
    assert_eq!((seen.namespace.as_str(), seen.name.as_str(), seen.uid.as_str()), ("shop", "m", "u"));
    assert_eq!((seen.resource_version.as_str(), seen.generation), ("7", Some(3)));
    assert_eq!(seen.created.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert_eq!((seen.spec.unwrap().probes.len(), seen.status.unwrap().matched_pods), (1, Some(5)));

    let odd =
        marker(json!({ "metadata": metadata, "spec": { "probes": 5 }, "status": { "matchedPods": "many" } }));
    assert!(odd.spec.is_err() && odd.status.is_err());
    let path = Watched::<Markers>::url_path(&(), Some("shop"));
    assert_eq!(path, "/apis/apps.kruise.io/v1alpha1/namespaces/shop/podprobemarkers");
}

fn node_probes(status: Value) -> NodePodProbeSeen {
    let watched: Watched<NodeProbes> = serde_json::from_value(json!({
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" },
        "spec": { "podProbes": [{ "of": "another version" }] }, "status": status,
    }))
    .unwrap();
    match watched.into_object() {
        Object::NodePodProbe(seen) => *seen,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_pod_probe_is_what_is_wanted() {
    let pod = json!({ "name": "p", "namespace": "shop", "uid": "of-p", "IP": "10.0.0.7", "probes": [
        { "name": "m#p", "containerName": "c", "probe": { "exec": { "command": ["x"] } } },
    ] });
    let seen = node_probes(json!({
        "desiredPodProbes": [pod, { "name": "of another version" }],
        "podProbeStatuses": [{ "name": "p", "probeStates": "many" }],
        "conditions": [{ "type": "Accepted", "status": "True", "reason": "Fine" }],
    }));
    assert_eq!((seen.name.as_str(), seen.uid.as_str(), seen.resource_version.as_str()), ("n", "u", "7"));
    assert_eq!((seen.desired.len(), seen.desired[0].probes.len(), seen.noticed), (1, 1, false));
    let noticed =
        json!({ "conditions": [{ "type": "Accepted", "status": "False", "reason": "NotYetActedOn" }] });
    assert!(node_probes(noticed).noticed && !node_probes(json!({})).noticed);
    assert_eq!(Watched::<NodeProbes>::url_path(&(), None), "/apis/apps.kruise.io/v1alpha1/nodepodprobes");
}

#[test]
fn a_nodes_sign_of_life() {
    let renewed = |time: Value| {
        let watched: Watched<NodeUpdates> = serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" }, "spec": {},
            "status": { "features": ["owners/v1"], "renewTime": time },
        }))
        .unwrap();
        let Object::NodePodUpdate(seen) = watched.into_object() else { panic!("another kind") };
        assert_eq!(seen.features, ["owners/v1"]);
        seen.renewed.map(|time| time.to_string())
    };
    let time = "2026-01-01T00:00:07Z";
    assert_eq!(renewed(json!(time)).as_deref(), Some(time));
    assert_eq!((renewed(json!(null)), renewed(json!("soon"))), (None, None));
}

/// Its identity is known, and how it stands there.
#[test]
fn an_entry_of_a_newer_program_is_not_gone() {
    let entry = |uid: &str| json!({ "uid": uid, "owner": "SidecarSet/s", "namespace": "n", "name": uid, "revision": "r" });
    let (mut newer, mut nobodys) = (entry("b"), entry("c"));
    newer["pull"] = json!("Never");
    nobodys["uid"] = json!(7);
    let watched: Watched<NodeUpdates> = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" }, "spec": {},
        "status": { "desiredPods": [entry("a"), newer, nobodys] },
    }))
    .unwrap();
    let Object::NodePodUpdate(seen) = watched.into_object() else { panic!("another kind") };
    assert_eq!((seen.desired.len(), &*seen.desired[0].uid), (1, "a"));
    let [(identity, stands)] = &seen.unreadable[..] else { panic!("{:?}", seen.unreadable) };
    assert_eq!((&*identity.uid, &*identity.owner, stands), ("b", "SidecarSet/s", &newer));
}

/// Texts that whoever makes a pod writes, and that no other bound holds: those longer than any name, hash or
/// image are as none.
#[test]
fn texts_of_a_pod_that_are_too_long_are_none() {
    let read = |name: usize, hash: usize, image: usize, labels: usize| {
        let text = |length: usize| "x".repeat(length);
        let set = json!({ "s": { "hash": text(hash), "controllerRevision": text(name) } });
        let labels: serde_json::Map<_, _> =
            (0..labels).map(|at| (format!("{at:060}"), text(63).into())).collect();
        pod(json!({
            "metadata": {
                "name": "p", "namespace": "shop", "labels": labels,
                "annotations": {
                    "kruise.io/sidecarset-injected-list": format!("s,{}", "y".repeat(name)),
                    "kruise.io/sidecarset-hash": set.to_string(),
                    "kruise.io/sidecarset-hash-without-image": json!({ "s": text(hash) }).to_string(),
                    "kruise.io/sidecarset-working-hotupgrade-container": json!({ "c": text(name) }).to_string(),
                    "apps.kruise.io/matched-workloadspread": json!({ "name": text(name), "subset": "a" }).to_string(),
                },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": text(name + 64), "uid": "u", "controller": true }],
            },
            "spec": { "containers": [{ "name": "c", "image": text(image) }] },
        }))
    };
    let fits = read(253, 128, 4096, 500);
    let sidecars = fits.sidecars.unwrap();
    assert_eq!(sidecars.listed.len(), 2);
    let kept = [&sidecars.hashes, &sidecars.without_image, &sidecars.revisions, &sidecars.working]
        .map(|kept| kept.len());
    assert_eq!((kept, sidecars.images["c"].len()), ([1; 4], 4096));
    assert!(fits.spread.is_some() && fits.owner.is_some());
    assert_eq!(fits.labels.len(), 500);

    let too_long = read(254, 129, 4097, 540);
    let sidecars = too_long.sidecars.unwrap();
    assert_eq!(sidecars.listed, ["s"]);
    let kept = [&sidecars.hashes, &sidecars.without_image, &sidecars.revisions, &sidecars.working]
        .map(|kept| kept.len());
    assert_eq!((kept, &*sidecars.images["c"]), ([0; 4], ""));
    assert!(too_long.spread.is_none() && too_long.owner.is_none() && too_long.labels.is_empty());
}
