//! berth-manager at a real API server: with the rights that `deploy/` gives it, and nodes and pods that exist
//! on paper, because nothing of what it does needs more. One test has a real pod.

mod away;
mod events;
mod images;
mod ownership;
mod room;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use berth_proto::crd::{ContainerRecreateRequest, RecreatePhase, StatusContext};
use berth_tests::manifest::Container;
use berth_tests::node::{ControlPlane, Manager, NODE_NAME, Replica, User, crds, deploy};
use berth_tests::wait::await_condition;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::api_server::namespace;
use crate::case::{Case, PATIENCE, container, run_alone};

/// Where the Lease is, as in `deploy/`, and a duration short enough to wait for: and long enough for a leader
/// that gets no processor for a while to keep it.
const LEASE: (&str, u16) = ("berth-system", 9);
/// Duration that nobody waits for.
const LONG_LEASE: (&str, u16) = ("berth-system", 120);
/// Time limit for what is done at once. It takes some 50 ms, and far longer on a machine with other work to
/// do; and the manager looks at no request and no job anew within 30 s.
const AT_ONCE: Duration = Duration::from_secs(20);

/// One API server for all of these tests, without the policy that refuses bad requests.
static PLANE: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
/// There is one Lease, so the tests take turns.
static TURN: Mutex<()> = Mutex::const_new(());

struct Stage {
    plane: &'static ControlPlane,
    client: Client,
    requests: Api<ContainerRecreateRequest>,
    pods: Api<Pod>,
    nodes: Api<Node>,
    kubeconfig: std::path::PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    async fn set(name: &str) -> Result<Self> {
        let turn = TURN.lock().await;
        crate::slots::take().await;
        let bring_up = async || {
            let started = async {
                let plane = ControlPlane::without_controllers().await?;
                let client = plane.client().await?;
                for part in
                    ["namespace.yaml", "rbac", "policies/manager.yaml", "policies/manager-status.yaml"]
                {
                    deploy::apply(&client, part).await?;
                }
                crds::install(&client).await?;
                anyhow::Ok(plane)
            };
            started.await.map_err(|error| format!("{error:#}"))
        };
        let plane = PLANE.get_or_init(bring_up).await;
        let plane = plane.as_ref().map_err(|error| anyhow!("the API server did not come up: {error}"))?;
        let client = plane.client().await?;
        namespace(&client, name).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "berth-system");
        let token = accounts
            .create_token_request("berth-manager", &PostParams::default(), &TokenRequest::default())
            .await
            .context("a token for the manager")?;
        let token = token.status.context("a token without a status")?.token;
        Ok(Self {
            plane,
            requests: Api::namespaced(client.clone(), name),
            pods: Api::namespaced(client.clone(), name),
            nodes: Api::all(client.clone()),
            kubeconfig: plane.api().kubeconfig_with("berth-manager", &token)?,
            client,
            _turn: turn,
        })
    }

    async fn manager(&self, replica: Replica) -> Result<Manager> {
        Manager::start(self.plane.run(), replica, &self.kubeconfig, LEASE).await
    }

    async fn node(&self, name: &str) -> Result<()> {
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        self.nodes.create(&PostParams::default(), &node).await.context("make a node")?;
        Ok(())
    }

    /// A pod that runs on a node, on paper: a sidecar, an init container and two containers.
    async fn pod(&self, name: &str, node: &str) -> Result<()> {
        let image = |name: &str| json!({ "name": name, "image": "none" });
        let mut sidecar = image("sidecar");
        sidecar["restartPolicy"] = "Always".into();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "nodeName": node,
                "initContainers": [sidecar, image("init")],
                "containers": [image("a"), image("b"), image("late")],
            },
        }))?;
        self.pods.create(&PostParams::default(), &pod).await.context("make a pod")?;
        let status = |container: &str, restarts: i32| {
            json!({
                "name": container, "containerID": id(name, container), "restartCount": restarts,
                "image": "none", "imageID": "none", "ready": true, "state": { "running": {} },
            })
        };
        let status = json!({ "status": {
            "phase": "Running",
            "initContainerStatuses": [status("sidecar", 3), status("init", 0)],
            "containerStatuses": [status("a", 1), status("b", 2)],
        }});
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
        Ok(())
    }

    async fn ask(&self, name: &str, spec: Value) -> Result<()> {
        self.requests.create(&PostParams::default(), &request(name, spec)?).await.context("ask")?;
        Ok(())
    }

    async fn await_assigned(&self, name: &str) -> Result<ContainerRecreateRequest> {
        await_assigned(&self.requests, name).await
    }

    /// Waits for the request's end; its reason and its message.
    async fn await_failed(&self, name: &str) -> Result<(String, String)> {
        await_condition(format!("request {name} has failed"), PATIENCE, async || {
            let status = self.requests.get(name).await?.status.context("no status")?;
            ensure!(status.phase == Some(RecreatePhase::Completed), "{status:?}");
            let failed = status.conditions.iter().find(|condition| condition.type_ == "Failed");
            let failed = failed.context("completed without the condition Failed")?;
            ensure!(
                failed.status == "True" && Some(&failed.message) == status.message.as_ref(),
                "{status:?}"
            );
            ensure!(status.completion_time.is_some(), "{status:?}");
            Ok((failed.reason.clone(), failed.message.clone()))
        })
        .await
    }
}

