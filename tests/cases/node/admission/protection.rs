//! Deletion protection: workloads by a policy that nothing can take down, namespaces and definitions by what
//! they have in them.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::scene::{Scene, pod};
use crate::api_server::namespace;
use crate::case::PATIENCE;

const LABEL: &str = "policy.kruise.io/delete-protection";
const FORBIDDEN: &str = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=";

/// A workload of this kind with a protection and replicas, on paper.
fn workload(
    api_version: &str,
    kind: &str,
    name: &str,
    protection: &str,
    replicas: u32,
) -> Result<DynamicObject> {
    let mut template = json!({ "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "app", "image": "registry.example/app:1" }] } });
    if kind == "UnitedDeployment" {
        template = json!({ "cloneSetTemplate": { "spec": { "template": template } } });
    }
    Ok(serde_json::from_value(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": name, "namespace": "admission-protection", "labels": { LABEL: protection } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": template,
            "topology": (kind == "UnitedDeployment").then(|| json!({ "subsets": [{ "name": "a" }] })),
            "serviceName": (kind == "StatefulSet").then_some("s") },
    }))?)
}

/// Returns the API server's word on a deletion that is only tried; empty if it lets it through.
async fn tried(api: &Api<DynamicObject>, name: &str, params: DeleteParams) -> Result<String> {
    match api.delete(name, &DeleteParams { dry_run: true, ..params }).await {
        Ok(_) => Ok(String::new()),
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 403 && status.reason == "Forbidden", "{status:?}");
            Ok(status.message.clone())
        }
        Err(error) => Err(error.into()),
    }
}

async fn label(api: &Api<DynamicObject>, name: &str, protection: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { LABEL: protection } } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn api_of(client: &Client, api_version: &str, kind: &str, name: &str) -> Result<Api<DynamicObject>> {
    let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    deploy::api(client, &serde_json::from_value(object)?)
}

#[tokio::test]
async fn what_is_protected_is_not_deleted() -> Result<()> {
    let scene = Scene::set("admission-protection").await?;
    let client = &scene.client;
    deploy::apply(client, "protection").await?;
    let kinds = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment"),
    ];
    for (at, (api_version, kind)) in kinds.into_iter().enumerate() {
        let cases = [
            ("Always", 0, format!("{FORBIDDEN}Always")),
            ("Cascading", 3, format!("{FORBIDDEN}Cascading and replicas 3>0")),
            ("Cascading", 0, String::new()),
            ("never", 3, String::new()),
        ];
        for (which, (protection, replicas, says)) in cases.into_iter().enumerate() {
            let name = format!("w{at}-{which}");
            let object = workload(api_version, kind, &name, protection, replicas)?;
            let api = deploy::api(client, &object)?;
            api.create(&PostParams::default(), &object).await.with_context(|| name.clone())?;
            for propagation in [PropagationPolicy::Background, PropagationPolicy::Orphan] {
                let params =
                    DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
                await_condition(format!("{kind} {protection} {replicas}"), PATIENCE, async || {
                    let said = tried(&api, &name, params.clone()).await?;
                    let fits = if says.is_empty() { said.is_empty() } else { said.ends_with(&says) };
                    ensure!(fits, "{said:?} instead of {says:?}");
                    Ok(())
                })
                .await?;
            }
        }
    }
    all_ways(client).await?;
    namespaces(&scene).await?;
    // By the command for one kind, and by the component for all.
    let one = granted("berths.example.com");
    let one = one.map(serde_json::from_value::<DynamicObject>).into_iter().collect::<Result<Vec<_>, _>>()?;
    definition(&scene, "Berth", &one).await?;
    let all = deploy::objects("count-custom-resources")?;
    definition(&scene, "Dock", &all).await?;
    for object in all {
        let api = deploy::api(client, &object)?;
        api.delete(&object.name_any(), &DeleteParams::default()).await.context("take the right back")?;
    }

    // Nothing of it for workloads can be down.
    scene.first.service().kill()?;
    let deployments = deploy::api(client, &workload("apps/v1", "Deployment", "w0-0", "Always", 0)?)?;
    let said = tried(&deployments, "w0-0", DeleteParams::default()).await?;
    ensure!(said.contains(&format!("{FORBIDDEN}Always")), "{said:?}");
    label(&deployments, "w0-0", None).await?;
    deployments.delete("w0-0", &DeleteParams::default()).await.context("without its label it goes")?;
    scene.first.service().start()?;
    scene.first.ready().await
}

