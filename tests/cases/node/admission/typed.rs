//! Every kind as OpenKruise's typed clients write it: with zero values where a Go struct has no pointer, and
//! nulls. It is made, read, replaced, patched and deleted, by way of the policies and the admission server.

use std::fs;

use anyhow::{Context, Result, ensure};
use berth_tests::node::{deploy, programs};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use super::scene::Scene;

const NAMESPACE: &str = "typed";

#[tokio::test]
async fn typed_clients_write_and_read_every_kind() -> Result<()> {
    let scene = Scene::set(NAMESPACE).await?;
    deploy::let_agents_write(&scene.client, NAMESPACE, "*").await?;
    recreatable(&scene).await?;
    let mut faults = Vec::new();
    let mut objects = 0;
    for given in given()? {
        let name = format!("{} {}", given["kind"], given["metadata"]["name"]);
        let api = deploy::api(&scene.client, &serde_json::from_value(given.clone())?)?;
        objects += 1;
        let adds = |read: &mut Value| add_missing(&mut read["spec"], &given["spec"]);
        if let Some(object) = lean(&given)?
            && let Err(error) = written_back(&api, object, adds).await
        {
            faults.push(format!("{name}, made by somebody else: {error:#}"));
        }
        if let Some(object) = with_empty_list(&given)?
            && let Err(error) = written_back(&api, object, leave_out_list).await
        {
            faults.push(format!("{name}, with an empty list: {error:#}"));
        }
        if let Err(error) = life(&api, given).await {
            faults.push(format!("{name}: {error:#}"));
        }
    }
    ensure!(faults.is_empty() && objects > 30, "of {objects} objects:\n{}", faults.join("\n"));
    Ok(())
}

/// The pod of the ContainerRecreateRequests, which are refused without it.
async fn recreatable(scene: &Scene) -> Result<()> {
    let names = ["a", "b"];
    let containers = names.map(|name| json!({ "name": name, "image": "none" }));
    let pod =
        json!({ "metadata": { "name": "shop" }, "spec": { "nodeName": "node-a", "containers": containers } });
    scene.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await.context("make a pod")?;
    let statuses = names.map(|name| {
        json!({ "name": name, "containerID": format!("containerd://{name}"), "restartCount": 0, "image": "none",
            "imageID": "none", "ready": true, "state": { "running": {} } })
    });
    let status = json!({ "status": { "phase": "Running", "containerStatuses": statuses } });
    scene.pods.patch_status("shop", &PatchParams::default(), &Patch::Strategic(&status)).await?;
    Ok(())
}

/// The objects of `proto/tests/typed`, in their namespace.
fn given() -> Result<Vec<Value>> {
    let folder = programs::package_dir().join("../proto/tests/typed");
    let mut objects = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let read: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| path.display().to_string())?;
        objects.extend(read);
    }
    let cluster = ["SidecarSet", "NodeImage", "NodePodProbe", "ResourceDistribution"];
    for object in &mut objects {
        if !cluster.iter().any(|kind| object["kind"] == *kind) {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
    }
    Ok(objects)
}

/// An object is made, and everything is done to it that a typed client does.
async fn life(api: &Api<DynamicObject>, given: Value) -> Result<()> {
    let params = PostParams::default();
    let name = given["metadata"]["name"].as_str().context("a name")?;
    let object = |value: Value| serde_json::from_value::<DynamicObject>(value).context("an object");
    let made = api.create(&params, &object(given.clone())?).await.context("create")?;
    let made = serde_json::to_value(&made)?;
    kept(&given["spec"], &made["spec"], "spec").context("after create")?;
    defaults(&made)?;

    // What was read is written again, and what was given before.
    let generation = &made["metadata"]["generation"];
    let again = replace(api, name, "", |_| {}).await.context("replace with what was read")?;
    ensure!(again["spec"] == made["spec"], "replaced: {}\nbefore: {}", again["spec"], made["spec"]);
    ensure!(again["metadata"]["generation"] == *generation, "a generation more without a change");
    if given["kind"] != "ContainerRecreateRequest" {
        let anew = replace(api, name, "", |read| read["spec"] = given["spec"].clone());
        let anew = anew.await.context("replace with what was given")?;
        kept(&given["spec"], &anew["spec"], "spec").context("after replace")?;
    }
    let status = replace(api, name, "status", |read| read["status"] = given["status"].clone());
    kept(&given["status"], &status.await.context("replace the status")?["status"], "status")?;

    let patch = json!({ "metadata": { "labels": { "patched": "true" } } });
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.context("patch")?;
    ensure!(patched.labels().contains_key("patched"), "the patch is lost");
    let policy = PropagationPolicy::Background;
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    api.delete(name, &params).await.context("delete")?;
    Ok(())
}

