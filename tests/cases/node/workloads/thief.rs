//! The credential of berth-workloads in other hands: what its role and its policy refuse, each attempt for
//! its own reason, and that neither refuses what the program does.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::template_history::{Part, TEMPLATE_HISTORY};
use berth_tests::node::{deploy, token};
use berth_tests::wait::await_condition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

const NAMESPACE: &str = "workloads-thief";
const NODE: &str = "thief-node";

/// One request, which changes nothing even where it is let in (`dryRun`).
#[derive(Debug)]
struct Attempt {
    method: &'static str,
    path: String,
    body: Value,
}

impl Attempt {
    fn new(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body }
    }

    fn request(&self) -> Result<http::Request<Vec<u8>>> {
        let content = match self.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let uri = format!("{}?dryRun=All", self.path);
        let body = if self.body.is_null() { Vec::new() } else { serde_json::to_vec(&self.body)? };
        let request = http::Request::builder().method(self.method).uri(uri).header("content-type", content);
        request.body(body).context("request")
    }
}

/// Tries it. Returns the message of the refusal, if there is one.
async fn play(thief: &Client, attempt: &Attempt) -> Result<Option<String>> {
    match thief.request::<Value>(attempt.request()?).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if [403, 422].contains(&status.code) => Ok(Some(status.message)),
        Err(error) => Err(error).with_context(|| format!("{attempt:?}")),
    }
}

fn core(path: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{path}")
}

fn apps(path: &str) -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/{path}")
}

fn kruise(version: &str, path: &str) -> String {
    format!("/apis/apps.kruise.io/{version}/namespaces/{NAMESPACE}/{path}")
}

fn lease(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name }, "spec": { "holderIdentity": "thief" },
    })
}

/// An owner that decides.
fn owner(kind: &str, group: &str, uid: &str) -> Value {
    json!([{ "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": "shop", "uid": uid, "controller": true }])
}

fn pod(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "shop" }, "ownerReferences": owners },
        "spec": { "containers": [{ "name": "a", "image": "a:1" }] },
    })
}

fn claim(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "ownerReferences": owners },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

fn pull(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
        "metadata": { "name": name, "ownerReferences": owners },
        "spec": { "image": "a:1", "completionPolicy": { "type": "Never" } },
    })
}

/// Makes a set that changes nothing by itself and what belongs to it, an object of a node with an entry of a
/// SidecarSet, and what belongs to nobody. Returns the set's UID.
async fn make(sheet: &Sheet) -> Result<String> {
    let create = async |mut object: Value| {
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        let made = deploy::api(&sheet.client, &object)?.create(&PostParams::default(), &object).await;
        made.with_context(|| format!("make {}", object.name_any()))
    };
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "shop" },
        "spec": {
            "replicas": 1, "updateStrategy": { "paused": true },
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "a", "image": "a:1" }] },
            },
        },
    });
    let uid = create(set).await?.uid().context("no uid")?;
    let owners = owner("CloneSet", "apps.kruise.io", &uid);
    create(claim("mine", &owners)).await?;
    create(claim("theirs", &Value::Null)).await?;
    let mut stray = pod("stray", &Value::Null);
    stray["metadata"]["labels"] = json!({ "app": "other" });
    create(stray).await?;
    create(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": { "name": "mine", "ownerReferences": owners }, "data": { "spec": {} }, "revision": 1,
    }))
    .await?;
    let node: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate", "metadata": { "name": NODE },
    }))?;
    let nodes = deploy::api(&sheet.client, &node)?;
    nodes.create(&PostParams::default(), &node).await.context("make the node's object")?;
    let entry = json!({ "status": { "features": ["swaps/v1"], "desiredPods": [entry("SidecarSet/mesh")] } });
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Merge(&entry))
        .await
        .context("make an entry")?;
    Ok(uid)
}

fn entry(owner: &str) -> Value {
    json!({
        "uid": "0", "owner": owner, "namespace": NAMESPACE, "name": "stray", "revision": "r",
        "containers": [{ "name": "a", "image": "a:2" }],
    })
}

