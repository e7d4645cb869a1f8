//! The API server, the managers, and the Service between them: in place of a kube-proxy an address of the
//! run's bridge, from which connections are handed on to the managers in turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_proto::crd::{ContainerRecreateRequest, SidecarSet};
use berth_tests::node::{ControlPlane, Manager, Replica, Run, cluster_address, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;

use crate::api_server::namespace;
use crate::case::PATIENCE;

/// One API server for all of these tests.
static PLANE: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
/// There is one Service, so the tests take turns.
static TURN: Mutex<()> = Mutex::const_new(());
/// The Lease, as in `deploy/`, and a duration short enough to wait for.
const LEASE: (&str, u16) = ("berth-system", 3);
pub(super) const SECRET: &str = "berth-manager-admission";
pub(super) const CONFIGURATION: &str = "berth-manager";

pub(super) struct Scene {
    pub(super) plane: &'static ControlPlane,
    pub(super) client: Client,
    pub(super) pods: Api<Pod>,
    pub(super) requests: Api<ContainerRecreateRequest>,
    pub(super) sets: Api<SidecarSet>,
    pub(super) hooks: Api<MutatingWebhookConfiguration>,
    pub(super) secrets: Api<Secret>,
    pub(super) kubeconfig: PathBuf,
    pub(super) first: Manager,
    _door: Door,
    _turn: MutexGuard<'static, ()>,
}

/// The Service's address: hands connections on while it lives.
pub(crate) struct Door(JoinHandle<()>);

impl Door {
    /// Takes the address on the run's bridge, and hands connections on to the replicas of the run in turn.
    pub(crate) async fn open(run: &Run) -> Result<Self> {
        let address = run.webhook_address();
        // The one of the test before may still be closing.
        let listener = await_condition("the Service's address is free", PATIENCE, async || {
            TcpListener::bind((address.as_str(), 443)).await.context("the Service's address")
        })
        .await?;
        let targets = Manager::admission_addresses(run);
        let turn = Arc::new(AtomicUsize::new(0));
        Ok(Self(tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (targets, turn) = (targets.clone(), turn.clone());
                tokio::spawn(async move {
                    let first = turn.fetch_add(1, Ordering::Relaxed);
                    for at in 0..targets.len() {
                        // As a Service does, one that is not there is passed over.
                        let target = &targets[(first + at) % targets.len()];
                        if let Ok(mut server) = TcpStream::connect(target).await {
                            let _ = copy_bidirectional(&mut client, &mut server).await;
                            return;
                        }
                    }
                });
            }
        })))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Scene {
    /// With one manager; a second one is there for [`Scene::second`].
    pub(super) async fn set(name: &str) -> Result<Self> {
        let turn = TURN.lock().await;
        crate::slots::take().await;
        let bring_up = async || {
            let started = async {
                let plane = ControlPlane::without_controllers().await?;
                let client = plane.client().await?;
                deploy::install(&client).await?;
                install_admission(&client, plane.run()).await?;
                anyhow::Ok(plane)
            };
            started.await.map_err(|error| format!("{error:#}"))
        };
        let plane = PLANE.get_or_init(bring_up).await;
        let plane = plane.as_ref().map_err(|error| anyhow!("the API server did not come up: {error}"))?;
        let client = plane.api().client_of_one_try().await?;
        let sets: Api<SidecarSet> = Api::all(client.clone());
        let token = token::of(&client, "berth-manager", None).await?;
        let kubeconfig = plane.api().kubeconfig_with("berth-manager", &token)?;
        let door = Door::open(plane.run()).await?;
        let first = Manager::admitting(plane.run(), Replica::First, &kubeconfig, LEASE).await?;
        asks_about_sets(&sets).await?;
        let hooks = Api::all(client.clone());
        remove_sets(&sets, &hooks).await?;
        namespace(&client, name).await?;
        Ok(Self {
            plane,
            pods: Api::namespaced(client.clone(), name),
            requests: Api::namespaced(client.clone(), name),
            sets,
            hooks,
            secrets: Api::namespaced(client.clone(), "berth-system"),
            kubeconfig,
            first,
            client,
            _door: door,
            _turn: turn,
        })
    }

    /// Starts a second replica.
    pub(super) async fn second(&self) -> Result<Manager> {
        Manager::admitting(self.plane.run(), Replica::Second, &self.kubeconfig, LEASE).await
    }

    /// Starts a second replica with these arguments.
    pub(super) async fn second_with(&self, more: &[&str]) -> Result<Manager> {
        let (run, replica) = (self.plane.run(), Replica::Second);
        let [_, address] = Manager::admission_addresses(run);
        let admits = format!("--admission-address={address}");
        let args = [&[admits.as_str()][..], more].concat();
        Manager::start_with(run, replica, &self.kubeconfig, LEASE, &args).await
    }

    /// Makes a set of one sidecar for the pods with this label, and waits until a pod gets it.
    pub(super) async fn set_of(&self, name: &str, annotations: Value) -> Result<()> {
        let set = sidecar_set(name, &annotations);
        await_condition(format!("SidecarSet {name} is taken"), PATIENCE, async || {
            self.sets
                .create(&PostParams::default(), &serde_json::from_value(set.clone())?)
                .await
                .map(drop)
                .context("make a set")
        })
        .await?;
        await_condition(format!("SidecarSet {name} is injected"), PATIENCE, async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let pod = self.pods.create(&params, &pod("probe", name)?).await.context("a pod")?;
            ensure!(sidecars(&pod) == 1, "not yet");
            Ok(())
        })
        .await
    }

    /// The bundle of the configuration's entries, one for all.
    pub(super) async fn bundle(&self) -> Result<Vec<u8>> {
        let hooks = self.hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let bundles: Vec<_> =
            hooks.into_iter().map(|hook| hook.client_config.ca_bundle.unwrap_or_default().0).collect();
        let first = bundles.first().cloned().context("no entries")?;
        ensure!(bundles.iter().all(|bundle| *bundle == first), "entries with different bundles");
        Ok(first)
    }
}

