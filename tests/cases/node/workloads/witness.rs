//! Pods of a rollout on paper, as they were seen: somebody makes them Ready as kubelets would, and somebody
//! counts them at each of their versions.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::is_half_deleted;
use crate::case::end_now;

/// User that the program is to the API server.
pub(super) const USER: &str = "system:serviceaccount:berth-system:berth-workloads";

/// Counts of the pods of sets that all have as many, each by its label `app`.
pub(super) struct Witness {
    apps: &'static [&'static str],
    pods: usize,
    /// The most that were there at once, of a set.
    most: AtomicUsize,
    /// The fewest that served at once, of a set, once all did.
    fewest: AtomicUsize,
}

impl Witness {
    pub(super) fn new(apps: &'static [&'static str], pods: usize) -> Arc<Self> {
        Arc::new(Self { apps, pods, most: AtomicUsize::new(0), fewest: AtomicUsize::new(pods) })
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    pub(super) fn fewest(&self) -> usize {
        self.fewest.load(Ordering::SeqCst)
    }

    /// Watches every version of every pod.
    pub(super) async fn watch(self: Arc<Self>, pods: Api<Pod>) -> Result<()> {
        let mut events = pin!(watcher::watcher(pods, watcher::Config::default()));
        let mut all: BTreeMap<String, Pod> = BTreeMap::new();
        let (mut whole, mut begun) = (false, BTreeSet::new());
        while let Some(event) = events.next().await {
            match event? {
                Event::Init => ensure!(!whole, "the watch broke: nothing can be said of what it missed"),
                Event::InitApply(pod) | Event::Apply(pod) => drop(all.insert(pod.name_any(), pod)),
                Event::Delete(pod) => drop(all.remove(&pod.name_any())),
                Event::InitDone => whole = true,
            }
            for app in self.apps {
                let is_of = |pod: &&Pod| pod.labels().get("app").is_some_and(|value| value == app);
                let of = || all.values().filter(is_of);
                let there = of().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
                let serving = of().filter(|pod| serves(pod)).count();
                self.most.fetch_max(there, Ordering::SeqCst);
                if serving == self.pods {
                    begun.insert(*app);
                }
                if begun.contains(app) {
                    self.fewest.fetch_min(serving, Ordering::SeqCst);
                }
            }
        }
        bail!("the watch ended")
    }
}

pub(super) fn serves(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Makes each new pod Ready after a while, as kubelets would.
pub(super) async fn live(pods: Api<Pod>, ready_after: Duration) -> Result<()> {
    let mut since: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        for pod in pods.list(&Default::default()).await? {
            let name = pod.name_any();
            if is_half_deleted(&pod) {
                end_now(&pods, &name).await?;
            } else if !serves(&pod) && pod.metadata.deletion_timestamp.is_none() {
                let uid = pod.uid().unwrap_or_default();
                if since.entry(uid).or_insert_with(Instant::now).elapsed() > ready_after {
                    let status = json!({ "status": {
                        "phase": "Running",
                        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                    }});
                    // It may have been deleted meanwhile.
                    drop(pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await);
                }
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}
