//! Two replicas at one API server, of which one leads at a time.

mod changed;
mod counted;
mod late;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use berth_base::lease::{Tenure, Term};
use berth_proto::crd::CloneSet;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::{
    cluster::Cluster,
    kinds::{KINDS, Set},
    metrics::Metrics,
    object::Filed,
    served::{self, Served},
    timing::most_failing,
    trimmed::TrimmedPod,
    watch::{Pods, Shown, Watched},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The API server: objects by the plural names of their kinds, and what each replica has asked.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Vec<Value>>,
    asked: Vec<(&'static str, String)>,
    count: u64,
    /// A webhook fails on new pods of this name, or on all.
    fails: Option<&'static str>,
    /// Status of the set that was written last.
    status: Value,
    /// Field of the status that the definition does not know.
    prunes: Option<&'static str>,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn answer(&mut self, who: &'static str, method: &Method, path: &str, body: &Value) -> Value {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let at = parts.iter().position(|part| *part == "namespaces").map_or(0, |at| at + 2);
        let plural = parts.get(at).copied().unwrap_or_default().to_owned();
        self.asked.push((who, format!("{method} {plural}")));
        self.count += 1;
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        if *method == Method::POST && plural == "pods" && self.fails.is_some_and(|of| name.contains(of)) {
            return json!({ "kind": "Status", "status": "Failure", "code": 500, "metadata": {},
                "message": "failed calling webhook", "reason": "InternalError" });
        }
        let objects = self.objects.entry(plural).or_default();
        if *method == Method::GET {
            return json!({ "metadata": {}, "items": objects });
        }
        let mut object = body.clone();
        if *method == Method::POST {
            object["metadata"]["uid"] = format!("uid-{}", self.count).into();
            object["metadata"]["resourceVersion"] = self.count.to_string().into();
            object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
            objects.push(object.clone());
        } else {
            // The status of the set.
            object = set(self.count);
            object["status"] = body["status"].clone();
            // Null in a merge patch takes a field out.
            object["status"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
            self.status = body["status"].clone();
            if let Some(field) = self.prunes {
                object["status"].as_object_mut().unwrap().remove(field);
            }
        }
        object
    }

    fn count(&self, who: &str, what: &str) -> usize {
        self.asked.iter().filter(|(one, asked)| *one == who && asked == what).count()
    }
}

fn set(version: u64) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {
            "namespace": "ns", "name": "shop", "uid": "set", "generation": 1,
            "resourceVersion": version.to_string(),
        },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "main", "image": "a:1" }] },
            },
        },
    })
}

/// A replica whose watches have shown the set, and show nothing of what is written.
struct Replica {
    tenure: watch::Sender<Option<Term>>,
    inputs: mpsc::Sender<Input>,
    metrics: Metrics,
}

impl Replica {
    /// One whose watches have shown nothing yet.
    fn new(name: &'static str, server: &Shared) -> Self {
        let shared = server.clone();
        let writer =
            served::writer(move |method, path, body| shared.lock().unwrap().answer(name, method, path, body));
        let metrics = writer.metrics.clone();
        let (inputs, receiver) = mpsc::channel(64);
        let (tenure, held) = Tenure::of_test();
        let (listed, _) = watch::channel(Cluster::default().listed());
        let settings = Settings::default();
        let connections = Connections { tenure: held, writer, listed };
        let controller = Controller { settings, most_held: crate::cluster::MOST_HELD, connections };
        tokio::spawn(controller.run(receiver));
        Self { tenure, inputs, metrics }
    }

    async fn start(name: &'static str, server: &Shared) -> Self {
        let replica = Self::new(name, server);
        for input in lists() {
            replica.inputs.send(input).await.unwrap();
        }
        replica
    }

    fn leads(&self, leads: bool) {
        let until = tokio::time::Instant::now() + Duration::from_secs(3600);
        self.tenure.send_replace(leads.then(|| Term::of_test(until)));
    }
}

/// Lists of all kinds, with one set in them.
fn lists() -> Vec<Input> {
    let mut all = Vec::new();
    for kind in KINDS {
        all.push(Input::Set(kind, Shown::ListBegins));
        if kind.name == "CloneSet" {
            let set: CloneSet = serde_json::from_value(set(1)).unwrap();
            all.push(Input::Set(kind, Shown::Applied(Filed::new(Arc::new(set) as Set))));
        }
        all.push(Input::Set(kind, Shown::ListEnds));
    }
    all.extend([
        Input::Pod(Shown::ListEnds),
        Input::Claim(Shown::ListEnds),
        Input::Revision(Shown::ListEnds),
        Input::PullJob(Shown::ListEnds),
        Input::Node(Shown::ListEnds),
        Input::NodeUpdates(Shown::ListEnds),
    ]);
    all
}

