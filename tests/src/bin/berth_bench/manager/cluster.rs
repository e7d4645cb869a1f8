//! A cluster on paper: nodes, and pods whose specs and statuses are as large as those of real ones. Pods are
//! put into the store past the API server, as if they had been made long ago.

use anyhow::{Context, Result};
use berth_proto::crd::ContainerRecreateRequest;
use berth_tests::node::ControlPlane;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// Requests to the API server at once. More only wait there.
const AT_ONCE: usize = 32;
const NAMESPACES: u32 = 20;
/// Objects that are put into the store at once, and how often at the same time.
pub(crate) const OF_ONE: usize = 50;
pub(crate) const STORES: usize = 4;

pub(crate) struct Cluster {
    pub(crate) nodes: u32,
    pub(crate) pods: u32,
    /// Annotations of each pod, besides those of any.
    pub(crate) annotations: Value,
}

impl Cluster {
    /// Makes everything, in parallel.
    pub(crate) async fn create(&self, plane: &ControlPlane, client: &Client) -> Result<()> {
        let create = PostParams::default();
        let (namespaces, nodes) = (Api::<Namespace>::all(client.clone()), Api::<Node>::all(client.clone()));
        for number in 0..NAMESPACES {
            let object = serde_json::from_value(json!({ "metadata": { "name": namespace(number) } }))?;
            namespaces.create(&create, &object).await.context("make a namespace")?;
        }
        let (nodes, create) = (&nodes, &create);
        let made = stream::iter(0..self.nodes).map(|number| async move {
            let object = serde_json::from_value(json!({ "metadata": { "name": node(number) } }))?;
            nodes.create(create, &object).await.context("make a node").map(drop)
        });
        made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;

        let store = plane.store()?;
        let numbers: Vec<u32> = (0..self.pods).collect();
        let parts = stream::iter(numbers.chunks(OF_ONE)).map(|part| {
            let pods: Vec<_> = part.iter().map(|number| ("pods", self.pod(*number))).collect();
            let store = store.clone();
            async move { store.put(&pods).await }
        });
        parts.buffer_unordered(STORES).try_collect().await
    }

    /// A pod as it is stored.
    fn pod(&self, number: u32) -> Value {
        let name = pod(number);
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace(number), "creationTimestamp": STARTED,
                "uid": format!("5ca1ab1e-0000-4000-8000-{number:012x}"),
                "labels": { "app": "shop", "component": name, "pod-template-hash": "6b7f8c9d5d", "team": "checkout" },
                "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080",
                    "config/checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" },
            },
            "spec": {
                "nodeName": node(number % self.nodes),
                "initContainers": [spec("proxy", Some("Always"))],
                "containers": [spec("app", None), spec("log", None)],
                "volumes": [{ "name": "config", "configMap": { "name": "shop-config" } }, { "name": "tmp", "emptyDir": {} }],
                "tolerations": [
                    { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                    { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                ],
            },
        });
        for (key, value) in self.annotations.as_object().into_iter().flatten() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": STARTED });
        let address = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
        object["status"] = json!({
            "phase": "Running",
            "startTime": STARTED,
            "hostIP": "192.168.0.1", "hostIPs": [{ "ip": "192.168.0.1" }],
            "podIP": address, "podIPs": [{ "ip": address }],
            "qosClass": "Burstable",
            "conditions": CONDITIONS.map(condition),
            "initContainerStatuses": [running(number, 0)],
            "containerStatuses": [running(number, 1), running(number, 2)],
        });
        object
    }

    /// Makes requests, each about another pod, over the whole cluster.
    pub(crate) async fn ask(&self, client: &Client, prefix: &str, requests: u32) -> Result<()> {
        let stride = (self.pods / requests).max(1);
        let made = stream::iter(0..requests).map(|number| async move {
            let about = number * stride % self.pods;
            let api: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), &namespace(about));
            let request = serde_json::from_value(json!({
                "apiVersion": "apps.kruise.io/v1alpha1",
                "kind": "ContainerRecreateRequest",
                "metadata": { "name": format!("{prefix}{number}") },
                "spec": { "podName": pod(about), "containers": [{ "name": "app" }, { "name": "proxy" }] },
            }))?;
            api.create(&PostParams::default(), &request).await.context("ask").map(drop)
        });
        made.buffer_unordered(AT_ONCE).try_collect().await
    }
}

const STARTED: &str = "2026-01-01T00:00:00Z";
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
const NAMES: [&str; 3] = ["proxy", "app", "log"];

pub(crate) fn namespace(number: u32) -> String {
    format!("shop-{}", number % NAMESPACES)
}

pub(crate) fn node(number: u32) -> String {
    format!("node-{number:04}.example.com")
}

pub(crate) fn pod(number: u32) -> String {
    format!("shop-6b7f8c9d5d-{number:05}")
}

fn spec(name: &str, restart_policy: Option<&str>) -> Value {
    let variable = |number: u32| json!({ "name": format!("SETTING_{number}"), "value": format!("value of setting {number}") });
    let mut container = json!({
        "name": name,
        "image": format!("registry.example.com/shop/{name}:1.2.3"),
        "env": (0..10).map(variable).collect::<Vec<_>>(),
        "ports": [{ "name": "http", "containerPort": 8080 }],
        "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
        "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 5 },
        "volumeMounts": [{ "name": "config", "mountPath": "/etc/shop" }, { "name": "tmp", "mountPath": "/tmp" }],
    });
    if let Some(policy) = restart_policy {
        container["restartPolicy"] = policy.into();
    }
    container
}

pub(crate) fn running(pod: u32, container: u32) -> Value {
    let name = NAMES[container as usize];
    json!({
        "name": name,
        "containerID": format!("containerd://{:064x}", u128::from(pod * 3 + container + 1) * 0x9e37_79b9_7f4a_7c15),
        "image": format!("registry.example.com/shop/{name}:1.2.3"),
        "imageID": format!("registry.example.com/shop/{name}@sha256:{container:064x}"),
        "ready": true, "started": true, "restartCount": 0,
        "state": { "running": { "startedAt": STARTED } }, "lastState": {},
    })
}
