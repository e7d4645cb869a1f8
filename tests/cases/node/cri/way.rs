//! One case on one of the two ways: its sandboxes and containers, and how they are written into the
//! transcript.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::*;
use berth_tests::compare::{PATIENCE, Side};
use berth_tests::fake::framed;
use berth_tests::node::images::BUSYBOX;
use berth_tests::wait::await_condition;
use bytes::Bytes;
use prost::Message;
use tokio::sync::OnceCell;

use super::Bench;

/// Marks what a case made, so that it can be found, listed and removed.
const CASE: &str = "berth.test/case";

/// A sandbox and what it was made from, which every container of it has to repeat.
#[derive(Clone, Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) config: PodSandboxConfig,
}

/// A case on its way.
pub(super) struct Way {
    side: Side,
    pub(super) bench: &'static Bench,
    home: &'static OnceCell<Sandbox>,
    pub(super) case: &'static str,
}

impl Deref for Way {
    type Target = Side;

    fn deref(&self) -> &Side {
        &self.side
    }
}

impl Way {
    pub(super) fn new(
        side: Side,
        bench: &'static Bench,
        home: &'static OnceCell<Sandbox>,
        case: &'static str,
    ) -> Self {
        Self { side, bench, home, case }
    }

    // --- sandboxes ---

    /// A sandbox as the kubelet would describe it.
    pub(super) fn pod(&self, name: &str) -> Result<PodSandboxConfig> {
        self.pod_of(self.case, name)
    }

    fn pod_of(&self, case: &str, name: &str) -> Result<PodSandboxConfig> {
        let name = format!("{}-{}-{name}", self.token(), case.replace('_', "-"));
        let uid = format!("uid-{name}");
        let cgroup_parent = format!("/{}/{name}", self.bench.node.run().names().cgroup);
        Ok(PodSandboxConfig {
            log_directory: self.log_dir(&name)?.display().to_string(),
            labels: map(&[
                ("io.kubernetes.pod.name", &name),
                ("io.kubernetes.pod.namespace", "cri"),
                ("io.kubernetes.pod.uid", &uid),
                (CASE, case),
            ]),
            annotations: map(&[("kubernetes.io/config.source", "api")]),
            metadata: Some(PodSandboxMetadata { name, uid, namespace: "cri".to_owned(), attempt: 0 }),
            // Below the run's own, which is removed with the run.
            linux: Some(LinuxPodSandboxConfig { cgroup_parent, ..Default::default() }),
            ..Default::default()
        })
    }

    fn log_dir(&self, pod: &str) -> Result<PathBuf> {
        self.bench.node.run().make_dir(&format!("cri-logs/{pod}"))
    }

    /// Runs a sandbox of the case's own.
    pub(super) async fn sandbox(&self, config: PodSandboxConfig) -> Result<Sandbox> {
        let request = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        let id = self.must(request).await?.pod_sandbox_id;
        self.hide(&id, "sandbox");
        Ok(Sandbox { id, config })
    }

