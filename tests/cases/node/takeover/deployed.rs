//! `deploy/takeover`: the DaemonSet's pod puts a `berth-shim` in containerd's place, and whatever becomes of
//! the pod, the shim stays there and every call is answered. The pods of the node notice nothing.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::tool::run as tool;
use berth_tests::node::{NODE_NAME, Run, SystemdNode, deploy, program_images, programs};
use berth_tests::observe::{Caller, Cri, Recorder};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, EvictParams, PostParams};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use super::check_same;
use crate::case::{container, is_ready};
use crate::node_labels::await_labels;

/// Restarts with the kubelet's back-off, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(400);

/// A node with a pod of the DaemonSet on it. Its first process is a systemd, as on a real one: the guardian
/// goes there.
struct Scene {
    node: SystemdNode,
    pods: Api<Pod>,
    template: Value,
}

#[tokio::test]
async fn whatever_becomes_of_the_pod() -> Result<()> {
    let node = crate::install::node().await?;
    let run = node.systemd().of().clone();
    let programs = ["berthd", "berthctl", "berth-shim"].map(programs::berth);
    let programs = programs.into_iter().collect::<Result<Vec<_>>>()?;
    let programs: Vec<_> = programs.iter().map(PathBuf::as_path).collect();
    let archive = program_images::archive(&run, &programs).await?;
    node.import(&archive).await?;
    let scene = Scene {
        pods: Api::namespaced(node.client().await?, "default"),
        template: template(&run).await?,
        node,
    };
    let outcome = scene.play().await;
    if outcome.is_err() {
        for name in ["guardian", "berth-shim"] {
            let log = std::fs::read_to_string(run.path(format!("agent-state/{name}.log")));
            eprintln!("{name}: {}", log.unwrap_or_else(|error| error.to_string()));
        }
        // It is in no cgroup of the run.
        if let Err(error) = scene.bypass().await {
            eprintln!("berth-shim may still run: {error:#}");
        }
    }
    outcome?;
    scene.node.down()
}

/// The pods of the DaemonSet, with what is below the node's directories below the run's: at the same paths in
/// the pod and outside.
async fn template(run: &Run) -> Result<Value> {
    let objects = deploy::built(&["takeover"]).await?;
    let of_kind = |kind: &str| {
        let is = |object: &&DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == kind);
        objects.iter().find(is).map(|object| object.data.clone()).with_context(|| format!("no {kind}"))
    };
    let dir = |name: &str| run.path(name).display().to_string();
    let config =
        of_kind("ConfigMap")?["data"]["berthd.yaml"].as_str().context("no configuration")?.to_owned();
    let config = config
        .replace("/run/containerd/containerd.sock", &dir("containerd.sock"))
        // The node has no addresses of Services.
        .replace("mode: api", &format!("mode: api\n  kubeconfig: {}", dir("node.kubeconfig")));
    let (own, state) = (dir("agent-run"), dir("agent-state"));
    let config = config.replace("/run/berth/", &format!("{own}/"));
    let node = format!(
        "stateDir: {state}\nsocket: {own}/cri.sock\nadminSocket: {own}/admin.sock\nnodeName: {NODE_NAME}\n"
    );
    run.make_dir("agent-config")?;
    run.write("agent-config/berthd.yaml", &format!("{config}{node}"))?;

    let mut spec = of_kind("DaemonSet")?["spec"]["template"]["spec"].take();
    let images = dir("containerd/root");
    let places =
        [("runtime", run.dir().display().to_string()), ("state", state), ("run", own), ("images", images)];
    for (name, path) in places {
        let named = |one: &&mut Value| one["name"] == name;
        let volume = spec["volumes"].as_array_mut().into_iter().flatten().find(named);
        volume.context("no such volume")?["hostPath"]["path"] = path.as_str().into();
        let mounts = spec["containers"][0]["volumeMounts"].as_array_mut();
        let mount = mounts.into_iter().flatten().find(named).context("no such mount")?;
        if name != "images" {
            mount["mountPath"] = path.into();
        }
    }
    let config = |one: &&mut Value| one["name"] == "config";
    let volume = spec["volumes"].as_array_mut().into_iter().flatten().find(config).context("no config")?;
    *volume = json!({ "name": "config", "hostPath": { "path": dir("agent-config") } });
    // This node's API server has no accounts, and so no tokens of theirs.
    for list in ["/volumes", "/containers/0/volumeMounts"] {
        let list = spec.pointer_mut(list).and_then(Value::as_array_mut).context("no such list")?;
        list.retain(|one| one["name"] != "token");
    }
    let own = spec.as_object_mut().context("a spec")?;
    for absent in ["priorityClassName", "serviceAccountName", "affinity"] {
        own.remove(absent);
    }
    own.insert("nodeName".to_owned(), NODE_NAME.into());
    own.insert("hostNetwork".to_owned(), true.into());
    let container = &mut spec["containers"][0];
    // Where its probes find berthd.
    let admin = json!({ "name": "BERTH_ADMIN_SOCKET", "value": format!("{}/admin.sock", dir("agent-run")) });
    container["env"].as_array_mut().context("env")?.push(admin);
    (container["image"], container["imagePullPolicy"]) = ("berth.test/berthd:0.1.0".into(), "Never".into());
    Ok(spec)
}

