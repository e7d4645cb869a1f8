//! The webhook configurations that the manager may write, tried with its own credential: everything
//! but what it needs is refused, each for its own reason.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::scene::{CONFIGURATION, Scene};

#[tokio::test]
async fn a_stolen_manager_turns_no_webhook_elsewhere() -> Result<()> {
    let scene = Scene::set("admission-policy").await?;
    // It would put everything right at once.
    scene.first.service().kill()?;
    let kubeconfig = Kubeconfig::read_from(&scene.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let thief: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let given = thief.get(CONFIGURATION).await?;
    let hook = json!({
        "name": "x.sidecarset.berth.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "service": { "namespace": "berth-system", "name": "berth-manager", "path": "/mutate/pods" } },
        "failurePolicy": "Ignore",
        "namespaceSelector": { "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "berth-system"] }] },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"] }],
    });
    let with = |at: &str, value: Value| {
        let mut hook = hook.clone();
        *hook.pointer_mut(at).expect("a field of the hook") = value;
        hook
    };
    let rule = |group: &str, resource: &str, operation: &str| json!([{ "apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": [operation] }]);
    let namespaces = |operator: &str, values: &[&str]| json!([{ "key": "kubernetes.io/metadata.name", "operator": operator, "values": values }]);
    let mut without_rules = hook.clone();
    without_rules.as_object_mut().context("no object")?.remove("rules");
    let service = "every webhook of the manager is the service berth-system/berth-manager";
    let rules = "a webhook of the manager is for new pods, SidecarSets or ContainerRecreateRequests";
    let left_out = "no webhook of the manager takes in the namespaces kube-system and berth-system";
    let expressions = "/namespaceSelector/matchExpressions";
    let attempts = [
        (with("/clientConfig", json!({ "url": "https://thief.example/" })), service),
        (with("/clientConfig/service/name", "thief".into()), service),
        (with("/clientConfig/service/namespace", "default".into()), service),
        (with("/rules", rule("", "secrets", "CREATE")), rules),
        (with("/rules", rule("", "pods", "UPDATE")), rules),
        (with("/rules", rule("", "pods", "*")), rules),
        (with("/rules", rule("", "pods/exec", "CREATE")), rules),
        (with("/rules", rule("", "namespaces", "DELETE")), rules),
        (with("/rules", rule("", "*", "CREATE")), rules),
        (with("/rules", rule("*", "pods", "CREATE")), rules),
        (with("/rules", rule("apps", "deployments", "CREATE")), rules),
        (with("/rules", rule("apps.kruise.io", "nodeimages/status", "UPDATE")), rules),
        (with("/rules", rule("apps.kruise.io", "sidecarsets/status", "UPDATE")), rules),
        (with("/rules", rule("apps.kruise.io", "sidecarsets", "DELETE")), rules),
        (without_rules.clone(), rules),
        (with("/rules", rule("rbac.authorization.k8s.io", "clusterroles", "CREATE")), rules),
        (with(expressions, json!([])), left_out),
        (with("/namespaceSelector", json!({})), left_out),
        (
            with("/namespaceSelector", json!({ "matchLabels": { "kubernetes.io/metadata.name": "n" } })),
            left_out,
        ),
        (with(expressions, namespaces("NotIn", &["kube-system"])), left_out),
        (with(expressions, namespaces("NotIn", &["berth-system"])), left_out),
        (with(expressions, namespaces("In", &["default", "kube-system"])), left_out),
        (with(expressions, namespaces("In", &["berth-system"])), left_out),
        (
            with(expressions, json!([{ "key": "kubernetes.io/metadata.name", "operator": "Exists" }])),
            left_out,
        ),
        (
            with(
                expressions,
                json!([{ "key": "other", "operator": "NotIn", "values": ["kube-system", "berth-system"] }]),
            ),
            left_out,
        ),
    ];
    let count = attempts.len();
    let hooks = |value: Value| -> Result<_> { Ok(Some(serde_json::from_value(json!([hook, value]))?)) };
    for (mut attempt, because) in attempts {
        attempt["name"] = "thief.sidecarset.berth.dev".into();
        let said = attempt.to_string();
        let tried = MutatingWebhookConfiguration { webhooks: hooks(attempt)?, ..given.clone() };
        let refused = thief.replace(CONFIGURATION, &PostParams::default(), &tried).await;
        let Err(kube::Error::Api(status)) = refused else { bail!("{said} was accepted") };
        ensure!(status.message.contains(because), "{said}: {status:?}");
    }
    println!("{count} attempts, all refused");
    // What it needs is let through.
    let webhooks = Some(vec![serde_json::from_value(hook.clone())?]);
    let own = MutatingWebhookConfiguration { webhooks, ..given };
    thief.replace(CONFIGURATION, &PostParams::default(), &own).await.context("what it needs")?;

    // The entries that only judge.
    let thief: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let attempts = [
        (with("/clientConfig", json!({ "url": "https://thief.example/" })), service),
        (without_rules, rules),
        (with("/rules", rule("", "pods", "CREATE")), rules),
        (with("/rules", rule("", "pods/exec", "CONNECT")), rules),
        (with("/rules", rule("", "secrets", "DELETE")), rules),
        (with("/rules", rule("", "namespaces", "UPDATE")), rules),
        (with("/rules", rule("apiextensions.k8s.io", "customresourcedefinitions", "UPDATE")), rules),
        (with("/rules", rule("apps.kruise.io", "clonesets", "UPDATE")), rules),
    ];
    for (mut attempt, because) in attempts {
        attempt["name"] = "thief.sidecarset.berth.dev".into();
        let refused = judged_by(&thief, &attempt).await?;
        ensure!(refused.contains(because), "{attempt}: {refused:?}");
    }
    let mut everywhere = with("/rules", rule("", "pods", "DELETE"));
    let own = judged_by(&thief, &everywhere).await?;
    ensure!(own.is_empty(), "what it needs: {own}");
    everywhere["namespaceSelector"] = json!({});
    let refused = judged_by(&thief, &everywhere).await?;
    ensure!(refused.contains(left_out), "{refused:?}");
    Ok(())
}

/// Writes this as the only entry that judges. Returns why that was refused; nothing where it was not.
async fn judged_by(thief: &Api<ValidatingWebhookConfiguration>, hook: &Value) -> Result<String> {
    let given = thief.get(CONFIGURATION).await?;
    let webhooks = Some(vec![serde_json::from_value(hook.clone())?]);
    let tried = ValidatingWebhookConfiguration { webhooks, ..given };
    match thief.replace(CONFIGURATION, &PostParams::default(), &tried).await {
        Ok(_) => Ok(String::new()),
        Err(kube::Error::Api(status)) => Ok(status.message.clone()),
        Err(error) => Err(error.into()),
    }
}
