//! Installs what is in `deploy/` as an administrator would, with server-side apply.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{crds, programs, tool};
use crate::wait::{START_UP, await_condition};

/// The field manager of an administrator with kubectl.
const MANAGER: &str = "kubectl";
/// Files that are no objects: they say how objects are put together, or are part of one.
const PARTS: [&str; 2] = ["kustomization.yaml", "berthd.yaml"];

/// A file or folder of `deploy/`.
pub fn path(name: &str) -> PathBuf {
    programs::package_dir().join("../deploy").join(name)
}

/// The objects of all files below a file or folder of `deploy/`, those of a folder in the order of their
/// names.
pub fn objects(name: &str) -> Result<Vec<DynamicObject>> {
    let path = path(name);
    let mut objects = Vec::new();
    for file in files(&path)? {
        if file.file_name().is_some_and(|name| PARTS.iter().any(|part| name == *part)) {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let read: Vec<DynamicObject> =
            serde_saphyr::from_multiple(&text).with_context(|| file.display().to_string())?;
        objects.extend(read);
    }
    ensure!(!objects.is_empty(), "nothing below {}", path.display());
    Ok(objects)
}

/// The objects of `deploy/` with these components, as `kubectl kustomize` makes them of a kustomization.
pub async fn built(components: &[&str]) -> Result<Vec<DynamicObject>> {
    let folder = tempfile::tempdir().context("a folder")?;
    // A kustomization names folders from its own.
    let up = "../".repeat(folder.path().components().count().saturating_sub(1));
    let deploy = format!("{up}{}", path("").canonicalize().context("deploy")?.display());
    let components: Vec<_> = components.iter().map(|component| format!("{deploy}/{component}")).collect();
    let kustomization = json!({ "resources": [deploy], "components": components });
    fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string())
        .context("kustomization.yaml")?;
    let from = folder.path().display().to_string();
    let built = tool::run(programs::kubernetes("kubectl")?, &["kustomize", &from]).await?;
    serde_saphyr::from_multiple(&built).context("what kubectl kustomize prints")
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(files(&path)?);
    }
    Ok(all)
}

/// Applies a file or folder of `deploy/`.
pub async fn apply(client: &Client, name: &str) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for object in objects(name)? {
        applied.push(apply_object(client, &object).await.with_context(|| format!("deploy/{name}"))?);
    }
    Ok(applied)
}

/// Applies a file of `deploy/` whose objects name no namespace to this one, as `kubectl -n` does.
pub async fn apply_in(client: &Client, name: &str, namespace: &str) -> Result<()> {
    for mut object in objects(name)? {
        object.metadata.namespace = Some(namespace.to_owned());
        apply_object(client, &object).await.with_context(|| format!("deploy/{name}"))?;
    }
    Ok(())
}

/// Applies one object, such as one of `deploy/` that was adapted to a run.
pub async fn apply_object(client: &Client, object: &DynamicObject) -> Result<DynamicObject> {
    apply_as(client, object, MANAGER).await
}

/// The same as another field manager.
pub async fn apply_as(client: &Client, object: &DynamicObject, by: &str) -> Result<DynamicObject> {
    let params = PatchParams::apply(by).force();
    let done = api(client, object)?.patch(&object.name_any(), &params, &Patch::Apply(object)).await;
    done.with_context(|| format!("apply {}", object.name_any()))
}

/// Lets agents write these labels and annotations on the pods of a namespace, as an administrator would: `*`
/// for all.
pub async fn let_agents_write(client: &Client, namespace: &str, keys: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": namespace, "annotations": { "berth.dev/agent-labels": keys } },
    });
    apply_object(client, &serde_json::from_value(object)?).await.map(drop)
}

/// The API of an object of any kind.
pub fn api(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    Ok(match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

/// Gives the policy of the workloads the conditions that a kustomization adds to it.
pub async fn add_conditions(client: &Client, kustomization: &str) -> Result<()> {
    let text = fs::read_to_string(path(kustomization)).with_context(|| kustomization.to_owned())?;
    let file: Value = serde_saphyr::from_str(&text)?;
    let patches = file["patches"].as_array().context("no patches")?;
    let patch = patches.iter().find(|patch| patch["target"]["kind"] == "ValidatingAdmissionPolicy");
    let patch = patch.and_then(|patch| patch["patch"].as_str()).context("no patch of a policy")?;
    let patch: Value = serde_saphyr::from_str(patch)?;
    let condition = patch[0]["value"].clone();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let policy = policies.get("berth-workloads").await?;
    let mut conditions = json!(policy.spec.context("a spec")?.match_conditions);
    let all = conditions.as_array_mut().context("conditions")?;
    all.retain(|known| known["name"] != condition["name"]);
    all.push(condition);
    let patch = json!({ "spec": { "matchConditions": conditions } });
    policies.patch("berth-workloads", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Applies the kinds, and what an agent with the kubelet's identity needs; not the policies that look at what
/// users make: what they would refuse is what the node has to refuse by itself.
pub async fn install_kinds(client: &Client) -> Result<()> {
    crds::install(client).await?;
    for name in [
        "rbac/kubelet.yaml",
        "policies/kubelet.yaml",
        "policies/node-objects.yaml",
        "policies/node-requests.yaml",
    ] {
        apply(client, name).await?;
    }
    Ok(())
}

/// Applies the kinds, the roles and the policies, and waits until all of them count. The programs are not in
/// it.
pub async fn install(client: &Client) -> Result<()> {
    apply(client, "namespace.yaml").await?;
    crds::install(client).await?;
    apply(client, "rbac").await?;
    apply(client, "policies").await?;
    // The server takes policies over in the order in which they were made: when the last one counts, all do.
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "ContainerUpdateRequest",
        "metadata": { "namespace": "berth-system", "name": "refused" },
        "spec": { "podName": "p", "metadata": {} },
    }))?;
    let requests = api(client, &object)?;
    let params = PostParams { dry_run: true, ..Default::default() };
    await_condition("the policies count", START_UP, async || match requests.create(&params, &object).await {
        Err(kube::Error::Api(status)) if status.message.contains("berth-update-requests") => Ok(()),
        Err(error) => Err(error).context("another refusal"),
        Ok(_) => bail!("what the policy berth-update-requests refuses was accepted"),
    })
    .await
}

#[cfg(test)]
mod tests;
