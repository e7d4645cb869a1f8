//! Pods as a real API server stores them after injection: rows of the table of the pure core, past
//! defaults, validation and other admission; and the namespaces that a set reaches.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::SidecarSet;
use berth_tests::wait::await_condition;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{Scene, pod, sidecars};
use crate::api_server::namespace;
use crate::case::PATIENCE;

/// A set, a pod, and what is looked at of the pod that is stored.
struct Row {
    name: &'static str,
    /// Spec of the set; its selector is added.
    spec: Value,
    /// Spec of the pod; a container `app` is added where there is none.
    pod: Value,
    /// Values by their JSON pointers into the view.
    view: Value,
}

fn row(name: &'static str, spec: Value, pod: Value, view: Value) -> Row {
    Row { name, spec, pod, view }
}

fn image(name: &str) -> String {
    format!("registry.example/{name}:1")
}

fn container(name: &str, more: Value) -> Value {
    let mut container = json!({ "name": name, "image": image(name) });
    for (key, value) in more.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    container
}

fn rows() -> Vec<Row> {
    let empty = |name: &str| json!({ "name": name, "emptyDir": {} });
    let at = |path: &str, name: &str| json!({ "name": name, "mountPath": path });
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let by_name = json!({ "name": "POD", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } });
    vec![
        row(
            "order",
            json!({ "containers": [container("c1", json!({})),
                container("c2", json!({ "podInjectPolicy": "AfterAppContainer" })), container("c3", json!({}))] }),
            json!({}),
            json!({ "containers": ["c1", "c3", "app", "c2"], "env": ["IS_INJECTED=true"] }),
        ),
        row(
            "init",
            json!({ "initContainers": [container("i2", json!({})), container("i1", json!({}))],
                "containers": [container("log", json!({}))] }),
            json!({ "initContainers": [container("own", json!({}))] }),
            json!({ "initContainers": ["own", "i1", "i2"], "containers": ["log", "app"] }),
        ),
        row(
            "replaced",
            json!({ "containers": [container("log", json!({}))] }),
            json!({ "containers": [container("log", json!({ "image": image("z"), "env": [variable("A", "1")] })),
                container("app", json!({}))] }),
            json!({ "containers": ["log", "app"], "env": ["IS_INJECTED=true"], "image": image("log") }),
        ),
        row(
            "volumes",
            json!({ "containers": [container("log", json!({ "volumeMounts": [at("/var/log", "v")] }))],
                "volumes": [empty("v"), empty("w")] }),
            json!({}),
            json!({ "volumes": ["v"], "mounts": ["v@/var/log"] }),
        ),
        row(
            "claim",
            json!({ "containers": [container("log", json!({ "volumeMounts": [at("/data", "v")] }))],
                "volumes": [empty("v")] }),
            json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }] }),
            json!({ "volumes": ["v"], "claim": "c" }),
        ),
        row(
            "shared",
            json!({ "containers": [container("log", json!({ "shareVolumePolicy": { "type": "enabled" },
                "volumeMounts": [at("/var/log", "v")] }))], "volumes": [empty("v")] }),
            json!({ "volumes": [empty("d"), empty("l")],
                "containers": [container("app", json!({ "volumeMounts": [at("/data", "d"), at("/var/log", "l")] }))] }),
            json!({ "mounts": ["v@/var/log", "d@/data"] }),
        ),
        row(
            "expanded",
            json!({ "containers": [container("log", json!({ "shareVolumePolicy": { "type": "enabled" } }))] }),
            json!({ "volumes": [empty("d")], "containers": [container("app", json!({ "env": [by_name],
                "volumeMounts": [{ "name": "d", "mountPath": "/data", "subPathExpr": "$(POD)" }] }))] }),
            json!({ "env": ["IS_INJECTED=true", "POD"], "mounts": ["d@/data"] }),
        ),
        row(
            "transferred",
            json!({ "containers": [container("log", json!({ "env": [variable("B", "own")], "transferEnv": [
                { "sourceContainerName": "app", "envName": "B", "envNames": ["C", "A"] }] }))] }),
            json!({ "containers": [container("app", json!({
                "env": [variable("A", "1"), variable("B", "2"), variable("C", "3")] }))] }),
            json!({ "env": ["B=own", "IS_INJECTED=true", "A=1", "C=3"] }),
        ),
        row(
            "source-by-label",
            json!({ "containers": [container("log", json!({ "transferEnv": [{ "envName": "A",
                "sourceContainerNameFrom": { "fieldRef": { "fieldPath": "metadata.labels['biz']" } } }] }))] }),
            json!({ "containers": [container("app", json!({ "env": [variable("A", "1")] }))] }),
            json!({ "env": ["IS_INJECTED=true", "A=1"] }),
        ),
        row(
            "hot",
            json!({ "containers": [container("mesh", json!({ "upgradeStrategy": {
                "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": image("empty") } }))] }),
            json!({}),
            json!({
                "containers": ["mesh-1", "mesh-2", "app"],
                "env": ["IS_INJECTED=true", "SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"],
                "annotations/kruise.io~1sidecarset-working-hotupgrade-container": "{\"mesh\":\"mesh-1\"}",
                "annotations/version.sidecarset.kruise.io~1mesh-1": "1",
                "annotations/versionalt.sidecarset.kruise.io~1mesh-2": "1",
            }),
        ),
        row(
            "secrets",
            json!({ "containers": [container("log", json!({}))], "imagePullSecrets": [{ "name": "b" }, { "name": "c" }] }),
            json!({ "imagePullSecrets": [{ "name": "a" }, { "name": "b" }] }),
            json!({ "secrets": ["a", "b", "c"] }),
        ),
        row(
            "paused",
            json!({ "containers": [container("log", json!({}))], "injectionStrategy": { "paused": true } }),
            json!({}),
            json!({ "containers": ["app"], "annotations": {} }),
        ),
        row(
            "annotated",
            json!({ "containers": [container("log", json!({}))], "patchPodMetadata": [
                { "annotations": { "example.com/new": "1", "example.com/kept": "2" } },
                { "annotations": { "example.com/set": "2" }, "patchPolicy": "Overwrite" },
                { "annotations": { "example.com/merged": "{\"log\":1}" }, "patchPolicy": "MergePatchJson" }] }),
            json!({ "$annotations": { "example.com/kept": "1", "example.com/set": "1", "example.com/merged": "{\"main\":2}" } }),
            json!({
                "annotations/example.com~1new": "1",
                "annotations/example.com~1kept": "1",
                "annotations/example.com~1set": "2",
                "annotations/example.com~1merged": "{\"log\":1,\"main\":2}",
            }),
        ),
    ]
}

