//! berth-workloads beside an API server without kubelets: nodes and pods are there on paper, and a pod is
//! Ready when the test says so. One program plays for all of these tests.

mod claims;
mod cut_over;
mod daemon_sets;
mod depth;
mod files;
mod gates;
mod go_back;
mod in_place;
mod killed;
mod kubectl;
mod marker_finalizers;
mod pod_states;
mod refusals;
mod sidecar_sets;
mod stateful_sets;
mod thief;
mod two_replicas;
mod united_deployments;
mod virtual_nodes;
mod witness;

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, ensure};
use berth_tests::node::{ControlPlane, Workloads, crds, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use crate::api_server::namespace;
use crate::case::{ROLLOUT, end_now};

/// When it does not come up, every test says why, and none tries again.
static PAPER: OnceCell<Result<Paper, String>> = OnceCell::const_new();

/// The API server and the program, with its role and its policy.
struct Paper {
    plane: ControlPlane,
    workloads: Workloads,
    /// Held over a restart of the program.
    turn: Mutex<()>,
}

impl Paper {
    async fn start() -> Result<Self> {
        let plane = ControlPlane::without_controllers().await?;
        let client = plane.client().await?;
        deploy::apply(&client, "namespace.yaml").await?;
        crds::install(&client).await?;
        deploy::apply(&client, "workloads/role.yaml").await?;
        deploy::apply(&client, "workloads/policy.yaml").await?;
        deploy::apply(&client, "uniteddeployments/role.yaml").await?;
        deploy::apply(&client, "uniteddeployments/policy.yaml").await?;
        deploy::add_conditions(&client, "uniteddeployments/kustomization.yaml").await?;
        deploy::apply(&client, "podstates/role.yaml").await?;
        deploy::apply(&client, "podstates/policy.yaml").await?;
        deploy::add_conditions(&client, "podstates/kustomization.yaml").await?;
        deploy::apply(&client, "marker-finalizers/role.yaml").await?;
        deploy::apply(&client, "marker-finalizers/policy.yaml").await?;
        deploy::add_conditions(&client, "marker-finalizers/kustomization.yaml").await?;
        let token = token::of(&client, "berth-workloads", None).await?;
        let kubeconfig = plane.api().kubeconfig_with("berth-workloads", &token)?;
        let files = format!("--sidecarset-revisions={}", sidecar_sets::NAMESPACE);
        let more = ["--united-deployments", "--pod-states", "--marker-finalizers", &files];
        let workloads = Workloads::start_with(plane.run(), &kubeconfig, "berth-system", &more).await?;
        Ok(Self { plane, workloads, turn: Mutex::new(()) })
    }

    /// Kills the program, has something done meanwhile, and starts it again.
    async fn without_the_program(&self, meanwhile: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
        let _turn = self.turn.lock().await;
        self.workloads.service().kill()?;
        let outcome = meanwhile().await;
        self.workloads.service().start()?;
        self.workloads.ready().await?;
        outcome
    }
}

/// A namespace on paper.
struct Sheet {
    paper: &'static Paper,
    client: Client,
    namespace: &'static str,
    pods: Api<Pod>,
}

impl Sheet {
    async fn take(name: &'static str) -> Result<Self> {
        crate::slots::take().await;
        let bring_up = async || Paper::start().await.map_err(|error| format!("{error:#}"));
        let paper = PAPER.get_or_init(bring_up).await;
        let paper = paper.as_ref().map_err(|error| anyhow!("it did not come up: {error}"))?;
        let client = paper.plane.client().await?;
        namespace(&client, name).await?;
        Ok(Self { paper, namespace: name, pods: Api::namespaced(client.clone(), name), client })
    }

    /// Makes a node with these labels that takes pods.
    async fn node(&self, name: &str, labels: Value) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await.context("make a node")?;
        // The API server gives each one the taint of a node that is not ready.
        let bare = json!({ "spec": { "taints": null } });
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&bare)).await?;
        Ok(())
    }

    /// The pods by name.
    async fn all(&self) -> Result<BTreeMap<String, Pod>> {
        let (halves, pods): (Vec<Pod>, Vec<Pod>) =
            self.pods.list(&ListParams::default()).await?.into_iter().partition(is_half_deleted);
        for half in halves {
            end_now(&self.pods, &half.name_any()).await?;
        }
        Ok(pods.into_iter().map(|pod| (pod.name_any(), pod)).collect())
    }

    async fn names(&self) -> Result<Vec<String>> {
        Ok(self.all().await?.into_keys().collect())
    }

    /// Makes a pod Ready, as its kubelet would.
    async fn serve(&self, name: &str) -> Result<()> {
        let status = json!({ "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        }});
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
        Ok(())
    }

    /// Makes all pods Ready, one after the other as they come, until something holds.
    async fn serves_until(&self, what: &str, holds: impl AsyncFn() -> Result<()>) -> Result<()> {
        await_condition(what.to_owned(), ROLLOUT, async || {
            for (name, pod) in self.all().await? {
                let is_running = pod.status.and_then(|status| status.phase).as_deref() == Some("Running");
                if !is_running && pod.metadata.deletion_timestamp.is_none() {
                    self.serve(&name).await.context("serve")?;
                }
            }
            holds().await
        })
        .await
        .with_context(|| format!("berth-workloads said:\n{}", self.paper.workloads.service().last_words()))
    }
}

/// Takes the owners off all revisions of a namespace, as who deletes a set and leaves its own behind. Returns
/// their names.
async fn loosen_revisions(sheet: &Sheet) -> Result<Vec<String>> {
    let revisions: Api<ControllerRevision> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let mut names = Vec::new();
    let loose = json!({ "metadata": { "ownerReferences": [] } });
    for revision in revisions.list(&ListParams::default()).await? {
        let name = revision.name_any();
        revisions.patch(&name, &PatchParams::default(), &Patch::Merge(&loose)).await?;
        names.push(name);
    }
    Ok(names)
}

/// Tells whether the API server has begun to delete a pod without a node and not come to the end. It marks
/// the pod first and removes it then, and leaves it so when the client is killed between the two. In a
/// cluster the pod garbage collector ends such pods; on paper the test does.
fn is_half_deleted(pod: &Pod) -> bool {
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    pod.metadata.deletion_grace_period_seconds == Some(0) && pod.finalizers().is_empty() && !has_node
}

fn image(pod: &Pod) -> &str {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    container.and_then(|container| container.image.as_deref()).unwrap_or_default()
}

/// Says which of these pods have which image.
fn has_images(pods: &BTreeMap<String, Pod>, wanted: &[(&str, &str)]) -> Result<()> {
    let images: Vec<(&str, &str)> = pods.iter().map(|(name, pod)| (name.as_str(), image(pod))).collect();
    ensure!(images == wanted, "{images:?}");
    Ok(())
}
