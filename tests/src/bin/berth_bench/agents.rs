//! All agents and kubelets in one, without nodes. The agents are real but for the runtime
//! ([`berthd::SimulatedAgent`]): what they say in their NodePodUpdate and write to pods is decided and
//! written by the agent's own code, for each node by itself. What a kubelet does is played: a container
//! whose image has changed runs it half a second later. A kubelet's status is no write of ours and is not
//! counted.

mod ends;
mod pod;
mod steps;

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_policy::API_PAUSES;
use berth_proto::crd::{DesiredPod, NodePodUpdate};
use berth_tests::node::{ControlPlane, User};
use berth_tests::wait::await_condition;
use berthd::cluster::client::{Connection, Source};
use berthd::{SimulatedAgent, SimulatedStep};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use self::ends::Ends;
use self::pod::{is_through, restarted};
use crate::manager::cluster::node;

/// Objects whose pods the agents upgrade.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upgrade {
    /// SidecarSets with a sidecar `log`, in pods of the cluster on paper.
    Sidecars,
    /// Workloads whose pods have one container, `app`.
    Workloads,
}

const PATIENCE: Duration = Duration::from_secs(120);
/// Requests to the API server at once.
const AT_ONCE: usize = 32;
/// Before a pod is looked at again; it doubles while there is nothing to do.
const PAUSE: Duration = Duration::from_millis(100);
/// From the patch until the new container runs.
const RESTART: Duration = Duration::from_millis(500);
/// An agent that has said something goes on giving signs of life; each is due every two minutes.
const SIGNS: Duration = Duration::from_secs(30);

/// Features that agents have at their start: all kinds of entries that they understand.
const FEATURES: [&str; 5] =
    ["owners/v1", "clonesets/v1", "statefulsets/v1", "daemonsets/v1", "pod-template-hash/v1"];

/// The agents. They end with this.
pub(crate) struct Agents {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    /// Each agent has a connection of its own.
    source: Source,
    upgrade: Upgrade,
    /// The objects of the nodes, as they come.
    nodes: Mutex<HashMap<String, watch::Sender<Option<NodePodUpdate>>>>,
    /// Agents run that were asked for nothing yet, too.
    is_warm: bool,
    /// Writes to NodePodUpdates, of everybody, and to pods by agents.
    writes: AtomicU32,
    /// Turns to read pods: agents have theirs from a watch, without a question.
    looks: Semaphore,
}

type Key = (String, String, String, i32);

fn key(entry: &DesiredPod) -> Key {
    (entry.uid.clone(), entry.owner.clone(), entry.revision.clone(), entry.attempt)
}

impl Agents {
    pub(crate) async fn start(
        plane: &ControlPlane,
        client: &Client,
        nodes: u32,
        upgrade: Upgrade,
    ) -> Result<Self> {
        Self::begin(plane, client, nodes, upgrade, false).await
    }

    /// The same, and all agents run and have given their first sign of life.
    pub(crate) async fn start_warm(
        plane: &ControlPlane,
        client: &Client,
        nodes: u32,
        upgrade: Upgrade,
    ) -> Result<Self> {
        let agents = Self::begin(plane, client, nodes, upgrade, true).await?;
        await_condition("all agents have given a sign of life", PATIENCE, async || {
            // Nobody else writes yet.
            let signs = agents.writes();
            ensure!(signs >= nodes, "{signs} of {nodes}");
            Ok(())
        })
        .await?;
        Ok(agents)
    }

