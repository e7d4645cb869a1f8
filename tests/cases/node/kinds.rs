//! Our kinds on the real API server: it keeps every field of a manifest and refuses what makes no sense, in
//! words that name the field.

use std::fs;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerRecreateRequest, ContainerUpdateRequest, ImagePullJob, NodePodUpdate};
use berth_tests::node::{deploy, programs};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::api_server::{api_server, namespace, namespace_with};

const MANIFESTS: [&str; 10] = [
    "recreate-plain",
    "recreate-all-fields",
    "image-pull-job-names",
    "image-pull-job-labels",
    "image-pull-job-pods",
    "node-image",
    "pod-probe-marker",
    "node-pod-probe",
    "update-all-fields",
    "node-pod-update",
];

#[tokio::test]
async fn manifests_are_kept_whole() -> Result<()> {
    let client = api_server().await?.client().await?;
    // What they would write on pods is not judged here.
    namespace_with(&client, "kinds-manifests", json!({ "berth.dev/agent-labels": "*" })).await?;
    for file in MANIFESTS {
        let path = programs::package_dir().join(format!("../proto/tests/manifests/{file}.yaml"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = text.replace("NAMESPACE", "kinds-manifests");
        let given: Value = serde_saphyr::from_str(&text)?;
        let object: DynamicObject = serde_saphyr::from_str(&text)?;
        let api = deploy::api(&client, &object)?;
        api.create(&PostParams::default(), &object).await.with_context(|| file.to_owned())?;
        let kept = serde_json::to_value(api.get(&object.name_any()).await?)?;
        ensure!(is_in(&given["spec"], &kept["spec"]), "{file}: {}\nbecame\n{}", given["spec"], kept["spec"]);
        for (key, value) in given["metadata"]["labels"].as_object().into_iter().flatten() {
            ensure!(kept["metadata"]["labels"][key] == *value, "{file}: label {key} is lost");
        }
    }
    Ok(())
}

/// Whether all of `given` was kept. What the definition fills in may be there too.
fn is_in(given: &Value, kept: &Value) -> bool {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            given.iter().all(|(key, value)| kept.get(key).is_some_and(|kept| is_in(value, kept)))
        }
        (Value::Array(given), Value::Array(kept)) => {
            given.len() == kept.len() && given.iter().zip(kept).all(|(given, kept)| is_in(given, kept))
        }
        _ => given == kept,
    }
}

/// Every field that one of the two writers of a status may write, in an order in which neither has the whole.
#[tokio::test]
async fn two_writers_share_a_status() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-writers").await?;
    let requests: Api<ContainerRecreateRequest> = Api::namespaced(client, "kinds-writers");
    requests.create(&PostParams::default(), &request("shared", json!({}))?).await?;
    let write = async |manager: &str, status: Value| {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ContainerRecreateRequest",
            "metadata": { "name": "shared" },
            "status": status,
        });
        requests.patch_status("shared", &PatchParams::apply(manager), &Patch::Apply(&object)).await
    };
    let contexts = json!([{ "name": "a", "containerID": "containerd://1", "restartCount": 0 }]);
    write("manager", json!({ "nodeName": "n", "podUID": "u", "containerStatusContexts": contexts })).await?;
    let states = json!([{ "name": "a", "phase": "Recreating", "isKilled": true }]);
    write("agent", json!({ "phase": "Recreating", "containerRecreateStates": states })).await?;
    let condition = json!({
        "type": "Complete", "status": "True", "reason": "Recreated", "message": "",
        "lastTransitionTime": "2026-07-02T10:00:00Z",
    });
    write("manager", json!({ "nodeName": "n", "podUID": "u", "conditions": [condition] })).await?;
    let kept = serde_json::to_value(requests.get("shared").await?.status)?;
    ensure!(kept["phase"] == "Recreating" && kept["containerRecreateStates"] == states, "{kept}");
    ensure!(kept["nodeName"] == "n" && kept["conditions"] == json!([condition]), "{kept}");
    ensure!(
        kept["containerStatusContexts"].is_null(),
        "given up by its only writer, and still there: {kept}"
    );
    let mine = requests.list(&ListParams::default().fields("status.nodeName=n")).await?;
    ensure!(mine.items.len() == 1, "found by its node: {}", mine.items.len());
    let others = requests.list(&ListParams::default().fields("status.nodeName=m")).await?;
    ensure!(others.items.is_empty(), "found by another node");
    Ok(())
}

