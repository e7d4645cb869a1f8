//! The watch against an API server that is played, and single things that it brings.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::{
    agent::{metrics::AgentMetrics, store::Store},
    cluster::{
        client::Source,
        fake::{Answer, FakeApi},
    },
};

/// A kubeconfig for an API server that refuses connections.
const NOBODY: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

fn agent(dir: &tempfile::TempDir) -> Arc<Agent> {
    let store = Arc::new(Store::open(dir.path()).unwrap());
    let metrics = AgentMetrics::register(&mut Registry::default());
    Arc::new(Agent::new(berth_policy::Config::default(), store, metrics))
}

/// Names of the pods that an onlooker was shown.
#[derive(Debug, Default)]
struct Looked(Mutex<Vec<String>>);

impl Onlooker for Looked {
    fn seen(&self, pod: &core::Pod) {
        self.0.lock().unwrap().extend(pod.metadata.name.clone());
    }
}

/// A pod may take more memory than any may: its author writes it so.
#[tokio::test]
async fn a_pod_that_cannot_be_read_holds_no_other_one_up() {
    let sent = |name: &str, env: usize, phase: &str| {
        let env = vec![json!({ "name": "A" }); env];
        let metadata = json!({ "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7" });
        let spec = json!({ "containers": [{ "name": "a", "env": env }] });
        json!({ "kind": "Pod", "metadata": metadata, "spec": spec, "status": { "phase": phase } })
    };
    let event = |kind: &str, object: Value| json!({ "type": kind, "object": object });
    let watched = AtomicBool::new(false);
    let api = FakeApi::new(move |question| match question.watches {
        true if watched.swap(true, Ordering::Relaxed) => Answer::Events(Vec::new()),
        true => Answer::Events(vec![
            event("MODIFIED", sent("large", 20_000, "Running")),
            event("ADDED", sent("new", 30_000, "Pending")),
            event("MODIFIED", sent("after", 1, "Succeeded")),
            event("DELETED", sent("new", 30_000, "Pending")),
            event("ADDED", sent("last", 1, "Pending")),
        ]),
        false => Answer::Object(json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": { "resourceVersion": "7" },
            "items": [sent("before", 1, "Running"), sent("large", 20_000, "Running"), sent("after", 1, "Running")],
        })),
    });
    let api = api.await;
    let dir = tempfile::tempdir().unwrap();
    let (agent, looked) = (agent(&dir), Arc::new(Looked::default()));
    let (connection, node) = (api.connection.clone(), "node-a".to_owned());
    let view = ApiView::new(agent.clone(), connection, node, vec![looked.clone()]);
    let (mut health, mut facts) = (view.health(), agent.facts());
    let task = tokio::spawn(view.run(CancellationToken::new()));
    let all = async {
        while agent.read(|node, _| node.size().pods) < 3 {
            facts.changed().await.unwrap();
        }
        health.wait_for(|health| health.synced).await.unwrap().clone()
    };
    let health = tokio::time::timeout(Duration::from_secs(20), all).await.expect("all are shown");
    assert_eq!(health.error, None);
    assert!(agent.read(|node, _| node.is_ending(&"uid-after".into())), "what came after it is seen");
    assert_eq!(*looked.0.lock().unwrap(), ["before", "after", "after", "last"]);
    assert_eq!(agent.metrics().unread(), 1, "the other one is gone");
    task.abort();
}

/// The kubelet ends such a pod, and nothing of it reaches the pod that it names.
#[test]
fn a_pod_that_says_to_mirror_somebody_elses_is_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let agent = agent(&dir);
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, NOBODY).unwrap();
    let connection = Connection::new(Source::kubeconfig(kubeconfig));
    let view = ApiView::new(agent.clone(), connection, "node-a".to_owned(), Vec::new());
    let pod = PodRef { uid: "hash".into(), namespace: "kube-system".to_owned(), name: "etcd".to_owned() };
    let declared = berth_policy::Declared::default();
    agent.observe(Event::SandboxCreated { sandbox: "s".into(), pod, declared });
    let object = |uid: &str, namespace: &str, name: &str, mirrors: &str| {
        let annotations = json!({ "kubernetes.io/config.mirror": mirrors });
        let metadata =
            json!({ "namespace": namespace, "name": name, "uid": uid, "annotations": annotations });
        let object = json!({ "metadata": metadata, "spec": { "containers": [] } });
        Sent::Read(Box::new(serde_json::from_value(object).unwrap()))
    };
    let sent = |namespace: &str, name: &str, mirrors: &str| object("own", namespace, name, mirrors);
    let local = || agent.read(|node, _| node.local_uid(&"own".into()).to_string());
    let table = [
        ("kube-system", "etcd", "hash", "hash"),
        ("thiefs", "etcd", "hash", "own"),
        ("kube-system", "thief", "hash", "own"),
        ("thiefs", "thief", "of-nobody", "of-nobody"),
    ];
    for (namespace, name, mirrors, expected) in table {
        let mut unread = Unread::new();
        view.take(Shown::Listed(vec![sent(namespace, name, mirrors)]), &mut unread);
        assert_eq!(local(), expected, "listed {namespace}/{name} {mirrors}");
        view.take(Shown::Listed(Vec::new()), &mut unread);
        view.take(Shown::Applied(sent(namespace, name, mirrors)), &mut unread);
        assert_eq!(local(), expected, "applied {namespace}/{name} {mirrors}");
        assert_eq!(agent.read(|node, _| node.size().pods), 1);
        view.take(Shown::Deleted(sent(namespace, name, mirrors)), &mut unread);
        assert_eq!(agent.read(|node, _| node.size().pods), 0);
    }
    // It goes while the runtime has no such pod: the one that it names stays in view.
    let mut unread = Unread::new();
    view.take(Shown::Applied(object("mirror", "kube-system", "etcd", "hash")), &mut unread);
    view.take(Shown::Applied(sent("thiefs", "etcd", "hash")), &mut unread);
    agent.observe(Event::SandboxRemoved("s".into()));
    view.take(Shown::Deleted(sent("thiefs", "etcd", "hash")), &mut unread);
    assert_eq!(agent.read(|node, _| node.local_uid(&"mirror".into()).to_string()), "hash");
    assert_eq!(agent.read(|node, _| node.size().pods), 1);
}

#[tokio::test]
async fn an_api_server_that_is_away_is_told_and_ends_with_the_agent() {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, NOBODY).unwrap();
    let view = ApiView::new(
        agent(&dir),
        Connection::new(Source::kubeconfig(kubeconfig)),
        "node-a".to_owned(),
        Vec::new(),
    );
    let mut health = view.health();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(view.run(shutdown.clone()));
    let limit = Duration::from_secs(20);
    let told = tokio::time::timeout(limit, health.wait_for(|health| health.error.is_some()));
    let told = told.await.expect("told in time").unwrap().clone();
    assert!(!told.synced);
    assert!(told.error.unwrap().contains("node-a"));
    shutdown.cancel();
    tokio::time::timeout(limit, task).await.expect("ends in time").unwrap();
}
