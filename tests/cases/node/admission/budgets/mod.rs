//! PodUnavailableBudgets at a real API server, with pods on paper: who may go, who has to wait, and that
//! never more go than the budget lets, however many ask at once.

mod any_kind;
mod attack;
mod away;
mod crowd;
mod recreated;
mod story;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::crowd::Crowd;
use super::scene::{CONFIGURATION, Scene};
use crate::case::PATIENCE;

/// A budget for the pods of the CloneSet `web`.
fn budget(limit: Value) -> Result<PodUnavailableBudget> {
    let mut spec = json!({ "targetRef": { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web" } });
    spec["maxUnavailable"] = limit;
    Ok(serde_json::from_value(json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
        "metadata": { "name": "web" }, "spec": spec,
    }))?)
}

/// Its API.
fn budgets(scene: &Scene, namespace: &str) -> Api<PodUnavailableBudget> {
    Api::namespaced(scene.client.clone(), namespace)
}

/// Makes the budget, and waits until the API server asks it.
async fn limit(scene: &Scene, namespace: &str, limit: Value) -> Result<()> {
    let api = budgets(scene, namespace);
    await_condition("the budget is taken", PATIENCE, async || {
        api.create(&PostParams::default(), &budget(json!(0))?).await.map(drop).context("make a budget")
    })
    .await?;
    await_condition("the budget is asked", PATIENCE, async || {
        let tried = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let Err(error) = scene.pods.delete("web-0", &tried).await else { bail!("not yet") };
        ensure!(error.to_string().contains("unavailable allowed is negative"), "{error}");
        Ok(())
    })
    .await?;
    let patch = json!({ "spec": { "maxUnavailable": limit } });
    api.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Waits until so many pods are available and may go.
async fn counted(scene: &Scene, namespace: &str, available: i32, allowed: i32) -> Result<()> {
    await_condition(format!("{available} available, {allowed} allowed"), PATIENCE, async || {
        let status = budgets(scene, namespace).get_status("web").await?.status.context("not counted")?;
        let PodUnavailableBudgetStatus { current_available, unavailable_allowed, .. } = status;
        ensure!((current_available, unavailable_allowed) == (available, allowed), "{status:?}");
        Ok(())
    })
    .await
}

/// The code that the API server answers with; 200 for what is done.
fn code<T>(answer: &kube::Result<T>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => bail!("no answer: {error}"),
    }
}

#[tokio::test]
async fn a_budget_says_who_may_go() -> Result<()> {
    const SPACE: &str = "admission-budgets";
    let scene = Scene::set(SPACE).await?;
    scene.first.leads().await?;
    let crowd = Crowd::make(&scene, SPACE, 5).await?;
    limit(&scene, SPACE, json!(1)).await?;
    counted(&scene, SPACE, 5, 1).await?;
    let pods = &scene.pods;
    let (delete, evict) = (DeleteParams::default(), EvictParams::default());

    // One goes, and the next one has to wait, whoever asks: by the code that clients try again.
    ensure!(
        code(&pods.evict("web-0", &evict).await)? == 201
            || pods.get("web-0").await?.metadata.deletion_timestamp.is_some()
    );
    let Err(kube::Error::Api(status)) = pods.evict("web-1", &evict).await else { bail!("a second one goes") };
    ensure!(status.code == 429 && status.reason == "TooManyRequests", "{status:?}");
    let says =
        "podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative";
    ensure!(status.message.contains(says), "{status:?}");
    ensure!(code(&pods.delete("web-1", &delete).await)? == 429);
    let image = json!({ "spec": { "containers": [{ "name": "app", "image": "registry.example/app:2" }] } });
    let patched = pods.patch("web-1", &PatchParams::default(), &Patch::Strategic(&image)).await;
    ensure!(code(&patched)? == 429, "{patched:?}");
    // An update in place by the agent begins with its gate.
    let gate = json!({ "status": { "conditions": [{ "type": "InPlaceUpdateReady", "status": "False" }] } });
    let closed = pods.patch_status("web-1", &PatchParams::default(), &Patch::Strategic(&gate)).await;
    ensure!(code(&closed)? == 429, "{closed:?}");
    // What changes nothing of it, and what goes already, is nobody's business: the kubelet ends it.
    let label = json!({ "metadata": { "labels": { "tier": "front" } } });
    pods.patch("web-1", &PatchParams::default(), &Patch::Merge(&label)).await?;
    crowd.end("web-0").await?;
    // One that is not ready may go, and one that is exempt.
    crowd.ready("web-2", false).await?;
    ensure!(code(&pods.delete("web-2", &delete).await)? == 200);
    let exempt = json!({ "metadata": { "annotations": { "pub.kruise.io/no-protect": "true" } } });
    pods.patch("web-3", &PatchParams::default(), &Patch::Merge(&exempt)).await?;
    ensure!(code(&pods.delete("web-3", &delete).await)? == 200);
    crowd.end("web-2").await?;
    counted(&scene, SPACE, 2, 0).await?;
    ensure!(code(&pods.delete("web-1", &delete).await)? == 429);

    without_a_manager(&scene, &crowd).await?;
    with_managers_that_let_go(&scene).await?;

    // A workload that is scaled to nothing leaves nobody behind, and nobody has to count first.
    crowd.scale(0).await?;
    ensure!(code(&pods.delete("web-1", &delete).await)? == 200);
    ensure!(code(&pods.evict("web-4", &evict).await)? < 300);
    crowd.end("web-1").await?;
    crowd.end("web-4").await?;
    // A budget that is gone limits nothing, and its entries go.
    budgets(&scene, SPACE).delete("web", &delete).await?;
    sample(&scene, SPACE).await?;
    any_kind::is_limited(&scene, SPACE).await?;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(scene.client.clone());
    await_condition("its entries are gone", PATIENCE, async || {
        let entries = hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let own = format!(".{SPACE}.");
        ensure!(!entries.iter().any(|entry| entry.name.contains(&own)), "not yet");
        Ok(())
    })
    .await
}

/// The sample as it is. Nobody makes pods of its Deployment.
async fn sample(scene: &Scene, namespace: &str) -> Result<()> {
    deploy::apply_in(&scene.client, "samples/budget.yaml", namespace).await?;
    await_condition("three of four are to stay", PATIENCE, async || {
        let status = budgets(scene, namespace).get_status("web").await?.status.context("not counted")?;
        ensure!((status.total_replicas, status.desired_available) == (4, 3), "{status:?}");
        ensure!((status.current_available, status.unavailable_allowed) == (0, 0), "{status:?}");
        let is_accepted = |one: &Condition| one.type_ == "Accepted" && one.status == "True";
        ensure!(status.conditions.iter().any(is_accepted), "{status:?}");
        Ok(())
    })
    .await?;
    budgets(scene, namespace).delete("web", &DeleteParams::default()).await?;
    Ok(())
}

/// Pods of the budget stay, but for one that goes already, and all others go, those of ReplicaSets too.
async fn without_a_manager(scene: &Scene, crowd: &Crowd) -> Result<()> {
    scene.first.service().kill()?;
    let mut other = super::scene::pod("other", "other")?;
    let set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": true });
    other.metadata.owner_references = serde_json::from_value(json!([set]))?;
    scene.pods.create(&PostParams::default(), &other).await?;
    let Err(error) = scene.pods.delete("web-1", &DeleteParams::default()).await else { bail!("it goes") };
    ensure!(error.to_string().contains("failed calling webhook \"web.admission-budgets."), "{error}");
    scene.pods.delete("other", &DeleteParams::default()).await.context("a pod of no budget")?;
    crowd.end("web-3").await.context("a pod that goes already")?;
    scene.first.service().start()?;
    scene.first.ready().await?;
    scene.first.leads().await
}

/// Where the operator has chosen so, pods of the budget go while no manager answers: the replica that has
/// started last says it.
async fn with_managers_that_let_go(scene: &Scene) -> Result<()> {
    let lets_go = ["--budget-updates=true", "--budget-failure-policy=ignore"];
    let second = scene.second_with(&lets_go).await?;
    second.service().kill()?;
    scene.first.service().kill()?;
    let tried = DeleteParams { dry_run: true, ..DeleteParams::default() };
    await_condition("they go", PATIENCE, async || {
        scene.pods.delete("web-1", &tried).await.map(drop).context("it stays")
    })
    .await?;
    scene.first.service().start()?;
    scene.first.ready().await?;
    scene.first.leads().await?;
    await_condition("they stay again", PATIENCE, async || {
        ensure!(code(&scene.pods.delete("web-1", &tried).await)? == 429, "it goes");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_no_budget_is_refused() -> Result<()> {
    const SPACE: &str = "admission-budgets-bad";
    let scene = Scene::set(SPACE).await?;
    let api = budgets(&scene, SPACE);
    let good = serde_json::to_value(budget(json!(1))?)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_condition("a good one is taken", PATIENCE, async || {
        api.create(&dry_run, &serde_json::from_value(good.clone())?).await.map(drop).context("a good one")
    })
    .await?;
    let with = |at: &str, value: Value| -> Result<Value> {
        let mut bad = good.clone();
        let (parent, field) = at.rsplit_once('/').context("a path")?;
        bad.pointer_mut(parent).context("a parent")?[field] = value;
        Ok(bad)
    };
    let annotated = |key: &str, value: &str| with("/metadata/annotations", json!({ key: value }));
    let cases = [
        (
            with("/spec/selector", json!({ "matchLabels": { "app": "web" } }))?,
            "exactly one of selector and targetRef",
        ),
        (with("/spec/targetRef", Value::Null)?, "exactly one of selector and targetRef"),
        (with("/spec/minAvailable", json!(1))?, "exactly one of maxUnavailable and minAvailable"),
        (with("/spec/maxUnavailable", json!("101%"))?, "a share from 0% to 100%"),
        (with("/spec/maxUnavailable", json!("many"))?, "a share from 0% to 100%"),
        (with("/spec/maxUnavailable", json!(-1))?, "greater than or equal to 0"),
        (with("/spec/targetRef/kind", json!(""))?, "spec.targetRef.kind"),
        (annotated("kruise.io/pub-protect-operations", "SCALE")?, "UPDATE, DELETE and EVICT"),
        (annotated("pub.kruise.io/protect-total-replicas", "all")?, "protect-total-replicas"),
    ];
    for (bad, because) in cases {
        let refused = api.create(&dry_run, &serde_json::from_value(bad.clone())?).await;
        let Err(kube::Error::Api(status)) = refused else { bail!("{bad} was taken") };
        ensure!(status.message.contains(because), "{bad}: {status:?}");
    }
    api.create(&PostParams::default(), &serde_json::from_value(good.clone())?).await?;
    let moved = json!({ "spec": { "targetRef": { "name": "db" } } });
    let Err(error) = api.patch("web", &PatchParams::default(), &Patch::Merge(&moved)).await else {
        bail!("moved")
    };
    ensure!(error.to_string().contains("targetRef is immutable"), "{error}");
    let second = with("/metadata/name", json!("second"))?;
    await_condition("a second one for the same pods is refused", PATIENCE, async || {
        let Err(error) = api.create(&dry_run, &serde_json::from_value(second.clone())?).await else {
            bail!("taken");
        };
        ensure!(error.to_string().contains("\"web\" has the same pods"), "{error}");
        Ok(())
    })
    .await?;
    Ok(())
}