    /// A sandbox that other cases have containers in as well.
    pub(super) async fn home(&self) -> Result<&'static Sandbox> {
        let make = async || {
            let config = self.pod_of("all", "home")?;
            let request = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
            let made = self.quietly(request).await??;
            anyhow::Ok(Sandbox { id: made.pod_sandbox_id, config })
        };
        let home = self.home.get_or_try_init(make).await.context("the common sandbox")?;
        self.hide(&home.id, "home");
        Ok(home)
    }

    // --- containers ---

    /// A container with a script, as the kubelet would describe it.
    pub(super) fn script(&self, name: &str, script: &str) -> ContainerConfig {
        // Its name is taken for as long as it exists, whichever case made it.
        let name = format!("{name}-{}", self.case.replace('_', "-"));
        ContainerConfig {
            image: Some(ImageSpec { image: BUSYBOX.to_owned(), ..Default::default() }),
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            labels: map(&[("io.kubernetes.container.name", &name), (CASE, self.case)]),
            annotations: map(&[("io.kubernetes.container.restartCount", "0")]),
            log_path: format!("{name}.log"),
            metadata: Some(ContainerMetadata { name, attempt: 0 }),
            linux: Some(LinuxContainerConfig::default()),
            ..Default::default()
        }
    }

    /// A container that does nothing until it is killed.
    pub(super) fn idle(&self, name: &str) -> ContainerConfig {
        self.script(name, "sleep 1000000 & wait")
    }

    pub(super) fn create_request(
        &self,
        sandbox: &Sandbox,
        config: ContainerConfig,
    ) -> CreateContainerRequest {
        CreateContainerRequest {
            pod_sandbox_id: sandbox.id.clone(),
            config: Some(config),
            sandbox_config: Some(sandbox.config.clone()),
        }
    }

    pub(super) async fn create(&self, sandbox: &Sandbox, config: ContainerConfig) -> Result<String> {
        let name = config.metadata.as_ref().context("metadata")?.name.clone();
        let id = self.must(self.create_request(sandbox, config)).await?.container_id;
        self.hide(&id, &name);
        Ok(id)
    }

    pub(super) async fn start(&self, id: &str) -> Result<()> {
        self.must(StartContainerRequest { container_id: id.to_owned() }).await.map(drop)
    }

    /// Creates a container and starts it.
    pub(super) async fn started(&self, sandbox: &Sandbox, config: ContainerConfig) -> Result<String> {
        let id = self.create(sandbox, config).await?;
        self.start(&id).await?;
        Ok(id)
    }

    /// Creates an idle container in the common sandbox and starts it.
    pub(super) async fn running(&self, name: &str) -> Result<String> {
        self.started(self.home().await?, self.idle(name)).await
    }

    pub(super) async fn stop(&self, id: &str, timeout: i64) -> Result<()> {
        self.must(StopContainerRequest { container_id: id.to_owned(), timeout }).await.map(drop)
    }

    /// Returns the runtime's status of a container now; not part of the transcript.
    pub(super) async fn peek(&self, id: &str) -> Result<ContainerStatus> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = self.quietly(request).await??;
        answer.status.context("no status")
    }

    /// Writes down what the runtime says of a container.
    pub(super) async fn status(&self, id: &str) -> Result<ContainerStatus> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let status = self.must(request).await?.status.context("no status")?;
        ensure!(status.id == id, "asked for {id}, got {}", status.id);
        self.say(format!("  {:?} {:?}", status.state(), status.metadata));
        let times = [status.created_at, status.started_at, status.finished_at];
        ensure!(times.iter().all(|time| *time >= 0), "{times:?}");
        self.say(format!("  created, started, finished: {:?}", times.map(|time| time > 0)));
        self.say(format!("  exit {} {:?} {:?}", status.exit_code, status.reason, status.message));
        self.say(format!(
            "  of {:?} {} {:?}",
            status.image.as_ref().map(|image| &image.image),
            status.image_ref,
            status.log_path
        ));
        self.say(format!("  {:?} {:?}", sorted(&status.labels), sorted(&status.annotations)));
        Ok(status)
    }

    /// Waits until the container's process has ended, and writes down how.
    pub(super) async fn exited(&self, id: &str) -> Result<ContainerStatus> {
        await_condition("the container ends", PATIENCE, async || {
            let status = self.peek(id).await?;
            ensure!(status.state() == ContainerState::ContainerExited, "{status:?}");
            Ok(())
        })
        .await?;
        self.status(id).await
    }

    /// Runs a script in a container and writes down what came of it.
    pub(super) async fn exec(&self, id: &str, script: &str) -> Result<ExecSyncResponse> {
        let answer = self.must(exec_request(id, script)).await?;
        self.say(format!(
            "  exit {} {:?} {:?}",
            answer.exit_code,
            String::from_utf8_lossy(&answer.stdout),
            String::from_utf8_lossy(&answer.stderr)
        ));
        Ok(answer)
    }

    /// Runs a script in a container until it succeeds; not part of the transcript.
    pub(super) async fn until(&self, id: &str, script: &str) -> Result<()> {
        await_condition(format!("{script} succeeds"), PATIENCE, async || {
            let answer = self.quietly(exec_request(id, script)).await??;
            ensure!(answer.exit_code == 0, "{answer:?}");
            Ok(())
        })
        .await
    }

    // --- the end ---

    /// Removes what the case made.
    pub(super) async fn clear(&self) -> Result<()> {
        let label_selector = map(&[(CASE, self.case)]);
        let filter = ContainerFilter { label_selector: label_selector.clone(), ..Default::default() };
        let listed = self.quietly(ListContainersRequest { filter: Some(filter) }).await??;
        for container in listed.containers {
            if !self.is_mine(&container.pod_sandbox_id).await? {
                continue;
            }
            // containerd stops one that runs by itself, and may still call it running when the process that
            // it lives in the PID namespace of has ended first.
            await_condition("the container is removed", PATIENCE, async || {
                let request = RemoveContainerRequest { container_id: container.id.clone() };
                Ok(self.quietly(request).await??)
            })
            .await?;
        }
        let filter = PodSandboxFilter { label_selector, ..Default::default() };
        let listed = self.quietly(ListPodSandboxRequest { filter: Some(filter) }).await??;
        for sandbox in listed.items {
            if !self.is_mine(&sandbox.id).await? {
                continue;
            }
            let stop = StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
            self.quietly(stop).await??;
            let remove = RemovePodSandboxRequest { pod_sandbox_id: sandbox.id };
            self.quietly(remove).await??;
        }
        Ok(())
    }

    /// The other way goes through the same case at the same time.
    async fn is_mine(&self, sandbox: &str) -> Result<bool> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: false };
        let answer = self.quietly(request).await?;
        let name = answer.ok().and_then(|answer| answer.status?.metadata).map(|metadata| metadata.name);
        Ok(name.is_some_and(|name| name.starts_with(self.token())))
    }

    /// Selects what this case made on this way, and nothing else.
    pub(super) fn mine(&self, sandbox: &Sandbox) -> ContainerFilter {
        ContainerFilter {
            pod_sandbox_id: sandbox.id.clone(),
            label_selector: map(&[(CASE, self.case)]),
            ..Default::default()
        }
    }
}

pub(super) fn exec_request(id: &str, script: &str) -> ExecSyncRequest {
    ExecSyncRequest {
        container_id: id.to_owned(),
        cmd: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        // As far as its tests go the machine may be slow: only what hangs is to end.
        timeout: i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX),
    }
}

pub(super) fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn sorted(map: &HashMap<String, String>) -> BTreeMap<&String, &String> {
    map.iter().collect()
}

/// A request as it is on the wire.
pub(super) fn message(request: impl Message) -> Bytes {
    framed(&request.encode_to_vec())
}