async fn until(server: &Shared, what: &str, holds: impl Fn(&Server) -> bool) {
    let wait = async {
        while !holds(&server.lock().unwrap()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, wait).await;
    assert!(ended.is_ok(), "{what}: {:?}", server.lock().unwrap().asked);
}

/// The second one has been shown nothing of what the first one has written, and makes no pod twice.
#[tokio::test]
async fn one_of_two_replicas_writes_and_the_other_goes_on_from_there() {
    let server = Shared::default();
    let (one, two) = (Replica::start("one", &server).await, Replica::start("two", &server).await);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.lock().unwrap().asked, [], "nobody leads");
    one.leads(true);
    until(&server, "three pods are made", |server| server.count("one", "POST pods") == 3).await;
    until(&server, "the status is written", |server| server.count("one", "PATCH clonesets") > 0).await;
    assert!(server.lock().unwrap().asked.iter().all(|(who, _)| *who == "one"));
    one.leads(false);
    // What was on its way comes to its end.
    rest(&one).await;
    let before = server.lock().unwrap().asked.len();
    two.leads(true);
    until(&server, "the other one writes the status", |server| server.count("two", "PATCH clonesets") > 0)
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let server = server.lock().unwrap();
    assert!(server.asked[before..].iter().all(|(who, _)| *who == "two"));
    assert_eq!(server.asked[before].1, "GET pods", "it reads first");
    let made = (server.count("two", "POST pods"), server.count("two", "POST controllerrevisions"));
    assert_eq!(made, (0, 0), "{:?}", server.asked);
    assert_eq!(server.objects["pods"].len(), 3);
}

/// The first status has no pod yet, and the one that counts them does not wait for the next second. A busy
/// machine may add to that; the fastest of several says what was waited for.
#[tokio::test]
async fn the_status_of_a_new_set_says_at_once_what_it_has() {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let server = Shared::default();
        let replica = Replica::start("one", &server).await;
        replica.leads(true);
        let begin = tokio::time::Instant::now();
        until(&server, "its pods count", |server| server.status["replicas"] == 3).await;
        fastest = fastest.min(begin.elapsed());
        if fastest < Duration::from_millis(900) {
            return;
        }
    }
    panic!("{fastest:?}");
}

/// Twenty sets, changed so.
fn twenty(change: fn(&mut Value)) -> impl Iterator<Item = Input> {
    assert_eq!(KINDS[0].name, "CloneSet");
    (0..20).map(move |number| {
        let mut one = set(1);
        one["metadata"]["name"] = format!("shop-{number}").into();
        one["metadata"]["uid"] = format!("set-{number}").into();
        change(&mut one);
        let one: CloneSet = serde_json::from_value(one).unwrap();
        Input::Set(KINDS[0], Shown::Applied(Filed::new(Arc::new(one) as Set)))
    })
}

/// Each list makes all sets due, and so does the term. Sets that are being deleted have nothing to be
/// written.
#[tokio::test]
async fn each_set_is_decided_on_once_at_the_start() {
    let server = Shared::default();
    let replica = Replica::new("one", &server);
    let is_going = |set: &mut Value| set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for input in twenty(is_going).chain(lists().into_iter().filter(|input| input.is_end())) {
        replica.inputs.send(input).await.unwrap();
    }
    replica.leads(true);
    let all = async {
        while replica.metrics.passes() < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, all).await.is_ok(), "{}", replica.metrics.passes());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(replica.metrics.passes(), 20);
}

#[tokio::test]
async fn events_that_come_together_are_one_decision() {
    let server = Shared::default();
    let replica = Replica::start("one", &server).await;
    replica.leads(true);
    until(&server, "its pods count", |server| server.status["replicas"] == 3).await;
    let before = rest(&replica).await;
    let pod = server.lock().unwrap().objects["pods"][0].clone();
    // Nothing else runs before all of them wait.
    for restarts in 0..60 {
        let mut pod = pod.clone();
        pod["metadata"]["resourceVersion"] = (1000 + restarts).to_string().into();
        pod["status"]["containerStatuses"] = json!([{
            "name": "main", "image": "a:1", "imageID": "", "ready": false, "restartCount": restarts,
        }]);
        let pod = Pods::view(TrimmedPod(serde_json::from_value(pod).unwrap())).unwrap();
        replica.inputs.try_send(Input::Pod(Shown::Applied(pod))).unwrap();
    }
    assert_eq!(rest(&replica).await - before, 1);
}

/// Waits until nothing is decided for a while. Returns how often something was.
async fn rest(replica: &Replica) -> u64 {
    loop {
        let before = replica.metrics.passes();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if replica.metrics.passes() == before {
            return before;
        }
    }
}

