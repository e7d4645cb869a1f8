//! The token of the agent's service account, by the real TokenRequest API.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_tests::node::{NODE_NAME, User};
use berth_tests::wait::await_condition;
use berthd::cluster::identity::{IdentityState, Who};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::side::{Side, apply, namespaced};
use crate::case::{Case, PATIENCE, run};

const ACCOUNT: &str =
    "cluster:\n  serviceAccount: {namespace: NAMESPACE, name: agent, tokenFile: DIR/token}\n";

/// Patience that outlasts the minute or so after which a deleted pod's token is refused, and the half minute
/// after which a pod is looked for again.
const LONG: Duration = Duration::from_secs(300);

/// The service account, with the right to ask for tokens for itself and nothing else.
async fn account(case: &Case, client: &Client) -> Result<String> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "agent" } });
    apply(&namespaced(case, client), serde_json::from_value::<ServiceAccount>(account)?).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "agent" },
        "rules": [{ "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["agent"], "verbs": ["create"] }],
    });
    apply(&namespaced(case, client), serde_json::from_value::<Role>(role)?).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "agent" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent" },
        "subjects": [{ "kind": "ServiceAccount", "name": "agent", "namespace": case.namespace }],
    });
    apply(&namespaced(case, client), serde_json::from_value::<RoleBinding>(binding)?).await?;
    Ok(ACCOUNT.replace("NAMESPACE", &case.namespace))
}

/// A token bound to this node, with the shortest life there is.
async fn token(case: &Case, client: &Client) -> Result<String> {
    let nodes: Api<Node> = Api::all(case.node.client().await?);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: Vec::new(),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(NODE_NAME.to_owned()),
                uid: nodes.get(NODE_NAME).await?.uid(),
            }),
            expiration_seconds: Some(600),
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = namespaced(case, client);
    let answer = accounts.create_token_request("agent", &Default::default(), &request).await?;
    Ok(answer.status.context("no token")?.token)
}

/// Somebody puts a token there.
fn put(file: &Path, token: &str) -> Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, token)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(new, file).context("rename")
}

#[tokio::test]
async fn a_token_is_made_kept_and_renewed() -> Result<()> {
    run("a_token_is_made_kept_and_renewed", async |case: &Case| {
        let client = case.node.client().await?;
        let account = account(case, &client).await?;

        // An administrator's kubeconfig may ask for the first one.
        let side = Side::start(case.node, User::Admin, &account)?;
        let identity = side.identity().await?;
        ensure!(identity.who == Who::BoundAccount && identity.warning.is_none(), "{identity:?}");
        ensure!(identity.features.iter().all(|feature| feature.off.is_none()), "{identity:?}");
        let file = side.dir.path().join("token");
        ensure!(std::fs::metadata(&file)?.permissions().mode() & 0o777 == 0o600, "mode");
        let made = std::fs::read_to_string(&file)?;
        let state = side.cluster.token().context("no state of the token")?.borrow().clone();
        let left = state.expires.context("no end")?.as_second() - Timestamp::now().as_second();
        ensure!((3_000..=3_600).contains(&left) && state.error.is_none(), "{state:?}");

        // The kubelet's identity may not, and says so; a token that somebody puts there is used and kept.
        let side = Side::start(case.node, User::Node, &account)?;
        let mut state = side.cluster.token().context("no state of the token")?;
        let refused = state.wait_for(|state| state.error.is_some());
        let refused = tokio::time::timeout(PATIENCE, refused).await??.error.clone().context("error")?;
        ensure!(refused.contains("403") && refused.contains(NODE_NAME), "{refused}");
        let file = side.dir.path().join("token");
        ensure!(!file.exists(), "a token out of nowhere");
        let given = token(case, &client).await?;
        put(&file, &format!("{given}\n"))?;
        let identity = side.identity().await?;
        ensure!(identity.who == Who::BoundAccount, "{identity:?}");
        ensure!(std::fs::read_to_string(&file)? == given, "the token was changed");
        ensure!(made != given, "the tests compare the same token");

        // What the account may do for itself: the same question as the agent's, when its token gets old.
        let own = case.node.api()?.client_with("agent", &given).await?;
        let next = await_condition("the account has its role", PATIENCE, async || token(case, &own).await);
        let next = next.await?;
        ensure!(next != given, "the same token");
        Ok(())
    })
    .await
}

/// One whose end is near, and one that has ended, are replaced; a file that others can read is not used.
#[tokio::test]
async fn an_old_token_is_replaced() -> Result<()> {
    run("an_old_token_is_replaced", async |case: &Case| {
        let client = case.node.client().await?;
        let account = account(case, &client).await?;
        let subject = format!("system:serviceaccount:{}:agent", case.namespace);
        let now = Timestamp::now().as_second();
        for (issued, expires) in [(now - 900, now + 100), (now - 900, now - 100)] {
            let claims = json!({ "iat": issued, "exp": expires, "sub": subject }).to_string();
            let old = format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims));
            let side = Side::prepare(case.node, User::Admin, &account)?;
            put(&side.dir.path().join("token"), &old)?;
            let side = side.run();
            let identity = side.identity().await?;
            ensure!(identity.who == Who::BoundAccount, "{identity:?}");
            ensure!(std::fs::read_to_string(side.dir.path().join("token"))? != old, "the old token is there");
        }
        let side = Side::prepare(case.node, User::Admin, &account)?;
        let file = side.dir.path().join("token");
        put(&file, &token(case, &client).await?)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
        let side = side.run();
        let mut state = side.cluster.token().context("no state of the token")?;
        let told =
            tokio::time::timeout(PATIENCE, state.wait_for(|state| state.error.is_some())).await??.clone();
        ensure!(told.error.as_deref().is_some_and(|error| error.contains("chmod 600")), "{told:?}");
        Ok(())
    })
    .await
}

