//! Writes down what the API server shows of a namespace's pods while a test goes on: a phase that came and
//! went again is not to be seen in the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Pods = Arc<Mutex<BTreeMap<String, Seen>>>;

/// Record of one pod, in the order in which it was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The pod in its last state.
    pub last: Pod,
    /// Each phase that differs from the one before, with the time when it came here: nanoseconds since the
    /// epoch.
    pub phases: Vec<(i64, String)>,
    /// The highest restart count of each container.
    pub restarts: BTreeMap<String, i32>,
    /// Status and message of each condition, by its type, each pair that differs from the one before.
    pub conditions: BTreeMap<String, Vec<(String, String)>>,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct PodWatch {
    pods: Pods,
    task: JoinHandle<()>,
}

impl PodWatch {
    /// Begins to watch. What is made after it returned is seen from its beginning on.
    pub async fn start(api: Api<Pod>) -> Result<Self> {
        let pods = Pods::default();
        let (begun, begins) = oneshot::channel();
        let task = tokio::spawn(watch(api, pods.clone(), begun));
        let watch = Self { pods, task };
        begins.await.context("the watch ended before it began")?;
        Ok(watch)
    }

    /// The pod of this name, once it was seen.
    pub fn named(&self, name: &str) -> Option<Seen> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The pods with this label, by name.
    pub fn labelled(&self, label: &str, value: &str) -> Vec<Seen> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |seen: &&Seen| seen.last.labels().get(label).is_some_and(|found| found == value);
        pods.values().filter(wanted).cloned().collect()
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    /// When it was first seen to be over, and how it ended. Fails when it ever was in a phase after that, or
    /// went back.
    pub fn ended(&self) -> Result<(i64, &str)> {
        let rank =
            |phase: &str| ["Pending", "Running", "Succeeded Failed"].iter().position(|of| of.contains(phase));
        for pair in self.phases.windows(2) {
            ensure!(rank(&pair[0].1) < rank(&pair[1].1), "the phase went back and forth: {:?}", self.phases);
        }
        let (at, phase) = self.phases.last().context("no phase yet")?;
        ensure!(rank(phase) == Some(2), "it is not over: {:?}", self.phases);
        Ok((*at, phase))
    }

    fn add(&mut self, pod: Pod) -> Result<()> {
        let status = pod.status.as_ref().context("no status")?;
        if let Some(phase) = &status.phase
            && self.phases.last().is_none_or(|(_, last)| last != phase)
        {
            let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
            self.phases.push((i64::try_from(since.as_nanos())?, phase.clone()));
        }
        for container in status.container_statuses.iter().flatten() {
            let most = self.restarts.entry(container.name.clone()).or_default();
            *most = container.restart_count.max(*most);
        }
        for condition in status.conditions.iter().flatten() {
            let seen = self.conditions.entry(condition.type_.clone()).or_default();
            let says = (condition.status.clone(), condition.message.clone().unwrap_or_default());
            if seen.last() != Some(&says) {
                seen.push(says);
            }
        }
        self.last = pod;
        Ok(())
    }
}

/// The watch comes back by itself when the API server was away.
async fn watch(api: Api<Pod>, pods: Pods, begun: oneshot::Sender<()>) {
    let mut begun = Some(begun);
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let pod = match event {
            Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod)) => pod,
            Ok(watcher::Event::InitDone) => {
                // Whoever waits for it may have gone.
                begun.take().map(|begun| begun.send(()));
                continue;
            }
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => continue,
            Err(error) => {
                eprintln!("watch of pods: {error}");
                continue;
            }
        };
        let mut pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Seen {
            last: pod.clone(),
            phases: Vec::new(),
            restarts: BTreeMap::new(),
            conditions: BTreeMap::new(),
        };
        let seen = pods.entry(pod.name_any()).or_insert_with(new);
        if let Err(error) = seen.add(pod) {
            eprintln!("watch of pods: {error:#}");
        }
    }
}
