//! ResourceDistributions at a real API server: the program has the role and the policy of
//! `deploy/distribution`, and no others. No node and no pod is needed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{DistributionCondition, ResourceDistribution, ResourceDistributionStatus};
use berth_tests::node::{ControlPlane, Workloads, crds, deploy, token};
use berth_tests::wait::{await_condition, await_rest};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::case::PATIENCE;

const KEY: &str = ".dockerconfigjson";

#[tokio::test]
async fn distributions_are_kept_in_step() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    deploy::apply(&client, "namespace.yaml").await?;
    crds::install(&client).await?;
    deploy::apply(&client, "distribution/role.yaml").await?;
    deploy::apply(&client, "distribution/policy.yaml").await?;
    let token = token::of(&client, "berth-distribution", None).await?;
    let kubeconfig = plane.api().kubeconfig_with("berth-distribution", &token)?;
    let more = ["--resource-distributions", "--lease-name=berth-distribution"];
    let program = Workloads::start_with(plane.run(), &kubeconfig, "berth-system", &more).await?;
    let own = plane.api().client_with("berth-distribution-itself", &token).await?;
    refuses(&client).await?;
    plays(&client, &program).await?;
    is_kept_to_copies(&client, &own).await
}

fn config_map(name: &str, resource: &Value, targets: &Value) -> Result<ResourceDistribution> {
    let mut whole = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" },
    });
    merge(&mut whole, resource);
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "metadata": { "name": name },
        "spec": { "resource": whole, "targets": targets },
    }))?)
}

fn merge(into: &mut Value, given: &Value) {
    match (into, given) {
        (Value::Object(into), Value::Object(given)) => {
            given
                .iter()
                .for_each(|(key, value)| merge(into.entry(key.clone()).or_insert(Value::Null), value));
        }
        (into, given) => *into = given.clone(),
    }
}

/// Each wrong object is refused by the API server itself, in words that name field and remedy.
async fn refuses(client: &Client) -> Result<()> {
    let all: Api<ResourceDistribution> = Api::all(client.clone());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let list = |name: &str| json!({ "includedNamespaces": { "list": [{ "name": name }] } });
    for (resource, targets, words) in [
        (json!({ "kind": "Pod" }), json!({}), "is no Secret and no ConfigMap of apiVersion v1: give one"),
        (
            json!({ "apiVersion": "v2" }),
            json!({}),
            "is no Secret and no ConfigMap of apiVersion v1: give one",
        ),
        (json!({ "metadata": { "name": "A" } }), json!({}), "spec.resource.metadata.name"),
        (json!({ "metadata": { "finalizers": ["a/b"] } }), json!({}), "metadata.finalizers"),
        (json!({ "metadata": { "ownerReferences": [{ "uid": "x" }] } }), json!({}), "leave them out"),
        (json!({}), list("A"), "spec.targets.includedNamespaces.list[0].name"),
        (json!({}), list(&"a".repeat(64)), "spec.targets.includedNamespaces.list[0].name"),
    ] {
        match all.create(&dry, &config_map("refused", &resource, &targets)?).await {
            Err(kube::Error::Api(status)) => {
                ensure!(status.message.contains(words), "no {words:?} in {:?}", status.message);
            }
            Err(error) => return Err(error.into()),
            Ok(_) => bail!("was let in, and should be refused for {words:?}"),
        }
    }
    let kept = all.create(&PostParams::default(), &config_map("kept", &json!({}), &json!({}))?).await?;
    let patch = json!({ "spec": { "resource": { "metadata": { "name": "another" } } } });
    match all.patch(&kept.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) => ensure!(status.message.contains("immutable"), "{status:?}"),
        other => bail!("the name changed: {other:?}"),
    }
    Ok(())
}

async fn status(
    client: &Client,
    name: &str,
    what: &str,
    holds: impl Fn(&ResourceDistributionStatus) -> bool,
) -> Result<ResourceDistributionStatus> {
    let all: Api<ResourceDistribution> = Api::all(client.clone());
    await_condition(format!("{name}: {what}"), PATIENCE, async || {
        let object = all.get(name).await?;
        let status = object.status.context("no status")?;
        ensure!(status.observed_generation == object.metadata.generation && holds(&status), "{status:?}");
        Ok(status)
    })
    .await
}

