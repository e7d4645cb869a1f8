//! Counts objects at the API server, page by page, until the answer is due. Their authors decide how large
//! they are: a page has as many as one of a watch, each is read as one of a watch is, and as metadata where
//! these are enough.

use std::{fmt::Debug, time::Duration};

use berth_base::sent::Sent;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{reads::PAGE, telemetry::chain, time::later_timer};

/// A number is exact below so many pages; a person reads it, and one is enough to refuse.
const EXACT: usize = 40;
/// The answer is due then: the API server waits 5 s, and the server answers within 4.
const WITHIN: Duration = Duration::from_millis(2500);
/// Pages that are read at once, for all requests: fifty objects may have megabytes.
const AT_ONCE: usize = 8;

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

/// Counter of objects, one for all requests.
pub(in crate::admission) struct Counter {
    client: Client,
    places: Semaphore,
}

impl Counter {
    /// One that asks by this client.
    pub(in crate::admission) fn new(client: Client) -> Self {
        Self { client, places: Semaphore::new(AT_ONCE) }
    }

    /// Counts the pods of a namespace that have not ended, and its bound claims.
    pub(in crate::admission) async fn of_namespace(&self, namespace: &str) -> (Counted, Counted) {
        let pods: Api<Sent<PartialObjectMeta<Pod>>> = Api::namespaced(self.client.clone(), namespace);
        let active = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let claims: Api<Sent<PersistentVolumeClaim>> = Api::namespaced(self.client.clone(), namespace);
        let all = ListParams::default();
        tokio::join!(self.count(&pods, active, is_staying), self.count(&claims, all, is_bound))
    }

    /// Counts the custom resources of a kind, in all namespaces.
    pub(in crate::admission) async fn of_kind(&self, resource: &ApiResource) -> Counted {
        let api: Api<Sent<PartialObjectMeta<DynamicObject>>> = Api::all_with(self.client.clone(), resource);
        self.count(&api, ListParams::default(), is_staying).await
    }

    async fn count<K>(&self, api: &Api<K>, params: ListParams, counts: impl Fn(&K) -> bool) -> Counted
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let due = later_timer(Instant::now(), WITHIN);
        let (mut number, mut next) = (0_usize, None::<String>);
        for page in 1_usize.. {
            let mut params = params.clone().limit(PAGE);
            params.continue_token = next.take();
            let listing = async {
                let _place = self.places.acquire().await;
                api.list(&params).await
            };
            let list = match timeout_at(due, listing).await {
                Ok(Ok(list)) => list,
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Counted::Forbidden,
                // One that stays is enough.
                Ok(Err(_)) | Err(_) if number > 0 => break,
                Ok(Err(error)) => return Counted::Unknown(chain(&error)),
                Err(_) => {
                    return Counted::Unknown(
                        "the API server did not list them in time; try again".to_owned(),
                    );
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
}

/// Tells whether the phase of the claim says so. One that cannot be read may be.
fn is_bound(claim: &Sent<PersistentVolumeClaim>) -> bool {
    match claim {
        Sent::Read(claim) => {
            claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
        }
        Sent::Aside(..) => true,
    }
}

fn is_staying(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use http::request::Parts;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::served::{self, Asked, parameter};

    /// A client of an API server whose lists have so many pages of these.
    fn client(pages: usize, pods: Vec<Value>, claims: Vec<Value>) -> (Client, Asked) {
        served::client(move |request| {
            let page = page(request);
            let next = if page < pages { (page + 1).to_string() } else { String::new() };
            let items = if of(request) == "pods" { &pods } else { &claims };
            json!({ "kind": "List", "apiVersion": "v1", "metadata": { "continue": next }, "items": items })
        })
    }

    fn of(request: &Parts) -> &'static str {
        if request.uri.path().ends_with("/pods") { "pods" } else { "claims" }
    }

    fn page(request: &Parts) -> usize {
        parameter(request, "continue").map_or(1, |page| page.parse().unwrap())
    }

    /// A request in short: of what, which page, whether metadata are enough, and how many at once.
    fn short(request: &Parts) -> String {
        let accepts = request.headers.get("accept").and_then(|value| value.to_str().ok());
        let is_partial = accepts.is_some_and(|accepts| accepts.contains("PartialObjectMetadata"));
        let limit = parameter(request, "limit").unwrap_or_default();
        format!("{} {} {is_partial} {limit}", of(request), page(request))
    }

    fn pod(deleted: bool) -> Value {
        let mut metadata = json!({ "name": "a", "namespace": "shop" });
        if deleted {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        json!({ "metadata": metadata })
    }

    fn claim(phase: &str, parts: usize) -> Value {
        let (metadata, more) = (json!({ "name": "a", "namespace": "shop" }), vec![json!({ "a": 1 }); parts]);
        json!({ "metadata": metadata, "spec": {}, "status": { "phase": phase }, "more": more })
    }

    #[rstest]
    #[case::nothing(1, vec![], vec![], 0, 0)]
    #[case::some(1, vec![pod(false), pod(true)], vec![claim("Bound", 0), claim("Pending", 0)], 1, 1)]
    #[case::in_pages(3, vec![pod(false)], vec![claim("Bound", 0)], 3, 3)]
    #[case::nothing_on_any_page(45, vec![pod(true)], vec![claim("Pending", 0)], 0, 0)]
    #[case::more_than_are_counted(1000, vec![pod(false)], vec![claim("Bound", 0)], EXACT, EXACT)]
    #[case::one_that_cannot_be_read(1, vec![], vec![claim("Pending", 20_000)], 0, 1)]
    #[tokio::test]
    async fn of_a_namespace(
        #[case] pages: usize,
        #[case] pods: Vec<Value>,
        #[case] claims: Vec<Value>,
        #[case] of_pods: usize,
        #[case] of_claims: usize,
    ) {
        let (client, asked) = client(pages, pods, claims);
        let counted = Counter::new(client).of_namespace("shop").await;
        assert_eq!(counted, (Counted::Some(of_pods), Counted::Some(of_claims)));
        let asked = asked.each(short);
        assert!(asked.contains(&format!("pods 1 true {PAGE}")), "{asked:?}");
        assert!(asked.contains(&format!("claims 1 false {PAGE}")), "{asked:?}");
    }

    /// Many namespaces are to be deleted: few pages are read at once, and each is answered in time.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_reads_few_pages_at_once() {
        let takes = Duration::from_millis(100);
        let (client, asked) = served::slow_client(
            takes,
            |_| json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [] }),
        );
        let counter = Counter::new(client);
        let crowd = futures::future::join_all((0..20).map(|_| counter.of_namespace("shop")));
        let (counted, early) = tokio::join!(crowd, async {
            tokio::time::sleep(takes / 2).await;
            asked.count()
        });
        assert_eq!(early, AT_ONCE);
        assert!(counted.iter().all(|both| *both == (Counted::Some(0), Counted::Some(0))), "{counted:?}");
    }
}