/// As above: neither writer of an update has the whole, and each keeps what it wrote.
#[tokio::test]
async fn two_writers_share_an_update() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-updates").await?;
    let requests: Api<ContainerUpdateRequest> = Api::namespaced(client.clone(), "kinds-updates");
    requests.create(&PostParams::default(), &update("shared", json!({}))?).await?;
    let write = async |manager: &str, status: Value| {
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "ContainerUpdateRequest",
            "metadata": { "name": "shared" },
            "status": status,
        });
        requests.patch_status("shared", &PatchParams::apply(manager), &Patch::Apply(&object)).await
    };
    let states = json!([{ "name": "a", "phase": "Updating" }]);
    let previous = json!({ "containers": [{ "name": "a", "image": "a:1" }], "missingLabels": ["l"] });
    write("manager", json!({ "nodeName": "n", "podUID": "u" })).await?;
    let answer = json!({ "phase": "Updating", "containerUpdateStates": states, "previous": previous });
    write("agent", answer).await?;
    write("manager", json!({ "nodeName": "n", "podUID": "u", "message": "seen" })).await?;
    let kept = serde_json::to_value(requests.get("shared").await?.status)?;
    ensure!(kept["containerUpdateStates"] == states && kept["previous"] == previous, "{kept}");
    ensure!(kept["nodeName"] == "n" && kept["message"] == "seen" && kept["phase"] == "Updating", "{kept}");
    let mine = requests.list(&ListParams::default().fields("status.nodeName=n")).await?;
    ensure!(mine.items.len() == 1, "found by its node: {}", mine.items.len());
    let others = requests.list(&ListParams::default().fields("status.nodeName=m")).await?;
    ensure!(others.items.is_empty(), "found by another node");

    let nodes: Api<NodePodUpdate> = Api::all(client);
    let empty = serde_json::from_value(json!({ "metadata": { "name": "kinds-updates" }, "spec": {} }))?;
    nodes.create(&PostParams::default(), &empty).await?;
    let desired = json!([{ "uid": "u", "namespace": "n", "name": "p", "revision": "r" }]);
    let pods = json!([{ "uid": "u", "revision": "r", "phase": "Succeeded" }]);
    for (manager, status) in
        [("manager", json!({ "desiredPods": desired })), ("agent", json!({ "pods": pods }))]
    {
        let object = json!({ "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate", "status": status });
        nodes.patch_status("kinds-updates", &PatchParams::apply(manager), &Patch::Apply(&object)).await?;
    }
    let kept = serde_json::to_value(nodes.get("kinds-updates").await?.status)?;
    ensure!(kept["desiredPods"] == desired && kept["pods"] == pods, "{kept}");
    Ok(())
}

fn update(name: &str, change: Value) -> Result<ContainerUpdateRequest> {
    Ok(serde_json::from_value(update_json(name, change))?)
}

