//! The kubelet: registered with an API server, or on its own with a folder of static pods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::api_server::NODE_NAME;
use super::http;
use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use crate::wait::{START_UP, await_condition};

/// The folder of the static pods, below the run's directory.
const STATIC_PODS: &str = "static-pods";

/// A kubelet and the folder of its static pods.
#[derive(Debug)]
pub struct Kubelet {
    run: Arc<Run>,
    service: Service,
    static_pods: PathBuf,
}

impl Kubelet {
    /// Starts it on a CRI socket; with a kubeconfig it registers its node, without one it runs static pods
    /// only.
    pub async fn start(run: &Arc<Run>, cri: &Path, kubeconfig: Option<&Path>) -> Result<Self> {
        let static_pods = run.make_dir(STATIC_PODS)?;
        super::cgroup::make(&run.names().cgroup)?;
        let args = arguments(run, cri, kubeconfig)?;
        let service = Service::new(run, "kubelet", programs::kubernetes("kubelet")?, args);
        service.start()?;
        let kubelet = Self { run: run.clone(), service, static_pods };
        kubelet.ready().await?;
        Ok(kubelet)
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Ends it and starts it again with the same folders; the pods go on meanwhile.
    pub async fn restart(&self) -> Result<()> {
        self.service.stop()?;
        self.service.start()?;
        self.ready().await
    }

    /// Waits until it says of itself that it is healthy.
    pub async fn ready(&self) -> Result<()> {
        let address = self.run.address(Port::KubeletHealthz);
        await_condition("the kubelet is healthy", START_UP, async || {
            self.service.check_running()?;
            let answer = http::get(&address, "/healthz").await?;
            ensure!(answer.status == 200, "/healthz: {} {}", answer.status, answer.body);
            Ok(())
        })
        .await
    }

    /// Adds or replaces a static pod.
    pub fn play(&self, name: &str, manifest: &impl serde::Serialize) -> Result<()> {
        // Written beside the folder and renamed: the kubelet must not read half of it.
        let text = serde_json::to_string(manifest).context("manifest")?;
        let new = self.run.write(&format!(".{name}.new"), &text)?;
        std::fs::rename(new, self.static_pods.join(format!("{name}.json"))).context("static pod")
    }

    /// Removes a static pod.
    pub fn unplay(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.static_pods.join(format!("{name}.json"))).context("static pod")
    }

    /// The read-only `/pods`.
    pub async fn pods(&self) -> Result<Value> {
        let answer = http::get(&self.run.address(Port::KubeletReadOnly), "/pods").await?;
        ensure!(answer.status == 200, "/pods: {}", answer.status);
        serde_json::from_str(&answer.body).context("/pods")
    }

    /// `/metrics`.
    pub async fn metrics(&self) -> Result<String> {
        let answer = http::get(&self.run.address(Port::KubeletReadOnly), "/metrics").await?;
        ensure!(answer.status == 200, "/metrics: {}", answer.status);
        Ok(answer.body)
    }
}

/// Writes its configuration; the arguments it is started with.
pub(super) fn arguments(run: &Run, cri: &Path, kubeconfig: Option<&Path>) -> Result<Vec<String>> {
    let root = run.make_dir("kubelet")?;
    let static_pods = run.make_dir(STATIC_PODS)?;
    let config = run.write("kubelet.yaml", &config(run, cri, &static_pods).to_string())?;
    let mut args = vec![
        format!("--config={}", config.display()),
        format!("--root-dir={}", root.display()),
        format!("--cert-dir={}", root.join("pki").display()),
        format!("--hostname-override={NODE_NAME}"),
    ];
    args.extend(kubeconfig.map(|file| format!("--kubeconfig={}", file.display())));
    Ok(args)
}

fn config(run: &Run, cri: &Path, static_pods: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", cri.display()),
        "staticPodPath": static_pods,
        "fileCheckFrequency": "1s",
        "address": "127.0.0.1",
        "port": run.port(Port::Kubelet),
        "readOnlyPort": run.port(Port::KubeletReadOnly),
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": run.port(Port::KubeletHealthz),
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", run.names().cgroup),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": ["none"],
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": false,
        // The machine may be nearly full, and that is none of the tests' business.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%", "nodefs.inodesFree": "0.1%" },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        // The pods take their addresses as they are; the host's firewall stays as it is.
        "makeIPTablesUtilChains": false,
        "podLogsDir": run.path("pod-logs"),
        "volumePluginDir": run.path("kubelet/volume-plugins"),
        "resolvConf": "",
        "nodeStatusUpdateFrequency": "5s",
        // As many as the pods' subnet has addresses for: benches keep more than the usual 110 for a moment.
        "maxPods": 250,
        // Many pods of one test may want the same image at once.
        "registryPullQPS": 0,
        "shutdownGracePeriod": "0s"
    })
}
