//! The pods of this node as the API server shows them: one watch with a field selector, as the kubelet has
//! it.
//!
//! Authors of pods can write one that takes too much memory to be read. Nothing is known of it but
//! its name: it is told of as one that cannot be read, and holds no other one up. They can also write that a
//! pod mirrors a static pod, which the node knows by another UID. Where the runtime has a pod of that UID
//! with another name, the object is taken for what it is: a pod of its own UID.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use berth_policy::{Event, Pod, PodRef, PodUid};
use berth_shim::Gate;
use futures::FutureExt;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{convert, read};
use crate::{
    agent::Agent,
    cluster::{
        client::Connection,
        follow::{Shown, Watch, follow},
        node_pods::{MIRROR_ANNOTATION, identity},
        raw::{self, Raw, Untyped},
        v1 as core,
    },
};

/// Onlooker that sees the pods as they are, and not only the fields that the policy needs. Nothing of it may
/// block.
pub(crate) trait Onlooker: std::fmt::Debug + Send + Sync {
    /// The watch shows this, new or changed.
    fn seen(&self, pod: &core::Pod);
    /// It is not there any more.
    fn gone(&self, _pod: &PodUid) {}
    /// The watch is complete, with these pods and no others.
    fn listed(&self, _is_there: &dyn Fn(&PodUid) -> bool) {}
    /// The watch was lost.
    fn lost(&self) {}
}

/// A pod as the watch brings it.
#[derive(Debug)]
enum Sent {
    Read(Box<core::Pod>),
    /// It cannot be read. Its identity, and why.
    Unread(PodRef, Untyped),
}

/// Pods of the watch that cannot be read.
type Unread = BTreeMap<PodUid, PodRef>;

/// The watch and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct ApiView {
    agent: Arc<Agent>,
    connection: Connection,
    node: String,
    onlookers: Vec<Arc<dyn Onlooker>>,
    health: watch::Sender<Health>,
}

/// How the watch is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// It was complete at least once.
    pub synced: bool,
    /// Why it does not follow.
    pub error: Option<String>,
}

impl ApiView {
    /// A view that does nothing before [`ApiView::run`].
    pub(crate) fn new(
        agent: Arc<Agent>,
        connection: Connection,
        node: String,
        onlookers: Vec<Arc<dyn Onlooker>>,
    ) -> Self {
        Self { agent, connection, node, onlookers, health: watch::Sender::default() }
    }