fn manifest(row: &Row) -> Result<Pod> {
    let mut spec = row.pod.clone();
    let annotations = spec.as_object_mut().and_then(|spec| spec.remove("$annotations"));
    if spec.get("containers").is_none() {
        spec["containers"] = json!([container("app", json!({}))]);
    }
    Ok(serde_json::from_value(json!({
        "metadata": { "name": row.name, "labels": { "app": row.name, "biz": "app" }, "annotations": annotations },
        "spec": spec,
    }))?)
}

/// Names, and the first container that was injected.
fn view(pod: &Pod) -> Result<Value> {
    let pod = serde_json::to_value(pod)?;
    let names = |list: &str| -> Vec<Value> {
        let list = pod["spec"][list].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["name"].clone()).collect()
    };
    let first = &pod["spec"]["containers"][0];
    let env = first["env"].as_array().cloned().unwrap_or_default();
    let env = env.iter().map(|one| match one["value"].as_str() {
        Some(value) => format!("{}={value}", one["name"].as_str().unwrap_or_default()),
        None => one["name"].as_str().unwrap_or_default().to_owned(),
    });
    let mounts = first["volumeMounts"].as_array().cloned().unwrap_or_default();
    let mounts = mounts.iter().map(|one| {
        format!(
            "{}@{}",
            one["name"].as_str().unwrap_or_default(),
            one["mountPath"].as_str().unwrap_or_default()
        )
    });
    Ok(json!({
        "containers": names("containers"),
        "initContainers": names("initContainers"),
        "volumes": names("volumes"),
        "secrets": names("imagePullSecrets"),
        "env": env.collect::<Vec<_>>(),
        "mounts": mounts.collect::<Vec<_>>(),
        "image": first["image"],
        "claim": pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "annotations": pod["metadata"].get("annotations").cloned().unwrap_or(json!({})),
    }))
}