/// Attempts that are refused, and words of the reason.
fn refused(pod_of_set: &str, uid: &str) -> Vec<(Attempt, &'static str)> {
    const DECIDED: &str = "write only pods, claims, revisions and pull jobs that a CloneSet";
    const SPEC: &str = "change nothing of a pod's or a claim's spec";
    const STATUS: &str = "conditions InPlaceUpdateReady and KruisePodReady, and nothing else";
    const SET: &str = "of a CloneSet the workloads change its status, and spec.scaleStrategy.podsToDelete";
    const ENTRIES: &str = "write the entries of workloads alone";
    const LEASE: &str = "the only lease of the workloads";
    let post = |path: String, body: Value| Attempt::new("POST", path, body);
    let patch = |path: String, body: Value| Attempt::new("PATCH", path, body);
    let delete = |path: String| Attempt::new("DELETE", path, Value::Null);
    let labels = || json!({ "metadata": { "labels": { "a": "b" } } });
    let part = Part::Image { container: "a", image: "evil:1" };
    let noted = || json!({ "metadata": { "annotations": { TEMPLATE_HISTORY: part.digest() } } });
    let others = owner("Deployment", "apps", uid);
    let node = || format!("/apis/berth.dev/v1alpha1/nodepodupdates/{NODE}/status");
    let mine = core(&format!("pods/{pod_of_set}"));
    let condition =
        |type_: &str| json!({ "status": { "conditions": [{ "type": type_, "status": "True" }] } });
    let leases = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    vec![
        // Pods of others, and of its own more than metadata.
        (post(core("pods"), pod("new", &Value::Null)), DECIDED),
        (post(core("pods"), pod("new", &others)), DECIDED),
        (delete(core("pods/stray")), DECIDED),
        (patch(core("pods/stray"), labels()), DECIDED),
        (
            patch(mine.clone(), json!({ "spec": { "containers": [{ "name": "a", "image": "evil:1" }] } })),
            SPEC,
        ),
        (patch(format!("{mine}/status"), condition("Ready")), STATUS),
        (patch(format!("{mine}/status"), json!({ "status": { "phase": "Failed" } })), STATUS),
        (patch(core("pods/stray/status"), condition("KruisePodReady")), DECIDED),
        (post(format!("{mine}/eviction"), eviction(pod_of_set)), "cannot create resource \"pods/eviction\""),
        (post(format!("{mine}/binding"), binding(pod_of_set)), "cannot create resource \"pods/binding\""),
        (Attempt::new("GET", mine, Value::Null), "cannot get resource \"pods\""),
        (delete(core("pods")), "cannot deletecollection"),
        // Claims.
        (post(core("persistentvolumeclaims"), claim("new", &Value::Null)), DECIDED),
        (post(core("persistentvolumeclaims"), claim("new", &others)), DECIDED),
        (delete(core("persistentvolumeclaims/theirs")), DECIDED),
        (patch(core("persistentvolumeclaims/theirs"), labels()), DECIDED),
        (patch(core("persistentvolumeclaims/mine"), json!({ "spec": { "volumeName": "evil" } })), SPEC),
        // Revisions: agents and rollbacks go by their data.
        (
            patch(apps("controllerrevisions/mine"), json!({ "data": { "spec": { "evil": true } } })),
            "field is immutable",
        ),
        (
            post(
                apps("controllerrevisions"),
                json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision",
                    "metadata": { "name": "new", "ownerReferences": others }, "data": {}, "revision": 1 }),
            ),
            DECIDED,
        ),
        // Pulls that nobody's update asks for.
        (post(kruise("v1alpha1", "imagepulljobs"), pull("new", &Value::Null)), DECIDED),
        (post(kruise("v1alpha1", "imagepulljobs"), pull("new", &others)), DECIDED),
        // Workloads.
        (patch(kruise("v1alpha1", "clonesets/shop"), json!({ "spec": { "replicas": 9 } })), SET),
        (patch(kruise("v1alpha1", "clonesets/shop"), labels()), SET),
        // What agents take an image for that the template does not name.
        (patch(kruise("v1alpha1", "clonesets/shop"), noted()), SET),
        (
            patch(
                kruise("v1alpha1", "clonesets/shop"),
                json!({ "spec": { "scaleStrategy": { "disablePVCReuse": true } } }),
            ),
            SET,
        ),
        (delete(kruise("v1alpha1", "clonesets/shop")), "nothing the workloads of Berth write"),
        (patch(kruise("v1beta1", "statefulsets/shop"), labels()), "cannot patch resource \"statefulsets\""),
        (patch(kruise("v1alpha1", "daemonsets/shop"), labels()), "cannot patch resource \"daemonsets\""),
        (patch(apps("deployments/shop"), labels()), "cannot patch resource \"deployments\""),
        (
            patch("/apis/apps.kruise.io/v1alpha1/sidecarsets/mesh".to_owned(), labels()),
            "cannot patch resource \"sidecarsets\"",
        ),
        // What nodes act on.
        (patch(node(), json!({ "status": { "desiredPods": [] } })), ENTRIES),
        (patch(node(), json!({ "status": { "desiredPods": [entry("SidecarSet/evil")] } })), ENTRIES),
        (patch(node(), json!({ "status": { "desiredPods": [entry("")] } })), ENTRIES),
        (patch(node(), json!({ "status": { "features": [] } })), ENTRIES),
        (patch(node(), json!({ "status": { "renewTime": "2036-01-01T00:00:00Z" } })), ENTRIES),
        // Leases, and what its role has nothing of.
        (post(leases("berth-system"), lease("berth-system", "berth-manager")), LEASE),
        (post(leases(NAMESPACE), lease(NAMESPACE, "berth-workloads")), "cannot create resource \"leases\""),
        (
            patch(format!("{}/berth-manager", leases("berth-system")), labels()),
            "cannot patch resource \"leases\"",
        ),
        (Attempt::new("GET", core("secrets"), Value::Null), "cannot list resource \"secrets\""),
        (
            post(
                "/api/v1/namespaces/berth-system/serviceaccounts/berth-workloads/token".to_owned(),
                json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } }),
            ),
            "cannot create resource \"serviceaccounts/token\"",
        ),
    ]
}

