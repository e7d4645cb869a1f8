//! A node of two programs: `berth-shim` with the kubelet's socket, `berthd` that decides, and a runtime that
//! plays one pod.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use berth_proto::cri;
use berth_tests::{
    fake::{Exchange, FakeKubelet, FakeRuntime, Reply},
    node::programs,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use prost::Message;
use tokio::time::sleep;

use crate::world::own_process;

/// How long the stop of a container takes.
pub(crate) const STOP: Duration = Duration::from_secs(4);
const PLAN: &str = r#"{"first": 1, "second": 0}"#;

/// Place of the order of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// In an annotation of its sandbox.
    Sandbox,
    /// In the pod, which the API server shows; it takes connections and never answers.
    Pod,
}

/// The runtime's containers, by name, and what it was asked to do, with when.
pub(crate) struct Runtime {
    order: Order,
    running: BTreeMap<String, bool>,
    pub(crate) asked: Vec<(String, Instant)>,
}

/// Both programs and the runtime; dropped, all are killed.
pub(crate) struct Node {
    pub(crate) runtime: Arc<Mutex<Runtime>>,
    _serving: FakeRuntime,
    shim: Child,
    /// The process that has the socket now: that child, or the successor of its successors.
    shim_pid: u32,
    agent: Option<Child>,
    directory: tempfile::TempDir,
    order: Order,
    _api_server: TcpListener,
}

impl Node {
    /// Starts the runtime and both programs.
    pub(crate) async fn start() -> Result<Self> {
        Self::with(Order::Sandbox).await
    }