async fn make(scene: &Scene, name: &str, spec: &Value, labels: &Value) -> Result<()> {
    let mut spec = spec.clone();
    spec["selector"] = json!({ "matchLabels": { "app": name } });
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": { "name": name, "labels": labels }, "spec": spec,
    });
    await_condition(format!("SidecarSet {name} is taken"), PATIENCE, async || {
        let set: SidecarSet = serde_json::from_value(set.clone())?;
        scene.sets.create(&PostParams::default(), &set).await.map(drop).context("make a set")
    })
    .await
}

/// The set says that its entry stands.
async fn accepted(scene: &Scene, name: &str) -> Result<SidecarSet> {
    await_condition(format!("SidecarSet {name} is accepted"), PATIENCE, async || {
        let set = scene.sets.get(name).await?;
        let status = set.status.clone().context("no status")?;
        let accepted = status.conditions.iter().find(|one| one.type_ == "Accepted").context("not said")?;
        ensure!(
            accepted.status == "True" && status.observed_generation == set.metadata.generation,
            "{status:?}"
        );
        Ok(set)
    })
    .await
}

/// Waits until the API server asks about this pod, which gets a sidecar: it takes all entries over together,
/// a little after they stand.
async fn asked(scene: &Scene, pod: &Pod) -> Result<()> {
    await_condition("the API server asks about the pods", PATIENCE, async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let made = scene.pods.create(&params, pod).await.context("a pod")?;
        ensure!(sidecars(&made) > 0, "no sidecar yet");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pods_are_stored_as_the_table_says() -> Result<()> {
    let scene = Scene::set("admission-injection").await?;
    scene.first.leads().await?;
    // As an OpenKruise had it.
    namespace(&scene.client, "kruise-system").await?;
    let maps: Api<ConfigMap> = Api::namespaced(scene.client.clone(), "kruise-system");
    let white_list = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kruise-configuration" },
        "data": { "SidecarSet_PatchPodMetadata_WhiteList":
            "{\"rules\":[{\"allowedAnnotationKeyExprs\":[\"^example.com/\"]}]}" },
    });
    let params = PatchParams::apply("test").force();
    maps.patch("kruise-configuration", &params, &Patch::Apply(&white_list)).await.context("a white list")?;
    let rows = rows();
    for Row { name, spec, .. } in &rows {
        make(&scene, name, spec, &json!({})).await?;
    }
    let last = rows.last().context("no row")?;
    accepted(&scene, last.name).await?;
    asked(&scene, &manifest(last)?).await?;
    let mut wrong = Vec::new();
    for row in &rows {
        accepted(&scene, row.name).await?;
        let pod = scene.pods.create(&PostParams::default(), &manifest(row)?).await.context(row.name)?;
        let view = view(&pod)?;
        for (at, wanted) in row.view.as_object().into_iter().flatten() {
            let found = view.pointer(&format!("/{at}")).unwrap_or(&Value::Null);
            if found != wanted {
                wrong.push(format!("{}: {at} is {found}, not {wanted}", row.name));
            }
        }
    }
    ensure!(rows.len() >= 12 && wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} pods are as the table says", rows.len());
    by_revision(&scene).await
}