/// Kinds whose templates, or parts of them, are immutable or make revisions.
const WITH_TEMPLATES: [&str; 6] =
    ["AdvancedCronJob", "BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet", "UnitedDeployment"];
/// Members that a typed client writes though they are empty, as their Go structs have no pointer there.
const STRUCTS: [&str; 10] = [
    "completionPolicy",
    "failurePolicy",
    "metadata",
    "nodeSelectorTerm",
    "resources",
    "scaleStrategy",
    "status",
    "strategy",
    "topology",
    "updateStrategy",
];

/// Kinds whose selector cannot be changed.
const SELECTING: [&str; 5] =
    ["CloneSet", "DaemonSet", "PodProbeMarker", "PodUnavailableBudget", "StatefulSet"];
/// List of a selector that a typed client leaves out where it is empty.
const LIST: &str = "matchExpressions";

/// An object that somebody made, and that a typed client reads and writes back with this change.
async fn written_back(api: &Api<DynamicObject>, object: Value, change: impl Fn(&mut Value)) -> Result<()> {
    let made =
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("create")?;
    let name = made.name_any();
    replace(api, &name, "", change).await.context("write back")?;
    api.delete(&name, &DeleteParams::background()).await.context("delete").map(drop)
}

/// The object without empty members, by a name of its own. A typed client adds them.
fn lean(given: &Value) -> Result<Option<Value>> {
    if !is_of(given, &WITH_TEMPLATES) {
        return Ok(None);
    }
    let mut lean = renamed(given, "back")?;
    lean["spec"] = without_empty(&given["spec"]);
    Ok(Some(lean))
}

/// The object with an empty list in its selector, by a name of its own, where there is room for one.
fn with_empty_list(given: &Value) -> Result<Option<Value>> {
    if !is_of(given, &SELECTING) {
        return Ok(None);
    }
    let mut object = renamed(given, "empty")?;
    let name = object["metadata"]["name"].clone();
    let selector = &mut object["spec"]["selector"];
    if !selector.is_object() || !selector[LIST].is_null() {
        return Ok(None);
    }
    selector[LIST] = json!([]);
    if !is_of(given, &WITH_TEMPLATES) {
        // Budgets must not share pods, and one that was deleted a moment ago may still count.
        selector["matchLabels"] = json!({ "app": name });
    }
    Ok(Some(object))
}

fn leave_out_list(read: &mut Value) {
    drop(read["spec"]["selector"].as_object_mut().and_then(|selector| selector.remove(LIST)));
}

fn is_of(given: &Value, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| given["kind"] == *kind)
}

