//! Facts about workloads that no watch shows, and how they are read: how many pods one wants (its scale, of
//! whichever kind), and to what a ReplicaSet belongs.
//!
//! They are read when they are needed, one object by its name: there is no watch of all workloads of a
//! cluster for the few that have a budget.

use std::{sync::Arc, time::Duration};

use berth_base::sent::Sent;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
    discovery::oneshot::pinned_kind,
};
use tokio::time::timeout;

use super::spec::{Workload, is_name};
use crate::{reads, store::Owner, telemetry::chain};

/// An answer that takes longer is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A fact that is looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    pub(super) namespace: Arc<str>,
    pub(super) what: What,
}

/// Kind of fact.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum What {
    /// How many pods it wants.
    Scale(Workload),
    /// Controller of the ReplicaSet of this name and UID.
    Parent { name: Arc<str>, uid: Arc<str> },
}

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The workload is there and wants so many pods.
    Wants {
        /// Which one of that name.
        uid: String,
        /// Number of pods.
        replicas: i32,
    },
    /// The workload is gone, or its deletion has begun.
    Gone,
    /// It is there, and nothing says how many pods it wants.
    NoScale,
    /// The manager may not read how many pods it wants, if it is there and has a scale at all: rights are
    /// looked at first. This lets it.
    Forbidden(String),
    /// The ReplicaSet belongs to this one; `None` to nobody.
    Parent(Option<Owner>),
}

/// Result of a lookup, or what is wrong.
pub type Found = Result<Fact, String>;

/// Looks up a fact.
pub(super) async fn look_up(client: &Client, lookup: &Lookup) -> Found {
    match &lookup.what {
        What::Scale(workload) => scale(client, &lookup.namespace, workload).await,
        What::Parent { name, uid } => {
            parent(client, &lookup.namespace, name, uid).await.map(|parent| match parent {
                Some(parent) => Fact::Parent(parent),
                None => Fact::Gone,
            })
        }
    }
}

/// Reads how many pods a workload wants.
pub(crate) async fn scale(client: &Client, namespace: &str, workload: &Workload) -> Found {
    if !workload.can_be() {
        return Ok(Fact::Gone);
    }
    let read = async {
        let (group, version) = match workload.api_version.split_once('/') {
            Some(parts) => parts,
            None => ("", &*workload.api_version),
        };
        let kind = GroupVersionKind::gvk(group, version, &workload.kind);
        match read_scale(client, namespace, workload, &ApiResource::from_gvk(&kind)).await? {
            Fact::NoScale => {}
            fact => return Ok(fact),
        }
        // Its resource may have a name that does not follow from its kind, or no scale.
        match pinned_kind(client, &kind).await {
            Ok((resource, _)) => read_scale(client, namespace, workload, &resource).await,
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Fact::NoScale),
            Err(kube::Error::Discovery(_)) => Ok(Fact::NoScale),
            Err(error) => Err(chain(&error)),
        }
    };
    timeout(ANSWER_WITHIN, read)
        .await
        .unwrap_or_else(|_| Err("the API server did not answer in time".to_owned()))
}

async fn read_scale(client: &Client, namespace: &str, workload: &Workload, resource: &ApiResource) -> Found {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    match api.get_scale(&workload.name).await {
        Ok(scale) if scale.metadata.deletion_timestamp.is_some() => Ok(Fact::Gone),
        Ok(scale) => Ok(Fact::Wants {
            uid: scale.metadata.uid.unwrap_or_default(),
            replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0).max(0),
        }),
        // Of an object that is not there its name is said; of a scale that is not there, nothing. (A custom
        // resource without a scale answers as an object that is not there. Nobody waits for either.)
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let named = status.message.contains(&format!("\"{}\"", workload.name));
            Ok(if named { Fact::Gone } else { Fact::NoScale })
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Fact::Forbidden(grant(workload, resource))),
        Err(error) => Err(chain(&error)),
    }
}

/// The sentence with the command that grants the right to read a scale. Parts of it are an author's words:
/// those that are no names of the API are not said.
fn grant(workload: &Workload, resource: &ApiResource) -> String {
    let missing = format!("the manager may not read the scale of {}; let it", workload.kind);
    let plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "-.".contains(one);
    let kind = match workload.group() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    };
    if !kind.chars().all(plain) {
        return missing;
    }
    let role = format!("berth-scale-of-{kind}");
    format!(
        "{missing}: kubectl create clusterrole {role} --verb=get --resource={kind}/scale \
         && kubectl create clusterrolebinding {role} --clusterrole={role} \
         --serviceaccount=berth-system:berth-manager"
    )
}

/// Reads to what a ReplicaSet belongs: `None` if it is gone, is another one by now, or cannot be.
pub(crate) async fn parent(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Option<Owner>>, String> {
    if !is_name(name) {
        return Ok(None);
    }
    let api: Api<Sent<PartialObjectMeta<ReplicaSet>>> = Api::namespaced(client.clone(), namespace);
    match timeout(ANSWER_WITHIN, reads::read(&api, name)).await {
        Ok(Ok(Some(found))) if found.uid().as_deref() == Some(uid) => {
            let owner =
                found.meta().owner_references.iter().flatten().find(|one| one.controller == Some(true));
            Ok(Some(owner.map(|owner| Owner {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
            })))
        }
        Ok(Ok(_)) => Ok(None),
        Ok(Err(error)) => Err(error),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tower::service_fn;

    use super::*;

    /// An API server that is never asked.
    fn nobody() -> Client {
        let asked = |request: http::Request<kube::client::Body>| async move {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(request.uri().to_string()))
        };
        Client::new(service_fn(asked), "ns")
    }

    /// A pod names its controller as it likes.
    #[rstest]
    #[case::a_blank("apps/v1", "Deployment", "a b")]
    #[case::a_path("apps/v1", "Deployment", "../../secrets/x")]
    #[case::a_dot("apps/v1", "Deployment", "..")]
    #[case::a_question("apps/v1", "Deployment", "x?y")]
    #[case::no_letters_of_the_api("apps/v1", "Deployment", "\u{e9}")]
    #[case::an_odd_kind("apps/v1", "De ployment", "web")]
    #[case::an_odd_group("ap ps/v1", "Deployment", "web")]
    #[case::no_version("", "Deployment", "web")]
    #[tokio::test]
    async fn what_cannot_be_is_gone(#[case] api_version: &str, #[case] kind: &str, #[case] name: &str) {
        let owner = Owner {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
        };
        assert_eq!(scale(&nobody(), "ns", &Workload::from(&owner)).await, Ok(Fact::Gone));
        let of_set = parent(&nobody(), "ns", name, "u").await;
        assert_eq!(of_set.is_ok(), name != "web", "another one is asked for");
    }
}