/// The stable version goes on being injected while the next one is published.
async fn by_revision(scene: &Scene) -> Result<()> {
    let name = "pinned";
    let version = |version: &str| json!({ "apps.kruise.io/sidecarset-custom-version": version });
    make(scene, name, &json!({ "containers": [container("log", json!({}))] }), &version("stable")).await?;
    let set = accepted(scene, name).await?;
    asked(scene, &pod(name, name)?).await?;
    let first = set.status.and_then(|status| status.latest_revision).context("no revision")?;
    let next = json!({ "metadata": { "labels": version("next") }, "spec": {
        "containers": [container("log", json!({ "image": "registry.example/log:2" }))],
        "injectionStrategy": { "revision": { "customVersion": "stable" } } } });
    scene
        .sets
        .patch(name, &PatchParams::default(), &Patch::Merge(&next))
        .await
        .context("publish the next")?;
    let pod = await_condition("the next revision is filed", PATIENCE, async || {
        let status = scene.sets.get(name).await?.status.context("no status")?;
        ensure!(status.revisions.len() == 2, "{:?}", status.revisions);
        Ok(scene.pods.create(&PostParams::default(), &pod("pinned", name)?).await?)
    })
    .await?;
    let view = view(&pod)?;
    ensure!(view["image"] == image("log"), "{view}");
    let hash = pod.annotations().get("kruise.io/sidecarset-hash").context("no hash")?;
    ensure!(hash.contains(&format!("\"controllerRevision\":\"{first}\"")), "{hash} is not of {first}");
    let noted = scene.sets.get(name).await?;
    let noted = noted.annotations().get("berth.dev/revisions").cloned().unwrap_or_default();
    ensure!(noted.split(',').filter(|hash| hash.len() == 64).count() == 2, "two revisions: {noted}");
    // Nobody else writes there.
    let own = json!({ "metadata": { "annotations": { "berth.dev/revisions": "0".repeat(64) } } });
    let after = scene.sets.patch(name, &PatchParams::default(), &Patch::Merge(&own)).await?;
    ensure!(after.annotations().get("berth.dev/revisions") == Some(&noted), "{:?}", after.annotations());
    Ok(())
}

const NAMESPACES: usize = 30;

#[tokio::test]
async fn a_set_reaches_its_namespaces_and_no_others() -> Result<()> {
    let scene = Scene::set("admission-spaces").await?;
    scene.first.leads().await?;
    let spaces: Api<Namespace> = Api::all(scene.client.clone());
    let name = |at: usize| format!("admission-space-{at:02}");
    for at in 0..NAMESPACES {
        let labels = BTreeMap::from([("tier", if at % 3 == 0 { "front" } else { "back" })]);
        let space = json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name(at), "labels": labels } });
        let params = PatchParams::apply("test").force();
        spaces.patch(&name(at), &params, &Patch::Apply(&space)).await.context("a namespace")?;
    }
    let labelled = json!({ "namespaceSelector": { "matchLabels": { "tier": "front" } },
        "containers": [container("log", json!({}))] });
    make(&scene, "labelled", &labelled, &json!({})).await?;
    make(
        &scene,
        "one",
        &json!({ "namespace": name(7), "containers": [container("log", json!({}))] }),
        &json!({}),
    )
    .await?;
    make(&scene, "all", &json!({ "containers": [container("log", json!({}))] }), &json!({})).await?;
    for set in ["labelled", "one", "all"] {
        accepted(&scene, set).await?;
    }
    asked(&scene, &pod("p", "all")?).await?;
    let create = async |at: usize, app: &str| {
        let pods: Api<Pod> = Api::namespaced(scene.client.clone(), &name(at));
        let params = PostParams { dry_run: true, ..PostParams::default() };
        pods.create(&params, &pod("p", app)?).await.map(|pod| sidecars(&pod)).context("a pod")
    };
    for (app, reached) in
        [("labelled", (|at| at % 3 == 0) as fn(usize) -> bool), ("one", |at| at == 7), ("all", |_| true)]
    {
        let found = try_join_all((0..NAMESPACES).map(|at| create(at, app))).await?;
        let wanted: Vec<_> = (0..NAMESPACES).map(|at| usize::from(reached(at))).collect();
        ensure!(found == wanted, "{app}: {found:?}");
    }
    // A namespace that gets the label is reached from then on.
    let labels = json!({ "metadata": { "labels": { "tier": "front" } } });
    spaces.patch(&name(1), &PatchParams::default(), &Patch::Merge(&labels)).await?;
    await_condition("the namespace is reached", PATIENCE, async || {
        ensure!(create(1, "labelled").await? == 1, "not yet");
        Ok(())
    })
    .await?;
    // One that gets the label of a control plane is not.
    let labels = json!({ "metadata": { "labels": { "control-plane": "x" } } });
    spaces.patch(&name(0), &PatchParams::default(), &Patch::Merge(&labels)).await?;
    await_condition("the namespace is left out", PATIENCE, async || {
        ensure!(create(0, "labelled").await? == 0 && create(0, "all").await? == 0, "not yet");
        Ok(())
    })
    .await
}
