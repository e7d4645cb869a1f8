//! Says of objects that nothing acts on them yet: what is accepted and not carried out must not look as if it were.
//!
//! The kinds are served in full, so that manifests are valid; the features behind them come later, and each takes its kind
//! out of here. The condition is the same for every version of an object, its time included, so writing it once more
//! changes nothing: nothing has to be remembered but which objects there are.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{lease::Tenure, telemetry::chain};

/// The condition, and its reason.
pub const CONDITION: &str = "Accepted";
/// See [`CONDITION`].
pub const REASON: &str = "NotYetActedOn";
/// Its owner in `managedFields`.
const FIELD_MANAGER: &str = "berth-manager-notices";
/// A write without an answer is tried again after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The pause after something failed; nothing here is urgent.
const PAUSE: Duration = Duration::from_secs(5);

/// Follows a kind for ever, and notes each of its objects while this replica leads.
pub async fn follow<K>(client: Client, mut tenure: Tenure)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&()).into_owned();
    let objects = Api::<PartialObjectMeta<K>>::all(client.clone());
    let mut events = pin!(watcher::watcher(objects, watcher::Config::default()));
    // Objects that are to be noted in this term, and those that are.
    let mut owed: BTreeMap<Named, Option<Time>> = BTreeMap::new();
    let mut noted: BTreeMap<Named, Option<Time>> = BTreeMap::new();
    let mut term = None;
    loop {
        // Cancel-safe: the watcher keeps its place, and the tenure its newest value.
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(Ok(event)) => take(event, &mut owed, &mut noted),
                Some(Err(error)) => {
                    warn!(kind, error = chain(&error), "Watch lost, no notices until it follows again");
                    sleep(PAUSE).await;
                }
            },
            () = tenure.changed() => {}
            () = sleep(PAUSE), if !owed.is_empty() && tenure.holds() => {}
        }
        let before = std::mem::replace(&mut term, tenure.term());
        if term.is_some() && term != before {
            owed.append(&mut noted);
        }
        while let Some((object, created)) = owed.pop_first() {
            if !tenure.holds() {
                owed.insert(object, created);
                break;
            }
            match note::<K>(&client, &kind, &object, created.as_ref()).await {
                Ok(()) => {
                    noted.insert(object, created);
                }
                Err(error) => {
                    warn!(kind, namespace = object.0, name = object.1, error, "Notice not written");
                    owed.insert(object, created);
                    break;
                }
            }
        }
    }
}

/// Namespace, empty for kinds without, and name.
type Named = (String, String);

fn take<K>(
    event: Event<PartialObjectMeta<K>>,
    owed: &mut BTreeMap<Named, Option<Time>>,
    noted: &mut BTreeMap<Named, Option<Time>>,
) {
    match event {
        Event::InitApply(object) | Event::Apply(object) => {
            let named = named(&object);
            if !noted.contains_key(&named) {
                owed.insert(named, object.metadata.creation_timestamp);
            }
        }
        Event::Delete(object) => {
            let named = named(&object);
            owed.remove(&named);
            noted.remove(&named);
        }
        Event::Init | Event::InitDone => {}
    }
}

fn named<K>(object: &PartialObjectMeta<K>) -> Named {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}

async fn note<K>(client: &Client, kind: &str, object: &Named, created: Option<&Time>) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    // As an object of any kind: only the condition is sent, and the namespace is in the path.
    let resource = kube::core::ApiResource::erase::<K>(&());
    let api: Api<kube::api::DynamicObject> = match object.0.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let body = Patch::Apply(body::<K>(kind, created));
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match timeout(ANSWER_WITHIN, api.patch_status(&object.1, &params, &body)).await {
        Ok(Ok(written)) => {
            info!(kind, namespace = object.0, name = written.name_any(), "Noted that nothing acts on it yet");
            Ok(())
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}

fn body<K: Resource<DynamicType = ()>>(kind: &str, created: Option<&Time>) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": kind,
        "status": { "conditions": [{
            "type": CONDITION,
            "status": "False",
            "reason": REASON,
            "message": format!("this version of Berth knows {kind} and does not act on it yet"),
            "lastTransitionTime": created,
        }] },
    })
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::PodProbeMarker;

    use super::*;

    fn object(name: &str) -> PartialObjectMeta<PodProbeMarker> {
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "shop" } })).unwrap()
    }

    #[test]
    fn each_object_is_owed_once_and_forgotten_when_it_goes() {
        let (mut owed, mut noted) = (BTreeMap::new(), BTreeMap::new());
        take(Event::InitApply(object("a")), &mut owed, &mut noted);
        take(Event::Apply(object("b")), &mut owed, &mut noted);
        assert_eq!(owed.len(), 2);
        noted.append(&mut owed);
        take(Event::Apply(object("a")), &mut owed, &mut noted);
        assert!(owed.is_empty(), "our own write is not news");
        take(Event::Delete(object("a")), &mut owed, &mut noted);
        assert_eq!(noted.len(), 1);
        take(Event::Apply(object("a")), &mut owed, &mut noted);
        assert_eq!(owed.len(), 1, "another object of that name");
    }

    #[test]
    fn the_condition_says_what_is_not_done() {
        let body = body::<PodProbeMarker>("PodProbeMarker", None);
        assert_eq!(body["apiVersion"], "apps.kruise.io/v1alpha1");
        let condition = &body["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!(REASON)));
        assert!(condition["message"].as_str().unwrap().contains("PodProbeMarker"));
    }
}
