//! Entries in the objects of nodes: what is read, and what is written.

use std::sync::{Arc, Mutex};

use berth_proto::crd::DesiredPod;
use http::Method;
use jiff::Timestamp;

use super::*;
use crate::{
    node_updates::{self, NodeUpdates},
    served,
    write::Wrote,
};

/// Object of the node in a version, with entries of these pods.
fn object(version: &str, pods: &[&str]) -> Value {
    let entry = |pod: &&str| node_updates::entry(&update("n", pod), set().as_ref(), Timestamp::UNIX_EPOCH);
    let entries: Vec<DesiredPod> = pods.iter().map(entry).collect();
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": version }, "spec": {},
        "status": { "desiredPods": entries },
    })
}

/// Version of the object of the node and pods with entries in it, as they are known.
type Known = Option<(&'static str, &'static [&'static str])>;

/// Carries a plan out at an API server whose object of the node has version 7 and an entry of `a`: what was
/// asked, the pods of the entries that were answered last, and the end.
async fn written(actions: Vec<Action>, known: Known) -> (String, Vec<String>, End) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let node = Arc::new(Mutex::new(object("7", &["a"])));
    let seen = asked.clone();
    let writer = served::writer(move |method, path, body| {
        let kind = if path.contains("/nodepodupdates/") { "" } else { " other" };
        seen.lock().unwrap().push(format!("{method}{kind}"));
        let mut node = node.lock().unwrap();
        match *method {
            Method::GET => node.clone(),
            _ if !kind.is_empty() => json!({ "metadata": body["metadata"], "spec": {} }),
            _ if body["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"] => json!({
                "kind": "Status", "status": "Failure", "code": 409, "metadata": {}, "message": "changed",
                "reason": "Conflict",
            }),
            _ => {
                node["status"] = body["status"].clone();
                let version: u64 = node["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                node["metadata"]["resourceVersion"] = (version + 1).to_string().into();
                node.clone()
            }
        }
    });
    let known = known.map(|(version, pods)| {
        let known = serde_json::from_value(object(version, pods)).unwrap();
        ("n".to_owned(), NodeUpdates::of(known))
    });
    let known = known.into_iter().collect();
    let plan = Plan { actions, ..Plan::default() };
    let report = writer.carry_out(set(), plan, &BTreeSet::new(), known).await;
    let answered = report.wrote.iter().rev().find_map(|wrote| match wrote {
        Wrote::NodeUpdates(node_updates) => Some(node_updates.states("set").map(|(pod, _)| pod).collect()),
        _ => None,
    });
    (asked.lock().unwrap().join(" "), answered.unwrap_or_default(), report.end)
}

/// Rows: actions, the object of the node as it is known, what is asked, and the pods that have entries then.
#[tokio::test]
async fn the_object_of_a_node_is_read_only_where_it_has_changed() {
    let put = |pod: &str| Action::UpdateInPlace(update("n", pod));
    let take = |pod: &str| Action::ForgetInPlace { node: "n".to_owned(), uid: pod.to_owned() };
    let table: [(Vec<Action>, Known, &str, &[&str]); 8] = [
        (vec![put("b")], Some(("7", &["a"])), "PATCH", &["a", "b"]),
        (vec![take("a"), put("b")], Some(("7", &["a"])), "PATCH", &["b"]),
        // Nobody has shown it yet.
        (vec![put("b")], None, "GET PATCH", &["a", "b"]),
        // What another one has written meanwhile stays.
        (vec![put("b")], Some(("6", &[])), "PATCH GET PATCH", &["a", "b"]),
        (vec![take("a")], Some(("6", &["a", "b"])), "PATCH GET PATCH", &[]),
        // That there is nothing to be written is not believed.
        (vec![put("b")], Some(("6", &["b"])), "GET PATCH", &["a", "b"]),
        (vec![put("a")], Some(("7", &["a"])), "GET", &["a"]),
        // What is known is used once.
        (vec![put("b"), open("c"), take("a")], Some(("7", &["a"])), "PATCH PATCH other GET PATCH", &["b"]),
    ];
    for (actions, known, asked, pods) in table {
        let written = written(actions, known).await;
        let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        assert_eq!(written, (asked.to_owned(), pods, End::Done), "{known:?}");
    }
}