fn counts(status: &ResourceDistributionStatus) -> (i32, i32, i32) {
    (status.desired, status.succeeded, status.failed)
}

fn condition<'a>(status: &'a ResourceDistributionStatus, type_: &str) -> Option<&'a DistributionCondition> {
    status.conditions.iter().find(|one| one.type_ == type_ && one.status == "True")
}

async fn namespace(client: &Client, name: &str, team: &str) -> Result<()> {
    let object = json!({ "metadata": { "name": name, "labels": { "team": team } } });
    let all: Api<Namespace> = Api::all(client.clone());
    all.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// Namespaces that have the Secret of the sample, with its content.
async fn copies(client: &Client) -> Result<BTreeSet<(String, String)>> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let all = secrets.list(&ListParams::default().labels("berth.dev/distribution")).await?.items;
    let text = |secret: &Secret| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(KEY)).map(|bytes| bytes.0.clone());
        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    };
    Ok(all.iter().map(|secret| (secret.namespace().unwrap_or_default(), text(secret))).collect())
}

async fn in_step(client: &Client, what: &str, names: &[&str], password: &str) -> Result<()> {
    await_condition(format!("copies: {what}"), PATIENCE, async || {
        let copies = copies(client).await?;
        let there: Vec<&str> = copies.iter().map(|(name, _)| name.as_str()).collect();
        ensure!(there == names, "{there:?}");
        ensure!(copies.iter().all(|(_, text)| text.contains(password)), "{copies:?}");
        Ok(())
    })
    .await
}

