//! Marks of requests that OpenKruise's clients read: the label `crr.apps.kruise.io/active` of those that go
//! on, and the annotation `crr.apps.kruise.io/unready-acquired`, since when the pod is held not Ready. Only
//! the leader writes them; these are its only writes to an object that are no status, and the policy of the
//! manager's writes lets it take this label, add this annotation, and nothing else.
//!
//! They are written by turns of their namespaces: ten thousand requests of one author hold up nobody else's.

mod pending;

use std::time::{Duration, Instant};

use berth_base::sent::{Received, Sent};
use berth_proto::crd::ContainerRecreateRequest;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    runtime::watcher,
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use self::pending::{Due, Outcome, Pending};
use super::{
    recreate::ACTIVE,
    view::{View, follow},
};
use crate::{
    lease::Tenure,
    reads::SMALL_PAGE,
    steps::{self, ANSWER_WITHIN},
    store::Key,
    telemetry::chain,
};

/// The shortest time between two looks at all requests: what changes meanwhile is seen together.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The longest one.
const LOOK_AFTER: Duration = Duration::from_secs(600);

/// Annotation of a request to recreate: since when its pod is held not Ready, in RFC 3339.
const UNREADY: &str = "crr.apps.kruise.io/unready-acquired";
/// Condition of the status that says the same.
const GRACE: &str = "PreRecreateGrace";