fn eviction(pod: &str) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } })
}

fn binding(pod: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
        "target": { "kind": "Node", "name": NODE },
    })
}

/// Writes that the program makes.
fn accepted(pod_of_set: &str, uid: &str) -> Vec<Attempt> {
    let owners = owner("CloneSet", "apps.kruise.io", uid);
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    let entries = json!({ "status": { "desiredPods": [entry("SidecarSet/mesh"), entry("CloneSet/shop")] } });
    let condition = json!({ "status": { "conditions": [{ "type": "KruisePodReady", "status": "True" }] } });
    let names = json!({ "spec": { "scaleStrategy": { "podsToDelete": [] } } });
    vec![
        Attempt::new("POST", core("pods"), pod("new", &owners)),
        Attempt::new("PATCH", core(&format!("pods/{pod_of_set}")), labels),
        Attempt::new("PATCH", core(&format!("pods/{pod_of_set}/status")), condition),
        Attempt::new("POST", core("persistentvolumeclaims"), claim("new", &owners)),
        Attempt::new("DELETE", core("persistentvolumeclaims/mine"), Value::Null),
        Attempt::new("PATCH", apps("controllerrevisions/mine"), json!({ "revision": 2 })),
        Attempt::new("POST", kruise("v1alpha1", "imagepulljobs"), pull("new", &owners)),
        Attempt::new("PATCH", kruise("v1alpha1", "clonesets/shop"), names),
        Attempt::new("PATCH", format!("/apis/berth.dev/v1alpha1/nodepodupdates/{NODE}/status"), entries),
    ]
}

#[tokio::test]
async fn the_token_of_the_workloads_is_useless_elsewhere() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let uid = make(&sheet).await?;
    let sets: Api<DynamicObject> = {
        let set: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": { "namespace": NAMESPACE, "name": "shop" },
        }))?;
        deploy::api(&sheet.client, &set)?
    };
    await_condition("the set has its pod, and its status says so", PATIENCE, async || {
        ensure!(sets.get("shop").await?.data["status"]["replicas"] == 1, "not yet");
        Ok(())
    })
    .await?;
    let names = sheet.names().await?;
    let name = names.iter().find(|name| *name != "stray").context("the set has no pod")?;

    let token = token::of(&sheet.client, "berth-workloads", None).await?;
    let thief = sheet.paper.plane.api().client_with("workloads-thief", &token).await?;
    let refused = refused(name, &uid);
    // The policy was made a moment ago.
    let (first, words) = refused.first().context("nothing to try")?;
    await_condition("the policy holds", PATIENCE, async || {
        let message = play(&thief, first).await?;
        ensure!(message.is_some_and(|message| message.contains(words)), "not yet");
        Ok(())
    })
    .await?;
    for attempt in accepted(name, &uid) {
        if let Some(message) = play(&thief, &attempt).await? {
            bail!("{attempt:?} was refused: {message}");
        }
    }
    let mut wrong = Vec::new();
    for (attempt, words) in &refused {
        match play(&thief, attempt).await? {
            None => wrong.push(format!("{attempt:?} was accepted")),
            Some(message) if !message.contains(words) => wrong.push(format!("{attempt:?}: {message}")),
            Some(_) => {}
        }
    }
    ensure!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), refused.len(), wrong.join("\n"));
    Ok(())
}
