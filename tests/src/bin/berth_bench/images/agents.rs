//! All agents in one: watches every NodeImage, and answers what is new in one after the time of a pull, by
//! server-side apply as an agent does.

use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::NodeImage;
use futures::TryStreamExt;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The agents. They end with this.
pub(super) struct Agents {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    pull: Duration,
    state: Mutex<State>,
    /// Pulls that are done, in this round.
    pulled: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    /// By node: the entries that are there and what was said of them.
    nodes: HashMap<String, BTreeMap<String, Value>>,
    /// By node: an agent writes one thing after the other, or an older list would take back what a newer one
    /// says.
    turns: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// By node and UID: how often an entry began to be there.
    pulls: HashMap<(String, String), u32>,
    /// By UID: pulling now, and at the most.
    at_once: HashMap<String, (usize, usize)>,
    /// Versions of NodeImages seen in this round.
    writes: u32,
}

impl Agents {
    pub(super) async fn start(client: Client, pull: Duration) -> Result<Self> {
        let shared =
            Arc::new(Shared { client, pull, state: Mutex::default(), pulled: watch::Sender::new(0) });
        let (ready, mut is_ready) = watch::channel(false);
        let task = tokio::spawn({
            let shared = shared.clone();
            async move {
                // What goes wrong here shows as a job that does not end.
                if let Err(error) = shared.follow(ready).await {
                    eprintln!("the agents have ended: {error:#}");
                }
            }
        });
        is_ready.wait_for(|ready| *ready).await.context("the agents' watch")?;
        Ok(Self { shared, task })
    }

    /// A round begins.
    pub(super) fn begin(&self) {
        let mut state = self.shared.state();
        state.pulls.clear();
        state.at_once.clear();
        state.writes = 0;
        self.shared.pulled.send_replace(0);
    }

    pub(super) fn pulled(&self) -> usize {
        *self.shared.pulled.borrow()
    }

    pub(super) async fn until_pulled(&self, count: usize) {
        // The sender is ours, so it does not end.
        let _ = self.shared.pulled.subscribe().wait_for(|pulled| *pulled >= count).await;
    }

    /// How often NodeImages were written in this round, by the manager and by the agents.
    pub(super) fn writes(&self) -> u32 {
        self.shared.state().writes
    }

    pub(super) fn told(&self) -> String {
        let state = self.shared.state();
        let most = state.at_once.values().map(|(_, most)| most).max().copied().unwrap_or_default();
        format!("{} pulls, {most} at once, {} writes to NodeImages", self.pulled(), state.writes)
    }

    /// Every node once for each job, and never too many at once.
    pub(super) fn check(&self, uids: &[String], nodes: usize, parallelism: usize) -> Result<()> {
        let state = self.shared.state();
        for uid in uids {
            let of_job = state.pulls.iter().filter(|((_, other), _)| other == uid);
            let times: Vec<u32> = of_job.map(|(_, times)| *times).collect();
            ensure!(times.len() == nodes, "{} of {nodes} nodes were asked by {uid}", times.len());
            ensure!(times.iter().all(|times| *times == 1), "a node was asked more than once by {uid}");
            let (_, most) = state.at_once.get(uid).copied().unwrap_or_default();
            ensure!(most <= parallelism, "{most} nodes pulled at once for {uid}");
        }
        Ok(())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(self: Arc<Self>, ready: watch::Sender<bool>) -> Result<()> {
        let images: Api<NodeImage> = Api::all(self.client.clone());
        let mut events = pin!(watcher::watcher(images, watcher::Config::default()));
        loop {
            match events.try_next().await?.context("the watch ended")? {
                Event::InitApply(image) | Event::Apply(image) => self.take(&image),
                Event::InitDone => drop(ready.send_replace(true)),
                Event::Init | Event::Delete(_) => {}
            }
        }
    }

    fn take(self: &Arc<Self>, image: &NodeImage) {
        let (name, desired) =
            (image.name_any(), image.status.as_ref().map_or(&[][..], |status| &status.desired_images));
        let mut state = self.state();
        state.writes += 1;
        let State { nodes, pulls, at_once, .. } = &mut *state;
        let known = nodes.entry(name.clone()).or_default();
        known.retain(|uid, _| desired.iter().any(|entry| entry.uid == *uid));
        for entry in desired {
            if known.contains_key(&entry.uid) {
                continue;
            }
            known.insert(entry.uid.clone(), Value::Null);
            *pulls.entry((name.clone(), entry.uid.clone())).or_default() += 1;
            let (now, most) = at_once.entry(entry.uid.clone()).or_default();
            *now += 1;
            *most = (*most).max(*now);
            tokio::spawn(self.clone().answer(name.clone(), entry.uid.clone(), entry.version));
        }
    }

    async fn answer(self: Arc<Self>, name: String, uid: String, version: Option<i64>) {
        tokio::time::sleep(self.pull).await;
        let turn = self.state().turns.entry(name.clone()).or_default().clone();
        let _turn = turn.lock().await;
        // All that this node has said, as with server-side apply it must.
        let pulls: Vec<Value> = {
            let mut state = self.state();
            if let Some((now, _)) = state.at_once.get_mut(&uid) {
                *now -= 1;
            }
            let Some(known) = state.nodes.get_mut(&name) else { return };
            known.insert(
                uid.clone(),
                json!({ "uid": uid, "version": version, "phase": "Succeeded", "progress": 100 }),
            );
            known.values().filter(|said| !said.is_null()).cloned().collect()
        };
        let images: Api<NodeImage> = Api::all(self.client.clone());
        let body = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage",
            "metadata": { "name": name }, "status": { "pulls": pulls },
        });
        let params = PatchParams::apply("berth-agent").force();
        while let Err(error) = images.patch_status(&name, &params, &Patch::Apply(&body)).await {
            eprintln!("an agent's write failed: {error}");
            tokio::time::sleep(self.pull).await;
        }
        self.pulled.send_modify(|pulled| *pulled += 1);
    }
}