/// A pod on the node, of the account, as that of a DaemonSet. It is enough that there is one.
async fn pod(case: &Case, client: &Client, name: &str) -> Result<()> {
    let spec = json!({ "nodeName": NODE_NAME, "serviceAccountName": "agent",
        "volumes": [{ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "a", "image": "none.invalid/none:1", "imagePullPolicy": "Never" }] });
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
    let pods: Api<Pod> = namespaced(case, client);
    pods.create(&Default::default(), &pod).await.context("make a pod").map(drop)
}

/// With nothing but the kubelet's kubeconfig: its identity until there is a pod, a token by that pod, another
/// one in time, and the kubelet's identity again when the pod has gone.
#[tokio::test]
async fn a_token_comes_and_goes_with_a_pod() -> Result<()> {
    run("a_token_comes_and_goes_with_a_pod", async |case: &Case| {
        let client = case.node.client().await?;
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "agent" } });
        apply(&namespaced(case, &client), serde_json::from_value::<ServiceAccount>(account)?).await?;
        let config =
            ACCOUNT.replace("NAMESPACE", &case.namespace).replace("DIR/token", "DIR/token, boundToPod: true");
        let becomes = async |side: &Side, who: Who| {
            let mut identity = side.cluster.identity();
            let is =
                identity.wait_for(|state| matches!(state, IdentityState::Known(known) if known.who == who));
            if tokio::time::timeout(LONG, is).await.is_err() {
                let (known, token) = (side.cluster.identity(), side.cluster.token());
                let token = token.map(|token| token.borrow().clone());
                anyhow::bail!("it is not {who:?} but {:?}; its token: {token:?}", known.borrow());
            }
            anyhow::Ok(())
        };

        let side = Side::start(case.node, User::Node, &config)?;
        becomes(&side, Who::Kubelet).await?;
        let file = side.dir.path().join("token");
        ensure!(!file.exists(), "a token out of nowhere");
        drop(side);

        // A token that is over, and one whose end is near, are replaced; the first is never used.
        pod(case, &client, "first").await?;
        let subject = format!("system:serviceaccount:{}:agent", case.namespace);
        let pods: Api<Pod> = namespaced(case, &client);
        let uid = pods.get("first").await?.uid();
        let now = Timestamp::now().as_second();
        for (issued, expires) in [(now - 3700, now - 100), (now - 3000, now + 600)] {
            let bound = json!({ "pod": { "name": "first", "uid": uid } });
            let claims =
                json!({ "iat": issued, "exp": expires, "sub": subject, "kubernetes.io": bound }).to_string();
            let old = format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims));
            let side = Side::prepare(case.node, User::Node, &config)?;
            let file = side.dir.path().join("token");
            put(&file, &old)?;
            let side = side.run();
            becomes(&side, Who::BoundAccount).await?;
            ensure!(std::fs::read_to_string(&file)? != old, "the old token is there");
        }

        let side = Side::start(case.node, User::Node, &config)?;
        becomes(&side, Who::BoundAccount).await?;
        let file = side.dir.path().join("token");
        ensure!(std::fs::metadata(&file)?.permissions().mode() & 0o777 == 0o600, "mode");
        let first = std::fs::read_to_string(&file)?;
        let state = side.cluster.token().context("no state of the token")?.borrow().clone();
        let left = state.expires.context("no end")?.as_second() - Timestamp::now().as_second();
        ensure!((3_000..=3_600).contains(&left) && state.error.is_none(), "{state:?}");
        // What is no more than a token of the pod cannot be used to make another one.
        let own = case.node.api()?.client_with("agent", &first).await?;
        let refused = token(case, &own).await.err().context("a token made the next one")?;
        ensure!(format!("{refused:#}").contains("serviceaccounts/token"), "{refused:#}");

        // Its successor, as when a DaemonSet is updated. The API server refuses the token, and a new client
        // is made for whoever asks.
        let asked = async || {
            let session = side.cluster.connection().session().await?;
            let answer = Api::<Node>::all(session.client.clone()).get(NODE_NAME).await;
            if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 401) {
                side.cluster.connection().discard(&session).await;
            }
            anyhow::Ok(())
        };
        pods.delete("first", &Default::default()).await?;
        await_condition("the kubelet's identity takes its place", LONG, async || {
            asked().await?;
            ensure!(!file.exists(), "the token is there");
            Ok(())
        })
        .await?;
        becomes(&side, Who::Kubelet).await?;
        pod(case, &client, "second").await?;
        await_condition("a token by the next pod", LONG, async || {
            let text = std::fs::read_to_string(&file).context("no token")?;
            ensure!(text != first, "the old token");
            Ok(())
        })
        .await?;
        becomes(&side, Who::BoundAccount).await
    })
    .await
}
