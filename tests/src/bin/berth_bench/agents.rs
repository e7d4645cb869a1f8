//! All agents and kubelets in one: watches every NodePodUpdate, and carries out what is new in one. Of
//! each pod an agent writes what the real one writes: of a workload's the gate that is shut, the patch
//! and the gate that is opened; of one with sidecars the patch, and what the kubelet started. Of its
//! node, what is reported meanwhile is written together. A kubelet's status is no write of ours and is
//! not counted.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use berth_proto::crd::{DesiredPod, NodePodUpdate};
use berth_sidecarset::names;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::manager::cluster::{node, running};

/// Objects whose pods the agents upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upgrade {
    /// SidecarSets with a sidecar `log`, in pods of the cluster on paper.
    Sidecars,
    /// Workloads whose pods have one container, `app`.
    Workloads,
}

/// Requests to the API server at once.
const AT_ONCE: usize = 32;
/// Reports of a node are gathered for so long.
const GATHERED: Duration = Duration::from_millis(100);
/// From the patch until the new container runs.
const RESTART: Duration = Duration::from_millis(500);

/// All kinds of entries that an agent understands.
const FEATURES: [&str; 5] =
    ["owners/v1", "clonesets/v1", "statefulsets/v1", "daemonsets/v1", "pod-template-hash/v1"];

/// The agents. They end with this.
pub(crate) struct Agents {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    upgrade: Upgrade,
    nodes: Mutex<HashMap<String, Agent>>,
    /// ID of the image that a pod runs, by UID, once it was upgraded.
    images: Mutex<HashMap<String, String>>,
    /// Writes to NodePodUpdates, of everybody, and to pods by agents.
    writes: AtomicU32,
}

/// Knowledge of one agent.
#[derive(Default)]
struct Agent {
    /// Entries that stand.
    desired: Vec<DesiredPod>,
    /// Its answers, by what they answer.
    said: BTreeMap<Key, &'static str>,
    /// Entries to begin with.
    fresh: Vec<DesiredPod>,
    /// It is at work.
    busy: bool,
}

type Key = (String, String, String, i32);

fn key(entry: &DesiredPod) -> Key {
    (entry.uid.clone(), entry.owner.clone(), entry.revision.clone(), entry.attempt)
}

impl Agents {
    pub(crate) async fn start(client: &Client, nodes: u32, upgrade: Upgrade) -> Result<Self> {
        let updates: Api<NodePodUpdate> = Api::all(client.clone());
        let make = stream::iter(0..nodes).map(|number| {
            let updates = updates.clone();
            async move {
                let object = NodePodUpdate::new(&node(number), Default::default());
                updates.create(&PostParams::default(), &object).await.context("make a NodePodUpdate")?;
                let features = Patch::Merge(json!({ "status": { "features": FEATURES } }));
                updates.patch_status(&node(number), &PatchParams::default(), &features).await?;
                anyhow::Ok(())
            }
        });
        make.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let shared = Arc::new(Shared {
            client: client.clone(),
            upgrade,
            nodes: Mutex::default(),
            images: Mutex::default(),
            writes: AtomicU32::new(0),
        });
        let (ready, mut is_ready) = watch::channel(false);
        let task = tokio::spawn({
            let shared = shared.clone();
            async move {
                // What goes wrong here shows as an upgrade that does not end.
                if let Err(error) = shared.follow(ready).await {
                    eprintln!("the agents have ended: {error:#}");
                }
            }
        });
        is_ready.wait_for(|ready| *ready).await.context("the agents' watch")?;
        Ok(Self { shared, task })
    }

