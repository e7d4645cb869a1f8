//! One test's share of the common node: its namespace, its pods, its turn.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_tests::manifest::PodManifest;
use berth_tests::node::Node;
use berth_tests::observe::{Cri, Recorder};
use berth_tests::wait::await_condition;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Namespace, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::slots;

/// Far more than anything here takes on a machine with other work to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The same for many pods, one after the other.
pub(crate) const ROLLOUT: Duration = Duration::from_secs(300);
/// Script of a container that ends as soon as it is told to.
pub(crate) const ENDS_AT_ONCE: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// A node that tests share, and the turns on it: a test that disturbs the node disturbs no other one.
struct Bed {
    /// When it does not come up, every test says why, and none tries again.
    node: OnceCell<Result<Node, String>>,
    /// Written by tests that disturb the node.
    turn: RwLock<()>,
}

/// The node of most tests.
static NODE: Bed = Bed::new();
/// The node of the tests of path `beside`.
static BESIDE: Bed = Bed::new();
/// The node of the tests of path `takeover`.
static TAKEOVER: Bed = Bed::new();
/// The node of those with a `berth-shim` in the place.
static TAKEOVER_BEHIND_SHIM: Bed = Bed::new();
/// The node of the tests of two programs; berthd has all rights there.
static BEHIND_SHIM: Bed = Bed::new();
/// The node of the tests of updates: berthd has a token of its own there, and all policies count.
static UPDATING: Bed = Bed::new();
/// Set, it leaves berthd out. Then the tests of an order have to fail: it shows that they can.
const WITHOUT_BERTH: &str = "BERTH_TESTS_WITHOUT_BERTH";

/// Tests that a test may meet on its node.
enum Company {
    Others,
    Nobody,
}

/// Held for the test's duration.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A test on the common node.
pub(crate) struct Case {
    pub(crate) node: &'static Node,
    pub(crate) namespace: String,
    pub(crate) pods: Api<Pod>,
    pub(crate) cri: Cri,
    turn: Turn,
}

/// Runs a test beside others.
pub(crate) async fn run(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    NODE.run(Company::Others, name, common, test).await
}

/// Runs a test that others must not meet.
pub(crate) async fn run_alone(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    NODE.run(Company::Nobody, name, common, test).await
}

async fn common() -> Result<Node> {
    let berth = std::env::var_os(WITHOUT_BERTH).is_none();
    Node::builder().berth(berth).start().await
}

/// Runs a test on the node whose kubelet speaks to containerd itself, with berthd beside them.
pub(crate) async fn run_beside(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    let bring_up = async || Node::builder().beside().controllers(true).start_updating().await;
    BESIDE.run(Company::Others, name, bring_up, test).await
}

/// Runs a test, that others must not meet, on the node whose berthd has taken containerd's place.
pub(crate) async fn run_takeover(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    TAKEOVER.run(Company::Nobody, name, async || Node::builder().takeover().start().await, test).await
}

/// Runs a test, that others must not meet, on the node where a `berth-shim` has taken containerd's place.
pub(crate) async fn run_takeover_behind_shim(
    name: &str,
    test: impl AsyncFnOnce(&Case) -> Result<()>,
) -> Result<()> {
    let bring_up = async || Node::builder().takeover_behind_shim().start().await;
    TAKEOVER_BEHIND_SHIM.run(Company::Nobody, name, bring_up, test).await
}

/// Runs a test, that others must not meet, on the node that has a `berth-shim` and a berthd.
pub(crate) async fn run_behind_shim(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    let bring_up = async || Node::builder().two_programs().controllers(true).start_updating().await;
    BEHIND_SHIM.run(Company::Nobody, name, bring_up, test).await
}

/// Runs a test on the node whose berthd may change pods. There are controllers too.
pub(crate) async fn run_updating(name: &str, test: impl AsyncFnOnce(&Case) -> Result<()>) -> Result<()> {
    UPDATING.run(Company::Others, name, updating, test).await
}

/// The same for a test that others must not meet.
pub(crate) async fn run_updating_alone(
    name: &str,
    test: impl AsyncFnOnce(&Case) -> Result<()>,
) -> Result<()> {
    UPDATING.run(Company::Nobody, name, updating, test).await
}

async fn updating() -> Result<Node> {
    Node::builder().controllers(true).start_updating().await
}

impl Bed {
    const fn new() -> Self {
        Self { node: OnceCell::const_new(), turn: RwLock::const_new(()) }
    }

    /// Runs a test on this node.
    async fn run(
        &'static self,
        company: Company,
        name: &str,
        bring_up: impl AsyncFnOnce() -> Result<Node>,
        test: impl AsyncFnOnce(&Case) -> Result<()>,
    ) -> Result<()> {
        let node = self.node(bring_up).await;
        let turn = match company {
            Company::Others => Turn::Shared { _guard: self.turn.read().await },
            Company::Nobody => Turn::Alone { _guard: self.turn.write().await },
        };
        slots::take().await;
        in_namespace(name, turn, node, test).await
    }

