//! Objects with the largest numbers that the API takes, or nested deeper than a parser goes: whatever their
//! author wants, everybody else's pods and requests go on, and what cannot be meant is refused in words.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::jobs::sidecar;
use berth_tests::manifest::Container;
use berth_tests::recreate::{Ask, Evidence};
use berth_tests::update::Update;
use berth_tests::wait::await_condition;
use kube::Client;
use kube::api::{Patch, PatchParams, Request};
use serde_json::{Value, json};

use crate::case::{Case, PATIENCE, run_updating_alone};
use crate::recreate::Scene;
use crate::update::container;

/// As many seconds as a field may name, ten years.
const MOST: i64 = berth_proto::crd::MOST_SECONDS;

/// A job's pod with the longest grace there is, and a sidecar whose hook never answers.
async fn hostile_pod(case: &Case, name: &str, policy: &str) -> Result<Evidence> {
    let evidence = Evidence::new(case.node.run(), &case.namespace, name)?;
    let hook = "echo hook >> /evidence/proxy; sleep 1000000";
    let hook = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
    let proxy = sidecar(Container::new("proxy").only("sleep 1000000")).field("lifecycle", hook);
    let pod = evidence.mount(case.manifest(name)).spec("restartPolicy", policy).grace(i64::MAX);
    case.create(&pod.container(Container::new("main").only("sleep 1")).container(evidence.mounted(proxy)))
        .await?;
    Ok(evidence)
}

/// Refused, and the answer names this.
fn refused<T>(made: Result<T>, field: &str) -> Result<()> {
    let Err(error) = made else { bail!("{field} was taken") };
    let said = format!("{error:#}");
    ensure!(said.contains(field), "it does not name {field}: {said}");
    Ok(())
}

/// How often a policy has panicked since berthd began.
async fn panics(case: &Case) -> Result<u64> {
    let metrics = case.node.berthd()?.metrics().await?;
    let line = metrics.lines().find(|line| line.starts_with("berth_agent_policy_panics_total "));
    let count = line.and_then(|line| line.split_whitespace().last()).context("no such metric")?;
    Ok(count.parse()?)
}

#[tokio::test]
async fn hostile_numbers() -> Result<()> {
    run_updating_alone("hostile_numbers", async |case: &Case| {
        let before = panics(case).await?;
        for (name, policy) in [("never", "Never"), ("on-failure", "OnFailure")] {
            let evidence = hostile_pod(case, name, policy).await?;
            await_condition("the hook of the sidecar runs, for ever", PATIENCE, async || {
                ensure!(evidence.count("proxy", "hook")? == 1, "no hook yet");
                Ok(())
            })
            .await?;
        }

        // Somebody else's pod starts in its order, as if those were not there.
        let scene = Scene::begin(case, "web", |pod, evidence| {
            pod.container(container(evidence, "a", &[]).priority(2).ready_when("true"))
                .container(container(evidence, "b", &[("VALUE", "metadata.annotations['conf']")]).priority(1))
                .annotation("conf", "one")
        })
        .await?;

        // The largest numbers that requests may have: they are carried out, as far as they can be.
        let first = scene.running("a").await?;
        let largest = Ask::new("web", &["a"])
            .strategy("terminationGracePeriodSeconds", MOST)
            .strategy("minStartedSeconds", MOST)
            .strategy("unreadyGracePeriodSeconds", 0)
            .field("activeDeadlineSeconds", MOST)
            .field("ttlSecondsAfterFinished", MOST);
        scene.ask("largest", &largest).await?;
        await_condition("the container is replaced", PATIENCE, async || {
            ensure!(scene.running("a").await?.id != first.id, "it is not");
            Ok(())
        })
        .await?;
        // One that drains its pod for ten years holds up who comes after it for the same container, and
        // nobody else.
        let slow =
            Scene::begin(case, "slow", |pod, evidence| pod.container(container(evidence, "a", &[]))).await?;
        let undrained = Ask::new("slow", &["a"]).strategy("unreadyGracePeriodSeconds", MOST);
        slow.ask("undrained", &undrained).await?;

        // Those that nobody can mean are refused, with their name.
        let client = case.node.client().await?;
        for field in ["terminationGracePeriodSeconds", "unreadyGracePeriodSeconds"] {
            let ask = Ask::new("web", &["a"]).strategy(field, i64::MAX);
            refused(ask.create(&client, &case.namespace, "refused").await, field)?;
        }
        for field in ["activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
            let ask = Ask::new("web", &["a"]).field(field, i64::from(i32::MAX));
            refused(ask.create(&client, &case.namespace, "refused").await, field)?;
            let update = Update::new("web").annotation("conf", "two").field(field, i64::from(i32::MAX));
            refused(update.create(&client, &case.namespace, "refused").await.map(drop), field)?;
        }

        // An update with the largest numbers ends, and so does a request of another pod.
        let update = Update::new("web")
            .annotation("conf", "two")
            .field("activeDeadlineSeconds", MOST)
            .field("ttlSecondsAfterFinished", MOST)
            .field("rollbackOnFailure", true);
        update.begin(&client, &case.namespace, "largest-update").await?.succeeded().await?;
        let other =
            Scene::begin(case, "other", |pod, evidence| pod.container(container(evidence, "a", &[]))).await?;
        let old = other.running("a").await?;
        other.ask("usual", &Ask::new("other", &["a"])).await?.succeeded(PATIENCE).await?;
        other.replaced_once("a", &old, 1).await?;
        ensure!(panics(case).await? == before, "the policy panicked {} times", panics(case).await? - before);
        Ok(())
    })
    .await
}

/// Has the pod's container replaced by a request.
async fn replaces(scene: &Scene<'_>, pod: &str) -> Result<()> {
    let old = scene.running("a").await?;
    scene.ask(pod, &Ask::new(pod, &["a"])).await?.succeeded(PATIENCE).await?;
    scene.replaced_once("a", &old, 1).await
}

/// Gives a pod these managed fields. The answer may be as deep as they are: it is read as a text.
async fn set_managed_fields(client: &Client, case: &Case, pod: &str, fields: Value) -> Result<()> {
    let patch = json!({ "metadata": { "managedFields": [fields] } });
    let pods = Request::new(format!("/api/v1/namespaces/{}/pods", case.namespace));
    let request = pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch))?;
    client.request_text(request).await.context("set managed fields")?;
    Ok(())
}

/// Managed fields of a pod are nested by anybody who may write it, and the API server keeps them so.
#[tokio::test]
async fn hostile_depth() -> Result<()> {
    run_updating_alone("hostile_depth", async |case: &Case| {
        let client = case.node.client().await?;
        // With the gate it is Ready once the agent, which has to see it for that, has opened it.
        let plain = async |name| {
            let gate = json!([{ "conditionType": "InPlaceUpdateReady" }]);
            Scene::begin(case, name, |pod, evidence| {
                pod.spec("readinessGates", gate).container(container(evidence, "a", &[]))
            })
            .await
        };
        let deep = plain("deep").await?;
        let fields = (0..500).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        let fields = json!({
            "manager": "author", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        set_managed_fields(&client, case, "deep", fields).await?;
        // It lists the pods of its node anew.
        case.node.berthd()?.restart().await?;
        let other = plain("other").await?;
        replaces(&other, "other").await?;
        // The client of this test could not read the pod either.
        set_managed_fields(&client, case, "deep", json!({})).await?;
        replaces(&deep, "deep").await
    })
    .await
}
