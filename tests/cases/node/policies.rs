//! The admission policies of `deploy/policies`: the server finds no fault in them, and they refuse what the
//! node would refuse later, in the words of the node.

mod keys;
mod rights;
mod updates;

use anyhow::{Context, Result, bail, ensure};
use berth_policy::launch_priority::{EnvValue, LaunchOrder, OrderError};
use berth_proto::crd::PodProbeMarker;
use berth_tests::manifest::{CONTAINER_PRIORITY, LAUNCH_PRIORITY};
use berth_tests::node::tool::run as tool;
use berth_tests::node::{User, deploy, programs};
use berth_tests::wait::{START_UP, await_condition};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::api_server::{api_server, namespace, namespace_with};

#[tokio::test]
async fn expressions_fit_the_types() -> Result<()> {
    let client = api_server().await?.client().await?;
    deploy::apply(&client, "protection").await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client);
    let mut names = deploy::objects("policies")?;
    names.extend(deploy::objects("protection")?);
    let names = names.iter().filter(|object| {
        object.types.as_ref().is_some_and(|types| types.kind == "ValidatingAdmissionPolicy")
    });
    for name in names.map(ResourceExt::name_any) {
        await_condition(format!("{name} is checked"), START_UP, async || {
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

/// All of it, as the README installs it; tried only, since nothing here would run the pods.
#[tokio::test]
async fn the_whole_folder_is_accepted() -> Result<()> {
    let kubectl = programs::kubernetes("kubectl")?;
    let kubeconfig = api_server().await?.api().kubeconfig(User::Admin)?;
    let (kubectl, kubeconfig) =
        (kubectl.display().to_string(), format!("--kubeconfig={}", kubeconfig.display()));
    let folder = deploy::path("").display().to_string();
    let apply =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", &folder, &kubeconfig];
    let said = tool(&kubectl, &apply).await?;
    for applied in ["deployment.apps/berth-manager", "daemonset.apps/berth-agent", "configmap/berth-agent"] {
        ensure!(said.contains(applied), "no {applied} in {said}");
    }
    Ok(())
}

/// The choice of cert-manager, as its file says: the manager only reads the Secret, which is not ours to
/// make.
#[tokio::test]
async fn the_certificate_may_be_of_cert_manager() -> Result<()> {
    let kubectl = programs::kubernetes("kubectl")?.display().to_string();
    let folder = tempfile::tempdir()?;
    // A kustomization names folders from its own.
    let up = "../".repeat(folder.path().components().count() - 1);
    let deploy = format!("{up}{}", deploy::path("").canonicalize()?.display());
    let kustomization = json!({ "resources": [deploy], "components": [format!("{deploy}/cert-manager")] });
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string())?;
    let made = tool(&kubectl, &["kustomize", &folder.path().display().to_string()]).await?;
    ensure!(made.contains("- --admission-certificates=secret"), "the manager makes its own certificate");
    ensure!(made.contains("secretName: berth-manager-admission"), "nobody makes the Secret");
    ensure!(!made.contains("kind: Secret\n"), "a Secret of ours overwrites that of cert-manager");
    Ok(())
}

/// Each by itself, in a namespace of its own; tried only, as above.
#[tokio::test]
async fn the_samples_are_accepted() -> Result<()> {
    let client = api_server().await?.client().await?;
    // As the samples say.
    let keys = "gameserver-idle,controller.kubernetes.io/pod-deletion-cost,example.com/app-config";
    namespace_with(&client, "policies-samples", json!({ "berth.dev/agent-labels": keys })).await?;
    let params = PatchParams { dry_run: true, ..PatchParams::apply("kubectl").validation_strict() };
    for mut object in deploy::objects("samples")? {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        // These are in no namespace.
        if !["SidecarSet", "ResourceDistribution"].contains(&kind) {
            object.metadata.namespace = Some("policies-samples".to_owned());
        }
        let name = object.name_any();
        let tried = deploy::api(&client, &object)?.patch(&name, &params, &Patch::Apply(&object)).await;
        tried.with_context(|| name)?;
    }
    Ok(())
}

/// A namespace where agents may write every label and annotation that is nobody's.
fn all_keys() -> Value {
    json!({ "berth.dev/agent-labels": "*" })
}

/// Returns the judgement of the node on a pod whose container `b` has this env.
fn of_node(annotation: Option<&str>, env: EnvValue<'_>) -> Result<(), OrderError> {
    LaunchOrder::declared(annotation, [("a", None), ("b", Some(env))]).map(drop)
}

#[tokio::test]
async fn a_launch_order_is_judged_as_on_the_node() -> Result<()> {
    let client = api_server().await?.client().await?;
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
            (of_node, outcome) => bail!("{object}: node {of_node:?}, policy {outcome:?}"),
        }
    }
    // One container alone has no order, whatever it declares.
    let mut alone = pod("alone", json!([{ "name": CONTAINER_PRIORITY, "value": "high" }]));
    alone["metadata"]["annotations"][LAUNCH_PRIORITY] = "Unordered".into();
    alone["spec"]["containers"].as_array_mut().context("containers")?.remove(0);
    let params = PostParams { dry_run: true, ..Default::default() };
    pods.create(&params, &serde_json::from_value(alone)?).await.context("a pod with one container")?;
    Ok(())
}

