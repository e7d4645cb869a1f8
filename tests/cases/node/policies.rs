//! The admission policies of `deploy/policies`: the server finds no fault in them, and they refuse what the node would
//! refuse later, in the words of the node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_policy::launch_priority::{EnvValue, LaunchOrder, OrderError};
use berth_tests::manifest::{CONTAINER_PRIORITY, LAUNCH_PRIORITY};
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::centre::{centre, namespace};

#[tokio::test]
async fn expressions_fit_the_types() -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(centre().await?.client().await?);
    let names = deploy::objects("policies")?;
    let names = names.iter().filter(|object| {
        object.types.as_ref().is_some_and(|types| types.kind == "ValidatingAdmissionPolicy")
    });
    for name in names.map(ResourceExt::name_any) {
        await_condition(format!("{name} is checked"), Duration::from_secs(60), async || {
            let status = policies.get(&name).await?.status.context("no status yet")?;
            ensure!(status.observed_generation.is_some(), "not looked at yet");
            let warnings = status.type_checking.and_then(|checked| checked.expression_warnings);
            ensure!(warnings.as_ref().is_none_or(Vec::is_empty), "{warnings:#?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// What the node says of a pod whose container `b` has this env.
fn of_node(annotation: Option<&str>, env: EnvValue<'_>) -> Result<(), OrderError> {
    LaunchOrder::declared(annotation, [("a", None), ("b", Some(env))]).map(drop)
}

#[tokio::test]
async fn a_launch_order_is_judged_as_on_the_node() -> Result<()> {
    let client = centre().await?.client().await?;
    namespace(&client, "policies-priorities").await?;
    let pods: Api<Pod> = Api::namespaced(client, "policies-priorities");
    let values = [
        "",
        " 1",
        "1 ",
        "high",
        "1.5",
        "0x10",
        "--1",
        "+",
        "-",
        "+5",
        "-5",
        "0",
        "-0",
        "007",
        "1\n",
        "2147483647",
        "2147483648",
        "-2147483647",
        "-2147483648",
        "00000000000000000000000001",
        "99999999999",
        "9223372036854775808",
        "-99999999999999999999999999999",
        "\u{664}",
        "a\"b",
    ];
    let plain = values.iter().map(|value| (None, json!({ "value": value }), EnvValue::Plain(value)));
    let field = json!({ "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } });
    let others = [
        (None, field.clone(), EnvValue::ValueFrom),
        (Some("Ordered"), json!({ "value": "high" }), EnvValue::Plain("high")),
        (Some("Ordered"), field, EnvValue::ValueFrom),
        (Some("Unordered"), json!({ "value": "1" }), EnvValue::Plain("1")),
        (Some("ordered"), json!({ "value": "1" }), EnvValue::Plain("1")),
        (Some(""), json!({ "value": "1" }), EnvValue::Plain("1")),
    ];
    for (annotation, mut entry, env) in plain.chain(others) {
        entry["name"] = CONTAINER_PRIORITY.into();
        // An earlier entry of the same name does not count.
        let earlier = json!({ "name": CONTAINER_PRIORITY, "value": "7" });
        let mut object = pod("judged", json!([{ "name": "OTHER", "value": "x" }, earlier, entry]));
        if let Some(value) = annotation {
            object["metadata"]["annotations"][LAUNCH_PRIORITY] = value.into();
        }
        let params = PostParams { dry_run: true, ..Default::default() };
        let outcome = pods.create(&params, &serde_json::from_value(object.clone())?).await;
        match (of_node(annotation, env), outcome) {
            (Ok(()), Ok(_)) => {}
            (Err(reason), Err(kube::Error::Api(refusal))) => {
                ensure!(
                    refusal.message.ends_with(&format!("denied request: {reason}")),
                    "{reason}\n{refusal:?}"
                );
            }
            (of_node, outcome) => anyhow::bail!("{object}: node {of_node:?}, policy {outcome:?}"),
        }
    }
    Ok(())
}

fn pod(name: &str, env: Value) -> Value {
    json!({
        "metadata": { "name": name, "annotations": {} },
        "spec": { "containers": [
            { "name": "a", "image": "registry.example/a" },
            { "name": "b", "image": "registry.example/b", "env": env },
        ] }
    })
}

#[tokio::test]
async fn what_openkruise_fills_in_is_refused_from_users() -> Result<()> {
    let client = centre().await?.client().await?;
    namespace(&client, "policies-requests").await?;
    let filled = [
        ("preStop", json!({ "exec": { "command": ["true"] } })),
        ("ports", json!([{ "containerPort": 80 }])),
        ("statusContext", json!({ "containerID": "containerd://1", "restartCount": 0 })),
    ];
    for (field, value) in filled {
        let mut container = json!({ "name": "b" });
        container[field] = value;
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ContainerRecreateRequest",
            "metadata": { "namespace": "policies-requests", "name": "filled" },
            "spec": { "podName": "p", "containers": [{ "name": "a" }, container] },
        }))?;
        let refused = deploy::api(&client, &object)?.create(&PostParams::default(), &object).await;
        let Err(kube::Error::Api(status)) = refused else { anyhow::bail!("{field}: {refused:?}") };
        let named = status.message.contains(field) && status.message.contains("container \"b\"");
        ensure!(named && status.message.contains("leave them out"), "{field}: {status:?}");
    }
    Ok(())
}
