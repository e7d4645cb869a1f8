//! Requests to recreate containers, as a client of the API makes them, and what it takes to be sure what came
//! of them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{ContainerRecreateRequest, ContainerRecreateRequestStatus, RecreatePhase};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::manifest::{Container, PodManifest};
use crate::node::{NODE_NAME, Run};
use crate::observe::check_apart;
use crate::wait::{Hopeless, await_condition};

/// The manager's name among the writers of a status.
const MANAGER: &str = "berth-manager";
/// Script that goes on until the test says so, by [`Evidence::let_go`]: however slow the machine is, what
/// happens in the middle does.
pub const HELD: &str = "until test -f /evidence/go; do sleep 0.1; done";
/// Line of a script that writes down the start, but for the container's name.
const STARTS: &str = "echo start >> /evidence/";
/// Far more than a container that runs takes for its first line, on a machine with other work to do.
const WRITTEN: Duration = Duration::from_secs(180);

/// A request that is to be made.
#[derive(Clone, Debug)]
pub struct Ask {
    spec: Value,
}

impl Ask {
    /// To recreate these containers of a pod.
    pub fn new(pod: &str, containers: &[&str]) -> Self {
        let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
        Self { spec: json!({ "podName": pod, "containers": containers }) }
    }

    /// Sets a field of `spec.strategy`.
    pub fn strategy(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec["strategy"][field] = value.into();
        self
    }

    /// Sets a field of `spec`.
    pub fn field(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec[field] = value.into();
        self
    }

    /// Makes the object.
    pub async fn create(&self, client: &Client, namespace: &str, name: &str) -> Result<Asked> {
        let object: ContainerRecreateRequest = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ContainerRecreateRequest",
            "metadata": { "namespace": namespace, "name": name },
            "spec": self.spec,
        }))?;
        let api: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), namespace);
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("create request {name}"))?;
        Ok(Asked { client: client.clone(), api, name: name.to_owned(), pod: self.pod()?.to_owned() })
    }

    fn pod(&self) -> Result<&str> {
        self.spec["podName"].as_str().context("podName")
    }
}

/// A request that was made.
#[derive(Clone)]
pub struct Asked {
    client: Client,
    api: Api<ContainerRecreateRequest>,
    /// Its name.
    pub name: String,
    pod: String,
}

impl Asked {
    /// Assigns it as the manager does, for a node without one.
    pub async fn assign(&self) -> Result<()> {
        let request = self.api.get(&self.name).await?;
        let pods: Api<Pod> = Api::namespaced(
            self.client.clone(),
            &request.namespace().context("a request without namespace")?,
        );
        let pod = pods.get(&self.pod).await.with_context(|| format!("pod {}", self.pod))?;
        let status = pod.status.unwrap_or_default();
        let statuses: Vec<_> =
            status.container_statuses.into_iter().chain(status.init_container_statuses).flatten().collect();
        let mut contexts = Vec::new();
        for container in &request.spec.containers {
            let status = statuses.iter().find(|status| status.name == container.name);
            let status = status.with_context(|| format!("no status of {}", container.name))?;
            contexts.push(json!({
                "name": container.name,
                "containerID": status.container_id,
                "restartCount": status.restart_count,
            }));
        }
        self.assign_to(NODE_NAME, pod.metadata.uid.as_deref().unwrap_or_default(), contexts).await
    }