    pub(crate) fn writes(&self) -> u32 {
        self.shared.writes.load(Ordering::Relaxed)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Agent>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(self: Arc<Self>, ready: watch::Sender<bool>) -> Result<()> {
        let updates: Api<NodePodUpdate> = Api::all(self.client.clone());
        let mut events = pin!(watcher::watcher(updates, watcher::Config::default()));
        loop {
            match events.try_next().await?.context("the watch ended")? {
                Event::Apply(object) => {
                    self.writes.fetch_add(1, Ordering::Relaxed);
                    self.take(&object);
                }
                Event::InitDone => drop(ready.send_replace(true)),
                Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
            }
        }
    }

    fn take(self: &Arc<Self>, object: &NodePodUpdate) {
        let desired = object.status.as_ref().map(|status| status.desired_pods.clone()).unwrap_or_default();
        let mut nodes = self.nodes();
        let agent = nodes.entry(object.name_any()).or_default();
        agent.said.retain(|said, _| desired.iter().any(|entry| key(entry) == *said));
        for entry in &desired {
            agent.said.entry(key(entry)).or_insert_with(|| {
                agent.fresh.push(entry.clone());
                "Pending"
            });
        }
        agent.desired = desired;
        if !agent.fresh.is_empty() && !agent.busy {
            agent.busy = true;
            tokio::spawn(self.clone().work(object.name_any()));
        }
    }

    /// One agent: as long as there is something new.
    async fn work(self: Arc<Self>, node: String) {
        loop {
            tokio::time::sleep(GATHERED).await;
            let fresh = {
                let mut nodes = self.nodes();
                let Some(agent) = nodes.get_mut(&node) else { return };
                if agent.fresh.is_empty() {
                    agent.busy = false;
                    return;
                }
                std::mem::take(&mut agent.fresh)
            };
            // An entry of a workload begins without a report: nobody goes back to what was before it.
            if let Upgrade::Sidecars = self.upgrade {
                self.say(&node, &fresh, "Updating").await;
            }
            let mut work = JoinSet::new();
            for entry in fresh.clone() {
                work.spawn(self.clone().carry_out(entry));
            }
            while work.join_next().await.is_some() {}
            self.say(&node, &fresh, "Succeeded").await;
        }
    }

    /// Writes all that this agent has to say.
    async fn say(&self, node: &str, entries: &[DesiredPod], phase: &'static str) {
        let pods: Vec<Value> = {
            let mut nodes = self.nodes();
            let Some(agent) = nodes.get_mut(node) else { return };
            for entry in entries {
                if let Some(said) = agent.said.get_mut(&key(entry)) {
                    *said = phase;
                }
            }
            let answer = |entry: &DesiredPod| {
                let phase = agent.said.get(&key(entry))?;
                Some(json!({
                    "uid": entry.uid, "owner": entry.owner, "ownerUid": entry.owner_uid,
                    "revision": entry.revision, "attempt": entry.attempt, "phase": phase,
                    "since": entry.since,
                    "containers": entry.containers.iter().map(|one| json!({ "name": one.name, "phase": phase })).collect::<Vec<_>>(),
                }))
            };
            agent.desired.iter().filter_map(answer).collect()
        };
        let updates: Api<NodePodUpdate> = Api::all(self.client.clone());
        let body = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate", "metadata": { "name": node },
            "status": { "pods": pods, "features": FEATURES },
        });
        let params = PatchParams::apply("berth-agent").force();
        while let Err(error) = updates.patch_status(node, &params, &Patch::Apply(&body)).await {
            eprintln!("an agent's report failed: {error}");
            tokio::time::sleep(GATHERED).await;
        }
    }

    async fn carry_out(self: Arc<Self>, entry: DesiredPod) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &entry.namespace);
        let (name, index) = match self.upgrade {
            Upgrade::Sidecars => ("log", 2),
            Upgrade::Workloads => ("app", 1),
        };
        let image = entry.containers.first().map(|one| one.image.clone()).unwrap_or_default();
        let id = format!("{image}@sha256:{index:064x}");
        let mut annotations = entry.merge_annotations.clone();
        annotations.extend(entry.annotations.clone());
        if let Upgrade::Sidecars = self.upgrade {
            annotations
                .insert("kruise.io/sidecarset-inplace-update-state".to_owned(), self.state(&entry, &id));
            debug_assert!(annotations.contains_key(names::HASH));
        }
        let containers: Vec<_> =
            entry.containers.iter().map(|one| json!({ "name": one.name, "image": one.image })).collect();
        let patch = json!({
            "metadata": { "annotations": annotations, "labels": entry.labels },
            "spec": { "containers": containers },
        });
        self.gate(&pods, &entry.name, false).await;
        self.write(&pods, &entry.name, &Patch::Strategic(patch)).await;
        tokio::time::sleep(RESTART).await;
        let mut restarted = running(0, index);
        restarted["image"] = image.clone().into();
        (restarted["imageID"], restarted["restartCount"]) = (id.into(), 1.into());
        // Statuses are one list, which a patch replaces.
        let statuses = match self.upgrade {
            Upgrade::Sidecars => json!([running(0, 1), restarted]),
            Upgrade::Workloads => json!([restarted]),
        };
        let shown = Patch::Strategic(json!({ "status": { "containerStatuses": statuses } }));
        while let Err(error) = pods.patch_status(&entry.name, &PatchParams::default(), &shown).await {
            eprintln!("a kubelet's status failed: {error}");
            tokio::time::sleep(GATHERED).await;
        }
        self.gate(&pods, &entry.name, true).await;
        // Kept where containers have env from metadata, as sidecars may.
        if let Upgrade::Sidecars = self.upgrade {
            let meta = json!({ "containers": [{ "name": name, "restartCount": 1, "image": image }] });
            let meta = json!({ "metadata": { "annotations": {
                "apps.kruise.io/runtime-containers-meta": meta.to_string() } } });
            self.write(&pods, &entry.name, &Patch::Merge(meta)).await;
        }
    }

    /// Shuts or opens the gate, which pods of workloads have.
    async fn gate(&self, pods: &Api<Pod>, name: &str, open: bool) {
        let Upgrade::Workloads = self.upgrade else { return };
        let word = if open { "True" } else { "False" };
        let mut conditions = vec![json!({ "type": "InPlaceUpdateReady", "status": word })];
        // What the real agent says of a pod that it takes out of service, and the kubelet of one that serves.
        conditions.push(json!({ "type": "Ready", "status": word }));
        let patch = Patch::Strategic(json!({ "status": { "conditions": conditions } }));
        while let Err(error) = pods.patch_status(name, &PatchParams::default(), &patch).await {
            eprintln!("an agent's word on a gate failed: {error}");
            tokio::time::sleep(GATHERED).await;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// OpenKruise's record of an upgrade of the sidecar, with the image that it had before.
    fn state(&self, entry: &DesiredPod, id: &str) -> String {
        let set = entry.owner.rsplit('/').next().unwrap_or_default();
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let before = images.insert(entry.uid.clone(), id.to_owned());
        let before =
            before.unwrap_or_else(|| running(0, 2)["imageID"].as_str().unwrap_or_default().to_owned());
        json!({ set: { "revision": entry.revision, "lastContainerStatuses": { "log": { "imageID": before } } } })
            .to_string()
    }

    /// Writes to a pod until it is taken, and counts it.
    async fn write(&self, pods: &Api<Pod>, name: &str, patch: &Patch<Value>) {
        while let Err(error) = pods.patch(name, &PatchParams::default(), patch).await {
            eprintln!("an agent's patch failed: {error}");
            tokio::time::sleep(GATHERED).await;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}
