//! Bodies of writes, by what is written.

use std::collections::BTreeMap;

use berth_proto::{
    crd::{DesiredPod, PodProbeMarkerStatus},
    sealing::NodeKey,
};

use super::*;
use crate::{
    images::JobWrite,
    pod_updates::{EntryId, PodUpdateWrite},
    probes::{MarkerWrite, NodeProbesWrite},
    requests::{Failure, FailureReason},
};

#[tokio::test(start_paused = true)]
async fn what_is_sent() {
    let bench = bench(|_| 200);
    let mut fail = request("r", "7");
    fail.write =
        RequestAct::Fail(Failure { reason: FailureReason::PodNotFound, message: "gone".to_owned() }, None);
    bench.writer.submit(fail).unwrap();
    bench.until("written", 1).await;
    let (uri, body) = bench.seen().remove(0);
    let (path, query) = uri.split_once('?').unwrap();
    assert_eq!(path, "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests/r/status");
    assert!(query.contains("fieldManager=berth-manager") && query.contains("force=true"), "{query}");
    assert_eq!(
        body["metadata"],
        json!({ "name": "r", "namespace": "default", "uid": "uid-of-the-request", "resourceVersion": "7" })
    );
    assert_eq!(body["kind"], "ContainerRecreateRequest");
    assert_eq!(body["status"]["phase"], "Completed");
    assert!(body.get("spec").is_none());
}

/// The same name in both kinds is two objects: neither write takes the place of the other.
#[tokio::test(start_paused = true)]
async fn what_is_sent_of_an_update() {
    let bench = bench(|_| 200);
    let mut update = request("r", "7");
    update.id.kind = RequestKind::Update;
    bench.writer.submit(request("r", "3")).unwrap();
    bench.writer.submit(update).unwrap();
    bench.until("written", 2).await;
    assert_eq!(bench.count("superseded"), 0);
    let seen = bench.seen();
    let (uri, body) = seen.iter().find(|(uri, _)| uri.contains("berth.dev")).unwrap();
    let (path, query) = uri.split_once('?').unwrap();
    assert_eq!(path, "/apis/berth.dev/v1alpha1/namespaces/default/containerupdaterequests/r/status");
    assert!(query.contains("fieldManager=berth-manager") && query.contains("force=true"), "{query}");
    let metadata =
        json!({ "name": "r", "namespace": "default", "uid": "uid-of-the-request", "resourceVersion": "7" });
    let expected = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ContainerUpdateRequest", "metadata": metadata,
        "status": { "nodeName": "node-1", "podUID": "uid" },
    });
    assert_eq!(*body, expected);
}

#[tokio::test(start_paused = true)]
async fn what_a_node_is_sent() {
    let bench = bench(|_| 200);
    let entry = DesiredImage { uid: "job".into(), image: "r.example.com/a:1".into(), ..Default::default() };
    let wish = |seal| Wish { content: entry.clone().into(), since: None, seal };
    let order = |seal| {
        Write::Node(NodeImageWrite {
            node: "n".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            sealing_key: Some(NodeKey::generate().sealing_key().encoded().into()),
            wishes: vec![wish(seal)],
        })
    };
    bench.writer.submit(order(Seal::Present(["sealed before".to_owned()].into()))).unwrap();
    bench.until("written", 1).await;
    let (uri, body) = bench.seen().remove(0);
    assert!(uri.starts_with("/apis/apps.kruise.io/v1alpha1/nodeimages/n/status?"), "{uri}");
    assert_eq!(body["metadata"], json!({ "name": "n", "uid": "u", "resourceVersion": "7" }));
    let desired =
        json!([{ "uid": "job", "image": "r.example.com/a:1", "sealedCredentials": ["sealed before"] }]);
    assert_eq!(body["status"], json!({ "desiredImages": desired }));

    bench.writer.submit(order(Seal::Owed)).unwrap();
    bench.until("unsealed", 1).await;
    assert_eq!(bench.seen().len(), 1, "without its credentials nothing is sent");
}

