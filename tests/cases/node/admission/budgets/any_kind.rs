//! A budget of a kind that Berth has never heard of: all it needs is a scale, and the right to read it, which
//! is granted by the command that the budget's condition says.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use berth_tests::node::tool::run as tool;
use berth_tests::node::{User, deploy, programs};
use berth_tests::wait::await_condition;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::scene::Scene;
use super::{budgets, code};
use crate::case::{PATIENCE, end_now};

const NAME: &str = "fleet";
const PODS: [&str; 2] = ["fleet-0", "fleet-1"];

/// Two pods of a fleet go one at a time, once the scale of fleets may be read.
pub(super) async fn is_limited(scene: &Scene, namespace: &str) -> Result<()> {
    let definition = definition()?;
    let definitions = deploy::api(&scene.client, &definition)?;
    definitions.create(&PostParams::default(), &definition).await.context("define fleets")?;
    let fleet: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Fleet",
        "metadata": { "name": NAME, "namespace": namespace }, "spec": { "replicas": PODS.len() },
    }))?;
    let fleets = deploy::api(&scene.client, &fleet)?;
    let uid = await_condition("a fleet is made", PATIENCE, async || {
        let made = fleets.create(&PostParams::default(), &fleet).await.context("make it")?;
        made.uid().context("no UID")
    })
    .await?;
    let target = json!({ "apiVersion": "example.com/v1", "kind": "Fleet", "name": NAME });
    let budget: PodUnavailableBudget = serde_json::from_value(json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
        "metadata": { "name": NAME }, "spec": { "maxUnavailable": 0, "targetRef": target },
    }))?;
    budgets(scene, namespace).create(&PostParams::default(), &budget).await.context("make a budget")?;

    let message = says(scene, namespace, "False", "--resource=fleets.example.com/scale").await?;
    grant(scene, &message).await?;
    for name in PODS {
        pod(scene, name, &uid).await?;
    }
    says(scene, namespace, "True", "its limit is kept").await?;
    let (delete, dry_run) = (DeleteParams::default(), DeleteParams { dry_run: true, ..Default::default() });
    await_condition("the budget is asked", PATIENCE, async || {
        ensure!(code(&scene.pods.delete(PODS[0], &dry_run).await)? == 429, "not yet");
        Ok(())
    })
    .await?;
    let one = json!({ "spec": { "maxUnavailable": 1 } });
    budgets(scene, namespace).patch(NAME, &PatchParams::default(), &Patch::Merge(&one)).await?;
    counted(scene, namespace, (2, 2, 1)).await?;
    ensure!(code(&scene.pods.delete(PODS[0], &delete).await)? == 200);
    let Err(kube::Error::Api(status)) = scene.pods.delete(PODS[1], &delete).await else { bail!("both go") };
    ensure!(status.code == 429 && status.message.contains("\"fleet\" is forbidden"), "{status:?}");
    // What is wanted of it counts at once.
    let none = json!({ "spec": { "replicas": 0 } });
    fleets.patch(NAME, &PatchParams::default(), &Patch::Merge(&none)).await?;
    ensure!(code(&scene.pods.delete(PODS[1], &delete).await)? == 200);

    for name in PODS {
        end_now(&scene.pods, name).await?;
    }
    budgets(scene, namespace).delete(NAME, &delete).await?;
    definitions.delete(&definition.name_any(), &delete).await.context("fleets are forgotten")?;
    Ok(())
}

/// Definition of the kind.
fn definition() -> Result<DynamicObject> {
    let number = json!({ "type": "object", "properties": { "replicas": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": { "spec": number, "status": number } });
    Ok(serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "Fleet", "plural": "fleets" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                } },
            }],
        },
    }))?)
}

/// Makes a pod of the fleet, ready.
async fn pod(scene: &Scene, name: &str, owner: &str) -> Result<()> {
    let owner = json!({ "apiVersion": "example.com/v1", "kind": "Fleet", "name": NAME, "uid": owner,
        "controller": true });
    let image = "registry.example/app:1";
    let pod = json!({
        "metadata": { "name": name, "ownerReferences": [owner] },
        "spec": { "nodeName": "paper", "containers": [{ "name": "app", "image": image }] },
    });
    scene.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("make a pod")?;
    let status = json!({ "status": {
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{ "name": "app", "image": image, "imageID": image, "ready": true,
            "restartCount": 0, "containerID": "containerd://x", "state": { "running": {} } }],
    } });
    scene.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
    Ok(())
}

async fn status(scene: &Scene, namespace: &str) -> Result<PodUnavailableBudgetStatus> {
    budgets(scene, namespace).get_status(NAME).await?.status.context("not counted")
}

/// Waits until the budget's condition says this, and gives all that it says.
async fn says(scene: &Scene, namespace: &str, accepted: &str, words: &str) -> Result<String> {
    await_condition(format!("Accepted is {accepted}: {words}"), PATIENCE, async || {
        let status = status(scene, namespace).await?;
        let condition = status.conditions.first().context("no condition")?;
        ensure!(condition.status == accepted && condition.message.contains(words), "{condition:?}");
        Ok(condition.message.clone())
    })
    .await
}

/// Waits for these numbers: wanted, available, and those that may go.
async fn counted(scene: &Scene, namespace: &str, numbers: (i32, i32, i32)) -> Result<()> {
    await_condition(format!("counted: {numbers:?}"), PATIENCE, async || {
        let status = status(scene, namespace).await?;
        let found = (status.total_replicas, status.current_available, status.unavailable_allowed);
        ensure!(found == numbers, "{status:?}");
        Ok(())
    })
    .await
}

/// Runs the commands that the condition says, as they are, and waits until the right counts.
async fn grant(scene: &Scene, message: &str) -> Result<()> {
    let (_, commands) = message.split_once("let it: ").with_context(|| message.to_owned())?;
    let kubectl = programs::kubernetes("kubectl")?;
    let kubeconfig = format!("--kubeconfig={}", scene.plane.api().kubeconfig(User::Admin)?.display());
    for command in commands.split(" && ") {
        let words = command.strip_prefix("kubectl ").with_context(|| message.to_owned())?;
        let words: Vec<&str> = words.split(' ').chain([&*kubeconfig]).collect();
        tool(&kubectl, &words).await.with_context(|| command.to_owned())?;
    }
    let manager = "--as=system:serviceaccount:berth-system:berth-manager";
    let ask = ["auth", "can-i", "get", "fleets.example.com", "--subresource=scale", manager, &*kubeconfig];
    await_condition("the manager may read it", PATIENCE, async || {
        tool(&kubectl, &ask).await.map(drop).context("not yet")
    })
    .await
}
