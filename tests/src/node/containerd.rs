//! A containerd of the run's own: root, state, socket, CNI network and streaming port, nothing shared with
//! the host's.

mod config;
mod release;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::json;

pub(super) use self::release::Release;
use super::images;
use super::run_dir::Run;
use super::service::Service;
use super::tool::run as tool;
use crate::observe::Cri;
use crate::wait::{START_UP, await_condition};

/// Its socket, below the run's directory.
pub(super) const SOCKET: &str = "containerd.sock";

/// The runtime under test conditions. Its socket is the direct way to the truth.
#[derive(Debug)]
pub struct Containerd {
    release: Release,
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
        let release = Release::asked_for()?;
        let args = arguments(&release, run, &socket)?;
        let service = Service::new(run, "containerd", release.daemon(), args);
        let containerd = Self { release, service, socket };
        containerd.service.start()?;
        containerd.ready().await?;
        images::import(&containerd.release.ctr(), &containerd.socket).await?;
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
        await_condition("containerd is ready", START_UP, async || {
            self.service.check_running()?;
            // What else 2.x says of itself, such as of deprecated settings, keeps no kubelet from it.
            let counts = |name: &str| matches!(name, "RuntimeReady" | "NetworkReady");
            let conditions = self.cri()?.conditions().await?;
            match conditions.iter().find(|condition| counts(&condition.r#type) && !condition.status) {
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
        tool(self.release.ctr(), &all).await
    }
}

/// Writes its configuration and that of its network; the arguments it is started with.
pub(super) fn arguments(release: &Release, run: &Run, socket: &Path) -> Result<Vec<String>> {
    let cni = run.make_dir("cni")?;
    run.write("cni/10-berth.conflist", &network(run))?;
    let config = run.write("containerd.toml", &config::config(release, run, socket, &cni))?;
    Ok(vec!["--config".to_owned(), config.display().to_string()])
}

/// One bridge with addresses of the run's own. No masquerading and no port mapping: the host's firewall is
/// not touched, and the pods talk to the node only.
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