    async fn node(
        &'static self,
        bring_up: impl AsyncFnOnce() -> Result<Node>,
    ) -> &'static Result<Node, String> {
        let started = async || {
            slots::take().await;
            let node = bring_up().await.map_err(|error| format!("{error:#}"));
            // Whoever has brought it up waits for its turn as all others do.
            slots::give_back();
            node
        };
        self.node.get_or_init(started).await
    }
}

async fn in_namespace(
    name: &str,
    turn: Turn,
    node: &'static Result<Node, String>,
    test: impl AsyncFnOnce(&Case) -> Result<()>,
) -> Result<()> {
    let node = node.as_ref().map_err(|error| anyhow!("the node did not come up: {error}"))?;
    let client = node.client().await?;
    let case = Case::begin(node, client, name, turn).await?;
    let outcome = test(&case).await;
    // Pods that go on cost the tests after this one; when the test failed, they say how it looked at the end.
    if outcome.is_err() {
        eprintln!(
            "{name}: {}",
            case.picture().await.unwrap_or_else(|error| format!("no picture: {error:#}"))
        );
        case.restore_node().await;
    }
    let removed = case.remove_pods().await;
    if let (Err(_), Err(error)) = (&outcome, &removed) {
        eprintln!("{name}: its pods stay: {error:#}");
    }
    // The reason why it failed counts more than what came of that.
    outcome.and(removed)
}

impl Case {
    async fn begin(node: &'static Node, client: Client, name: &str, turn: Turn) -> Result<Self> {
        let namespace = name.replace('_', "-");
        // What agents may write where nothing is said has cases of its own, without a node.
        let annotations = json!({ "berth.dev/agent-labels": "*" });
        let object: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": namespace, "annotations": annotations } }))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &object).await.context("make a namespace")?;
        let pods = Api::namespaced(client, &namespace);
        Ok(Self { node, namespace, pods, cri: node.containerd().cri()?, turn })
    }

    /// A manifest of a pod in this test's namespace.
    pub(crate) fn manifest(&self, name: &str) -> PodManifest {
        PodManifest::new(&self.namespace, name)
    }

    pub(crate) async fn create(&self, manifest: &PodManifest) -> Result<Pod> {
        self.pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")
    }

    /// Watches the pod's containers in the runtime from now on.
    pub(crate) fn record(&self, pod: &str) -> Recorder {
        Recorder::watch(&self.cri, &self.namespace, pod)
    }

    /// Waits until `condition` accepts the pod.
    pub(crate) async fn await_pod(
        &self,
        pod: &str,
        what: &str,
        condition: impl Fn(&Pod) -> Result<()>,
    ) -> Result<Pod> {
        await_condition(format!("pod {pod}: {what}"), PATIENCE, async || {
            let pod = self.pods.get(pod).await?;
            condition(&pod)?;
            Ok(pod)
        })
        .await
    }

    pub(crate) async fn await_ready(&self, pod: &str) -> Result<Pod> {
        self.await_pod(pod, "Ready", is_ready).await
    }

    /// Deletes with the pod's own grace and waits until the object is gone.
    pub(crate) async fn delete(&self, pod: &str) -> Result<()> {
        self.pods.delete(pod, &DeleteParams::default()).await.context("delete a pod")?;
        self.await_gone(pod).await
    }

    pub(crate) async fn await_gone(&self, pod: &str) -> Result<()> {
        await_condition(format!("pod {pod}: gone"), PATIENCE, async || match self.pods.get_opt(pod).await? {
            None => Ok(()),
            Some(pod) => bail!("{}", serde_json::to_string(&pod.status)?),
        })
        .await
    }

    /// Runs a script in the newest container of that name, past Berth and the API server.
    pub(crate) async fn inside(&self, pod: &str, name: &str, script: &str) -> Result<()> {
        let id = self.newest(pod, name).await?;
        let (code, output) = self.cri.exec(&id, &["/bin/sh", "-c", script]).await?;
        ensure!(code == 0, "{script}: exit {code}: {output}");
        Ok(())
    }

    /// Ends the newest container of that name as if its program had ended by itself. The program takes
    /// SIGTERM for a reason to end, as soon as it listens: as the first process of its container it would not
    /// hear one that comes before.
    pub(crate) async fn end(&self, pod: &str, name: &str) -> Result<()> {
        let id = self.newest(pod, name).await?;
        let containerd = self.node.containerd();
        let tasks = containerd.ctr(&["task", "list"]).await?;
        let task =
            tasks.lines().find(|line| line.starts_with(&id)).with_context(|| format!("no task {id}"))?;
        let pid = task.split_whitespace().nth(1).with_context(|| task.to_owned())?.to_owned();
        await_condition(format!("{name} hears SIGTERM"), PATIENCE, async || catches_sigterm(&pid)).await?;
        containerd.ctr(&["task", "kill", "--signal", "SIGTERM", &id]).await?;
        Ok(())
    }

