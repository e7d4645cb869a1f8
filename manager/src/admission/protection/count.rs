//! Counts objects at the API server, page by page, until the answer is due.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::{telemetry::chain, time::later_timer};

/// Objects of a page.
const PAGE: u32 = 500;
/// A number is exact below so many pages; a person reads it, and one is enough to refuse.
const EXACT: usize = 4;
/// The answer is due then: the API server waits 5 s, and the server answers within 4.
const WITHIN: Duration = Duration::from_millis(2500);

/// Number of objects that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission) enum Counted {
    /// Number of objects; a lower bound where they are many.
    Some(usize),
    /// The manager may not look.
    Forbidden,
    /// Nobody can say, and why.
    Unknown(String),
}

/// Counts the pods of a namespace that have not ended, and its bound claims.
pub(in crate::admission) async fn of_namespace(client: &Client, namespace: &str) -> (Counted, Counted) {
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
    let active = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
    };
    tokio::join!(count(&pods, active, is_staying), count(&claims, ListParams::default(), is_bound))
}

/// Counts the custom resources of a kind, in all namespaces.
pub(in crate::admission) async fn of_kind(client: &Client, resource: &ApiResource) -> Counted {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), resource);
    count(&api, ListParams::default(), is_staying).await
}

fn is_staying(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_none()
}

async fn count<K>(api: &Api<K>, params: ListParams, counts: impl Fn(&K) -> bool) -> Counted
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let due = later_timer(Instant::now(), WITHIN);
    let (mut number, mut next) = (0_usize, None::<String>);
    for page in 1_usize.. {
        let mut params = params.clone().limit(PAGE);
        params.continue_token = next.take();
        let list = match timeout_at(due, api.list(&params)).await {
            Ok(Ok(list)) => list,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Counted::Forbidden,
            // One that stays is enough.
            Ok(Err(_)) | Err(_) if number > 0 => break,
            Ok(Err(error)) => return Counted::Unknown(chain(&error)),
            Err(_) => {
                return Counted::Unknown("the API server did not list them in time; try again".to_owned());
            }
        };
        number = number.saturating_add(list.items.iter().filter(|object| counts(object)).count());
        next = list.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() || (number > 0 && page >= EXACT) {
            break;
        }
    }
    Counted::Some(number)
}
