//! Which instance of each probed container there is, told to the probes when it changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use berth_policy::{ContainerName, Event, Instance, PodUid, ProbeEvent};
use berth_shim::Gate;
use tokio::time::sleep;

use super::shared::SharedProbes;
use crate::agent::Agent;

/// Pause in which changes are collected before they are looked at together.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// From the node to the probes.
#[derive(Debug)]
pub(super) struct Instances {
    pub(super) agent: Arc<Agent>,
    pub(super) probes: Arc<SharedProbes>,
}

/// Instances of a pod, as told last.
type Told = Option<BTreeMap<ContainerName, Instance>>;

impl Instances {
    /// Follows them for ever.
    pub(super) async fn follow(&self) {
        let (mut facts, mut wanted) = (self.agent.containers(), self.probes.wanted());
        let mut told: BTreeMap<PodUid, Told> = BTreeMap::new();
        let mut probed = BTreeSet::new();
        loop {
            facts.mark_unchanged();
            let pods = wanted.borrow_and_update().clone();
            // What is not asked for any more is followed to its end: until then its marks can be taken back.
            let all: BTreeSet<PodUid> = pods.iter().chain(told.keys()).cloned().collect();
            let (followed, found) = self.agent.read(|node, _| {
                // The runtime knows a static pod by another UID than the API.
                let followed: BTreeSet<PodUid> = pods.iter().map(|uid| node.local_uid(uid)).collect();
                let all: Vec<_> = all.into_iter().map(|uid| (node.local_uid(&uid), uid)).collect();
                let instances = node.probed_instances(&all.iter().map(|(local, _)| local.clone()).collect());
                let found = |(local, uid)| (uid, instances.get(&local).cloned());
                (followed, all.into_iter().map(found).collect::<Vec<_>>())
            });
            if followed != probed {
                self.agent.observe(Event::ProbedPods(followed.clone()));
                probed = followed;
            }
            for (uid, found) in found {
                if told.get(&uid) != Some(&found) {
                    self.probes.apply(match &found {
                        Some(instances) => ProbeEvent::Instances(uid.clone(), instances.clone()),
                        None => ProbeEvent::PodGone(uid.clone()),
                    });
                    told.insert(uid, found);
                }
            }
            told.retain(|uid, found| found.is_some() || pods.contains(uid));
            // Cancel-safe: numbers and a set, each in its newest version.
            let changed = tokio::select! {
                changed = facts.changed(), if !told.is_empty() => changed,
                changed = wanted.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            // Facts come in bursts.
            sleep(DEBOUNCE).await;
        }
    }
}
