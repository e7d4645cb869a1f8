//! All kinds in use: nodes with the objects of their agents, workloads, and what is said about their pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::node::Store;
use berth_tests::wait::await_condition;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::manager::cluster::{OF_ONE, STORES, namespace, node};

/// All that berth-workloads can be told to carry out, but for distributions, which are another process.
pub(super) const OPTIONS: &[&str] =
    &["--broadcastjobs", "--cronjobs", "--united-deployments", "--spreads", "--pod-states"];
const AT_ONCE: usize = 32;
const NAMESPACES: u32 = 20;
/// Pods of a CloneSet.
const OF_EACH: u32 = 200;
/// One node of so many is of the DaemonSet and the BroadcastJob.
const EDGE: u32 = 20;
/// Objects of each kind that is not in each namespace.
const SOME: u32 = 10;
/// Pods of a StatefulSet.
const STATEFUL: u32 = 10;
/// CloneSet that is rolled out.
const ROLLED: usize = 0;
const KRUISE: &str = "apps.kruise.io/v1alpha1";

/// The cluster.
pub(super) struct Kinds {
    client: Client,
    nodes: u32,
    sets: u32,
    of_each: u32,
}

/// A CloneSet, and the pod that was made of it.
pub(super) struct Made {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Pods that it is to have.
    pub(super) replicas: u32,
    pub(super) pod: Value,
}

impl Kinds {
    pub(super) fn new(client: &Client, nodes: u32, pods: u32) -> Self {
        let sets = (pods / OF_EACH).max(1);
        Self { client: client.clone(), nodes, sets, of_each: pods / sets }
    }

    pub(super) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Pods of a CloneSet.
    pub(super) fn of_each(&self) -> u32 {
        self.of_each
    }