    /// The same, with a pod whose order is there.
    pub(crate) async fn with(order: Order) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let runtime = Runtime { order, running: BTreeMap::new(), asked: Vec::new() };
        let runtime = Arc::new(Mutex::new(runtime));
        let played = runtime.clone();
        let serving = FakeRuntime::start(&directory.path().join("runtime.sock"), move |exchange| {
            play(exchange, played.clone())
        })?;
        let in_directory = |name: &str| directory.path().join(name);
        let shim = Command::new(programs::berth("berth-shim")?)
            .arg("--socket")
            .arg(in_directory("cri.sock"))
            .arg("--shim-socket")
            .arg(in_directory("shim.sock"))
            .arg("--runtime-endpoint")
            .arg(in_directory("runtime.sock"))
            .arg("--kubelet-processes")
            .arg(own_process().kubelet.join(","))
            .spawn()?;
        let dir = directory.path().display();
        let api_server = TcpListener::bind("127.0.0.1:0")?;
        let server = api_server.local_addr()?;
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n"
        );
        fs::write(in_directory("kubeconfig"), kubeconfig)?;
        let view = match order {
            Order::Sandbox => "{mode: none}".to_owned(),
            Order::Pod => format!("{{mode: api, kubeconfig: {dir}/kubeconfig}}"),
        };
        fs::write(
            in_directory("berthd.yaml"),
            format!(
                "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\nsocket: {dir}/cri.sock\n\
                 shimSocket: {dir}/shim.sock\nadminSocket: {dir}/admin.sock\nstateDir: {dir}/state\n\
                 desiredDir: {dir}/desired\nruntimeEndpoint: unix://{dir}/runtime.sock\nhttpAddress: 127.0.0.1:0\n\
                 podView: {view}\nnodeName: node\n"
            ),
        )?;
        let shim_pid = shim.id();
        let agent = None;
        let mut node = Self {
            runtime,
            _serving: serving,
            shim,
            shim_pid,
            agent,
            directory,
            order,
            _api_server: api_server,
        };
        node.start_agent()?;
        Ok(node)
    }

    /// Starts a `berthd`.
    pub(crate) fn start_agent(&mut self) -> Result<()> {
        let config = self.directory.path().join("berthd.yaml");
        let child = Command::new(programs::berth("berthd")?).arg("--config").arg(config).spawn()?;
        self.agent = Some(child);
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill_agent(&mut self) -> Result<()> {
        let mut agent = self.agent.take().context("berthd does not run")?;
        agent.kill()?;
        agent.wait()?;
        Ok(())
    }

    pub(crate) fn agent_pid(&self) -> Option<u32> {
        self.agent.as_ref().map(Child::id)
    }

    pub(crate) fn shim_pid(&self) -> u32 {
        self.shim_pid
    }

    /// Has the shim give its place to a new process of its program.
    pub(crate) async fn upgrade_shim(&mut self) -> Result<()> {
        let socket = self.directory.path().join("shim.sock");
        let ready = berth_shim::remote::upgrade(&socket, |_| ()).await?;
        ensure!(ready.pid != self.shim_pid, "the same process answers");
        self.shim_pid = ready.pid;
        Ok(())
    }

    /// Waits until a berthd is connected to the shim.
    pub(crate) async fn connected(&self) {
        let socket = self.directory.path().join("shim.sock");
        while !berth_shim::remote::look(&socket).await.is_ok_and(|shim| shim.agent) {
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    /// A new connection of the kubelet, once there is somebody to connect to.
    pub(crate) async fn kubelet(&self) -> Result<Kubelet> {
        let begun = Instant::now();
        loop {
            match FakeKubelet::connect(&self.socket()).await {
                Ok(kubelet) => return Ok(Kubelet(kubelet, self.order)),
                Err(error) if begun.elapsed() > Duration::from_secs(120) => return Err(error),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// When the runtime was asked to do this.
    pub(crate) fn asked(&self, what: &str) -> Option<Instant> {
        let runtime = self.runtime.lock().unwrap();
        runtime.asked.iter().find(|(asked, _)| asked == what).map(|(_, at)| *at)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let successor = i32::try_from(self.shim_pid).unwrap_or_default();
        if self.shim_pid != self.shim.id() && successor > 0 {
            // Killed, it would be replaced by whoever has started it.
            let _ = kill(Pid::from_raw(successor), Signal::SIGTERM);
        }
        for child in self.agent.iter_mut().chain([&mut self.shim]) {
            // One that has ended already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The calls of a kubelet.
pub(crate) struct Kubelet(FakeKubelet, Order);

impl Kubelet {
    pub(crate) async fn call(&self, method: &str, message: &impl Message) -> Result<Reply> {
        let path = format!("/runtime.v1.RuntimeService/{method}");
        self.0.call(&path, &message.encode_to_vec()).await
    }

    /// The same, which must go well.
    pub(crate) async fn done(&self, method: &str, message: &impl Message) -> Result<()> {
        let reply = self.call(method, message).await?;
        ensure!(reply.status() == Some(0), "{method}: {:?} {}", reply.status(), reply.message());
        Ok(())
    }

    pub(crate) async fn create(&self, container: &str, attempt: u32) -> Result<Reply> {
        let config = cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: container.to_owned(), attempt }),
            ..Default::default()
        };
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: "sandbox".to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox(self.1)),
        };
        self.call("CreateContainer", &request).await
    }

    pub(crate) async fn start(&self, container: &str) -> Result<()> {
        let request = cri::StartContainerRequest { container_id: container.to_owned() };
        self.done("StartContainer", &request).await
    }

    pub(crate) async fn stop(&self, container: &str) -> Result<()> {
        let request = cri::StopContainerRequest { container_id: container.to_owned(), timeout: 30 };
        self.done("StopContainer", &request).await
    }

    /// The pod runs: both containers, in their order.
    pub(crate) async fn launch(&self) -> Result<()> {
        let request =
            cri::RunPodSandboxRequest { config: Some(sandbox(self.1)), runtime_handler: String::new() };
        self.done("RunPodSandbox", &request).await?;
        for container in ["first", "second"] {
            let begun = Instant::now();
            // As the kubelet does, where its turn has not come.
            while self.create(container, 0).await?.status() != Some(0) {
                ensure!(begun.elapsed() < Duration::from_secs(120), "{container} never comes up");
                sleep(Duration::from_millis(100)).await;
            }
            self.start(container).await?;
        }
        Ok(())
    }
}

/// The sandbox of the pod.
fn sandbox(order: Order) -> cri::PodSandboxConfig {
    let plan =
        (order == Order::Sandbox).then(|| ("berth.dev/container-launch-plan".to_owned(), PLAN.to_owned()));
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "pod".to_owned(),
            uid: "uid".to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        labels: [("io.kubernetes.pod.uid".to_owned(), "uid".to_owned())].into(),
        annotations: plan.into_iter().collect(),
        ..Default::default()
    }
}

/// Containers are called as their names are.
async fn play(mut exchange: Exchange, runtime: Arc<Mutex<Runtime>>) {
    let method = exchange.method().to_owned();
    let Ok(body) = exchange.read().await else { return };
    let message = body.slice(5.min(body.len())..);
    let answer = answer(&method, message, &runtime).await;
    // A caller that goes away has its reasons.
    let _ = match answer {
        Ok(answer) => exchange.reply(&answer).await,
        Err(error) => exchange.fail(3, &error.to_string()),
    };
}

async fn answer(method: &str, message: bytes::Bytes, runtime: &Mutex<Runtime>) -> Result<Vec<u8>> {
    let note = |what: String| runtime.lock().unwrap().asked.push((what, Instant::now()));
    Ok(match method {
        "Version" => {
            cri::VersionResponse { runtime_name: "played".to_owned(), ..Default::default() }.encode_to_vec()
        }
        "Status" => cri::StatusResponse { status: Some(cri::RuntimeStatus::default()) }.encode_to_vec(),
        "RunPodSandbox" => {
            cri::RunPodSandboxResponse { pod_sandbox_id: "sandbox".to_owned() }.encode_to_vec()
        }
        "CreateContainer" => {
            let request = cri::CreateContainerRequest::decode(message)?;
            let name = request.config.and_then(|config| config.metadata).context("no name")?.name;
            note(format!("create {name}"));
            runtime.lock().unwrap().running.insert(name.clone(), false);
            cri::CreateContainerResponse { container_id: name }.encode_to_vec()
        }
        "StartContainer" => {
            let id = cri::StartContainerRequest::decode(message)?.container_id;
            runtime.lock().unwrap().running.insert(id, true);
            Vec::new()
        }
        "StopContainer" => {
            let id = cri::StopContainerRequest::decode(message)?.container_id;
            note(format!("stop {id}"));
            sleep(STOP).await;
            note(format!("stopped {id}"));
            runtime.lock().unwrap().running.insert(id, false);
            Vec::new()
        }
        "ListPodSandbox" => {
            let config = sandbox(runtime.lock().unwrap().order);
            let sandbox = cri::PodSandbox {
                id: "sandbox".to_owned(),
                metadata: config.metadata,
                labels: config.labels,
                annotations: config.annotations,
                ..Default::default()
            };
            cri::ListPodSandboxResponse { items: vec![sandbox] }.encode_to_vec()
        }
        "ListContainers" => {
            let containers = runtime.lock().unwrap().running.iter().map(listed).collect();
            cri::ListContainersResponse { containers }.encode_to_vec()
        }
        "ContainerStatus" => {
            let id = cri::ContainerStatusRequest::decode(message)?.container_id;
            let running = runtime.lock().unwrap().running.get(&id).copied().unwrap_or_default();
            let listed = listed((&id, &running));
            let status = cri::ContainerStatus {
                id: listed.id,
                metadata: listed.metadata,
                state: listed.state,
                ..Default::default()
            };
            cri::ContainerStatusResponse { status: Some(status), ..Default::default() }.encode_to_vec()
        }
        _ => Vec::new(),
    })
}

fn listed((name, running): (&String, &bool)) -> cri::Container {
    let state = match running {
        true => cri::ContainerState::ContainerRunning,
        false => cri::ContainerState::ContainerExited,
    };
    cri::Container {
        id: name.clone(),
        pod_sandbox_id: "sandbox".to_owned(),
        metadata: Some(cri::ContainerMetadata { name: name.clone(), attempt: 0 }),
        state: state.into(),
        created_at: 1,
        ..Default::default()
    }
}

/// The memory that a process has now, in megabytes.
pub(crate) fn rss_mb(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1000.0)
}