/// The cases that the manager is held to.
const MARKERS: &str = include_str!("../../../proto/tests/markers.json");

/// Checks that the policy refuses everything that the schema has not refused, with the field and the remedy
/// the manager would name.
#[tokio::test]
async fn a_probe_marker_is_judged_as_by_the_manager() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace_with(&client, "policies-markers", all_keys()).await?;
    let markers: Api<DynamicObject> =
        Api::namespaced_with(client, "policies-markers", &ApiResource::erase::<PodProbeMarker>(&()));
    let cases: Value = serde_json::from_str(MARKERS)?;
    let params = PostParams { dry_run: true, ..Default::default() };
    let judge = async |case: &Value| {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker",
            "metadata": { "name": "judged" }, "spec": case["spec"],
        });
        anyhow::Ok(markers.create(&params, &serde_json::from_value(object)?).await)
    };
    for case in cases["refused"].as_array().context("cases")? {
        match judge(case).await? {
            Err(kube::Error::Api(refusal)) if refusal.message.contains("berth-probe-markers") => {
                let field = format!("spec.{}", case["field"].as_str().context("a field")?);
                let says = case["says"].as_str().context("a remedy")?;
                let named = refusal.message.contains(&field) && refusal.message.contains(says);
                ensure!(named, "{case}: {}", refusal.message);
            }
            Err(kube::Error::Api(refusal)) if refusal.code == 422 => {}
            outcome => bail!("{case}: {outcome:?}"),
        }
    }
    for case in cases["accepted"].as_array().context("cases")? {
        judge(case).await?.with_context(|| case["case"].to_string())?;
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

/// Checks a pod that is nearly as large as an object can be: the cost of an expression is limited, and a
/// policy that costs more refuses.
#[tokio::test]
async fn a_huge_pod_is_accepted() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace(&client, "policies-huge").await?;
    let pods: Api<Pod> = Api::namespaced(client, "policies-huge");
    let entry = |number| json!({ "name": format!("VARIABLE_{number}"), "value": "some value" });
    let container = |number| {
        let mut env: Vec<Value> = (0..500).map(entry).collect();
        env.push(json!({ "name": CONTAINER_PRIORITY, "value": "1" }));
        json!({ "name": format!("c{number}"), "image": "registry.example/c", "env": env })
    };
    let containers: Vec<Value> = (0..40).map(container).collect();
    let object = json!({ "metadata": { "name": "huge" }, "spec": { "containers": containers } });
    let params = PostParams { dry_run: true, ..Default::default() };
    pods.create(&params, &serde_json::from_value(object)?).await.context("a huge pod")?;
    Ok(())
}

#[tokio::test]
async fn what_openkruise_fills_in_is_refused_from_users() -> Result<()> {
    let client = api_server().await?.client().await?;
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
        let Err(kube::Error::Api(status)) = refused else { bail!("{field}: {refused:?}") };
        let named = status.message.contains(field) && status.message.contains("container \"b\"");
        ensure!(named && status.message.contains("leave them out"), "{field}: {status:?}");
    }
    Ok(())
}
