//! Rights: only those may ask the agent for something in its own name who could do it themselves.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{ContainerRecreateRequest, PodProbeMarker};
use berth_tests::manifest::probe;
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::updates::asked;
use crate::api_server::{api_server, namespace_with};
use crate::case::PATIENCE;

/// A client that acts as the account `user` of a namespace, both of which are made.
async fn user(home: &str) -> Result<Client> {
    let api_server = api_server().await?;
    let client = api_server.client().await?;
    namespace_with(&client, home, json!({ "berth.dev/agent-labels": "a" })).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, home);
    let account = serde_json::from_value(json!({ "metadata": { "name": "user" } }))?;
    accounts.create(&PostParams::default(), &account).await.context("make an account")?;
    let token =
        accounts.create_token_request("user", &PostParams::default(), &TokenRequest::default()).await?;
    api_server.api().client_with(home, &token.status.context("a token without a status")?.token).await
}

/// The agent patches the pod in its own name, so the right to patch it is asked of who makes the request.
#[tokio::test]
async fn who_updates_a_pod_must_be_allowed_to_patch_it() -> Result<()> {
    const HOME: &str = "policies-updates-by";
    let client = api_server().await?.client().await?;
    let user = user(HOME).await?;
    let ask = async |pod: &str| -> Result<String> {
        Ok(
            match asked(&user, HOME, &json!({ "podName": pod, "metadata": { "labels": { "a": "b" } } }))
                .await?
            {
                Ok(_) => "taken".to_owned(),
                Err(kube::Error::Api(status)) if status.code == 403 => status.message.clone(),
                Err(error) => bail!("{pod}: {error:?}"),
            },
        )
    };
    let mine =
        json!({ "apiGroups": ["berth.dev"], "resources": ["containerupdaterequests"], "verbs": ["create"] });
    let see = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "update", "delete"] });
    let patch =
        json!({ "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["patch"] });
    let elsewhere = json!({ "apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"] });
    let refused = |pod: &str| {
        format!(
            "spec.podName: system:serviceaccount:{HOME}:user may not patch pod {HOME}/{pod}, which the request would \
             change: get a role with the verb patch on this pod"
        )
    };
    // The rules are one longer each time, and what they say of the two pods.
    let rules = [mine, see, elsewhere, patch];
    let rows = [
        (1, refused("p"), refused("q")),
        (3, refused("p"), refused("q")),
        (4, "taken".to_owned(), refused("q")),
    ];
    for (count, of_p, of_q) in rows {
        let role = json!({ "metadata": { "name": "user" }, "rules": rules[..count] });
        grant(&client, HOME, role).await?;
        await_condition(format!("{count} rules hold"), PATIENCE, async || {
            for (pod, expected) in [("p", &of_p), ("q", &of_q)] {
                let said = ask(pod).await?;
                ensure!(said.ends_with(expected), "{pod} with {count} rules: {said}");
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The agent runs the command and patches the pod and its status in its own name, so these rights are asked
/// of who makes or changes a marker.
#[tokio::test]
async fn who_makes_a_marker_must_be_allowed_what_it_does() -> Result<()> {
    const HOME: &str = "policies-markers-by";
    let client = api_server().await?.client().await?;
    let user = user(HOME).await?;
    let marker = |name: &str, probe: Value| -> Result<PodProbeMarker> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "app": "a" } },
                "probes": [{
                    "name": "p", "containerName": "a", "probe": probe, "podConditionType": "example.com/p",
                }],
            },
        }))?)
    };
    let exec = || marker("exec", probe("true"));
    let http = || marker("http", json!({ "httpGet": { "port": 80, "path": "/" } }));
    let label = || -> Result<PodProbeMarker> {
        let mut marker = marker("label", json!({ "tcpSocket": { "port": 80 } }))?;
        let policy = json!([{ "state": "Succeeded", "labels": { "a": "b" } }]);
        marker.spec.probes[0].marker_policy = serde_json::from_value(policy)?;
        marker.spec.probes[0].pod_condition_type = None;
        Ok(marker)
    };
    // There is one already, of somebody who may.
    let theirs: Api<PodProbeMarker> = Api::namespaced(client.clone(), HOME);
    theirs.create(&PostParams::default(), &marker("old", json!({ "tcpSocket": { "port": 80 } }))?).await?;

    let own: Api<PodProbeMarker> = Api::namespaced(user, HOME);
    let said = |outcome: kube::Result<PodProbeMarker>| -> Result<String> {
        match outcome {
            Ok(_) => Ok("taken".to_owned()),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
            Err(error) => Err(error).context("neither taken nor refused"),
        }
    };
    let (dry_post, dry_patch) = (
        PostParams { dry_run: true, ..Default::default() },
        PatchParams { dry_run: true, ..Default::default() },
    );
    let change = json!({ "spec": { "probes": exec()?.spec.probes } });
    let relabel = json!({ "metadata": { "labels": { "a": "b" } } });

    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    let markers = rule("apps.kruise.io", "podprobemarkers", &["get", "create", "patch"]);
    let near = rule("", "pods", &["get", "list", "update", "delete"]);
    let run = rule("", "pods/exec", &["create"]);
    let patch = rule("", "pods", &["patch"]);
    let status = rule("", "pods/status", &["patch"]);
    const RUN: &str = "you must be allowed to create pods/exec in it";
    const PATCH: &str = "you must be allowed to patch pods in it";
    const STATUS: &str = "you must be allowed to patch pods/status in it";
    // The rules, and what is said of a marker that runs a command, of one that does not, of one that writes a
    // label only, and of the one there is when it is to run a command. The first three write conditions but
    // for the third.
    let rows = [
        (vec![&markers, &near], RUN, STATUS, PATCH, RUN),
        (vec![&markers, &run], STATUS, STATUS, PATCH, STATUS),
        (vec![&markers, &patch], RUN, STATUS, "taken", RUN),
        (vec![&markers, &status], RUN, "taken", PATCH, RUN),
        (vec![&markers, &run, &status], "taken", "taken", PATCH, "taken"),
    ];
    for (rules, of_exec, of_http, of_label, of_change) in rows {
        grant(&client, HOME, json!({ "metadata": { "name": "user" }, "rules": rules })).await?;
        await_condition(format!("{rules:?} hold"), PATIENCE, async || {
            let new = said(own.create(&dry_post, &exec()?).await)?;
            ensure!(new.ends_with(of_exec), "exec: {new}");
            let new = said(own.create(&dry_post, &http()?).await)?;
            ensure!(new.ends_with(of_http), "http: {new}");
            let new = said(own.create(&dry_post, &label()?).await)?;
            ensure!(new.ends_with(of_label), "label: {new}");
            let changed = said(own.patch("old", &dry_patch, &Patch::Merge(&change)).await)?;
            ensure!(changed.ends_with(of_change), "change: {changed}");
            // What does not change what is done needs no right to do it.
            let relabelled = said(own.patch("old", &dry_patch, &Patch::Merge(&relabel)).await)?;
            ensure!(relabelled == "taken", "label: {relabelled}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The agent stops containers in its own name, so the right to delete the pod is asked of who makes the
/// request; or that right which `deploy/requests-by-create` gives to everybody, here to one in one namespace.
#[tokio::test]
async fn who_recreates_containers_must_be_allowed_to_delete_the_pod() -> Result<()> {
    const HOME: &str = "policies-requests-by";
    let client = api_server().await?.client().await?;
    let user = user(HOME).await?;
    let own: Api<ContainerRecreateRequest> = Api::namespaced(user, HOME);
    let dry = PostParams { dry_run: true, ..Default::default() };
    let ask = async |pod: &str| -> Result<String> {
        let request = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": "judged" },
            "spec": { "podName": pod, "containers": [{ "name": "a" }] },
        }))?;
        match own.create(&dry, &request).await {
            Ok(_) => Ok("taken".to_owned()),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
            Err(error) => Err(error).context("neither taken nor refused"),
        }
    };
    let rule = |group: &str, resource: &str, verb: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
    let mine = rule("apps.kruise.io", "containerrecreaterequests", "create");
    let near =
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch", "update", "create"] });
    let delete =
        json!({ "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["delete"] });
    let unchecked = deploy::objects("requests-by-create")?;
    let unchecked = unchecked.first().context("no role")?.data["rules"][0].clone();
    let refused = |pod: &str| {
        format!(
            "spec.podName: system:serviceaccount:{HOME}:user may not delete pod {HOME}/{pod}, whose containers the request \
             would stop: get a role with the verb delete on this pod, or be bound to the ClusterRole of \
             deploy/requests-by-create"
        )
    };
    let rows = [
        (vec![&mine, &near], refused("p"), refused("q")),
        (vec![&mine, &near, &delete], "taken".to_owned(), refused("q")),
        (vec![&mine, &unchecked], "taken".to_owned(), "taken".to_owned()),
    ];
    for (rules, of_p, of_q) in rows {
        grant(&client, HOME, json!({ "metadata": { "name": "user" }, "rules": rules })).await?;
        await_condition(format!("{rules:?} hold"), PATIENCE, async || {
            for (pod, expected) in [("p", &of_p), ("q", &of_q)] {
                let said = ask(pod).await?;
                ensure!(said.ends_with(expected), "{pod}: {said}");
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Gives the account `user` of a namespace this role and no other.
async fn grant(client: &Client, namespace: &str, role: Value) -> Result<()> {
    let binding = json!({
        "metadata": { "name": "user" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": "user" }],
    });
    for (kind, mut object) in [("Role", role), ("RoleBinding", binding)] {
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object["kind"] = kind.into();
        object["metadata"]["namespace"] = namespace.into();
        deploy::apply_object(client, &serde_json::from_value(object)?).await?;
    }
    Ok(())
}
