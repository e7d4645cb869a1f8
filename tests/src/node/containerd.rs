//! A containerd of the run's own: root, state, socket, CNI network and streaming port, nothing shared with the host's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::images;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use crate::observe::Cri;
use crate::wait::await_condition;

/// Its socket, below the run's directory.
pub(super) const SOCKET: &str = "containerd.sock";

/// The runtime under test conditions. Its socket is the direct way to the truth.
#[derive(Debug)]
pub struct Containerd {
    service: Service,
    socket: PathBuf,
}

impl Containerd {
    /// Starts it and imports the images.
    pub async fn start(run: &Arc<Run>) -> Result<Self> {
        Self::start_on(run, None).await
    }

    /// The same, with its images on a filesystem of so many MiB.
    pub async fn start_on(run: &Arc<Run>, disk: Option<u32>) -> Result<Self> {
        let socket = run.path(SOCKET);
        if let Some(mebibytes) = disk {
            super::disk::make(run, "containerd/root", mebibytes).await?;
        }
        let args = arguments(run, &socket)?;
        let containerd = Self { service: Service::new(run, "containerd", "containerd", args), socket };
        containerd.service.start()?;
        containerd.ready().await?;
        images::import(&containerd.socket).await?;
        Ok(containerd)
    }

    /// The CRI socket, and that of `ctr`.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Where it is when berthd has taken its place.
    pub fn aside(&self) -> PathBuf {
        let mut path = self.socket.clone().into_os_string();
        path.push(".runtime");
        path.into()
    }

    /// A CRI client that goes past Berth.
    pub fn cri(&self) -> Result<Cri> {
        let aside = self.aside();
        Cri::connect(if aside.exists() { &aside } else { &self.socket })
    }

    /// Ends it and starts it again; the containers stay with their shims.
    pub async fn restart(&self) -> Result<()> {
        self.service.stop()?;
        self.service.start()?;
        self.ready().await
    }

    /// Waits until it answers and its network is configured.
    pub async fn ready(&self) -> Result<()> {
        await_condition("containerd is ready", Duration::from_secs(60), async || {
            self.service.check_running()?;
            let conditions = self.cri()?.conditions().await?;
            match conditions.iter().find(|condition| !condition.status) {
                None => Ok(()),
                Some(condition) => bail!("{}: {}", condition.r#type, condition.message),
            }
        })
        .await
    }

    /// Runs `ctr` on it.
    pub async fn ctr(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["--address", self.socket.to_str().context("socket path")?, "-n", "k8s.io"];
        all.extend(args);
        tool("ctr", &all).await
    }
}

/// Writes its configuration and that of its network; the arguments it is started with.
pub(super) fn arguments(run: &Run, socket: &Path) -> Result<Vec<String>> {
    let cni = run.make_dir("cni")?;
    run.write("cni/10-berth.conflist", &network(run))?;
    let config = run.write("containerd.toml", &config(run, socket, &cni))?;
    Ok(vec!["--config".to_owned(), config.display().to_string()])
}

/// containerd 1.6's configuration.
fn config(run: &Run, socket: &Path, cni: &Path) -> String {
    let dir = run.dir().display();
    let (socket, cni, pause) = (socket.display(), cni.display(), images::PAUSE);
    let port = run.port(Port::ContainerdStream);
    format!(
        r#"version = 2
root = "{dir}/containerd/root"
state = "{dir}/containerd/state"

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "{port}"
  # Test machines may lack CAP_SYS_RESOURCE, and runc ends without a word when it may not lower the score.
  restrict_oom_score_adj = true
  # So that what a crash leaves mounted is found below the run's directory.
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{dir}/runc"
"#
    )
}

/// One bridge with addresses of the run's own. No masquerading and no port mapping: the host's firewall is not touched,
/// and the pods talk to the node only.
fn network(run: &Run) -> String {
    let names = run.names();
    json!({
        "cniVersion": "0.4.0",
        "name": names.network,
        "plugins": [{
            "type": "bridge",
            "bridge": names.bridge,
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                "dataDir": run.path("cni-addresses"),
                "ranges": [[{ "subnet": run.subnet() }]],
                "routes": [{ "dst": "0.0.0.0/0" }]
            }
        }]
    })
    .to_string()
}
