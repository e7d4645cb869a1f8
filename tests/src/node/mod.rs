//! A real node for one run: containerd, the Kubernetes programs and berthd, composed as a test asks for them.
//!
//! ```text
//! etcd <- kube-apiserver <-- kubelet --CRI--> berthd --CRI--> containerd -> shims, runc
//!                      ^----------------------'
//! ```
//!
//! Without `api` there are only the kubelet, with static pods, and what is to the right of it; without
//! `berth` the kubelet speaks to containerd directly; without `kubelet` there is only what a CRI client
//! needs.

mod api_server;
mod berthd;
mod cgroup;
pub mod cluster_address;
mod containerd;
mod control_plane;
mod controllers;
pub mod crds;
pub mod deploy;
pub mod disk;
pub mod down;
mod etcd;
mod gateway;
pub mod guard;
pub mod http;
pub mod images;
mod kubelet;
mod manager;
pub mod program_images;
pub mod programs;
mod registry;
mod run_dir;
mod service;
mod systemd;
pub mod token;
pub mod tool;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kube::Client;

pub use self::api_server::{ApiServer, NODE_NAME, User};
pub use self::berthd::{Berthd, PathMode, PodView};
pub use self::cluster_address::ClusterAddress;
pub use self::containerd::Containerd;
pub use self::control_plane::ControlPlane;
pub use self::controllers::Controllers;
pub use self::etcd::{Etcd, Store};
pub use self::gateway::{Day, Gateway};
pub use self::kubelet::Kubelet;
pub use self::manager::{Manager, Replica};
pub use self::programs::KUBERNETES;
pub use self::registry::{PASSWORD, Registry, USER};
pub use self::run_dir::{Port, Run};
pub use self::service::Service;
pub use self::systemd::{PrivateSystemd, SystemdNode};
pub use self::workloads::Workloads;
use crate::observe::node_ready;
use crate::wait::{START_UP, await_condition};

/// Builder of a node: the parts that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    api: bool,
    berth: Option<PathMode>,
    kubelet: bool,
    controllers: bool,
    accounts: bool,
    disk: Option<u32>,
    state_disk: Option<u32>,
    own_kubelet: bool,
}

impl Builder {
    /// With an API server that the kubelet registers with (the default), or on its own.
    pub fn api(mut self, api: bool) -> Self {
        self.api = api;
        self
    }

    /// With berthd between kubelet and containerd (the default), or without.
    pub fn berth(mut self, berth: bool) -> Self {
        self.berth = berth.then_some(PathMode::Inline);
        self
    }

    /// With berthd beside a kubelet that speaks to containerd directly.
    pub fn beside(mut self) -> Self {
        self.berth = Some(PathMode::Beside);
        self
    }

    /// With a `berth-shim` between kubelet and containerd, and a berthd that decides.
    pub fn two_programs(mut self) -> Self {
        self.berth = Some(PathMode::BehindShim);
        self
    }

    /// With a berthd that takes containerd's place when the kubelet already speaks to containerd.
    pub fn takeover(mut self) -> Self {
        self.berth = Some(PathMode::Takeover);
        self
    }

    /// The same with a `berth-shim` in containerd's place.
    pub fn takeover_behind_shim(mut self) -> Self {
        self.berth = Some(PathMode::TakeoverBehindShim);
        self
    }

    /// With a kubelet (the default), or without, for clients that speak CRI themselves.
    pub fn kubelet(mut self, kubelet: bool) -> Self {
        self.kubelet = kubelet;
        self
    }

    /// With kube-controller-manager and kube-scheduler; not by default.
    pub fn controllers(mut self, controllers: bool) -> Self {
        self.controllers = controllers;
        self
    }

    /// With ServiceAccounts, whose tokens come from the controllers; not by default.
    pub fn accounts(mut self, accounts: bool) -> Self {
        self.accounts = accounts;
        self
    }

    /// With so many MiB for images and containers; by default there are as many as the machine has.
    pub fn disk(mut self, mebibytes: u32) -> Self {
        self.disk = Some(mebibytes);
        self
    }

