//! Marks of requests that OpenKruise's clients read: the label `crr.apps.kruise.io/active` of those that go
//! on, and the annotation `crr.apps.kruise.io/unready-acquired`, since when the pod is held not Ready. Only
//! the leader writes them; these are its only writes to an object that are no status, and the policy of the
//! manager's writes lets it take this label, add this annotation, and nothing else.

use std::{
    collections::HashMap,
    future::ready,
    time::{Duration, Instant},
};

use berth_base::sent::{Received, Sent};
use berth_proto::crd::ContainerRecreateRequest;
use futures::{StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    runtime::watcher,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    recreate::ACTIVE,
    view::{View, follow},
};
use crate::{lease::Tenure, steps::ANSWER_WITHIN, telemetry::chain, time::later};

/// One that failed is tried again after it.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Writes at the same time.
const AT_ONCE: usize = 8;

/// Annotation of a request to recreate: since when its pod is held not Ready, in RFC 3339.
const UNREADY: &str = "crr.apps.kruise.io/unready-acquired";
/// Condition of the status that says the same.
const GRACE: &str = "PreRecreateGrace";

/// Request whose marks are not as its status says.
#[derive(Clone, Debug, PartialEq)]
struct Due {
    namespace: String,
    name: String,
    uid: String,
    /// It has ended, and still has the label.
    ended: bool,
    /// Since when its pod is held not Ready, where that is not said.
    unready: Option<String>,
}

/// Requests whose marks could not be written, by UID, and until when each of them waits.
#[derive(Debug, Default)]
struct Failed(HashMap<String, Instant>);

impl Failed {
    /// Gives those that do not wait.
    fn due<'a>(&mut self, all: impl Iterator<Item = &'a Due>, now: Instant) -> Vec<Due> {
        self.0.retain(|_, until| *until > now);
        all.filter(|one| !self.0.contains_key(&one.uid)).cloned().collect()
    }

    fn fail(&mut self, uids: Vec<String>, now: Instant) {
        self.0.extend(uids.into_iter().map(|uid| (uid, later(now, RETRY_PAUSE))));
    }

    /// Time until one of them is due.
    fn next(&self, now: Instant) -> Option<Duration> {
        self.0.values().min().map(|until| until.saturating_duration_since(now))
    }
}

/// Writes the marks, for ever.
pub(super) async fn run(client: Client, mut tenure: Tenure) {
    let resource = ApiResource::erase::<ContainerRecreateRequest>(&());
    let api: Api<Sent<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default().labels(&format!("{ACTIVE}=true"));
    let (view, mut shown) = watch::channel(View::default());
    let mut following = std::pin::pin!(follow(api, config, "requests that have not ended", read, view));
    let mut failed = Failed::default();
    loop {
        let due = {
            let shown = shown.borrow_and_update();
            failed.due(shown.listed().into_iter().flat_map(|all| all.values()), Instant::now())
        };
        let is_idle = due.is_empty();
        let pass = write_all(due, || tenure.holds(), |one| write(&client, &resource, one));
        // The watch goes on meanwhile.
        let lost = tokio::select! {
            lost = pass => lost,
            () = following.as_mut() => return,
        };
        failed.fail(lost, Instant::now());
        let pause = failed.next(Instant::now()).unwrap_or(Duration::from_secs(600));
        // Cancel-safe: a change that is not taken is seen the next time.
        tokio::select! {
            changed = shown.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = tenure.changed(), if !is_idle => {}
            () = sleep(pause) => {}
            () = following.as_mut() => return,
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
    Some(Due { namespace: object.namespace()?, name: object.name_any(), uid: object.uid()?, ended, unready })
}

/// Writes some at a time, for as long as `holds` says that this replica leads: all of them may take longer
/// than a term. Gives the UIDs of those that failed.
async fn write_all<F: Future<Output = bool>>(
    due: Vec<Due>,
    holds: impl Fn() -> bool,
    write: impl Fn(Due) -> F,
) -> Vec<String> {
    let (holds, write) = (&holds, &write);
    let writes = stream::iter(due).map(|one| async move {
        let uid = one.uid.clone();
        (holds() && !write(one).await).then_some(uid)
    });
    writes.buffer_unordered(AT_ONCE).filter_map(ready).collect().await
}

async fn write(client: &Client, resource: &ApiResource, one: Due) -> bool {
    let api: Api<Sent<DynamicObject>> = Api::namespaced_with(client.clone(), &one.namespace, resource);
    // Of this one, and not of another one by its name.
    let mut metadata = json!({ "uid": one.uid });
    if one.ended {
        metadata["labels"] = json!({ ACTIVE: null });
    }
    if let Some(since) = &one.unready {
        metadata["annotations"] = json!({ UNREADY: since });
    }
    let patch = json!({ "metadata": metadata });
    let error =
        match timeout(ANSWER_WITHIN, api.patch(&one.name, &PatchParams::default(), &Patch::Merge(&patch)))
            .await
        {
            Ok(Ok(_)) => return true,
            // It is gone, or is another one.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return true,
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer".to_owned(),
        };
    warn!(namespace = one.namespace, name = one.name, error, "Marks of a request not written");
    false
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use kube::core::ObjectList;

    use super::*;

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
        let due: Vec<String> = page.items.into_iter().filter_map(read).map(|due| due.name).collect();
        assert_eq!(due, ["a", "c", "d"]);
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

    fn ended(uid: usize) -> Due {
        let (namespace, name, uid) = ("shop".to_owned(), format!("r{uid}"), format!("u{uid}"));
        Due { namespace, name, uid, ended: true, unready: None }
    }

    #[test]
    fn one_that_failed_waits_whatever_else_changes() {
        let (mut failed, now) = (Failed::default(), Instant::now());
        let all: Vec<Due> = (0..3).map(ended).collect();
        assert_eq!((failed.due(all.iter(), now), failed.next(now)), (all.clone(), None));
        failed.fail(vec!["u1".to_owned()], now);
        let soon = later(now, RETRY_PAUSE - Duration::from_secs(1));
        assert_eq!(failed.due(all.iter(), soon), [ended(0), ended(2)]);
        assert_eq!(failed.next(soon), Some(Duration::from_secs(1)));
        assert_eq!(failed.due(all.iter(), later(now, RETRY_PAUSE)), all);
        assert_eq!(failed.next(now), None);
    }

    /// Counts writes that were begun, those on their way, and the most of these.
    #[derive(Default)]
    struct Counts {
        begun: AtomicUsize,
        on_their_way: AtomicUsize,
        most: AtomicUsize,
    }

    impl Counts {
        async fn write(&self, one: Due) -> bool {
            self.begun.fetch_add(1, Relaxed);
            let now = self.on_their_way.fetch_add(1, Relaxed) + 1;
            self.most.fetch_max(now, Relaxed);
            tokio::task::yield_now().await;
            self.on_their_way.fetch_sub(1, Relaxed);
            one.uid != "u7"
        }
    }

    #[tokio::test]
    async fn some_at_a_time_and_none_after_the_term() {
        let due = || (0..100).map(ended).collect::<Vec<_>>();
        let counts = Counts::default();
        let lost = write_all(due(), || true, |one| counts.write(one)).await;
        assert_eq!(
            (lost, counts.begun.load(Relaxed), counts.most.load(Relaxed)),
            (vec!["u7".to_owned()], 100, AT_ONCE)
        );
        let counts = Counts::default();
        let holds = || counts.begun.load(Relaxed) < 5;
        let lost = write_all(due(), holds, |one| counts.write(one)).await;
        assert_eq!((lost.len(), counts.begun.load(Relaxed)), (0, 5));
    }
}