/// A container ID as a runtime makes them, from any two names.
fn id(pod: &str, container: &str) -> String {
    let digits: String = format!("{pod}/{container}").bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("containerd://{digits:0>64}")
}

fn request(name: &str, spec: Value) -> Result<ContainerRecreateRequest> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ContainerRecreateRequest",
        "metadata": { "name": name },
        "spec": spec,
    }))?)
}

fn asks_for(pod: &str, containers: &[&str]) -> Value {
    let containers: Vec<_> = containers.iter().map(|name| json!({ "name": name })).collect();
    json!({ "podName": pod, "containers": containers })
}

async fn await_assigned(
    requests: &Api<ContainerRecreateRequest>,
    name: &str,
) -> Result<ContainerRecreateRequest> {
    await_condition(format!("request {name} is assigned"), PATIENCE, async || {
        let request = requests.get(name).await?;
        let status = request.status.as_ref().context("no status")?;
        ensure!(status.node_name.is_some(), "{status:?}");
        Ok(request)
    })
    .await
}

#[tokio::test]
async fn a_real_pod_is_assigned() -> Result<()> {
    // It would assign what other tests ask for, and take back entries of nodes that they have written.
    run_alone("a_real_pod_is_assigned", async |case: &Case| {
        let client = case.node.client().await?;
        crds::install(&client).await?;
        let kubeconfig = case.node.api()?.kubeconfig(User::Admin)?;
        let manager =
            Manager::start(case.node.run(), Replica::First, &kubeconfig, (&case.namespace, 15)).await?;
        manager.leads().await?;
        let sidecar = Container::new("sidecar").field("restartPolicy", "Always");
        let manifest = case.manifest("pod").init_container(sidecar).container(Container::new("a"));
        case.create(&manifest).await?;
        let pod = case.await_ready("pod").await?;

        let requests: Api<ContainerRecreateRequest> = Api::namespaced(client, &case.namespace);
        let asked = request("r", asks_for("pod", &["a", "sidecar"]))?;
        requests.create(&PostParams::default(), &asked).await?;
        let begun = Instant::now();
        let status = await_assigned(&requests, "r").await?.status.context("no status")?;
        let elapsed = begun.elapsed();
        ensure!(status.node_name.as_deref() == Some(NODE_NAME), "{status:?}");
        ensure!(status.pod_uid == pod.uid(), "{status:?}");
        let statuses = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
        let sidecar = statuses.and_then(|statuses| statuses.first()).context("no status of the sidecar")?;
        let expected =
            [("a", container(&pod, "a")?), ("sidecar", sidecar)].map(|(name, status)| StatusContext {
                name: name.to_owned(),
                container_id: status.container_id.clone().unwrap_or_default(),
                restart_count: status.restart_count,
            });
        ensure!(status.container_status_contexts == expected, "{status:?}");
        ensure!(expected[0].container_id.starts_with("containerd://"), "{expected:?}");
        ensure!(elapsed < AT_ONCE, "{elapsed:?}");
        // This manager must not meet those of other tests on the same node.
        manager.service().stop()
    })
    .await
}