fn update_json(name: &str, change: Value) -> Value {
    let mut spec = json!({ "podName": "p", "containers": [{ "name": "a", "image": "a:2" }] });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec.as_object_mut().into_iter().for_each(|spec| spec.retain(|_, value| !value.is_null()));
    json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "ContainerUpdateRequest",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A `null` leaves the field out.
#[tokio::test]
async fn bad_updates_are_refused_by_field() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-bad-updates").await?;
    let container = |name: &str, image: &str| json!({ "name": name, "image": image });
    let twice = [container("a", "a:2"), container("a", "a:3")];
    let refusals = [
        ("podName", json!({ "podName": null })),
        ("podName", json!({ "podName": "" })),
        ("nothing is asked for", json!({ "containers": null })),
        ("nothing is asked for", json!({ "containers": [] })),
        ("containers[1]", json!({ "containers": twice })),
        ("containers[0].image", json!({ "containers": [{ "name": "a" }] })),
        ("containers[0].image", json!({ "containers": [container("a", "")] })),
        ("containers[0].name", json!({ "containers": [container("", "a:2")] })),
        ("failurePolicy", json!({ "strategy": { "failurePolicy": "Retry" } })),
        ("gracePeriodSeconds", json!({ "strategy": { "gracePeriodSeconds": -1 } })),
        ("activeDeadlineSeconds", json!({ "activeDeadlineSeconds": 2 })),
        ("ttlSecondsAfterFinished", json!({ "ttlSecondsAfterFinished": -1 })),
        ("labels", json!({ "metadata": { "labels": { "a": 1 } } })),
    ];
    for (word, change) in refusals {
        let mut object = update_json("bad", change);
        object["metadata"]["namespace"] = "kinds-bad-updates".into();
        let object: DynamicObject = serde_json::from_value(object)?;
        is_invalid(deploy::api(&client, &object)?.create(&PostParams::default(), &object).await, word)?;
    }
    let requests: Api<ContainerUpdateRequest> = Api::namespaced(client, "kinds-bad-updates");
    let mut kept = requests.create(&PostParams::default(), &update("kept", json!({}))?).await?;
    kept.spec.containers[0].image = "a:3".to_owned();
    let changed = requests.replace("kept", &PostParams::default(), &kept).await;
    is_invalid(changed, "spec is immutable: make a new request")
}

/// Nobody converts here: the API server changes the name of the version, and every field stays.
#[tokio::test]
async fn a_stateful_set_is_whole_in_both_versions() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-versions").await?;
    let sets = |version: &str| -> Result<Api<DynamicObject>> {
        let object = json!({ "apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet",
            "metadata": { "namespace": "kinds-versions", "name": "db" } });
        deploy::api(&client, &serde_json::from_value(object)?)
    };
    let (alpha, beta) = (sets("v1alpha1")?, sets("v1beta1")?);
    let set = json!({ "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": { "name": "db" }, "spec": {
        "replicas": 1, "selector": { "matchLabels": { "app": "db" } }, "reserveOrdinals": [1],
        "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c", "image": "i:1" }], "later": [1.5] } },
        "lifecycle": { "preDelete": { "finalizersHandler": ["example.com/x"] } },
    } });
    let made = beta.create(&PostParams::default(), &serde_json::from_value(set)?).await.context("v1beta1")?;
    let mut read = alpha.get("db").await.context("v1alpha1")?;
    ensure!(read.data["spec"] == made.data["spec"], "{}", read.data["spec"]);
    read.data["spec"]["replicas"] = 2.into();
    alpha.replace("db", &PostParams::default(), &read).await.context("through v1alpha1")?;
    let mut expected = made.data["spec"].clone();
    expected["replicas"] = 2.into();
    let kept = beta.get("db").await?;
    ensure!(
        kept.data["spec"] == expected && kept.metadata.annotations == made.metadata.annotations,
        "{}",
        kept.data
    );
    Ok(())
}

/// An assignment comes from the manager, never with the request.
#[tokio::test]
async fn a_status_given_with_a_request_is_dropped() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-dropped").await?;
    let requests: Api<ContainerRecreateRequest> = Api::namespaced(client, "kinds-dropped");
    let mut given = request("given", json!({}))?;
    given.status = Some(serde_json::from_value(json!({ "nodeName": "n", "phase": "Completed" }))?);
    let kept = requests.create(&PostParams::default(), &given).await?;
    ensure!(kept.status.is_none(), "{:?}", kept.status);
    Ok(())
}