/// Objects are read at the start of a term, once for all sets of a namespace: each list is as much work for
/// the API server as the namespace is large.
#[tokio::test]
async fn a_term_begins_with_one_list_of_each_kind_for_all_sets() {
    let server = Shared::default();
    let replica = Replica::new("one", &server);
    for input in lists().into_iter().chain(twenty(|set| set["spec"]["replicas"] = 0.into())) {
        replica.inputs.send(input).await.unwrap();
    }
    replica.leads(true);
    until(&server, "all have a revision", |server| server.count("one", "POST controllerrevisions") >= 20)
        .await;
    let server = server.lock().unwrap();
    let lists = ["GET pods", "GET persistentvolumeclaims", "GET controllerrevisions", "GET clonesets"];
    assert_eq!(lists.map(|list| server.count("one", list)), [1; 4], "{:?}", server.asked);
    assert!(server.asked[..4].iter().all(|(_, asked)| asked.starts_with("GET ")), "{:?}", server.asked);
}

/// A definition of another version: a set whose status is not kept as it is written does not write it again
/// and again.
#[tokio::test]
async fn a_status_that_is_not_kept_is_not_written_again_and_again() {
    let server = Arc::new(Mutex::new(Server { prunes: Some("replicas"), ..Server::default() }));
    let replica = Replica::start("one", &server).await;
    replica.leads(true);
    until(&server, "it is said", |server| server.status["replicas"] == 3).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    let server = server.lock().unwrap();
    // One of the new generation, and one of its pods.
    assert!(server.count("one", "PATCH clonesets") <= 2, "{:?}", server.asked);
}

/// A webhook that fails on every new pod: the status says so, other pods get what is theirs, and the API
/// server is asked less and less.
#[tokio::test]
async fn a_webhook_that_fails_is_said_and_asked_less_and_less() {
    let server = Arc::new(Mutex::new(Server { fails: Some("shop"), ..Server::default() }));
    let begun = Instant::now();
    let replica = Replica::start("one", &server).await;
    replica.leads(true);
    until(&server, "it is said", |server| server.status.to_string().contains("failed calling webhook")).await;
    assert_eq!(server.lock().unwrap().status["conditions"][0]["type"], "FailedScale");
    tokio::time::sleep(Duration::from_millis(1400)).await;
    let tries = server.lock().unwrap().count("one", "POST pods");
    // Three pods a try, and one try before those that follow less and less often.
    let most = 3 * (1 + most_failing(begun.elapsed()));
    assert!((3..=most).contains(&tries), "{tries}, at most {most}: {:?}", server.lock().unwrap().asked);
    server.lock().unwrap().fails = None;
    until(&server, "its pods are made", |server| server.objects["pods"].len() == 3).await;
    until(&server, "nothing has failed", |server| server.status["conditions"] == Value::Null).await;
    let server = server.lock().unwrap();
    assert_eq!(server.objects["pods"].len(), 3, "none is made twice");
}

/// An admission policy that refuses one pod stalls nothing: the others are made, the status says so, and it
/// is tried again after pauses.
#[tokio::test]
async fn an_orphan_that_cannot_be_adopted_stalls_nothing() {
    let served = Served::default();
    let labels = json!({ "app": "db" });
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
        "metadata": { "namespace": "ns", "name": "db", "uid": "db", "generation": 1, "resourceVersion": "1" },
        "spec": {
            "replicas": 3, "podManagementPolicy": "Parallel", "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "a:1" }] },
            },
        },
    });
    let orphan = json!({
        "metadata": { "namespace": "ns", "name": "db-1", "uid": "db-1", "resourceVersion": "1", "labels": labels },
        "spec": { "containers": [] },
    });
    served.put("statefulsets", &set);
    served.put("pods", &orphan);
    served.refuse(Method::PATCH, "db-1", 422);
    let begun = Instant::now();
    let (inputs, receiver) = mpsc::channel(64);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Cluster::default().listed());
    let connections = Connections { tenure, writer: served.writer(), listed };
    tokio::spawn(
        Controller { settings: Settings::default(), most_held: crate::cluster::MOST_HELD, connections }
            .run(receiver),
    );
    let kind = KINDS.into_iter().find(|kind| kind.name == "StatefulSet").unwrap();
    let shown = kind.read(serde_json::from_value(set).unwrap()).unwrap();
    let pod = Pods::view(TrimmedPod(serde_json::from_value(orphan).unwrap())).unwrap();
    let shown = [Input::Set(kind, Shown::Applied(Filed::new(shown))), Input::Pod(Shown::Applied(pod))];
    for input in lists().into_iter().chain(shown) {
        inputs.send(input).await.unwrap();
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(3600);
    lease.send_replace(Some(Term::of_test(until)));
    let are_made = |served: &Served| ["db-0", "db-2"].iter().all(|pod| served.get("pods", pod).is_some());
    served.until("the others are made", are_made).await;
    let says = |served: &Served| {
        let status = served.get("statefulsets", "db").unwrap_or_default()["status"].to_string();
        status.contains("pod db-1 is not adopted")
    };
    served.until("it is said", says).await;
    let is_tried = |served: &Served| served.count("PATCH pods one") >= 3;
    served.until("it is tried again, and again", is_tried).await;
    // After pauses of 1 and 2 s, or once more before them.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}: {served:?}", begun.elapsed());
}