#[tokio::test]
async fn what_cannot_be_carried_out_fails_with_a_reason() -> Result<()> {
    let stage = Stage::set("manager-reasons").await?;
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    stage.node("reasons").await?;
    stage.pod("p", "reasons").await?;
    let with = |field: &str, value: i64| {
        let mut spec = asks_for("p", &["a"]);
        spec["strategy"] = json!({ field: value });
        spec
    };
    let mut short = asks_for("p", &["a"]);
    short["activeDeadlineSeconds"] = 2.into();
    let cases = [
        ("no-pod-name", asks_for("", &["a"]), "InvalidSpec", "spec.podName"),
        ("no-containers", asks_for("p", &[]), "InvalidSpec", "spec.containers"),
        ("short-deadline", short, "InvalidSpec", "spec.activeDeadlineSeconds"),
        (
            "negative-grace",
            with("terminationGracePeriodSeconds", -1),
            "InvalidSpec",
            "terminationGracePeriodSeconds",
        ),
        ("no-pod", asks_for("other", &["a"]), "PodNotFound", "\"other\""),
        ("no-container", asks_for("p", &["a", "z"]), "ContainerNotFound", "\"z\""),
        ("init-container", asks_for("p", &["init"]), "InitContainer", "\"init\""),
        ("not-started", asks_for("p", &["late"]), "ContainerNotStarted", "\"late\""),
    ];
    let mut expected = Vec::new();
    for (name, spec, reason, word) in cases {
        // The definition itself may refuse what the policy would: then nothing is left for the manager to
        // say.
        match stage.requests.create(&PostParams::default(), &request(name, spec)?).await {
            Ok(_) => expected.push((name, reason, word)),
            Err(kube::Error::Api(status)) if status.code == 422 => eprintln!("{name}: {}", status.message),
            Err(error) => return Err(error).context(name),
        }
    }
    ensure!(expected.len() >= 4, "the manager gets nothing to do: {expected:?}");
    for (name, reason, word) in expected {
        let (found, message) = stage.await_failed(name).await?;
        ensure!(found == reason && message.contains(word), "{name}: {found}: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn a_request_is_assigned_and_a_restart_changes_nothing() -> Result<()> {
    let stage = Stage::set("manager-restart").await?;
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    stage.node("restart").await?;
    stage.pod("p", "restart").await?;
    stage.ask("r", asks_for("p", &["b", "sidecar"])).await?;
    let begun = Instant::now();
    let request = stage.await_assigned("r").await?;
    let elapsed = begun.elapsed();
    let status = request.status.clone().context("no status")?;
    ensure!(status.node_name.as_deref() == Some("restart"), "{status:?}");
    let context = |name: &str, restarts| StatusContext {
        name: name.to_owned(),
        container_id: id("p", name),
        restart_count: restarts,
    };
    ensure!(status.container_status_contexts == [context("b", 2), context("sidecar", 3)], "{status:?}");
    ensure!(elapsed < AT_ONCE, "{elapsed:?}");

    let owner =
        request.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some("berth-manager"));
    let owner = owner.context("nobody called berth-manager has written anything")?;
    ensure!(owner.subresource.as_deref() == Some("status") && owner.operation.as_deref() == Some("Apply"));

    manager.service().stop()?;
    let next = stage.manager(Replica::Second).await?;
    next.leads().await?;
    stage.ask("later", asks_for("p", &["a"])).await?;
    stage.await_assigned("later").await?;
    let after = stage.requests.get("r").await?;
    ensure!(after.resource_version() == request.resource_version(), "it was written again");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_followed() -> Result<()> {
    let stage = Stage::set("manager-leader").await?;
    let first = stage.manager(Replica::First).await?;
    first.leads().await?;
    let second = stage.manager(Replica::Second).await?;
    stage.node("leader").await?;
    stage.pod("p", "leader").await?;
    stage.ask("before", asks_for("p", &["a"])).await?;
    stage.await_assigned("before").await?;
    let dropped = "berth_manager_writes_total{write=\"assign\",outcome=\"not_leading\"}";
    await_condition("the other has decided the same", PATIENCE, async || {
        ensure!(second.metric(dropped).await? >= 1.0, "not yet");
        Ok(())
    })
    .await?;
    ensure!(second.metric("berth_manager_leads").await? == 0.0, "two lead");

    first.service().kill()?;
    stage.ask("after", asks_for("p", &["a"])).await?;
    let begun = Instant::now();
    stage.await_assigned("after").await?;
    let elapsed = begun.elapsed();
    ensure!(elapsed < Duration::from_secs(u64::from(LEASE.1)) + AT_ONCE, "{elapsed:?}");
    second.leads().await?;

    // One that is told to stop gives the lease up: nobody waits for its end.
    second.service().stop()?;
    let second = Manager::start(stage.plane.run(), Replica::Second, &stage.kubeconfig, LONG_LEASE).await?;
    second.leads().await?;
    first.service().start()?;
    first.ready().await?;
    second.service().stop()?;
    let begun = Instant::now();
    first.leads().await?;
    let elapsed = begun.elapsed();
    ensure!(elapsed < Duration::from_secs(u64::from(LONG_LEASE.1)) / 2, "{elapsed:?}");
    Ok(())
}

#[tokio::test]
async fn a_node_or_pod_that_is_gone_ends_the_request() -> Result<()> {
    let stage = Stage::set("manager-gone").await?;
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    for name in ["gone-a", "gone-b"] {
        stage.node(name).await?;
        stage.pod(name, name).await?;
        stage.ask(name, asks_for(name, &["a"])).await?;
        stage.await_assigned(name).await?;
        // The agent of that node has begun.
        let begun = json!({ "status": { "phase": "Recreating" } });
        stage.requests.patch_status(name, &PatchParams::default(), &Patch::Merge(&begun)).await?;
    }
    stage.nodes.delete("gone-a", &DeleteParams::default()).await?;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    stage.pods.delete("gone-b", &now).await?;
    let (reason, message) = stage.await_failed("gone-a").await?;
    ensure!(reason == "NodeGone" && message.contains("\"gone-a\""), "{reason}: {message}");
    let (reason, message) = stage.await_failed("gone-b").await?;
    ensure!(reason == "PodGone" && message == "pod has gone", "{reason}: {message}");
    // The assignment stays: it is what was true.
    let status = stage.requests.get("gone-a").await?.status.context("no status")?;
    ensure!(status.node_name.as_deref() == Some("gone-a"), "{status:?}");
    ensure!(status.container_status_contexts.len() == 1, "{status:?}");
    Ok(())
}