/// Writes the marks, for ever.
pub(super) async fn run(client: Client, tenure: Tenure) {
    let resource = ApiResource::erase::<ContainerRecreateRequest>(&());
    let api: Api<Sent<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default().labels(&format!("{ACTIVE}=true")).page_size(SMALL_PAGE);
    let (view, shown) = watch::channel(View::default());
    let ((turns, due), (ended, ends)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let holds = tenure.clone();
    let writing = steps::each(due, move |one: Due| {
        let (client, resource, holds, ended) =
            (client.clone(), resource.clone(), holds.clone(), ended.clone());
        async move {
            // All that wait may take longer than a term.
            let outcome = if holds.holds() { write(&client, &resource, &one).await } else { Outcome::Left };
            // Its reader ends with the program.
            let _ = ended.send((one, outcome));
        }
    });
    // None of them ends while the others go on.
    tokio::select! {
        () = follow(api, config, "requests that have not ended", read, view) => {}
        () = give(shown, tenure, turns, ends) => {}
        () = writing => {}
    }
}

/// Gives marks to be written as requests change, while this replica leads. Ends with the watch.
async fn give(
    mut shown: watch::Receiver<View<Due>>,
    mut tenure: Tenure,
    turns: mpsc::UnboundedSender<Due>,
    mut ends: mpsc::UnboundedReceiver<(Due, Outcome)>,
) {
    let mut pending = Pending::default();
    loop {
        while let Ok((one, outcome)) = ends.try_recv() {
            pending.end(one, outcome, Instant::now());
        }
        let due = {
            let shown = shown.borrow_and_update();
            let all = shown.listed().filter(|_| tenure.holds());
            pending.take(all.into_iter().flat_map(|all| all.values()), Instant::now())
        };
        for one in due {
            if turns.send(one).is_err() {
                return;
            }
        }
        sleep(LOOK_EVERY).await;
        let pause = pending.next(Instant::now()).unwrap_or(LOOK_AFTER);
        // Cancel-safe: a change that is not taken is seen the next time, and an end is taken or stays.
        tokio::select! {
            changed = shown.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            Some((one, outcome)) = ends.recv() => pending.end(one, outcome, Instant::now()),
            () = tenure.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Reads a request. One that its author has nested deeper than a parser goes has no marks, and the others do.
fn read(object: Sent<DynamicObject>) -> Option<Due> {
    let object = match object.read() {
        Ok(object) => object,
        Err(fault) => {
            debug!(fault, "Request left without marks, it cannot be read");
            return None;
        }
    };
    let ended = object.data.pointer("/status/completionTime").is_some_and(Value::is_string);
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let grace = conditions.into_iter().flatten().find(|one| one["type"] == GRACE && one["status"] == "True");
    let since = grace.and_then(|grace| grace["lastTransitionTime"].as_str());
    let unready = since.filter(|_| !object.annotations().contains_key(UNREADY)).map(str::to_owned);
    if !ended && unready.is_none() {
        return None;
    }
    let key = Key { namespace: object.namespace()?.into(), name: object.name_any().into() };
    Some(Due { key, uid: object.uid()?, ended, unready })
}

async fn write(client: &Client, resource: &ApiResource, one: &Due) -> Outcome {
    let Key { namespace, name } = &one.key;
    let api: Api<Sent<DynamicObject>> = Api::namespaced_with(client.clone(), namespace, resource);
    // Of this one, and not of another one by its name.
    let mut metadata = json!({ "uid": one.uid });
    if one.ended {
        metadata["labels"] = json!({ ACTIVE: null });
    }
    if let Some(since) = &one.unready {
        metadata["annotations"] = json!({ UNREADY: since });
    }
    let patch = json!({ "metadata": metadata });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let error = match timeout(ANSWER_WITHIN, api.patch(name, &params, &patch)).await {
        Ok(Ok(_)) => return Outcome::Written,
        // It is gone, or is another one.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return Outcome::Written,
        Ok(Err(error)) => chain(&error),
        Err(_) => "no answer".to_owned(),
    };
    warn!(%namespace, %name, error, "Marks of a request not written");
    Outcome::Failed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::ObjectList;

    use super::*;
    use crate::lease::Term;

    const SINCE: &str = "2026-07-02T10:00:00Z";

    fn due(status: &Value, annotated: bool) -> Option<(bool, Option<String>)> {
        let annotations = if annotated { json!({ UNREADY: "2026-07-02T09:00:00Z" }) } else { json!({}) };
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
            "metadata": { "namespace": "shop", "name": "r", "uid": "u", "annotations": annotations },
            "status": status,
        });
        read(serde_json::from_value(object).expect("an object")).map(|due| (due.ended, due.unready))
    }

    /// One request that nobody can read would keep all others from being listed.
    #[test]
    fn a_request_of_any_depth_hides_no_other() {
        let deep = (0..500).fold(Value::Null, |inner, _| json!([inner]));
        let request = |name: &str, managed: &Value, more: &Value| {
            json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
                "metadata": { "namespace": "shop", "name": name, "uid": name,
                    "managedFields": [{ "fieldsV1": managed }] },
                "status": { "completionTime": SINCE, "more": more },
            })
        };
        let items = [
            request("a", &deep, &json!({})),
            request("b", &json!({}), &deep),
            request("c", &json!(vec![json!({ "a": 1 }); 20_000]), &json!({})),
            request("d", &json!({}), &json!({})),
        ];
        let page = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }).to_string();
        let page: ObjectList<Sent<DynamicObject>> = serde_json::from_str(&page).expect("a page");
        let names = page.items.into_iter().filter_map(read).map(|due| due.key.name.to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "c", "d"]);
    }

    #[test]
    fn marks_follow_the_status() {
        let grace = |status: &str, since: Value| json!([{ "type": GRACE, "status": status, "lastTransitionTime": since }]);
        let (held, since) = (grace("True", SINCE.into()), Some(SINCE.to_owned()));
        for (what, status, annotated, expected) in [
            ("nothing is said", json!({}), false, None),
            ("it goes on", json!({ "phase": "Recreating" }), false, None),
            ("it has ended", json!({ "completionTime": SINCE }), false, Some((true, None))),
            ("its pod is held", json!({ "conditions": held }), false, Some((false, since.clone()))),
            ("that is marked", json!({ "conditions": held }), true, None),
            ("both", json!({ "completionTime": SINCE, "conditions": held }), false, Some((true, since))),
            ("it is not held", json!({ "conditions": grace("False", SINCE.into()) }), false, None),
            ("there is no time", json!({ "conditions": grace("True", Value::Null) }), false, None),
            ("there are no conditions", json!({ "conditions": "x" }), false, None),
        ] {
            assert_eq!(due(&status, annotated), expected, "{what}");
        }
    }

    fn ended(namespace: &str, number: usize) -> (String, Due) {
        let name = format!("r{number}");
        let key = Key { namespace: namespace.into(), name: name.as_str().into() };
        let due = Due { key, uid: format!("{namespace}-{number}"), ended: true, unready: None };
        (format!("{namespace}/{name}"), due)
    }

    /// Marks of many requests wait, and one more comes: it is given at once, for its namespace to have its
    /// turn. While another replica leads nothing is given.
    #[tokio::test(start_paused = true)]
    async fn marks_that_wait_keep_none_from_being_given() {
        let crowd: BTreeMap<String, Due> = (0..1000).map(|number| ended("crowd", number)).collect();
        let (view, shown) = watch::channel(View::of(crowd.clone()));
        let (lease, tenure) = Tenure::of_test();
        let (turns, mut given) = mpsc::unbounded_channel();
        let (ended_write, ends) = mpsc::unbounded_channel();
        let giving = tokio::spawn(give(shown, tenure, turns, ends));
        sleep(LOOK_EVERY * 3).await;
        assert!(given.try_recv().is_err(), "another one leads");
        let until = tokio::time::Instant::now() + Duration::from_secs(3600);
        lease.send_replace(Some(Term::of_test(until)));
        for _ in 0..crowd.len() {
            given.recv().await.unwrap();
        }
        let mut all = crowd;
        all.extend([ended("shop", 7)]);
        view.send_replace(View::of(all));
        let next = timeout(Duration::from_secs(2), given.recv()).await.unwrap().unwrap();
        assert_eq!(next, ended("shop", 7).1, "and none of the others twice");
        // One of them is over, as nobody leads any more, and is given again.
        let first = ended("crowd", 0).1;
        ended_write.send((first.clone(), Outcome::Left)).unwrap();
        let next = timeout(Duration::from_secs(2), given.recv()).await.unwrap().unwrap();
        assert_eq!(next, first);
        drop(view);
        timeout(Duration::from_secs(2), giving).await.unwrap().unwrap();
    }
}