    /// How the watch is, now and later.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Watches until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let watch = Watch {
            what: "pods",
            single: false,
            // Nothing works without them, and rights may come after the agent.
            insists: true,
            selected: watcher::Config::default().fields(&format!("spec.nodeName={}", self.node)),
        };
        let mut unread = Unread::new();
        let each = |shown| self.take(shown, &mut unread);
        let api = raw::all::<core::Pod>;
        let followed = follow(&self.connection, &watch, api, Sent::of, |_| ready(Ok(true)).boxed(), each);
        // Cancel-safe: dropping the watch loses nothing that was applied.
        shutdown.run_until_cancelled(followed).await;
    }

    fn take(&self, shown: Shown<Sent>, unread: &mut Unread) {
        match shown {
            Shown::Listed(sent) => {
                let (before, mut pods) = (std::mem::take(unread), Vec::new());
                for sent in sent {
                    match sent {
                        Sent::Read(pod) => {
                            let pod = self.unmasked(*pod);
                            self.seen(&pod);
                            pods.extend(convert::pod(pod));
                        }
                        Sent::Unread(pod, why) => {
                            if !before.contains_key(&pod.uid) {
                                tell(&pod, &why);
                            }
                            unread.insert(pod.uid.clone(), pod);
                        }
                    }
                }
                if !(before.is_empty() && unread.is_empty()) {
                    self.unread(unread);
                }
                self.listed(pods);
            }
            Shown::Applied(Sent::Read(pod)) => {
                let pod = self.unmasked(*pod);
                self.seen(&pod);
                if let Some(pod) = convert::pod(pod) {
                    self.read(&pod.pod.uid, unread);
                    self.agent.observe(Event::PodSeen(Box::new(pod)));
                }
            }
            Shown::Applied(Sent::Unread(pod, why)) => {
                if !unread.contains_key(&pod.uid) {
                    tell(&pod, &why);
                }
                unread.insert(pod.uid.clone(), pod);
                // Each time: the kubelet may have shown it whole, as it was before.
                self.unread(unread);
            }
            Shown::Deleted(sent) => {
                let own = match sent {
                    Sent::Read(pod) => pod.metadata.uid.map(PodUid::from),
                    Sent::Unread(pod, _) => Some(pod.uid),
                };
                if let Some(own) = own {
                    self.read(&own, unread);
                    self.gone(own.clone());
                    // And as the mirror that it was taken for, whatever the runtime has by now: what it says
                    // to mirror may be somebody else's.
                    let mirrored = self.agent.read(|node, _| node.local_uid(&own));
                    if mirrored != own {
                        self.gone(mirrored);
                    }
                }
            }
            Shown::NotInstalled(why) => self.broke(why),
            Shown::Refused(error) | Shown::Lost(error) => self.broke(&error),
        }
    }

    fn broke(&self, error: &str) {
        // Read in a statement of its own: a borrow that lives on while the value is replaced is a deadlock.
        let synced = self.health.borrow().synced;
        let error = Some(format!("watch of the pods of node {}: {error}", self.node));
        self.health.send_replace(Health { synced, error });
        self.agent.metrics().view_failed();
        self.agent.metrics().view_fresh(false);
        self.agent.observe(Event::ViewFresh(false));
        self.onlookers.iter().for_each(|onlooker| onlooker.lost());
    }

    fn listed(&self, pods: Vec<Pod>) {
        let is_there = |uid: &PodUid| pods.iter().any(|pod| pod.pod.uid == *uid);
        self.onlookers.iter().for_each(|onlooker| onlooker.listed(&is_there));
        self.agent.observe(Event::PodsListed(pods));
        self.agent.observe(Event::ViewFresh(true));
        self.agent.metrics().view_fresh(true);
        self.health.send_replace(Health { synced: true, error: None });
    }

    /// The pod, without the annotation of a mirror where the runtime knows better.
    fn unmasked(&self, mut pod: core::Pod) -> core::Pod {
        let meta = &pod.metadata;
        let claimed = identity(meta).filter(|uid| Some(*uid) != meta.uid.as_deref());
        let claimed = claimed.map(|uid| {
            let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            PodRef { uid: uid.into(), namespace, name }
        });
        let is_false = |claimed: &PodRef| self.agent.read(|node, _| node.is_of_another_name(claimed));
        if let Some(PodRef { uid, namespace, name }) = claimed.filter(is_false) {
            debug!(namespace, name, pod.uid = %uid, "Pod says to mirror a pod of another name");
            pod.metadata.annotations.get_or_insert_default().remove(MIRROR_ANNOTATION);
        }
        pod
    }

    fn seen(&self, pod: &core::Pod) {
        self.onlookers.iter().for_each(|onlooker| onlooker.seen(pod));
    }

    fn unread(&self, pods: &Unread) {
        self.agent.metrics().pods_unread(pods.len());
        self.agent.observe(Event::PodsUnread(pods.values().cloned().collect()));
    }

    /// This one can be read again, or is gone.
    fn read(&self, pod: &PodUid, unread: &mut Unread) {
        if unread.remove(pod).is_some() {
            self.unread(unread);
        }
    }

    fn gone(&self, uid: PodUid) {
        self.onlookers.iter().for_each(|onlooker| onlooker.gone(&uid));
        self.agent.observe(Event::PodGone(uid));
    }
}

impl Sent {
    /// Reads it, or what says which pod it is: never fails. That it mirrors a static pod counts for nothing
    /// then: anybody may write that of any pod.
    fn of(object: Raw) -> Result<Self, Untyped> {
        let [uid, namespace, name] = ["uid", "namespace", "name"].map(|key| object.of_metadata(key));
        let pod = PodRef { uid: uid.into(), namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(match object.typed::<core::Pod>().map(Box::new) {
            Ok(read) => match read::too_wide(&read) {
                None => Self::Read(read),
                Some(why) => Self::Unread(pod, Untyped::because(why)),
            },
            Err(why) => Self::Unread(pod, why),
        })
    }
}

/// Said once for each pod.
fn tell(pod: &PodRef, why: &Untyped) {
    let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
    warn!(namespace, name, pod.uid = %uid, error = %why, "Pod cannot be read, its order is not known");
}

#[cfg(test)]
mod tests {
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
}
