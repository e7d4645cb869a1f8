//! Advanced StatefulSets in both versions at a real API server: what clients of either read and write, while
//! the manager converts, and while it is away. And what workloads read back.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::CONVERTED;
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::scene::Scene;
use crate::case::PATIENCE;

const DEFINITION: &str = "statefulsets.apps.kruise.io";

/// StatefulSets in one version.
fn sets(client: &Client, namespace: &str, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", version, "StatefulSet");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

fn set(version: &str, name: &str, more: Value) -> Result<DynamicObject> {
    let mut spec = json!({
        "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
        "template": { "metadata": { "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }], "later": { "field": 1.5 } } },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let metadata = json!({ "name": name });
    let api_version = format!("apps.kruise.io/{version}");
    Ok(serde_json::from_value(
        json!({ "apiVersion": api_version, "kind": "StatefulSet", "metadata": metadata, "spec": spec }),
    )?)
}

/// As a client does whose types have no other fields: what it does not know is gone.
fn through_types(mut object: DynamicObject) -> DynamicObject {
    let known = [
        "replicas",
        "selector",
        "template",
        "volumeClaimTemplates",
        "serviceName",
        "podManagementPolicy",
        "updateStrategy",
        "revisionHistoryLimit",
    ];
    if let Some(spec) = object.data["spec"].as_object_mut() {
        spec.retain(|field, _| known.contains(&field.as_str()));
    }
    object
}

async fn converts(definitions: &Api<CustomResourceDefinition>) -> Result<()> {
    await_condition("the manager converts", PATIENCE, async || {
        let definition = definitions.get(DEFINITION).await?;
        let conversion = definition.spec.conversion.context("no conversion")?;
        let client = conversion.webhook.and_then(|webhook| webhook.client_config).context("no webhook")?;
        ensure!(client.ca_bundle.is_some_and(|bundle| !bundle.0.is_empty()), "no bundle");
        Ok(())
    })
    .await
}

/// A CloneSet takes in `podsToDelete` the names of its own pods alone, as they are at that moment.
async fn names_of_pods_to_delete(client: &Client, namespace: &str) -> Result<()> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
    let sets: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    let mut shop = set("v1alpha1", "shop", json!({}))?;
    shop.types = Some(kube::core::TypeMeta {
        api_version: "apps.kruise.io/v1alpha1".to_owned(),
        kind: "CloneSet".to_owned(),
    });
    shop.data["spec"].as_object_mut().context("a spec")?.remove("serviceName");
    let shop = sets.create(&PostParams::default(), &shop).await.context("a CloneSet")?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for (name, owner) in [("shop-a", shop.metadata.uid.as_deref()), ("other", None)] {
        let owner = owner.map(|uid| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "shop", "uid": uid,
                "controller": true })
        });
        let pod = json!({ "metadata": { "name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>() },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }] } });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("a pod")?;
    }
    let name = async |names: &[&str]| {
        let patch = json!({ "spec": { "scaleStrategy": { "podsToDelete": names } } });
        sets.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await
    };
    for (wrong, why) in [("other", "not one of this CloneSet"), ("shop-b", "there is no such pod")] {
        let Err(refused) = name(&["shop-a", wrong]).await else { bail!("{wrong} was taken") };
        let text = refused.to_string();
        ensure!(text.contains("podsToDelete") && text.contains(wrong) && text.contains(why), "{text}");
    }
    name(&["shop-a"]).await.context("a pod of its own")?;
    // Nor a template that no pod could be made of.
    let empty = json!({ "spec": { "template": { "spec": { "containers": [] } } } });
    let Err(refused) = sets.patch("shop", &PatchParams::default(), &Patch::Merge(&empty)).await else {
        bail!("a template without containers was taken")
    };
    let text = refused.to_string();
    ensure!(text.contains("spec.template.spec.containers is empty"), "{text}");
    // A name that was taken holds nothing up when its pod is gone.
    let now = DeleteParams::default().grace_period(0);
    pods.delete("shop-a", &now).await.context("delete a pod")?;
    let scaled = json!({ "spec": { "replicas": 0 } });
    sets.patch("shop", &PatchParams::default(), &Patch::Merge(&scaled)).await.context("scale it")?;
    Ok(())
}

#[tokio::test]
async fn stateful_sets_have_two_versions() -> Result<()> {
    let name = "admission-conversion";
    let scene = Scene::set(name).await?;
    deploy::apply(&scene.client, "workloads/crds").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    converts(&definitions).await?;
    let (alpha, beta) = (sets(&scene.client, name, "v1alpha1"), sets(&scene.client, name, "v1beta1"));
    let params = PostParams::default();
    let later = json!({ "reserveOrdinals": [1], "lifecycle": { "preDelete": { "finalizersHandler": ["example.com/x"] } },
        "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" } });
    let made = beta.create(&params, &set("v1beta1", "newer", later.clone())?).await.context("v1beta1")?;

    // A client of the older version changes what it knows, and takes nothing away.
    let mut read = await_condition("v1alpha1 is read, by way of the manager", PATIENCE, async || {
        let read = alpha.get("newer").await?;
        let annotations = read.metadata.annotations.clone().unwrap_or_default();
        ensure!(annotations.contains_key("berth.dev/v1beta1-fields"), "not converted: {annotations:?}");
        Ok(read)
    })
    .await?;
    ensure!(read.data["spec"]["reserveOrdinals"].is_null(), "{}", read.data["spec"]);
    read.data["spec"]["replicas"] = 3.into();
    alpha.replace("newer", &params, &through_types(read)).await.context("through v1alpha1")?;
    let kept = beta.get("newer").await?;
    for (field, value) in later.as_object().into_iter().flatten() {
        ensure!(kept.data["spec"][field] == *value, "{field}: {}", kept.data["spec"]);
    }
    ensure!(
        kept.data["spec"]["replicas"] == 3 && kept.data["spec"]["template"] == made.data["spec"]["template"]
    );
    ensure!(kept.metadata.annotations == made.metadata.annotations, "{:?}", kept.metadata.annotations);

    // And one that applies.
    let applied =
        json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "spec": { "replicas": 4 } });
    alpha
        .patch("newer", &PatchParams::apply("older").force(), &Patch::Apply(&applied))
        .await
        .context("apply")?;
    let kept = beta.get("newer").await?;
    ensure!(
        kept.data["spec"]["replicas"] == 4 && kept.data["spec"]["reserveOrdinals"] == json!([1]),
        "{}",
        kept.data
    );

    // One that is made in the older version is there in the newer one, and in lists of both.
    alpha.create(&params, &set("v1alpha1", "older", json!({}))?).await.context("v1alpha1")?;
    ensure!(beta.get("older").await?.data["spec"]["template"]["spec"]["later"] == json!({ "field": 1.5 }));
    ensure!(alpha.list(&Default::default()).await?.items.len() == 2);

    // What is spoiled is put right.
    let none = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
    definitions.patch(DEFINITION, &PatchParams::default(), &Patch::Merge(&none)).await.context("spoil")?;
    converts(&definitions).await?;

    // Templates read back whole; those of before keep what they have.
    let container = |object: &DynamicObject| object.data["spec"]["template"]["spec"]["containers"][0].clone();
    ensure!(container(&made)["terminationMessagePolicy"] == "File", "{}", made.data["spec"]["template"]);
    ensure!(container(&made)["imagePullPolicy"] == "IfNotPresent");

    names_of_pods_to_delete(&scene.client, name).await?;

    // Without a manager the stored version goes on, and what is made has the definition's defaults alone.
    scene.first.service().kill()?;
    let scaled = json!({ "spec": { "replicas": 5 } });
    beta.patch("newer", &PatchParams::default(), &Patch::Merge(&scaled))
        .await
        .context("v1beta1 without a manager")?;
    let status = json!({ "status": { "replicas": 5 } });
    beta.patch_status("newer", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .context("its status")?;
    let bare =
        beta.create(&params, &set("v1beta1", "bare", json!({}))?).await.context("made without a manager")?;
    ensure!(container(&bare).get("terminationMessagePolicy").is_none(), "{}", container(&bare));
    // The API server follows the definition, which was spoiled, a little later.
    await_condition("nothing is converted", PATIENCE, async || {
        let Err(refused) = alpha.get("newer").await else { bail!("converted without a manager") };
        ensure!(refused.to_string().contains("conversion webhook"), "{refused}");
        Ok(())
    })
    .await?;
    scene.first.service().start()?;
    scene.first.ready().await?;
    let read =
        await_condition("v1alpha1 is read again", PATIENCE, async || Ok(alpha.get("newer").await?)).await?;
    ensure!(read.data["spec"]["replicas"] == 5);
    let scaled = json!({ "spec": { "replicas": 2 } });
    let bare_now = beta.patch("bare", &PatchParams::default(), &Patch::Merge(&scaled)).await?;
    ensure!(bare_now.data["spec"]["template"] == bare.data["spec"]["template"], "{}", bare_now.data["spec"]);
    thief(&scene, &definitions).await
}

/// The manager's credential changes nothing but how they are converted, and that to nobody else.
async fn thief(scene: &Scene, definitions: &Api<CustomResourceDefinition>) -> Result<()> {
    scene.first.service().kill()?;
    let kubeconfig = Kubeconfig::read_from(&scene.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let thief: Api<CustomResourceDefinition> = Api::all(Client::try_from(config)?);
    let given = definitions.get(DEFINITION).await?;
    let conversion = serde_json::to_value(&given.spec.conversion)?;
    let with = |at: &str, value: Value| -> Result<Value> {
        let mut conversion = conversion.clone();
        *conversion.pointer_mut(at).with_context(|| at.to_owned())? = value;
        Ok(json!({ "spec": { "conversion": conversion } }))
    };
    let mut versions = serde_json::to_value(&given.spec.versions)?;
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]["default"] =
        7.into();
    let (nothing_else, service) = (
        "of a CRD the manager changes nothing but spec.conversion",
        "StatefulSets are converted by the service berth-system/berth-manager at /convert",
    );
    let client = "/webhook/clientConfig";
    let attempts = [
        (json!({ "spec": { "versions": versions } }), nothing_else),
        (
            json!({ "spec": { "preserveUnknownFields": null, "names": { "shortNames": ["x"] } } }),
            nothing_else,
        ),
        (json!({ "metadata": { "annotations": { CONVERTED: null } } }), nothing_else),
        (json!({ "metadata": { "labels": { "x": "y" } } }), nothing_else),
        (json!({ "metadata": { "finalizers": ["example.com/x"] } }), nothing_else),
        (json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } }), service),
        (with(client, json!({ "url": "https://thief.example/", "service": null }))?, service),
        (with(&format!("{client}/service/name"), "thief".into())?, service),
        (with(&format!("{client}/service/namespace"), "default".into())?, service),
        (with(&format!("{client}/service/path"), "/mutate/pods".into())?, service),
    ];
    for (patch, because) in attempts {
        let refused = thief.patch(DEFINITION, &PatchParams::default(), &Patch::Merge(&patch)).await;
        let Err(kube::Error::Api(status)) = refused else { bail!("{patch} was accepted") };
        ensure!(status.message.contains(because), "{patch}: {status:?}");
    }
    let other =
        thief.patch("clonesets.apps.kruise.io", &PatchParams::default(), &Patch::Merge(&json!({}))).await;
    let Err(kube::Error::Api(status)) = other else { bail!("another definition was written") };
    ensure!(status.message.contains("cannot patch resource"), "{status:?}");
    // What it needs is let through.
    let own = with(&format!("{client}/caBundle"), conversion["webhook"]["clientConfig"]["caBundle"].clone())?;
    thief.patch(DEFINITION, &PatchParams::default(), &Patch::Merge(&own)).await.context("what it needs")?;
    Ok(())
}