    /// Namespaces, and nodes with the objects that their agents make; those of updates come with the agents.
    pub(super) async fn make_nodes(&self, store: &Store) -> Result<()> {
        for number in 0..NAMESPACES {
            let meta = json!({ "name": namespace(number) });
            self.make(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": meta })).await?;
        }
        let numbers: Vec<u32> = (0..self.nodes).collect();
        let parts = stream::iter(numbers.chunks(OF_ONE)).map(|part| {
            let objects: Vec<_> = part.iter().flat_map(|number| of_node(*number)).collect();
            async move { store.put(&objects).await }
        });
        parts.buffer_unordered(STORES).try_collect().await
    }

    /// Workloads, until the first pod of each CloneSet and all of the others are ready.
    pub(super) async fn make_workloads(&self, patience: Duration) -> Result<Vec<Made>> {
        let mut objects: Vec<Value> = (0..self.sets).map(clone_set).collect();
        for number in 0..SOME {
            let name = format!("stateful-{number}");
            objects.push(json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
                "metadata": { "name": name, "namespace": namespace(number), "annotations": {
                    "kruise.io/auto-generate-persistent-pod-state": "true",
                    "kruise.io/required-persistent-topology": "topology.kubernetes.io/zone",
                } },
                "spec": { "replicas": STATEFUL, "serviceName": name, "podManagementPolicy": "Parallel",
                    "selector": { "matchLabels": { "app": name } }, "template": template(&name, &json!({})) },
            }));
            let name = format!("united-{number}");
            let subset = |zone: &str| {
                json!({ "name": zone, "nodeSelectorTerm": { "matchExpressions": [
                    { "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] }] } })
            };
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "UnitedDeployment",
                "metadata": { "name": name, "namespace": namespace(number) },
                "spec": { "replicas": 6, "selector": { "matchLabels": { "app": name } },
                    "template": { "cloneSetTemplate": { "metadata": { "labels": { "app": name } },
                        "spec": { "selector": { "matchLabels": { "app": name } }, "template": template(&name, &json!({})) } } },
                    "topology": { "subsets": [subset("a"), subset("b"), subset("c")] } },
            }));
            let name = format!("yearly-{number}");
            let job = json!({ "restartPolicy": "Never" });
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "AdvancedCronJob",
                "metadata": { "name": name, "namespace": namespace(number) },
                "spec": { "schedule": "0 0 1 1 *", "template": { "jobTemplate": { "spec": { "template": template(&name, &job) } } } },
            }));
        }
        let edge = json!({ "nodeSelector": { "tier": "edge" } });
        objects.push(json!({
            "apiVersion": KRUISE, "kind": "DaemonSet", "metadata": { "name": "edge", "namespace": namespace(0) },
            "spec": { "selector": { "matchLabels": { "app": "edge" } }, "template": template("edge", &edge) },
        }));
        let sweep = json!({ "nodeSelector": { "tier": "edge" }, "restartPolicy": "OnFailure" });
        objects.push(json!({
            "apiVersion": KRUISE, "kind": "BroadcastJob", "metadata": { "name": "sweep", "namespace": namespace(0) },
            "spec": { "parallelism": "100%", "completionPolicy": { "type": "Never" }, "template": template("sweep", &sweep) },
        }));
        self.make_all(objects).await?;

        let edge = u64::from(self.nodes.div_ceil(EDGE));
        await_condition("the workloads are ready", patience, async || {
            let ready =
                |object: &DynamicObject, field: &str| object.data["status"][field].as_u64().unwrap_or(0);
            for (kind, field, wanted) in [
                ("CloneSet", "readyReplicas", 1),
                ("UnitedDeployment", "readyReplicas", 6),
                ("StatefulSet", "readyReplicas", u64::from(STATEFUL)),
                ("DaemonSet", "numberReady", edge),
                ("BroadcastJob", "active", edge),
            ] {
                let all = self.api(kind, None).list(&ListParams::default()).await?.items;
                let own = |object: &&DynamicObject| object.metadata.owner_references.is_none();
                let missing = all.iter().filter(own).filter(|object| ready(object, field) < wanted).count();
                ensure!(!all.is_empty() && missing == 0, "{missing} of {} of kind {kind}", all.len());
            }
            Ok(())
        })
        .await?;
        let read = stream::iter(0..self.sets).map(|number| async move {
            let (name, namespace) = (set(number), namespace(number));
            let pods = self.api("Pod", Some(&namespace));
            let list = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
            let pod = list.items.into_iter().next().with_context(|| format!("{name} has no pod"))?;
            let mut pod = serde_json::to_value(pod)?;
            (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
            Ok(Made { namespace, name, replicas: self.of_each, pod })
        });
        read.buffered(AT_ONCE).try_collect().await
    }

    /// Says how many pods the CloneSets have by now.
    pub(super) async fn grow(&self, sets: &[Made]) -> Result<()> {
        let grown = stream::iter(sets).map(|set| async move {
            let patch = Patch::Merge(json!({ "spec": { "replicas": set.replicas } }));
            let api = self.api("CloneSet", Some(&set.namespace));
            api.patch(&set.name, &PatchParams::default(), &patch).await.context("grow a set").map(drop)
        });
        grown.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Policies about pods: budgets for one CloneSet of five; spreads, markers, sidecars, pull jobs and
    /// requests for some.
    pub(super) async fn make_policies(&self, sets: &[Made]) -> Result<()> {
        let mut objects = Vec::new();
        let target = |name: &str| json!({ "apiVersion": KRUISE, "kind": "CloneSet", "name": name });
        for Made { namespace, name, .. } in sets.iter().step_by(5) {
            objects.push(json!({
                "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
                "metadata": { "name": name, "namespace": namespace },
                "spec": { "targetRef": target(name), "maxUnavailable": "20%" },
            }));
        }
        for Made { namespace, name, pod, .. } in
            sets.iter().skip(1).step_by(sets.len().div_ceil(SOME as usize))
        {
            let meta = json!({ "name": name, "namespace": namespace });
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "WorkloadSpread", "metadata": meta,
                "spec": { "targetRef": target(name), "subsets": [
                    { "name": "a", "maxReplicas": "50%", "requiredNodeSelectorTerm": { "matchExpressions": [
                        { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] }] } },
                    { "name": "rest" }] },
            }));
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "PodProbeMarker", "metadata": meta,
                "spec": { "selector": { "matchLabels": { "app": name } }, "probes": [{
                    "name": "idle", "containerName": "app", "podConditionType": "shop.io/idle",
                    "probe": { "exec": { "command": ["/idle"] }, "periodSeconds": 10 } }] },
            }));
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "ImagePullJob", "metadata": meta,
                "spec": { "image": format!("registry.example.com/shop/{name}:2"), "parallelism": 10,
                    "selector": { "matchLabels": { "tier": "edge" } }, "completionPolicy": { "type": "Never" } },
            }));
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "ContainerRecreateRequest", "metadata": meta,
                "spec": { "podName": pod["metadata"]["name"], "containers": [{ "name": "app" }] },
            }));
            objects.push(json!({
                "apiVersion": KRUISE, "kind": "SidecarSet", "metadata": { "name": name },
                "spec": { "selector": { "matchLabels": { "app": name } },
                    "containers": [{ "name": "log", "image": "registry.example.com/shop/log:1" }] },
            }));
        }
        self.make_all(objects).await
    }

    /// Gives one CloneSet a new image, and waits until all its pods have it and are ready.
    pub(super) async fn roll_out(&self, sets: &[Made]) -> Result<()> {
        let set = sets.get(ROLLED).context("no CloneSet")?;
        let api = self.api("CloneSet", Some(&set.namespace));
        let patch: Patch<()> = Patch::Json(serde_json::from_value(json!([{
            "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example.com/shop/app:2.0.0",
        }]))?);
        api.patch(&set.name, &PatchParams::default(), &patch).await.context("set the image")?;
        await_condition("all pods have the new image", Duration::from_secs(600), async || {
            let object = api.get(&set.name).await?;
            let status = &object.data["status"];
            ensure!(status["observedGeneration"].as_i64() == object.metadata.generation, "not seen");
            for field in ["replicas", "updatedReadyReplicas", "readyReplicas"] {
                ensure!(
                    status[field].as_u64() == Some(u64::from(set.replicas)),
                    "{field}: {}",
                    status[field]
                );
            }
            Ok(())
        })
        .await
    }

    async fn make_all(&self, objects: Vec<Value>) -> Result<()> {
        let made = stream::iter(objects).map(|object| self.make(object));
        made.buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await
    }

    async fn make(&self, object: Value) -> Result<DynamicObject> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (kind, namespace) = (text("/kind").context("no kind")?, text("/metadata/namespace"));
        let api = self.api_of(&text("/apiVersion").context("no version")?, &kind, namespace.as_deref());
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.with_context(|| format!("make a {kind}"))
    }

    fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let version = match kind {
            "Pod" => "v1",
            "StatefulSet" => "apps.kruise.io/v1beta1",
            _ => KRUISE,
        };
        self.api_of(version, kind, namespace)
    }

    fn api_of(&self, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// A node that is ready, and two objects of its agent, as they are stored.
fn of_node(number: u32) -> [(&'static str, Value); 3] {
    const SINCE: &str = "2026-01-01T00:00:00Z";
    let name = node(number);
    let uid = |kind: u32| format!("5ca1ab1e-{kind:04}-4000-9000-{number:012x}");
    let labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": (["a", "b", "c"][number as usize % 3]),
        "tier": if number.is_multiple_of(EDGE) { "edge" } else { "core" },
    });
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "on paper",
        "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE });
    // BroadcastJobs go only where their pods have room.
    let room = json!({ "cpu": "16", "memory": "64Gi", "pods": "110" });
    let of_agent = |number: u32, kind: &str| {
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid(0) });
        let meta = json!({ "name": name, "uid": uid(number), "creationTimestamp": SINCE, "generation": 1, "ownerReferences": [owner] });
        json!({ "apiVersion": KRUISE, "kind": kind, "metadata": meta, "spec": {} })
    };
    let meta = json!({ "name": name, "uid": uid(0), "creationTimestamp": SINCE, "labels": labels });
    [
        (
            "minions",
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {},
                "status": { "conditions": [ready], "capacity": room, "allocatable": room } }),
        ),
        ("apps.kruise.io/nodeimages", of_agent(1, "NodeImage")),
        ("apps.kruise.io/nodepodprobes", of_agent(2, "NodePodProbe")),
    ]
}

