//! Probes of one's own: what they find is on the pod, and stays true. Markers are made as users make them,
//! the manager says which node probes what, and the agent does it, each with the rights that `deploy/` gives
//! it.

mod budget;
mod containers;
mod dialled;
mod forged;
mod game;
mod kruise;
mod quiet;
mod redirects;
mod relabelled;
mod trouble;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerProbeState, NodePodProbe};
use berth_tests::manifest::PodManifest;
use berth_tests::markers::{self, APP, Marker};
use berth_tests::node::{Manager, NODE_NAME, Replica, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::case::{Case, PATIENCE, run_updating, run_updating_alone};

/// One manager for all of these tests: there is one list of probes for the node, and it is the manager's.
static MANAGER: Mutex<Option<Manager>> = Mutex::const_new(None);

/// A test of probes.
pub(crate) struct Stage<'a> {
    case: &'a Case,
    client: Client,
    objects: Api<NodePodProbe>,
}

/// Runs a test beside others.
async fn run(name: &str, test: impl AsyncFnOnce(&Stage<'_>) -> Result<()>) -> Result<()> {
    run_updating(name, async |case: &Case| test(&Stage::set(case).await?).await).await
}

/// Runs a test that others must not meet.
async fn run_alone(name: &str, test: impl AsyncFnOnce(&Stage<'_>) -> Result<()>) -> Result<()> {
    run_updating_alone(name, async |case: &Case| test(&Stage::set(case).await?).await).await
}

async fn manager_leads(case: &Case, client: &Client) -> Result<()> {
    let mut manager = MANAGER.lock().await;
    if manager.is_none() {
        let token = token::of(client, "berth-manager", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-manager", &token)?;
        let place = ("berth-system", 15);
        *manager = Some(Manager::start(case.node.run(), Replica::First, &kubeconfig, place).await?);
    }
    let manager = manager.as_ref().context("no manager")?;
    // Other tests take the API server away, and a manager that lost its Lease ends.
    if manager.service().has_ended()? {
        manager.service().start()?;
    }
    manager.ready().await?;
    manager.leads().await
}

/// Ends the manager that these tests share, if it runs: it would take back entries that it did not write.
/// The next of these tests starts it again.
pub(crate) async fn manager_rests() -> Result<()> {
    match &*MANAGER.lock().await {
        Some(manager) if !manager.service().has_ended()? => manager.service().stop().map(drop),
        Some(_) | None => Ok(()),
    }
}

impl<'a> Stage<'a> {
    async fn set(case: &'a Case) -> Result<Self> {
        let client = case.node.client().await?;
        manager_leads(case, &client).await?;
        Ok(Self { case, objects: Api::all(client.clone()), client })
    }

    /// A pod that the markers of its name find.
    fn manifest(&self, name: &str) -> PodManifest {
        self.case.manifest(name).label(APP, name)
    }

    /// Makes or changes a marker.
    async fn mark(&self, marker: &Marker) -> Result<()> {
        marker.apply(&self.client, &self.case.namespace).await
    }

    /// Deletes one.
    async fn unmark(&self, name: &str) -> Result<()> {
        markers::delete(&self.client, &self.case.namespace, name).await
    }

    /// Waits until the pod says this of a probe, see [`markers::says`].
    async fn await_says(&self, pod: &str, probe: &str, status: &str, words: &str) -> Result<Pod> {
        let what = format!("{probe} is {status} {words:?}");
        self.case.await_pod(pod, &what, |pod| markers::says(pod, probe, status, words)).await
    }

    /// Returns the entries of `NodePodProbe` for a pod; nothing when there is no entry of it.
    async fn told(&self, pod: &str) -> Result<Vec<ContainerProbeState>> {
        let status = self.objects.get(NODE_NAME).await?.status.unwrap_or_default();
        let mut all = status.pod_probe_statuses.into_iter();
        let found = all.find(|entry| entry.namespace == self.case.namespace && entry.name == pod);
        Ok(found.map(|entry| entry.probe_states).unwrap_or_default())
    }

    /// Waits until `NodePodProbe` tells nothing of a pod any more.
    async fn await_untold(&self, pod: &str) -> Result<()> {
        await_condition(format!("nothing is told of pod {pod}"), PATIENCE, async || {
            let told = self.told(pod).await?;
            ensure!(told.is_empty(), "{told:?}");
            Ok(())
        })
        .await
    }
}

/// A command in the container's shell.
fn exec(script: &str) -> Value {
    every_second("exec", json!({ "command": ["/bin/sh", "-c", script] }))
}

/// A probe with this handler, every second, that fails at the first failure. A busy machine is no failure.
fn every_second(handler: &str, what: Value) -> Value {
    json!({ handler: what, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1 })
}

/// The value of a label.
fn label<'p>(pod: &'p Pod, key: &str) -> Option<&'p str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}
