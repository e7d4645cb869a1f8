//! An API server on its own, for tests of what it accepts and refuses: no kubelet, no runtime, no berthd.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;

use super::api_server::{ApiServer, User};
use super::controllers::Controllers;
use super::down;
use super::etcd::{Etcd, Store};
use super::guard::Guard;
use super::run_dir::Run;

/// The API server with its store and the controllers. Its fields are in the order in which they end.
#[derive(Debug)]
pub struct ControlPlane {
    controllers: Option<Controllers>,
    server: ApiServer,
    etcd: Etcd,
    run: Arc<Run>,
    _guard: Guard,
}

impl ControlPlane {
    /// Brings it up and waits until it is ready.
    pub async fn start() -> Result<Self> {
        Self::with_controllers("*").await
    }

    /// The same with these controllers alone, as kube-controller-manager's `--controllers` names them: those
    /// of nodes make pods on paper not Ready.
    pub async fn with_controllers(controllers: &str) -> Result<Self> {
        let mut plane = Self::without_controllers().await?;
        plane.controllers = Some(Controllers::start(&plane.run, &plane.server, controllers).await?);
        Ok(plane)
    }

    /// The same without the controllers: nodes and pods that exist only on paper stay as they are written.
    pub async fn without_controllers() -> Result<Self> {
        Self::with_server(ApiServer::start).await
    }

    /// The same, with a log of all writes.
    pub async fn audited() -> Result<Self> {
        Self::with_server(ApiServer::start_audited).await
    }

    async fn with_server(start: impl AsyncFnOnce(&Arc<Run>) -> Result<ApiServer>) -> Result<Self> {
        down::leftovers().context("remove leftovers of earlier runs")?;
        let run = Arc::new(Run::claim()?);
        let guard = Guard::set(run.number())?;
        let etcd = Etcd::start(&run)?;
        let server = start(&run).await?;
        Ok(Self { controllers: None, server, etcd, run, _guard: guard })
    }

    /// The run's directory, ports and names.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        &self.server
    }

    /// Its store.
    pub fn store(&self) -> Result<Store> {
        self.etcd.store()
    }

    /// Ends it and removes every trace of the run.
    pub fn down(self) -> Result<()> {
        let Self { controllers, server, etcd, run, _guard: guard } = self;
        drop((controllers, server, etcd));
        let removed = down::remove(run.number());
        // Last, so that the guard finds nothing to do.
        drop((run, guard));
        removed
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        self.server.client(User::Admin).await
    }
}