    /// Assigns it in this way, right or wrong.
    pub async fn assign_to(&self, node: &str, pod_uid: &str, contexts: Vec<Value>) -> Result<()> {
        let apply = json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "ContainerRecreateRequest",
            "status": { "nodeName": node, "podUID": pod_uid, "containerStatusContexts": contexts },
        });
        let params = PatchParams::apply(MANAGER);
        self.api
            .patch_status(&self.name, &params, &Patch::Apply(&apply))
            .await
            .with_context(|| format!("assign request {}", self.name))?;
        Ok(())
    }

    /// As it is now; `None` when it is gone.
    pub async fn now(&self) -> Result<Option<ContainerRecreateRequest>> {
        Ok(self.api.get_opt(&self.name).await?)
    }

    /// Waits until its status is accepted.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        accept: impl Fn(&ContainerRecreateRequestStatus) -> Result<()>,
    ) -> Result<ContainerRecreateRequestStatus> {
        await_condition(format!("request {}: {what}", self.name), patience, async || {
            let request = self.api.get(&self.name).await?;
            let status = request.status.context("no status yet")?;
            accept(&status).with_context(|| serde_json::to_string(&status).unwrap_or_default())?;
            Ok(status)
        })
        .await
    }

    /// Waits for its end.
    pub async fn ended(&self, patience: Duration) -> Result<ContainerRecreateRequestStatus> {
        self.until("Completed", patience, |status| {
            ensure!(status.phase == Some(RecreatePhase::Completed), "it is not over");
            Ok(())
        })
        .await
    }

    /// Waits for its end, which must be a good one.
    pub async fn succeeded(&self, patience: Duration) -> Result<ContainerRecreateRequestStatus> {
        let status = self.ended(patience).await?;
        let good = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Complete" && condition.status == "True");
        ensure!(good, "request {} failed: {}", self.name, serde_json::to_string(&status)?);
        Ok(status)
    }

    /// Waits for its end, which must be a failure with this reason.
    pub async fn failed(&self, reason: &str, patience: Duration) -> Result<ContainerRecreateRequestStatus> {
        let status = self.ended(patience).await?;
        let failure = status.conditions.iter().find(|condition| condition.type_ == "Failed");
        match failure {
            Some(failure) if failure.reason == reason && failure.status == "True" => Ok(status),
            _ => {
                bail!("request {} did not fail with {reason}: {}", self.name, serde_json::to_string(&status)?)
            }
        }
    }
}

/// Where containers write down what happened to them: their hooks, their signals. It outlives them.
#[derive(Clone, Debug)]
pub struct Evidence {
    dir: PathBuf,
}

impl Evidence {
    /// A folder of the run for one pod.
    pub fn new(run: &Run, namespace: &str, pod: &str) -> Result<Self> {
        Ok(Self { dir: run.make_dir(&format!("evidence/{namespace}/{pod}"))? })
    }

    /// Lets the pod's containers write there.
    pub fn mount(&self, pod: PodManifest) -> PodManifest {
        pod.spec("volumes", json!([{ "name": "evidence", "hostPath": { "path": self.dir } }]))
    }

    /// Lets a container of the pod write there, below `/evidence`.
    pub fn mounted(&self, container: Container) -> Container {
        container.field("volumeMounts", json!([{ "name": "evidence", "mountPath": "/evidence" }]))
    }

