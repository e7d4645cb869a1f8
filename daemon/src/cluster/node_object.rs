//! Objects that a node has one of, of its own name: the agent makes them, empty, and answers in their status;
//! they go with their Node.

use std::fmt::Debug;

use berth_proto::crd::{ByEntry, Partly, Unreadable};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Client, Resource,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tracing::info;

use super::{
    client::{CallError, Connection},
    raw::{self, Raw},
};

/// Makes the object of the node of this name if it is missing. False: there is no such Node; the kubelet
/// registers it, maybe later than the agent starts.
///
/// # Errors
/// What the API server said.
pub(crate) async fn ensure<K>(
    client: &Client,
    node: &str,
    make: impl FnOnce(ObjectMeta) -> K,
) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api = raw::all::<K>(client.clone());
    if api.get_metadata_opt(node).await?.is_some() {
        return Ok(true);
    }
    let Some(owner) = raw::all::<Node>(client.clone()).get_metadata_opt(node).await? else {
        return Ok(false);
    };
    let object = make(ObjectMeta {
        name: Some(node.to_owned()),
        labels: owner.metadata.labels,
        owner_references: Some(vec![OwnerReference {
            api_version: Node::api_version(&()).into_owned(),
            kind: Node::kind(&()).into_owned(),
            name: node.to_owned(),
            uid: owner.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    });
    let object = serde_json::to_value(&object).and_then(serde_json::from_value::<Raw>);
    let object = object.map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => info!(node, kind = %K::kind(&()), "Object of the node made"),
        // Somebody was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// Lets this be all of the status of the node's object that `manager` owns; not of another object of that
/// name. Entries of the answer that cannot be read are beside it.
///
/// # Errors
/// What the API server said.
pub(crate) async fn apply_status<K>(
    connection: &Connection,
    node: &str,
    uid: &str,
    manager: &str,
    status: impl Serialize,
) -> Result<Partly<K>, CallError>
where
    K: Resource<DynamicType = ()> + ByEntry,
{
    let body = applied::<K>(node, uid, "status", status);
    let params = PatchParams::apply(manager).force();
    let written = async |client| raw::all::<K>(client).patch_status(node, &params, &body).await;
    connection.ask(async |client| written(client).await.and_then(raw::typed)).await
}

/// Says what is wrong with an entry of such an object, and what to do.
pub(crate) fn fault(entry: &Unreadable) -> String {
    format!("{}; a newer program has written it: upgrade berthd", entry.told())
}

/// Lets this be the spec of the node's object, as far as `manager` owns it or nobody does; not of another
/// object of that name.
///
/// # Errors
/// A refusal of the API server: a conflict where somebody else owns a field of it.
pub(crate) async fn apply_spec<K>(
    connection: &Connection,
    node: &str,
    uid: &str,
    manager: &str,
    spec: impl Serialize,
) -> Result<(), CallError>
where
    K: Resource<DynamicType = ()>,
{
    let body = applied::<K>(node, uid, "spec", spec);
    let params = PatchParams::apply(manager);
    connection.ask(async |client| raw::all::<K>(client).patch(node, &params, &body).await).await.map(drop)
}

/// Merges a change into the spec of the node's object: of this version, and of no later one.
///
/// # Errors
/// A refusal of the API server: a conflict where somebody else wrote in between.
pub(crate) async fn merge_spec<K>(
    connection: &Connection,
    node: &str,
    (uid, version): (&str, &str),
    spec: impl Serialize,
) -> Result<(), CallError>
where
    K: Resource<DynamicType = ()>,
{
    let body = Patch::Merge(json!({
        "metadata": { "uid": uid, "resourceVersion": version },
        "spec": spec,
    }));
    let params = PatchParams::default();
    connection.ask(async |client| raw::all::<K>(client).patch(node, &params, &body).await).await.map(drop)
}

/// Body of a server-side apply of a part of the object with this UID.
fn applied<K: Resource<DynamicType = ()>>(
    node: &str,
    uid: &str,
    part: &str,
    value: impl Serialize,
) -> Patch<Value> {
    Patch::Apply(json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": node, "uid": uid },
        (part): value,
    }))
}