    /// With so many MiB for berthd's store; by default there are as many as the machine has.
    pub fn state_disk(mut self, mebibytes: u32) -> Self {
        self.state_disk = Some(mebibytes);
        self
    }

    /// With a data path that takes this process for the kubelet; not by default.
    pub fn own_kubelet(mut self) -> Self {
        self.own_kubelet = true;
        self
    }

    /// Brings it up as `deploy/` makes it: all roles and policies count, and berthd has a token of its own,
    /// bound to the node.
    pub async fn start_updating(self) -> Result<Node> {
        Node::with_rights(self.start().await?).await
    }

    /// Brings it up and waits until it is ready.
    pub async fn start(self) -> Result<Node> {
        // What a crashed run left would only be in the way.
        down::leftovers().context("remove leftovers of earlier runs")?;
        let run = Arc::new(Run::claim()?);
        let guard = guard::Guard::set(run.number())?;
        // The API server is the slowest to start: containerd comes up meanwhile.
        let (api, containerd) = tokio::try_join!(
            async {
                if !self.api {
                    return Ok(None);
                }
                let etcd = Etcd::start(&run)?;
                let server = match self.accounts {
                    true => ApiServer::start_with_accounts(&run).await?,
                    false => ApiServer::start(&run).await?,
                };
                Ok(Some(Cluster { etcd, server }))
            },
            Containerd::start_on(&run, self.disk),
        )?;
        if let Some(cluster) = &api {
            deploy::install_kinds(&cluster.server.client(User::Admin).await?).await?;
        }
        let kubeconfig = match &api {
            Some(cluster) => Some(cluster.server.kubeconfig(User::Node)?),
            None => None,
        };
        let view = match (&kubeconfig, self.kubelet) {
            (Some(kubeconfig), _) => PodView::Api { kubeconfig: kubeconfig.clone() },
            (None, true) => PodView::Kubelet,
            (None, false) => PodView::None,
        };
        if let Some(mebibytes) = self.state_disk {
            disk::make(&run, berthd::STATE, mebibytes).await?;
        }
        let own = fs::read_to_string("/proc/self/comm").context("the name of this process")?;
        let own = self.own_kubelet.then(|| own.trim_end());
        let berthd = match self.berth {
            Some(place @ (PathMode::Inline | PathMode::BehindShim | PathMode::Beside)) => {
                Some(Berthd::start(&run, containerd.socket(), place, &view, own).await?)
            }
            Some(PathMode::Takeover | PathMode::TakeoverBehindShim) | None => None,
        };
        let controllers = match &api {
            Some(cluster) if self.controllers => Some(Controllers::start(&run, &cluster.server, "*").await?),
            None if self.controllers => bail!("controllers need an API server"),
            _ => None,
        };
        let mut node = Node { kubelet: None, berthd, controllers, containerd, api, run, guard };
        if self.kubelet {
            node.kubelet = Some(Kubelet::start(&node.run, node.cri_socket(), kubeconfig.as_deref()).await?);
        }
        if let Some(place @ (PathMode::Takeover | PathMode::TakeoverBehindShim)) = self.berth {
            let containerd = node.containerd.socket();
            node.berthd = Some(Berthd::start(&node.run, containerd, place, &view, own).await?);
            // The connections that it has are containerd's.
            if let Some(kubelet) = &node.kubelet {
                kubelet.restart().await?;
            }
        }
        if self.kubelet && self.api {
            node.registered_and_ready().await?;
        }
        Ok(node)
    }
}

/// A node that is up. Its fields are in the order in which they end.
#[derive(Debug)]
pub struct Node {
    kubelet: Option<Kubelet>,
    berthd: Option<Berthd>,
    controllers: Option<Controllers>,
    containerd: Containerd,
    api: Option<Cluster>,
    run: Arc<Run>,
    guard: guard::Guard,
}

#[derive(Debug)]
struct Cluster {
    server: ApiServer,
    etcd: Etcd,
}