    /// A container that writes down its starts and its end, and takes `hook` (a script) before. Once its
    /// start is written, it listens to the signal.
    pub fn container(&self, name: &str, hook: &str) -> Container {
        // No other program is started for it: with the least grace there may be no time for one.
        let end = format!("echo term; echo term >> /evidence/{name}; echo > /evidence/{name}.ended; exit 0");
        let script = format!("trap '{end}' TERM\n{STARTS}{name}\nsleep 1000000 & wait");
        let container = self.mounted(Container::new(name).only(&script));
        if hook.is_empty() {
            return container;
        }
        let script = format!("echo hook >> /evidence/{name}; {hook}");
        container
            .field("lifecycle", json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", script] } } }))
    }

    /// Waits until the containers of a new pod that write down their starts have done so. For the kubelet
    /// they run before that, and one that is told to end then does not hear it.
    pub async fn all_started(&self, pod: &PodManifest) -> Result<()> {
        let spec = &pod.json()["spec"];
        let lists = ["initContainers", "containers"].into_iter().filter_map(|list| spec[list].as_array());
        for container in lists.flatten() {
            let name = container["name"].as_str().context("a container without name")?;
            let script = container["command"][2].as_str().unwrap_or_default();
            if script.lines().any(|line| line.strip_prefix(STARTS) == Some(name)) {
                self.has(name, "start", 1).await?;
            }
        }
        Ok(())
    }

    /// How often a container wrote this word.
    pub fn count(&self, container: &str, word: &str) -> Result<usize> {
        Ok(self.words(container)?.iter().filter(|written| *written == word).count())
    }

    /// Waits until a container has written this word so often: it runs before it has written that it does.
    /// Once too often fails at once.
    pub async fn has(&self, container: &str, word: &str, times: usize) -> Result<()> {
        await_condition(format!("{container} has written {word} {times} times"), WRITTEN, async || {
            let count = self.count(container, word)?;
            ensure!(count <= times, Hopeless(format!("{count} times")));
            ensure!(count == times, "{count} times");
            Ok(())
        })
        .await
    }

    /// All that a container wrote.
    pub fn words(&self, container: &str) -> Result<Vec<String>> {
        let file = self.dir.join(container);
        let text = match fs::read_to_string(&file) {
            // It has not written anything yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.with_context(|| file.display().to_string())?,
        };
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// When a container last wrote to a file, in nanoseconds since the epoch.
    pub fn written_at(&self, file: &str) -> Result<i64> {
        let file = self.dir.join(file);
        let written = fs::metadata(&file).and_then(|meta| meta.modified());
        let since = written.with_context(|| file.display().to_string())?.duration_since(UNIX_EPOCH)?;
        Ok(i64::try_from(since.as_nanos())?)
    }

    /// When a container of [`Self::container`] last ended because it was told to, in nanoseconds since the
    /// epoch. It is the last thing that an instance writes, and stays when the kubelet's garbage collection
    /// takes the instance.
    pub fn ended_at(&self, container: &str) -> Result<i64> {
        self.written_at(&format!("{container}.ended"))
    }

    /// A container that takes two seconds to get ready and one to end. It writes down when it ended, as one
    /// of [`Self::container`] does.
    pub fn slow(&self, name: &str) -> Container {
        let end = format!("sleep 1; touch /evidence/{name}.ended; exit 0");
        let script = format!("trap '{end}' TERM\nsleep 2; touch /tmp/ready\nsleep 1000000 & wait");
        self.mounted(Container::new(name).only(&script)).ready_when("test -f /tmp/ready")
    }

    /// A pod of three such containers, of which `a` starts first and ends last.
    pub fn slow_pod(&self, pod: PodManifest) -> PodManifest {
        // Nothing takes so long, but on a slow machine three ends in a row take their time.
        let pod = self.mount(pod.grace(120));
        let levels = [("c", 1), ("b", 2), ("a", 3)];
        levels
            .into_iter()
            .fold(pod, |pod, (name, priority)| pod.container(self.slow(name).priority(priority)))
    }

    /// Fails unless each of these containers ended at least `apart` after the one before it. It can tell even
    /// where the runtime forgets them before anybody looks.
    pub fn check_exit_order(&self, names: &[&str], apart: Duration) -> Result<()> {
        let ends = names.iter().map(|name| self.ended_at(name)).collect::<Result<Vec<_>>>()?;
        check_apart("ended", names, &ends, apart)
    }

    /// Lets what is [`HELD`] go on.
    pub fn let_go(&self) -> Result<()> {
        self.put("go")
    }

    /// Gives the containers a file to wait for.
    pub fn put(&self, file: &str) -> Result<()> {
        fs::write(self.dir.join(file), "").with_context(|| format!("put {file}"))
    }

    /// Takes one from them.
    pub fn take(&self, file: &str) -> Result<()> {
        fs::remove_file(self.dir.join(file)).with_context(|| format!("take {file}"))
    }
}
