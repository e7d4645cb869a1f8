//! Restarts that an update needs beside those the kubelet does by itself: of containers whose env has to be read anew.
//!
//! They go the way of every other recreate (`berth_policy`'s requests and marks), under names that whoever takes over
//! after a crash finds again.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerId, ContainerName, ContainerState, Event, Origin, PodUid, RecreateReport, RecreateRequest,
    RecreateStrategy, RecreateTarget, RequestId, in_place_update::UpdateRequest, time::later,
};
use berth_shim::Gate;

use super::{Parts, pods::Version, state};
use crate::agent::Agent;

/// A container that was restarted for its env and did not get it: the kubelet had an older version of the pod after all.
const AGAIN: Duration = Duration::from_secs(30);

/// The restarts asked for.
#[derive(Debug, Default)]
pub(super) struct Recreates {
    asked: BTreeMap<(PodUid, ContainerName), Asked>,
    /// The agent was told of all there are from an earlier process.
    told: bool,
    /// When a container was last restarted, and at which point of its pod's updates.
    done: BTreeMap<(PodUid, ContainerName), (String, Instant)>,
}

#[derive(Clone, Debug)]
struct Asked {
    instance: ContainerId,
    request: RecreateRequest,
}

impl Recreates {
    /// These instances of the pod are to be restarted, and no others. When to look again, where one has to wait.
    pub(super) fn want(
        &mut self,
        parts: &Parts,
        requests: &[UpdateRequest],
        version: &Version,
        wanted: BTreeMap<ContainerName, ContainerId>,
        now: Instant,
    ) -> Option<Instant> {
        let request = requests.first()?;
        let pod = &request.pod.uid;
        let (agent, instances) = (&parts.agent, parts.instances(pod, version));
        let over: Vec<(PodUid, ContainerName)> = self
            .asked
            .iter()
            .filter(|((uid, name), asked)| {
                let newest = instances.get(name);
                let same = newest.is_some_and(|newest| newest.id == asked.instance);
                // One that is being stopped goes on; one that was not touched yet, and need not be any more, is let be.
                let untouched =
                    newest.is_some_and(|newest| newest.state == ContainerState::Running && !newest.stopping);
                uid == pod && (!same || untouched && wanted.get(name) != Some(&asked.instance))
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            if let Some(asked) = self.asked.remove(&key) {
                let newest = instances.get(&key.1);
                if newest.is_some_and(|newest| newest.id == asked.instance) {
                    // It was not restarted, so it may be at once when it is wanted again.
                    self.done.remove(&key);
                }
                agent.observe(Event::RecreateGone(asked.request.id));
            }
        }
        let point = version.pod.metadata.annotations.as_ref().and_then(|all| all.get(state::ANNOTATION));
        let point = point.cloned().unwrap_or_default();
        let mut again = None;
        for (name, instance) in wanted {
            let key = (pod.clone(), name.clone());
            if self.asked.contains_key(&key) {
                continue;
            }
            if let Some((before, at)) = self.done.get(&key)
                && *before == point
                && now < later(*at, AGAIN)
            {
                again = again.into_iter().chain([later(*at, AGAIN)]).min();
                continue;
            }
            self.done.insert(key.clone(), (point.clone(), now));
            let asked = Asked { request: recreate(request, &name, &instance, now), instance };
            if self.told {
                agent.observe(Event::RecreateSeen(Box::new(asked.request.clone())));
            }
            self.asked.insert(key, asked);
        }
        again
    }

    /// All requests of this node are known, and what follows from them: what an earlier process began and nobody wants any
    /// more can go.
    pub(super) fn all_known(&mut self, agent: &Arc<Agent>) {
        if !std::mem::replace(&mut self.told, true) {
            let requests = self.asked.values().map(|asked| asked.request.clone()).collect();
            agent.observe(Event::RecreatesListed(Origin::Update, requests));
        }
    }

    /// Nobody wants anything of the other pods any more.
    pub(super) fn keep_only(&mut self, agent: &Arc<Agent>, is_wanted: impl Fn(&PodUid) -> bool) {
        self.done.retain(|(pod, _), _| is_wanted(pod));
        self.asked.retain(|(pod, _), asked| {
            let wanted = is_wanted(pod);
            if !wanted {
                agent.observe(Event::RecreateGone(asked.request.id.clone()));
            }
            wanted
        });
    }
}

fn recreate(
    request: &UpdateRequest,
    name: &ContainerName,
    instance: &ContainerId,
    now: Instant,
) -> RecreateRequest {
    RecreateRequest {
        id: RequestId::from(format!("update:{}:{instance}", request.pod.uid)),
        origin: Origin::Update,
        key: request.key.clone(),
        created: now,
        pod: request.pod.uid.clone(),
        containers: vec![RecreateTarget { name: name.clone(), instance: instance.clone() }],
        strategy: RecreateStrategy::default(),
        deadline: None,
        delete_after: None,
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    }
}