/// Nothing is lost of an entry that a newer manager has written.
#[tokio::test(start_paused = true)]
async fn what_is_sent_of_the_pods_of_a_node() {
    let bench = bench(|_| 200);
    let entry = |uid: &str| json!({ "uid": uid, "namespace": "shop", "name": uid, "revision": "r" });
    let mut newer = entry("a");
    newer["pull"] = json!("Never");
    let pods = [&newer, &entry("b")].map(|entry| Arc::new(DesiredPod::identity(entry).unwrap()));
    let write = PodUpdateWrite {
        node: "n".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        unreadable: [(EntryId::of(&pods[0]), Arc::new(newer.clone()))].into(),
        pods: pods.to_vec(),
    };
    bench.writer.submit(Write::PodUpdates(write.clone())).unwrap();
    bench.until("written", 1).await;
    let none = PodUpdateWrite { pods: Vec::new(), unreadable: BTreeMap::new(), ..write };
    bench.writer.submit(Write::PodUpdates(none)).unwrap();
    bench.until("written", 2).await;
    let statuses: Vec<_> = bench.seen().into_iter().map(|(_, body)| body["status"].clone()).collect();
    assert_eq!(statuses, [json!({ "desiredPods": [newer, entry("b")] }), json!({})]);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_of_probes() {
    let bench = bench(|_| 200);
    let until_seen = async |count: usize| {
        while bench.seen().len() < count {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let order = |act| {
        Write::NodeProbes(NodeProbesWrite {
            node: "n".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            act,
        })
    };
    bench.writer.submit(order(NodeAct::Desired([].into()))).unwrap();
    until_seen(1).await;
    bench.writer.submit(order(NodeAct::TakeNoticeBack)).unwrap();
    until_seen(2).await;
    let key = Key { namespace: "shop".into(), name: "m".into() };
    let status =
        PodProbeMarkerStatus { observed_generation: Some(2), matched_pods: Some(0), ..Default::default() };
    let marker = MarkerWrite { key, uid: "u".into(), resource_version: "7".into(), status: Box::new(status) };
    bench.writer.submit(Write::Marker(marker)).unwrap();
    until_seen(3).await;

    let seen = bench.seen();
    let owners = ["berth-manager&", "berth-manager-notices&", "berth-manager&"];
    for ((uri, body), owner) in seen.iter().zip(owners) {
        assert!(format!("{uri}&").contains(&format!("fieldManager={owner}")), "{uri}");
        assert_eq!(
            (&body["metadata"]["uid"], &body["metadata"]["resourceVersion"]),
            (&json!("u"), &json!("7"))
        );
    }
    let [node, notice, marker] = [0, 1, 2].map(|number: usize| &seen[number]);
    for (uri, body) in [node, notice] {
        assert!(uri.starts_with("/apis/apps.kruise.io/v1alpha1/nodepodprobes/n/status?"), "{uri}");
        assert_eq!(body["kind"], "NodePodProbe");
    }
    // What is left out is taken back.
    assert_eq!((&node.1["status"], notice.1.get("status")), (&json!({}), None));
    let path = "/apis/apps.kruise.io/v1alpha1/namespaces/shop/podprobemarkers/m/status?";
    assert!(marker.0.starts_with(path), "{}", marker.0);
    assert_eq!(marker.1["status"], json!({ "observedGeneration": 2, "matchedPods": 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_deleted_only_as_it_was_seen() {
    let bench = bench(|_| 200);
    let key = Key { namespace: "shop".into(), name: "j".into() };
    let order =
        JobWrite { key, uid: "u".into(), resource_version: "7".into(), act: crate::images::JobAct::Delete };
    bench.writer.submit(Write::Job(order)).unwrap();
    while bench.seen().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let (uri, body) = bench.seen().remove(0);
    assert!(uri.starts_with("/apis/apps.kruise.io/v1alpha1/namespaces/shop/imagepulljobs/j"), "{uri}");
    assert_eq!(body["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));
}