/// The sample as it is: targets, a conflict, drift, another content, a namespace that comes and one that
/// leaves, also while the program is away.
async fn plays(client: &Client, program: &Workloads) -> Result<()> {
    for (name, team) in [("games-a", "games"), ("games-old", "games"), ("taken", "games"), ("shop", "shop")] {
        namespace(client, name, team).await?;
    }
    let taken: Api<Secret> = Api::namespaced(client.clone(), "taken");
    let foreign = json!({ "metadata": { "name": "registry" }, "stringData": { "mine": "1" } });
    let foreign = taken.create(&PostParams::default(), &serde_json::from_value(foreign)?).await?;
    deploy::apply(client, "samples/resource-distribution.yaml").await?;
    in_step(client, "the sample's", &["default", "games-a"], "\"secret\"").await?;
    let one = status(client, "registry", "a conflict", |status| counts(status) == (3, 2, 1)).await?;
    let conflict = condition(&one, "ConflictOccurred").context("no conflict")?;
    ensure!(conflict.failed_namespaces == ["taken"], "{conflict:?}");
    ensure!(one.conditions.len() == 6, "{one:?}");
    let now = taken.get("registry").await?;
    ensure!(now.metadata.resource_version == foreign.metadata.resource_version, "it was written");
    taken.delete("registry", &DeleteParams::default()).await?;
    in_step(client, "when it is out of the way", &["default", "games-a", "taken"], "\"secret\"").await?;
    // Drift, of content and of the label by which copies are found.
    let games: Api<Secret> = Api::namespaced(client.clone(), "games-a");
    let patch = json!({
        "metadata": { "labels": { "berth.dev/distribution": null } },
        "data": { KEY: ByteString(b"{}".to_vec()), "more": ByteString(b"x".to_vec()) },
    });
    games.patch("registry", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    in_step(client, "after drift", &["default", "games-a", "taken"], "\"secret\"").await?;
    let data = games.get("registry").await?.data.unwrap_or_default();
    ensure!(data.keys().collect::<Vec<_>>() == [KEY], "{:?}", data.keys());
    let all: Api<ResourceDistribution> = Api::all(client.clone());
    let text = r#"{"auths": {"registry.example.com": {"username": "reader", "password": "newer"}}}"#;
    let patch = json!({ "spec": { "resource": { "stringData": { KEY: text } } } });
    program.service().kill()?;
    all.patch("registry", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let leaves = json!({ "metadata": { "labels": { "team": "shop" } } });
    namespaces.patch("taken", &PatchParams::default(), &Patch::Merge(&leaves)).await?;
    namespace(client, "games-new", "games").await?;
    program.service().start()?;
    program.ready().await?;
    in_step(client, "after a restart", &["default", "games-a", "games-new"], "newer").await?;
    status(client, "registry", "all well", |status| counts(status) == (3, 3, 0)).await?;
    writes_nothing_at_rest(program).await?;
    invalid(client).await
}

/// Waits until nothing is written. A program that writes where nothing is to be done comes to no rest.
async fn writes_nothing_at_rest(program: &Workloads) -> Result<()> {
    let writes = async || program.lines("berth_workloads_writes_total").await;
    await_rest("nothing is written", PATIENCE, writes).await.map(drop)
}

/// One that the controller alone can judge is set aside, and says so.
async fn invalid(client: &Client) -> Result<()> {
    let all: Api<ResourceDistribution> = Api::all(client.clone());
    let resource = json!({ "binaryData": { "b": "§" } });
    let object = config_map("wrong", &resource, &json!({ "allNamespaces": true }))?;
    all.create(&PostParams::default(), &object).await?;
    let status = status(client, "wrong", "set aside", |one| condition(one, "InvalidSpec").is_some()).await?;
    let reason = condition(&status, "InvalidSpec").and_then(|one| one.reason.clone()).unwrap_or_default();
    ensure!(reason.starts_with("spec.resource.binaryData[b] is no base64"), "{reason}");
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    await_condition("an Event tells it", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await?.items;
        let is_told = |event: &Event| event.reason.as_deref() == Some("InvalidSpec");
        ensure!(all.iter().any(is_told), "{} Events", all.len());
        Ok(())
    })
    .await
}

/// The identity writes copies alone, and those of the cluster's own namespaces only where these say so.
async fn is_kept_to_copies(client: &Client, own: &Client) -> Result<()> {
    let all: Api<ResourceDistribution> = Api::all(client.clone());
    let targets =
        json!({ "allNamespaces": true, "includedNamespaces": { "list": [{ "name": "kube-system" }] } });
    let whole = all.create(&PostParams::default(), &config_map("whole", &json!({}), &targets)?).await?;
    let is_refused = |status: &ResourceDistributionStatus| {
        let refused = condition(status, "CreateResourceFailed");
        status.failed == 1
            && refused.is_some_and(|one| {
                one.failed_namespaces == ["kube-system"]
                    && one.reason.as_deref().is_some_and(|text| text.contains("takes-distributions=true"))
            })
    };
    status(client, "whole", "kube-system takes none", is_refused).await?;
    let label = json!({ "metadata": { "labels": { "berth.dev/takes-distributions": "true" } } });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch("kube-system", &PatchParams::default(), &Patch::Merge(&label)).await?;
    status(client, "whole", "kube-system takes it", |status| status.failed == 0).await?;
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let maps = maps.list(&ListParams::default().labels("berth.dev/distribution")).await?.items;
    let there: Vec<String> = maps.iter().filter_map(ResourceExt::namespace).collect();
    ensure!(there.iter().any(|name| name == "kube-system"), "{there:?}");
    ensure!(there.iter().all(|name| name != "kube-public"), "{there:?}");
    let denied = |answer: kube::Result<()>, words: &str| match answer {
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(words) => Ok(()),
        other => bail!("should be refused for {words:?}: {other:?}"),
    };
    let shop: Api<Secret> = Api::namespaced(own.clone(), "shop");
    let mut secret: Secret = serde_json::from_value(json!({ "metadata": { "name": "x" } }))?;
    let made = shop.create(&PostParams::default(), &secret).await.map(|_| ());
    denied(made, "that a ResourceDistribution decides on")?;
    let as_admin: Api<Secret> = Api::namespaced(client.clone(), "shop");
    as_admin.create(&PostParams::default(), &secret).await?;
    denied(
        shop.delete("x", &DeleteParams::default()).await.map(|_| ()),
        "that a ResourceDistribution decides",
    )?;
    secret = serde_json::from_value(json!({
        "metadata": {
            "name": "y", "annotations": { "kubernetes.io/service-account.name": "default" },
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "controller": true,
                "name": "whole", "uid": whole.metadata.uid,
            }],
        },
        "type": "kubernetes.io/service-account-token",
    }))?;
    let made = shop.create(&PostParams::default(), &secret).await.map(|_| ());
    denied(made, "credentials of the cluster are not distributed")
}