impl Scene {
    async fn play(&self) -> Result<()> {
        self.start("one").await?;
        self.restart_kubelet().await?;
        await_labels(&self.node.client().await?, "takeover", "true").await?;
        self.in_order("first").await?;

        let shim = self.shim().await?;
        let caller = Caller::start(&self.front())?;

        // What a crash does, and the kernel when memory is short.
        self.kill("one").await?;
        await_condition("it runs again", PATIENCE, async || {
            let restarts = container(&self.pods.get("one").await?, "berthd")?.restart_count;
            ensure!(restarts == 1, "{restarts} restarts");
            Ok(())
        })
        .await?;
        self.taken("one").await.context("berthd killed")?;

        // Without a word, and without time. The next one is created by a shim that has nobody to ask.
        self.pods.delete("one", &DeleteParams::default().grace_period(0)).await?;
        self.start("two").await?;

        // What draining a node does, but that a DaemonSet's pods are left out by default; and what another
        // image does.
        self.pods.evict("two", &EvictParams::default()).await.context("evict it")?;
        await_condition("it is gone", PATIENCE, async || {
            ensure!(self.pods.get_opt("two").await?.is_none(), "it is there");
            Ok(())
        })
        .await?;
        check_same(&self.front(), &self.front().with_extension("sock.berth"))?;
        self.start("three").await?;
        self.in_order("last").await?;
        caller.all_answered().await?;
        ensure!(self.shim().await? == shim, "another berth-shim answers");

        self.bypass().await?;
        self.given_back().await.context("bypassed")?;
        self.pods.delete("three", &DeleteParams::default()).await?;
        let guardian = self.front().with_extension("sock.berth.guardian");
        await_condition("the guardian has ended", PATIENCE, async || {
            let file = std::fs::File::options().write(true).open(&guardian).context("its lock")?;
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            ensure!(lock.is_ok(), "it holds its lock");
            Ok(())
        })
        .await?;
        self.create("plain", &PodManifest::new("default", "plain").container(Container::new("a")).pod()?)
            .await?;
        self.ready("plain").await?;
        for name in ["first", "last"] {
            let pod = self.ready(name).await?;
            for one in ["a", "b"] {
                ensure!(container(&pod, one)?.restart_count == 0, "{name}: {one} was restarted");
            }
        }
        Ok(())
    }

    /// A pod of the DaemonSet, which takes the place.
    async fn start(&self, name: &str) -> Result<()> {
        let pod = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": self.template });
        self.create(name, &serde_json::from_value(pod).context("a pod")?).await?;
        self.taken(name).await
    }

    async fn create(&self, name: &str, pod: &Pod) -> Result<()> {
        self.pods
            .create(&PostParams::default(), pod)
            .await
            .with_context(|| format!("create pod {name}"))
            .map(drop)
    }

    async fn restart_kubelet(&self) -> Result<()> {
        self.node.systemd().systemctl(&["restart", "kubelet.service"]).await?;
        self.node.ready().await
    }

    async fn ready(&self, name: &str) -> Result<Pod> {
        await_condition(format!("pod {name} is Ready"), PATIENCE, async || {
            let pod = self.pods.get(name).await?;
            is_ready(&pod).map(|()| pod)
        })
        .await
    }

    /// The process of the shim.
    async fn shim(&self) -> Result<u32> {
        let socket = self.node.systemd().of().path("agent-run").join("shim.sock");
        let state = berth_shim::remote::look(&socket).await?;
        ensure!(state.agent, "no berthd is connected to the shim");
        Ok(state.pid)
    }

    /// Has containerd's place given back.
    async fn bypass(&self) -> Result<()> {
        let at = format!("--takeover={}", self.front().display());
        tool(programs::berth("berthctl")?, &["bypass", &at]).await.map(drop)
    }

    /// A pod that is listed in the wrong order starts in the right one.
    async fn in_order(&self, name: &str) -> Result<()> {
        let up = Container::new("a").shell("sleep 1; touch /tmp/up").ready_when("test -f /tmp/up");
        let pod = PodManifest::new("default", name).container(Container::new("b").priority(1));
        let recorder =
            Recorder::watch(&Cri::connect(&self.front().with_extension("sock.runtime"))?, "default", name);
        self.create(name, &pod.container(up.priority(2)).pod()?).await?;
        self.ready(name).await?;
        recorder.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)
    }

    /// The path of containerd's socket.
    fn front(&self) -> PathBuf {
        self.node.systemd().of().path("containerd.sock")
    }

    /// berthd, in this pod, has the place.
    async fn taken(&self, pod: &str) -> Result<()> {
        let front = self.front();
        await_condition("the place is taken", PATIENCE, async || {
            is_ready(&self.pods.get(pod).await?)?;
            check_same(&front, &front.with_extension("sock.berth"))?;
            Cri::connect(&front)?.version().await.map(drop)
        })
        .await
    }

    /// containerd answers at its own path again.
    async fn given_back(&self) -> Result<()> {
        let front = self.front();
        await_condition("containerd is at its path", PATIENCE, async || {
            ensure!(check_same(&front, &front.with_extension("sock.berth")).is_err(), "berthd is");
            Cri::connect(&front)?.version().await.map(drop)
        })
        .await
    }

    /// Ends the process of the container.
    async fn kill(&self, pod: &str) -> Result<()> {
        let id =
            container(&self.pods.get(pod).await?, "berthd")?.container_id.clone().context("no container")?;
        let id = id.strip_prefix("containerd://").unwrap_or(&id).to_owned();
        let address = self.front().display().to_string();
        let systemd = self.node.systemd();
        let tasks = systemd.succeed("ctr", &["--address", &address, "-n", "k8s.io", "tasks", "list"]).await?;
        let line =
            tasks.lines().find(|line| line.starts_with(&id)).with_context(|| format!("no task {id}"))?;
        systemd.succeed("kill", &["-9", line.split_whitespace().nth(1).context("no pid")?]).await.map(drop)
    }
}