    async fn newest(&self, pod: &str, name: &str) -> Result<String> {
        let containers = self.cri.containers(&self.namespace, pod).await?;
        let newest = containers.into_iter().rfind(|instance| instance.name == name);
        Ok(newest.with_context(|| format!("pod {pod} has no container {name}"))?.id)
    }

    async fn remove_pods(&self) -> Result<()> {
        // A Job would make them anew.
        let jobs: Api<Job> = Api::namespaced(self.pods.clone().into_client(), &self.namespace);
        jobs.delete_collection(&DeleteParams::background(), &Default::default())
            .await
            .context("remove the Jobs")?;
        for pod in self.pods.list(&Default::default()).await?.items {
            let now = DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
            match self.pods.delete(&pod.name_any(), &now).await {
                // Whoever made it was faster.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                removed => drop(removed.context("remove a pod")?),
            }
        }
        Ok(())
    }

    /// Leaves a whole node to the tests that follow a failed one which was alone with it, and tells what its
    /// programs have said.
    async fn restore_node(&self) {
        let Turn::Alone { .. } = self.turn else { return };
        if let Ok(berthd) = self.node.berthd() {
            eprintln!("berthd said:\n{}", berthd.service().last_words());
        }
        eprintln!("containerd said:\n{}", self.node.containerd().service().last_words());
        if let Ok(kubelet) = self.node.kubelet() {
            eprintln!("the kubelet said:\n{}", kubelet.service().last_words());
        }
        if let Err(error) = self.node.restore().await {
            eprintln!("the node does not come back: {error:#}");
        }
    }

    /// The pods, sandboxes and containers as they are, and their Events, for the reader of a failure.
    async fn picture(&self) -> Result<String> {
        let mut picture = String::new();
        for pod in self.pods.list(&Default::default()).await?.items {
            let name = pod.name_any();
            picture += &format!("\npod {name}: {}", serde_json::to_string(&pod.status)?);
            for sandbox in self.cri.sandboxes(&self.namespace, &name).await? {
                picture += &format!("\n  sandbox {}: {:?}", sandbox.id, sandbox.state());
            }
            for instance in self.cri.containers(&self.namespace, &name).await? {
                picture += &format!("\n  {instance:?}");
            }
        }
        let events: Api<Event> = Api::namespaced(self.pods.clone().into_client(), &self.namespace);
        for event in events.list(&Default::default()).await?.items {
            let of = event.involved_object.name.unwrap_or_default();
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            picture += &format!("\nEvent of {of}, {} times: {reason}: {message}", event.count.unwrap_or(1));
        }
        Ok(picture)
    }
}

/// Accepts a process that has a handler for SIGTERM.
fn catches_sigterm(pid: &str) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the program has ended")?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).context("no SigCgt")?;
    let caught = u64::from_str_radix(caught.trim(), 16).with_context(|| caught.to_owned())?;
    ensure!(caught & (1 << (Signal::SIGTERM as u64 - 1)) != 0, "it does not listen yet");
    Ok(())
}

/// Accepts a pod that the kubelet calls Ready.
pub(crate) fn is_ready(pod: &Pod) -> Result<()> {
    let status = pod.status.as_ref().context("no status")?;
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    ensure!(ready.is_some_and(|condition| condition.status == "True"), "{}", serde_json::to_string(status)?);
    Ok(())
}

/// The status of one container of a pod.
pub(crate) fn container<'a>(pod: &'a Pod, name: &str) -> Result<&'a ContainerStatus> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses
        .into_iter()
        .flatten()
        .find(|status| status.name == name)
        .with_context(|| format!("no status of {name}"))
}

/// Accepts a pod in which `name` shows the message of a container that waits for `others`.
pub(crate) fn waits_for(pod: &Pod, name: &str, others: &str) -> Result<()> {
    let expected = format!("launch order: waiting for container(s) {others}");
    let message = waiting_message(pod, name)?;
    ensure!(message == expected, "{name} shows {message:?}");
    Ok(())
}

/// Returns the message that a waiting container shows as the reason.
pub(crate) fn waiting_message(pod: &Pod, name: &str) -> Result<String> {
    let status = container(pod, name)?;
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let waiting = waiting.with_context(|| format!("{name} does not wait: {:?}", status.state))?;
    waiting.message.clone().with_context(|| format!("{name} waits without a message: {waiting:?}"))
}

/// Ends a pod on paper at once, as a kubelet or the pod garbage collector would. One that is gone is well.
pub(crate) async fn end_now(pods: &Api<Pod>, name: &str) -> Result<()> {
    match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error).context("end a pod"),
    }
}