fn renamed(given: &Value, part: &str) -> Result<Value> {
    let name = given["metadata"]["name"].as_str().context("a name")?;
    let mut object = given.clone();
    object["metadata"]["name"] = format!("{name}-{part}").into();
    Ok(object)
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(all) => {
            let says_nothing =
                |key: &str, value: &Value| value.is_null() || *value == json!({}) && STRUCTS.contains(&key);
            let said = all.iter().filter(|(key, value)| !says_nothing(key, value));
            Value::Object(said.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        Value::Array(all) => all.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn add_missing(there: &mut Value, given: &Value) {
    match (there, given) {
        (Value::Object(there), Value::Object(given)) => {
            for (key, value) in given {
                match there.get_mut(key) {
                    Some(there) => add_missing(there, value),
                    None => drop(there.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(there), Value::Array(given)) => {
            there.iter_mut().zip(given).for_each(|(there, given)| add_missing(there, given));
        }
        _ => {}
    }
}

/// Reads an object, changes it and writes all of it; anew where the manager wrote in between.
async fn replace(
    api: &Api<DynamicObject>,
    name: &str,
    part: &str,
    change: impl Fn(&mut Value),
) -> Result<Value> {
    let params = PostParams::default();
    loop {
        let mut read = serde_json::to_value(api.get(name).await.context("get")?)?;
        change(&mut read);
        let object: DynamicObject = serde_json::from_value(read)?;
        let written = match part {
            "status" => api.replace_status(name, &params, &object).await,
            _ => api.replace(name, &params, &object).await,
        };
        match written {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            written => return Ok(serde_json::to_value(written?)?),
        }
    }
}

/// Checks that all that was given is there. A null is a field that is left out, and may have its default.
fn kept(given: &Value, there: &Value, path: &str) -> Result<()> {
    match (given, there) {
        (Value::Null, _) => {}
        (Value::Object(given), Value::Object(_)) => {
            for (field, value) in given {
                kept(value, &there[field], &format!("{path}.{field}"))?;
            }
        }
        (Value::Array(given), Value::Array(there)) if given.len() == there.len() => {
            for (at, (given, there)) in given.iter().zip(there).enumerate() {
                kept(given, there, &format!("{path}[{at}]"))?;
            }
        }
        // The one word that is stored as what it means, as with OpenKruise.
        _ if *given == json!("Surging") && *there == json!("Standard") => {}
        _ => ensure!(given == there, "{path}: {given} became {there}"),
    }
    Ok(())
}

/// Defaults that OpenKruise's webhook writes into each object of a kind, whatever was given.
const DEFAULTS: [(&str, &[&str]); 6] = [
    (
        "CloneSet",
        &[
            "/spec/replicas",
            "/spec/revisionHistoryLimit",
            "/spec/updateStrategy/type",
            "/spec/updateStrategy/partition",
            "/spec/updateStrategy/maxUnavailable",
            "/spec/updateStrategy/maxSurge",
            "/spec/template/spec/restartPolicy",
            "/spec/template/spec/terminationGracePeriodSeconds",
            "/spec/template/spec/dnsPolicy",
            "/spec/template/spec/schedulerName",
            "/spec/template/spec/securityContext",
            "/spec/template/spec/containers/0/imagePullPolicy",
            "/spec/template/spec/containers/0/terminationMessagePath",
            "/spec/template/spec/containers/0/terminationMessagePolicy",
        ],
    ),
    (
        "StatefulSet",
        &[
            "/spec/replicas",
            "/spec/revisionHistoryLimit",
            "/spec/podManagementPolicy",
            "/spec/updateStrategy/type",
            "/spec/updateStrategy/rollingUpdate/partition",
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
            "/spec/updateStrategy/rollingUpdate/minReadySeconds",
            "/spec/template/spec/restartPolicy",
        ],
    ),
    ("BroadcastJob", &["/spec/parallelism", "/spec/completionPolicy/type", "/spec/failurePolicy/type"]),
    (
        "AdvancedCronJob",
        &["/spec/concurrencyPolicy", "/spec/successfulJobsHistoryLimit", "/spec/failedJobsHistoryLimit"],
    ),
    (
        "ImagePullJob",
        &["/spec/completionPolicy/type", "/spec/pullPolicy/timeoutSeconds", "/spec/pullPolicy/backoffLimit"],
    ),
    (
        "SidecarSet",
        &[
            "/spec/updateStrategy/type",
            "/spec/updateStrategy/partition",
            "/spec/updateStrategy/maxUnavailable",
            "/spec/revisionHistoryLimit",
            "/spec/containers/0/podInjectPolicy",
            "/spec/containers/0/upgradeStrategy/upgradeType",
            "/spec/containers/0/shareVolumePolicy/type",
            "/spec/containers/0/imagePullPolicy",
        ],
    ),
];

fn defaults(made: &Value) -> Result<()> {
    let fields = DEFAULTS.iter().filter(|(kind, _)| made["kind"] == *kind).flat_map(|(_, fields)| *fields);
    let mut missing: Vec<&str> =
        fields.copied().filter(|field| made.pointer(field).is_none_or(Value::is_null)).collect();
    let on_delete = made.pointer("/spec/updateStrategy/type").is_some_and(|kind| kind == "OnDelete");
    let rolling = "/spec/updateStrategy/rollingUpdate";
    if made["kind"] == "DaemonSet" && !on_delete {
        let needed = ["rollingUpdateType", "partition"];
        let left_out = needed.iter().any(|field| made.pointer(&format!("{rolling}/{field}")).is_none());
        missing.extend(left_out.then_some(rolling));
    }
    let images =
        made.pointer("/spec/images").and_then(Value::as_object).filter(|_| made["kind"] == "NodeImage");
    let tags = images.into_iter().flatten().filter_map(|(_, image)| image["tags"].as_array()).flatten();
    let of_tags = ["/createdAt", "/pullPolicy/timeoutSeconds", "/pullPolicy/backoffLimit"];
    let left_out = |tag| of_tags.into_iter().filter(move |field| Value::pointer(tag, field).is_none());
    missing.extend(tags.flat_map(left_out));
    ensure!(missing.is_empty(), "without {}: {}", missing.join(", "), made["spec"]);
    Ok(())
}