fn set(number: u32) -> String {
    format!("shop-{number:03}")
}

fn clone_set(number: u32) -> Value {
    let name = set(number);
    json!({
        "apiVersion": KRUISE, "kind": "CloneSet", "metadata": { "name": name, "namespace": namespace(number) },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": template(&name, &json!({})),
            "updateStrategy": { "type": "InPlaceIfPossible", "maxUnavailable": "20%" } },
    })
}

/// Template of pods as large as most are, with this beside their containers.
fn template(app: &str, more: &Value) -> Value {
    let variable = |number: u32| json!({ "name": format!("SETTING_{number}"), "value": format!("value of setting {number}") });
    let mut spec = json!({
        "containers": [{
            "name": "app", "image": "registry.example.com/shop/app:1.2.3",
            "env": (0..10).map(variable).collect::<Vec<_>>(),
            "ports": [{ "name": "http", "containerPort": 8080 }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/shop" }, { "name": "tmp", "mountPath": "/tmp" }],
        }],
        "volumes": [{ "name": "config", "configMap": { "name": "shop-config" } }, { "name": "tmp", "emptyDir": {} }],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let annotations = json!({ "prometheus.io/scrape": "true", "prometheus.io/port": "8080" });
    json!({ "metadata": { "labels": { "app": app, "team": "checkout" }, "annotations": annotations }, "spec": spec })
}