    async fn begin(
        plane: &ControlPlane,
        client: &Client,
        nodes: u32,
        upgrade: Upgrade,
        is_warm: bool,
    ) -> Result<Self> {
        let updates: Api<NodePodUpdate> = Api::all(client.clone());
        let make = stream::iter(0..nodes).map(|number| {
            let updates = updates.clone();
            async move {
                let object = NodePodUpdate::new(&node(number), Default::default());
                updates.create(&PostParams::default(), &object).await.context("make a NodePodUpdate")?;
                let features = json!({
                    "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate", "metadata": { "name": node(number) },
                    "status": { "features": FEATURES },
                });
                let params = PatchParams::apply("berth-agent").force();
                updates.patch_status(&node(number), &params, &Patch::Apply(features)).await?;
                anyhow::Ok(())
            }
        });
        make.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let kubeconfig = plane.api().kubeconfig(User::Admin)?;
        let shared = Arc::new(Shared {
            client: client.clone(),
            source: Source::kubeconfig(kubeconfig),
            upgrade,
            is_warm,
            nodes: Mutex::default(),
            writes: AtomicU32::new(0),
            looks: Semaphore::new(AT_ONCE),
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
    async fn follow(self: Arc<Self>, ready: watch::Sender<bool>) -> Result<()> {
        let updates: Api<NodePodUpdate> = Api::all(self.client.clone());
        let mut events = pin!(watcher::watcher(updates, watcher::Config::default()));
        // They end with this.
        let mut agents = JoinSet::new();
        loop {
            match events.try_next().await?.context("the watch ended")? {
                Event::Apply(object) => {
                    self.writes.fetch_add(1, Ordering::Relaxed);
                    self.show(object, &mut agents);
                }
                Event::InitDone => drop(ready.send_replace(true)),
                Event::InitApply(object) if self.is_warm => self.show(object, &mut agents),
                Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
            }
        }
    }

    /// Shows an agent its object. One that was never asked for anything has nothing to say but that it is
    /// there.
    fn show(self: &Arc<Self>, object: NodePodUpdate, agents: &mut JoinSet<()>) {
        let is_asked = object.status.as_ref().is_some_and(|status| !status.desired_pods.is_empty());
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match nodes.get(&object.name_any()) {
            Some(known) => drop(known.send_replace(Some(object))),
            None if is_asked || self.is_warm => {
                let name = object.name_any();
                let (sender, objects) = watch::channel(Some(object));
                agents.spawn(self.clone().agent(name.clone(), objects));
                nodes.insert(name, sender);
            }
            None => {}
        }
    }

    /// One agent.
    async fn agent(self: Arc<Self>, name: String, mut objects: watch::Receiver<Option<NodePodUpdate>>) {
        let agent = Arc::new(SimulatedAgent::new(Connection::new(self.source.clone()), &name));
        let (mut begun, mut work, mut telling) = (BTreeSet::new(), JoinSet::new(), JoinSet::new());
        let mut ends = Ends::new(self.upgrade);
        objects.mark_changed();
        loop {
            let due = ends.due();
            // Cancel-safe: what has changed stays so until it is looked at, a task that has ended stays so,
            // and what is due stays due.
            tokio::select! {
                changed = tokio::time::timeout(SIGNS, objects.changed()) => match changed {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                    Err(_) => {
                        agent.renew().await;
                        continue;
                    }
                },
                Some(through) = work.join_next() => {
                    if let Ok((entry, pod)) = through {
                        ends.is_through(entry, pod, Instant::now());
                    }
                    continue;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    telling.spawn(self.clone().tell(agent.clone(), ends.take()));
                    continue;
                }
                Some(_) = telling.join_next() => continue,
            }
            let Some(object) = objects.borrow_and_update().clone() else { continue };
            let entries =
                object.status.as_ref().map(|status| status.desired_pods.clone()).unwrap_or_default();
            agent.take(object).await;
            begun.retain(|known| entries.iter().any(|entry| key(entry) == *known));
            for entry in entries.into_iter().filter(|entry| begun.insert(key(entry))) {
                ends.begins(&entry, Instant::now());
                let (shared, agent) = (self.clone(), agent.clone());
                work.spawn(async move {
                    let pod = shared.bring(&agent, &entry).await;
                    (entry, pod)
                });
            }
        }
    }

    /// Says that these entries have ended.
    async fn tell(self: Arc<Self>, agent: Arc<SimulatedAgent>, ends: Vec<(DesiredPod, Value)>) {
        let ends = ends.into_iter().map(|(entry, pod)| self.end(&agent, entry, pod));
        futures::future::join_all(ends).await;
    }
}