/// Waits until the API server asks the manager about sets, both those who change and those who judge them: it
/// takes configurations over a little after they were written.
async fn asks_about_sets(sets: &Api<SidecarSet>) -> Result<()> {
    let mut set = sidecar_set("asked", &json!({}));
    let good: SidecarSet = serde_json::from_value(set.clone())?;
    set["spec"]["containers"] = json!([]);
    let bad: SidecarSet = serde_json::from_value(set)?;
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    await_condition("the API server asks about sets", PATIENCE, async || {
        let made = sets.create(&tried, &good).await.context("a good set")?;
        ensure!(made.annotations().contains_key("kruise.io/sidecarset-hash"), "it is stored as it is");
        let Err(refused) = sets.create(&tried, &bad).await else { bail!("a bad one is taken") };
        ensure!(refused.to_string().contains("checks.sidecarsets.berth.dev"), "{refused}");
        Ok(())
    })
    .await
}

/// Removes the sets of the test before, and waits until their entries are gone. Somebody has to let their
/// deletion pass.
async fn remove_sets(sets: &Api<SidecarSet>, hooks: &Api<MutatingWebhookConfiguration>) -> Result<()> {
    await_condition("no set is left, and no entry of one", PATIENCE, async || {
        sets.delete_collection(&DeleteParams::default(), &ListParams::default()).await.context("sets")?;
        let entries = hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let of_sets = entries.iter().filter(|entry| entry.name.ends_with(".sidecarset.berth.dev"));
        let left: Vec<_> = of_sets.map(|entry| entry.name.as_str()).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
}

/// Makes what an admission server stands on, with a Service at the run's own address.
pub(crate) async fn install_admission(client: &Client, run: &Run) -> Result<()> {
    for mut object in deploy::objects("manager/admission.yaml")? {
        if object.types.as_ref().is_some_and(|types| types.kind == "Service") {
            object.data["spec"]["clusterIP"] = run.webhook_address().into();
        }
        deploy::apply_object(client, &object).await?;
    }
    cluster_address::take(run, &run.webhook_address())
}

/// A set of one sidecar for the pods whose label `app` is its name.
pub(super) fn sidecar_set(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "containers": [{ "name": format!("log-{name}"), "image": "registry.example/log:1" }],
        },
    })
}

/// A pod with this label `app`.
pub(super) fn pod(name: &str, app: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "app", "image": "registry.example/app:1" }] },
    }))?)
}

/// How many containers it has besides its own.
pub(super) fn sidecars(pod: &Pod) -> usize {
    pod.spec.as_ref().map_or(0, |spec| spec.containers.len().saturating_sub(1))
}
