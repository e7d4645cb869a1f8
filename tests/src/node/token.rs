//! Tokens of the ServiceAccounts of `deploy/rbac`, as the kubelet would put them into the pods of Berth.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Time that a token counts, which nothing renews here: more than the longest run, a whole fault matrix.
const LIFETIME: u32 = 12 * 3600;

/// Where the ServiceAccounts are.
const NAMESPACE: &str = "berth-system";

/// A token of an account, bound to a node that exists or to nothing.
pub async fn of(admin: &Client, account: &str, node: Option<&str>) -> Result<String> {
    of_namespace(admin, NAMESPACE, account, node).await
}

/// The same of an account of another namespace.
pub async fn of_namespace(
    admin: &Client,
    namespace: &str,
    account: &str,
    node: Option<&str>,
) -> Result<String> {
    let bound = match node {
        Some(name) => {
            Some(json!({ "kind": "Node", "apiVersion": "v1", "name": name, "uid": uid(admin, name).await? }))
        }
        None => None,
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let request: TokenRequest = serde_json::from_value(json!({
        "spec": { "audiences": [], "boundObjectRef": bound, "expirationSeconds": LIFETIME }
    }))?;
    let given = accounts.create_token_request(account, &PostParams::default(), &request).await;
    Ok(given.context("ask for a token")?.status.context("a token request without a token")?.token)
}

async fn uid(admin: &Client, node: &str) -> Result<String> {
    let nodes: Api<Node> = Api::all(admin.clone());
    nodes.get(node).await.context("the node of a token")?.uid().context("a node without UID")
}