fn request(name: &str, change: Value) -> Result<ContainerRecreateRequest> {
    let mut spec = json!({ "podName": "p", "containers": [{ "name": "a" }] });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    Ok(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
}

#[tokio::test]
async fn bad_requests_are_refused_by_field() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-refused").await?;
    let refusals = [
        ("podName", json!({ "podName": "" })),
        ("containers", json!({ "containers": [] })),
        ("containers[1]", json!({ "containers": [{ "name": "a" }, { "name": "a" }] })),
        ("activeDeadlineSeconds", json!({ "activeDeadlineSeconds": 2 })),
        ("ttlSecondsAfterFinished", json!({ "ttlSecondsAfterFinished": -1 })),
        ("terminationGracePeriodSeconds", json!({ "strategy": { "terminationGracePeriodSeconds": -1 } })),
        ("unreadyGracePeriodSeconds", json!({ "strategy": { "unreadyGracePeriodSeconds": -1 } })),
        ("minStartedSeconds", json!({ "strategy": { "minStartedSeconds": -1 } })),
    ];
    let requests: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), "kinds-refused");
    for (field, change) in refusals {
        let refused = requests.create(&PostParams::default(), &request("bad", change)?).await;
        is_invalid(refused, field)?;
    }
    unknown_policy(&client).await?;
    let mut kept = requests.create(&PostParams::default(), &request("kept", json!({}))?).await?;
    kept.spec.pod_name = "another".to_owned();
    let changed = requests.replace("kept", &PostParams::default(), &kept).await;
    is_invalid(changed, "spec is immutable: make a new request")
}

#[tokio::test]
async fn bad_image_jobs_are_refused_by_field() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "kinds-jobs").await?;
    let jobs: Api<ImagePullJob> = Api::namespaced(client, "kinds-jobs");
    let job = |name: &str, change: &Value| -> Result<ImagePullJob> {
        let mut spec = json!({ "image": "app:v1", "completionPolicy": {} });
        for (key, value) in change.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        Ok(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
    };
    let labels = json!({ "matchLabels": { "a": "b" } });
    let refusals = [
        ("podSelector", json!({ "selector": labels, "podSelector": labels })),
        ("selector", json!({ "selector": { "names": ["n"], "matchLabels": { "a": "b" } } })),
        ("selector.names[1]", json!({ "selector": { "names": ["n", "n"] } })),
        ("parallelism", json!({ "parallelism": -1 })),
        ("parallelism", json!({ "parallelism": "many" })),
        (
            "completionPolicy",
            json!({ "completionPolicy": { "type": "Never", "ttlSecondsAfterFinished": 1 } }),
        ),
        ("activeDeadlineSeconds", json!({ "completionPolicy": { "activeDeadlineSeconds": -1 } })),
        ("timeoutSeconds", json!({ "pullPolicy": { "timeoutSeconds": 0 } })),
    ];
    for (field, change) in refusals {
        is_invalid(jobs.create(&PostParams::default(), &job("bad", &change)?).await, field)?;
    }
    let accepted = [
        json!({ "selector": { "names": ["n", "m"] }, "parallelism": 0 }),
        json!({ "selector": {}, "parallelism": "25%" }),
        json!({ "podSelector": labels, "completionPolicy": { "type": "Never" } }),
        json!({
            "pullPolicy": { "timeoutSeconds": 50, "backoffLimit": 2 },
            "completionPolicy": { "type": "Always", "activeDeadlineSeconds": 50, "ttlSecondsAfterFinished": 20 },
            "pullSecrets": ["a", "b"],
        }),
    ];
    for (number, change) in accepted.iter().enumerate() {
        let made = jobs.create(&PostParams::default(), &job(&format!("good-{number}"), change)?).await;
        let mut made = made.with_context(|| format!("{change}"))?;
        made.spec.pull_secrets = vec!["c".to_owned()];
        let changed = jobs.replace(&format!("good-{number}"), &PostParams::default(), &made).await;
        is_invalid(changed, "pullSecrets is immutable")?;
    }
    Ok(())
}

/// A value the type cannot even say.
async fn unknown_policy(client: &Client) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ContainerRecreateRequest",
        "metadata": { "namespace": "kinds-refused", "name": "bad" },
        "spec": { "podName": "p", "containers": [{ "name": "a" }], "strategy": { "failurePolicy": "Retry" } },
    }))?;
    is_invalid(deploy::api(client, &object)?.create(&PostParams::default(), &object).await, "failurePolicy")
}

fn is_invalid<T>(outcome: kube::Result<T>, word: &str) -> Result<()> {
    match outcome {
        Ok(_) => anyhow::bail!("{word}: was accepted"),
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 422 && status.message.contains(word), "{word}: {status:?}");
            Ok(())
        }
        Err(error) => Err(error).with_context(|| word.to_owned()),
    }
}
