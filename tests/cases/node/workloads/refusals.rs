//! The schema of the workloads: its refusals, and what it fills in as OpenKruise's webhook does.

use anyhow::{Context, Result, ensure};
use berth_tests::node::deploy;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::api_server::{api_server, namespace};

const NAMESPACE: &str = "workload-kinds";

/// A set of a kind with a change.
fn set(kind: &str, change: &Value) -> Result<DynamicObject> {
    let version = if kind == "StatefulSet" { "v1beta1" } else { "v1alpha1" };
    let mut spec = json!({
        "selector": { "matchLabels": { "app": "a" } },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] } },
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    Ok(serde_json::from_value(json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": kind,
        "metadata": { "namespace": NAMESPACE, "name": "a" }, "spec": spec,
    }))?)
}

fn rolling(change: &Value) -> Value {
    json!({ "updateStrategy": { "rollingUpdate": change } })
}

#[tokio::test]
async fn workloads_that_make_no_sense_are_refused_by_field() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, NAMESPACE).await?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let create = async |kind: &str, change: &Value| {
        let object = set(kind, change)?;
        anyhow::Ok(deploy::api(&client, &object)?.create(&dry, &object).await)
    };
    let other = json!({ "matchLabels": { "app": "b" } });
    let both = json!({
        "orderPriority": [{ "orderedKey": "a" }],
        "weightPriority": [{ "weight": 1, "matchSelector": { "matchLabels": { "a": "b" } } }],
    });
    let template = |field: &str, value: Value| {
        let mut template = json!({
            "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] },
        });
        template["spec"][field] = value;
        json!({ "template": template })
    };
    let mut refusals = vec![
        ("StatefulSet", json!({ "replicas": -1 }), "spec.replicas"),
        ("StatefulSet", json!({ "reserveOrdinals": [-1] }), "spec.reserveOrdinals"),
        ("StatefulSet", json!({ "podManagementPolicy": "parallel" }), "neither OrderedReady nor Parallel"),
        ("StatefulSet", rolling(&json!({ "podUpdatePolicy": "InPlace" })), "podUpdatePolicy is none of"),
        ("StatefulSet", rolling(&json!({ "minReadySeconds": 301 })), "minReadySeconds"),
        ("StatefulSet", rolling(&json!({ "maxUnavailable": 0 })), "give at least 1"),
        ("StatefulSet", rolling(&json!({ "maxUnavailable": "many" })), "maxUnavailable is neither a number"),
        ("StatefulSet", rolling(&json!({ "unorderedUpdate": {} })), "unorderedUpdate goes with"),
        (
            "StatefulSet",
            json!({ "scaleStrategy": { "maxUnavailable": 2 } }),
            "scaleStrategy.maxUnavailable goes with",
        ),
        (
            "StatefulSet",
            json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Keep" } }),
            "Retain or Delete",
        ),
        ("DaemonSet", json!({ "burstReplicas": "all" }), "burstReplicas is neither a number"),
        ("DaemonSet", json!({ "minReadySeconds": -1 }), "spec.minReadySeconds"),
        ("DaemonSet", rolling(&json!({ "rollingUpdateType": "Fast" })), "rollingUpdateType is none of"),
        ("DaemonSet", rolling(&json!({ "maxUnavailable": 1, "maxSurge": 1 })), "both 0, or neither"),
        ("DaemonSet", rolling(&json!({ "maxUnavailable": 0, "maxSurge": "0%" })), "both 0, or neither"),
        (
            "DaemonSet",
            rolling(&json!({ "rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1, "maxUnavailable": 0 })),
            "maxSurge goes not with",
        ),
        (
            "DaemonSet",
            rolling(&json!({ "rollingUpdateType": "Surging", "maxUnavailable": 1 })),
            "maxUnavailable goes not with",
        ),
        ("DaemonSet", json!({ "lifecycle": { "inPlaceUpdate": {} } }), "leave inPlaceUpdate out"),
        ("CloneSet", json!({ "updateStrategy": { "partition": "half" } }), "partition is neither a number"),
        ("CloneSet", json!({ "updateStrategy": { "maxUnavailable": 0 } }), "are both 0, so no pod"),
        (
            "CloneSet",
            json!({ "scaleStrategy": { "maxUnavailable": "many" } }),
            "maxUnavailable is neither a number",
        ),
        (
            "CloneSet",
            json!({ "scaleStrategy": { "podsToDelete": ["a-1", "a-1"] } }),
            "podsToDelete[1]: Duplicate",
        ),
        (
            "CloneSet",
            json!({ "updateStrategy": { "scatterStrategy": [
                { "key": "zone", "value": "a" }, { "key": "zone", "value": "b" }, { "key": "zone", "value": "a" },
            ] } }),
            "scatterStrategy[2]: Duplicate",
        ),
        (
            "CloneSet",
            json!({ "updateStrategy": { "priorityStrategy": both } }),
            "has both orderPriority and weightPriority",
        ),
        (
            "StatefulSet",
            json!({
                "podManagementPolicy": "Parallel",
                "updateStrategy": { "rollingUpdate": { "unorderedUpdate": { "priorityStrategy": both } } },
            }),
            "has both orderPriority and weightPriority",
        ),
        ("StatefulSet", json!({ "reserveOrdinals": [1, "many"] }), "neither a number nor a range"),
        ("StatefulSet", json!({ "reserveOrdinals": ["7-3"] }), "a range that ends before it begins"),
        ("StatefulSet", json!({ "ordinals": { "start": 2_000_000_001 } }), "spec.ordinals.start"),
        (
            "DaemonSet",
            rolling(&json!({ "maxUnavailable": "101%" })),
            "neither a number nor a share up to 100%",
        ),
        (
            "DaemonSet",
            rolling(&json!({ "maxUnavailable": 0, "maxSurge": "100.5%" })),
            "neither a number nor a share up to 100%",
        ),
    ];
    for kind in ["CloneSet", "DaemonSet", "StatefulSet"] {
        refusals.push((kind, json!({ "selector": {} }), "selector selects all pods"));
        refusals.push((kind, template("restartPolicy", "Never".into()), "restartPolicy is not Always"));
        refusals.push((
            kind,
            template("activeDeadlineSeconds", 5.into()),
            "activeDeadlineSeconds would end pods",
        ));
        refusals.push((kind, json!({ "selector": other }), "are not those of selector"));
        refusals.push((kind, json!({ "updateStrategy": { "type": "Now" } }), "give one of them"));
    }
    for (kind, change, says) in refusals {
        match create(kind, &change).await? {
            Ok(_) => anyhow::bail!("{kind} {change} was accepted"),
            Err(kube::Error::Api(status)) => {
                ensure!(
                    status.code == 422 && status.message.contains(says),
                    "{kind} {change}: {}",
                    status.message
                );
            }
            Err(error) => return Err(error).with_context(|| format!("{kind} {change}")),
        }
    }
    let accepted = [
        ("StatefulSet", rolling(&json!({ "partition": 3, "maxUnavailable": "25%" }))),
        (
            "StatefulSet",
            json!({ "podManagementPolicy": "Parallel", "scaleStrategy": { "maxUnavailable": "10%" } }),
        ),
        ("StatefulSet", json!({ "updateStrategy": { "type": "OnDelete" } })),
        ("DaemonSet", rolling(&json!({ "rollingUpdateType": "Surging" }))),
        ("DaemonSet", rolling(&json!({ "maxSurge": "30%", "maxUnavailable": 0, "partition": 7 }))),
        (
            "CloneSet",
            json!({ "updateStrategy": { "partition": "99.5%", "maxUnavailable": 0, "maxSurge": 1 } }),
        ),
        ("CloneSet", json!({ "replicas": 0, "updateStrategy": { "maxUnavailable": 0 } })),
        ("CloneSet", template("restartPolicy", "Always".into())),
        ("CloneSet", json!({ "updateStrategy": { "maxUnavailable": "150%" } })),
        ("DaemonSet", rolling(&json!({ "maxUnavailable": "100.0%" }))),
    ];
    for (kind, change) in accepted {
        create(kind, &change).await?.with_context(|| format!("{kind} {change}"))?;
    }
    // As OpenKruise's webhook fills it in.
    let made = create("StatefulSet", &json!({})).await??;
    let strategy = json!({
        "type": "RollingUpdate",
        "rollingUpdate": { "partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0 },
    });
    ensure!(made.data["spec"]["updateStrategy"] == strategy, "{}", made.data["spec"]);
    ensure!(made.data["spec"]["podManagementPolicy"] == "OrderedReady", "{}", made.data["spec"]);
    let made = create("DaemonSet", &json!({})).await??;
    let strategy = json!({
        "type": "RollingUpdate",
        "rollingUpdate": { "partition": 0, "maxUnavailable": 1, "maxSurge": 0, "rollingUpdateType": "Standard" },
    });
    ensure!(made.data["spec"]["updateStrategy"] == strategy, "{}", made.data["spec"]);
    ensure!(made.data["spec"]["burstReplicas"] == 250, "{}", made.data["spec"]);
    Ok(())
}

#[tokio::test]
async fn numbers_of_subsets_that_make_no_sense_are_refused_by_field() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "subset-numbers").await?;
    let united = |topology: &Value| -> Result<DynamicObject> {
        let metadata = json!({ "labels": { "app": "a" } });
        let pods = json!({ "metadata": metadata, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
        Ok(serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
            "metadata": { "namespace": "subset-numbers", "name": "a" },
            "spec": {
                "replicas": 4, "selector": { "matchLabels": { "app": "a" } },
                "template": { "deploymentTemplate": { "metadata": metadata, "spec": { "template": pods } } },
                "topology": topology,
            },
        }))?)
    };
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let subsets = |first: Value, second: Value| {
        let mut all = [first, second];
        all.iter_mut().zip(["a", "b"]).for_each(|(one, name)| one["name"] = name.into());
        json!({ "subsets": all })
    };
    let refused = [
        (subsets(json!({ "minReplicas": "half" }), json!({})), "minReplicas is neither a number nor a share"),
        (subsets(json!({ "maxReplicas": "101%" }), json!({})), "maxReplicas is neither a number nor a share"),
        (subsets(json!({ "minReplicas": -1 }), json!({})), "subsets[0].minReplicas"),
        (subsets(json!({ "minReplicas": 1 }), json!({ "replicas": 1 })), "only the one or only the other"),
        (subsets(json!({ "minReplicas": 1, "replicas": 1 }), json!({})), "only the one or only the other"),
        (subsets(json!({ "maxReplicas": 4 }), json!({ "maxReplicas": "50%" })), "all have maxReplicas"),
        (subsets(json!({ "minReplicas": 3, "maxReplicas": "50%" }), json!({})), "less than its minReplicas"),
        (
            json!({ "subsets": [], "scheduleStrategy": { "type": "Adaptive" } }),
            "topology.scheduleStrategy.type",
        ),
    ];
    for (topology, says) in refused {
        let object = united(&topology)?;
        match deploy::api(&client, &object)?.create(&dry, &object).await {
            Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains(says) => {}
            other => anyhow::bail!("{topology}: {other:?}"),
        }
    }
    let accepted = [
        subsets(json!({ "minReplicas": 2, "maxReplicas": "50%" }), json!({ "minReplicas": "100%" })),
        subsets(json!({ "maxReplicas": 0 }), json!({})),
        json!({ "subsets": [], "scheduleStrategy": { "type": "Fixed", "adaptive": { "unschedulableDuration": 300 } } }),
    ];
    for topology in accepted {
        let object = united(&topology)?;
        let made = deploy::api(&client, &object)?.create(&dry, &object).await;
        let made = made.with_context(|| topology.to_string())?;
        ensure!(made.data["spec"]["topology"] == topology, "{}", made.data["spec"]["topology"]);
    }
    Ok(())
}