impl Node {
    /// A node with everything that most tests need: API server, berthd, kubelet.
    pub fn builder() -> Builder {
        Builder {
            api: true,
            berth: Some(PathMode::Inline),
            kubelet: true,
            controllers: false,
            accounts: false,
            disk: None,
            state_disk: None,
            own_kubelet: false,
        }
    }

    /// A node whose berthd may change pods.
    pub async fn updating() -> Result<Self> {
        Self::builder().start_updating().await
    }

    async fn with_rights(node: Self) -> Result<Self> {
        let client = node.client().await?;
        deploy::install(&client).await?;
        deploy::let_agents_write(&client, "default", "*").await?;
        let token = token::of(&client, "berth-agent", Some(NODE_NAME)).await?;
        node.berthd()?.act_as(&token).await?;
        Ok(node)
    }

    /// The run's directory, ports and names.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The runtime.
    pub fn containerd(&self) -> &Containerd {
        &self.containerd
    }

    /// The API server.
    pub fn api(&self) -> Result<&ApiServer> {
        self.api.as_ref().map(|cluster| &cluster.server).context("this node has no API server")
    }

    /// The API server's store.
    pub fn etcd(&self) -> Result<&Etcd> {
        self.api.as_ref().map(|cluster| &cluster.etcd).context("this node has no API server")
    }

    /// The kubelet.
    pub fn kubelet(&self) -> Result<&Kubelet> {
        self.kubelet.as_ref().context("this node has no kubelet")
    }

    /// Berth's agent.
    pub fn berthd(&self) -> Result<&Berthd> {
        self.berthd.as_ref().context("this node has no berthd")
    }

    /// The controllers.
    pub fn controllers(&self) -> Result<&Controllers> {
        self.controllers.as_ref().context("this node has no controllers")
    }

    /// The socket the kubelet uses.
    pub fn cri_socket(&self) -> &Path {
        self.berthd.as_ref().map_or_else(|| self.containerd.socket(), Berthd::socket)
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        self.api()?.client(User::Admin).await
    }

    /// The administrator's kubeconfig, for people.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.api()?.kubeconfig(User::Admin)
    }

    /// Waits until the API server has the node and calls it Ready.
    pub async fn registered_and_ready(&self) -> Result<()> {
        let client = self.client().await?;
        await_condition("the node is Ready", START_UP, async || {
            self.kubelet()?.service().check_running()?;
            node_ready(&client).await.map(drop)
        })
        .await
    }

    /// Makes it whole after a test that failed in the middle: what has ended is started, what stands still
    /// goes on. Else all tests after that one would fail as well.
    pub async fn restore(&self) -> Result<()> {
        let cluster = self.api.as_ref();
        let of_cluster = cluster.into_iter().flat_map(|of| [of.etcd.service(), of.server.service()]);
        let kubelet = self.kubelet.as_ref().map(Kubelet::service);
        for service in of_cluster.chain([self.containerd.service()]).chain(kubelet) {
            if service.has_ended()? {
                service.start()?;
            }
            service.go_on()?;
        }
        if let Some(cluster) = cluster {
            cluster.server.ready().await?;
        }
        self.containerd.ready().await?;
        let Some(berthd) = &self.berthd else { return Ok(()) };
        // At the runtime's own path the kubelet's connections are the runtime's by then.
        let is_left = berthd.service().has_ended()? && berthd.socket() == self.containerd.socket();
        berthd.restore().await?;
        match &self.kubelet {
            Some(kubelet) if is_left => kubelet.restart().await,
            Some(_) | None => Ok(()),
        }
    }

    /// Ends everything and removes every trace.
    pub fn down(self) -> Result<()> {
        let Self { kubelet, berthd, controllers, containerd, api, run, guard } = self;
        drop((kubelet, berthd, controllers));
        drop((containerd, api));
        let removed = down::remove(run.number());
        // Last, so that the guard finds nothing to do.
        drop((run, guard));
        removed
    }
}