/// Neither the other version of a kind nor all objects at once are a way around.
async fn all_ways(client: &Client) -> Result<()> {
    const OLDER: &str = "apps.kruise.io/v1alpha1";
    let older = deploy::api(client, &workload(OLDER, "StatefulSet", "w4-0", "Always", 0)?)?;
    let said = tried(&older, "w4-0", DeleteParams::default()).await?;
    ensure!(said.ends_with(&format!("{FORBIDDEN}Always")), "{said:?}");
    let sets = deploy::api(client, &workload(OLDER, "CloneSet", "w3-0", "Always", 0)?)?;
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let Err(kube::Error::Api(status)) = sets.delete_collection(&dry_run, &ListParams::default()).await else {
        bail!("all CloneSets would be deleted")
    };
    ensure!(status.code == 403 && status.message.contains(FORBIDDEN), "{status:?}");
    Ok(())
}

async fn namespaces(scene: &Scene) -> Result<()> {
    const NAME: &str = "admission-protected";
    namespace(&scene.client, NAME).await?;
    let api = api_of(&scene.client, "v1", "Namespace", NAME)?;
    let says = async |says: &str| {
        await_condition(format!("namespace: {says:?}"), PATIENCE, async || {
            let said = tried(&api, NAME, DeleteParams::default()).await?;
            ensure!(
                said.ends_with(says) && said.is_empty() == says.is_empty(),
                "{said:?} instead of {says:?}"
            );
            Ok(())
        })
        .await
    };
    label(&api, NAME, Some("Always")).await?;
    says(&format!("{FORBIDDEN}Always")).await?;
    label(&api, NAME, Some("Cascading")).await?;
    says("").await?;
    let pods = Api::namespaced(scene.client.clone(), NAME);
    let ended: k8s_openapi::api::core::v1::Pod =
        pods.create(&PostParams::default(), &pod("p", "app")?).await?;
    says(&format!("{FORBIDDEN}Cascading and active pods 1>0")).await?;
    let status = json!({ "status": { "phase": "Succeeded" } });
    pods.patch_status(&ended.name_any(), &PatchParams::default(), &Patch::Strategic(&status)).await?;
    says("").await?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c", "namespace": NAME },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let claim: DynamicObject = serde_json::from_value(claim)?;
    let claims = deploy::api(&scene.client, &claim)?;
    claims.create(&PostParams::default(), &claim).await?;
    let bound = json!({ "status": { "phase": "Bound" } });
    claims.patch_status("c", &PatchParams::default(), &Patch::Merge(&bound)).await?;
    says(&format!("{FORBIDDEN}Cascading and \"Bound\" status pvc 1>0")).await?;
    label(&api, NAME, None).await?;
    api.delete(NAME, &DeleteParams::default()).await.context("without its label it goes")?;
    Ok(())
}

/// Deletes the definition of a kind whose objects are counted, once the manager was given these rights.
async fn definition(scene: &Scene, kind: &str, rights: &[DynamicObject]) -> Result<()> {
    let client = &scene.client;
    let plural = format!("{}s", kind.to_lowercase());
    let name = format!("{plural}.example.com");
    let definition: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "labels": { LABEL: "Cascading" } },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    }))?;
    let api = deploy::api(client, &definition)?;
    api.create(&PostParams::default(), &definition).await?;
    let says = async |says: &str| {
        await_condition(format!("definition: {says:?}"), PATIENCE, async || {
            let said = tried(&api, &name, DeleteParams::default()).await?;
            ensure!(
                said.contains(says) && said.is_empty() == says.is_empty(),
                "{said:?} instead of {says:?}"
            );
            Ok(())
        })
        .await
    };
    says(&format!("--verb=list --resource={name}")).await?;
    for right in rights {
        deploy::apply_object(client, right).await?;
    }
    says("").await?;
    let resource: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": kind, "metadata": { "name": "b", "namespace": "default" },
    }))?;
    let resources = deploy::api(client, &resource)?;
    await_condition("a custom resource is made", PATIENCE, async || {
        resources.create(&PostParams::default(), &resource).await.map(drop).context("make it")
    })
    .await?;
    says(&format!("{FORBIDDEN}Cascading and active CRs 1>0")).await?;
    resources.delete("b", &DeleteParams::default()).await?;
    says("").await?;
    let Ok(_) = api.delete(&name, &DeleteParams::default()).await else {
        bail!("an empty one is not deleted")
    };
    Ok(())
}

/// The objects that the command of the refusal makes.
fn granted(definition: &str) -> [Value; 2] {
    let role = format!("berth-counts-{definition}");
    let (resource, group) = definition.split_once('.').unwrap_or_default();
    let subject = json!({ "kind": "ServiceAccount", "name": "berth-manager", "namespace": "berth-system" });
    let to = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    [
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role },
            "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": ["list"] }] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": role }, "roleRef": to, "subjects": [subject] }),
    ]
}
