//! Restarts that an update needs beside those the kubelet does by itself: of containers whose env has to be
//! read anew.
//!
//! They go the way of every other recreate (requests and marks of [`crate::Node`]), under names that whoever
//! takes over after a crash finds again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::action::UpdateAction;
use crate::{
    in_place_update::{Records, UpdateRequest},
    instances::InstanceView,
    model::{ContainerId, ContainerName, ContainerState, RequestId},
    recreate::{Origin, RecreateReport, RecreateRequest, RecreateStrategy, RecreateTarget},
    time::later,
};

/// A container that was restarted for its env and did not get it: the kubelet had an older version of the pod
/// after all.
const SECOND_RESTART_PAUSE: Duration = Duration::from_secs(30);

/// The restarts of one pod.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    in_flight: BTreeMap<ContainerName, InFlight>,
    /// When a container was last restarted, and at which point of the pod's updates.
    done: BTreeMap<ContainerName, (Records, Instant)>,
}

#[derive(Clone, Debug)]
struct InFlight {
    instance: ContainerId,
    request: RecreateRequest,
}

impl Restarts {
    /// Sets which instances are to be restarted. `known`: the node was told of all restarts that an
    /// earlier process began. Returns what follows, and when to look again, where one has to wait.
    pub(crate) fn want(
        &mut self,
        request: &UpdateRequest,
        point: &Records,
        instances: &BTreeMap<ContainerName, InstanceView>,
        wanted: BTreeMap<ContainerName, ContainerId>,
        now: Instant,
        known: bool,
    ) -> (Vec<UpdateAction>, Option<Instant>) {
        let mut actions = Vec::new();
        let done = &mut self.done;
        self.in_flight.retain(|name, restart| {
            let newest = instances.get(name);
            let same = newest.is_some_and(|newest| newest.id == restart.instance);
            // One that is being stopped goes on; one that was not touched yet, and need not be any more, is
            // let be.
            let untouched =
                newest.is_some_and(|newest| newest.state == ContainerState::Running && !newest.stopping);
            let over = !same || untouched && wanted.get(name) != Some(&restart.instance);
            if over {
                if same {
                    // It was not restarted, so it may be at once when it is wanted again.
                    done.remove(name);
                }
                actions.push(UpdateAction::DropRestart(restart.request.id.clone()));
            }
            !over
        });
        let mut again: Option<Instant> = None;
        for (name, instance) in wanted {
            if self.in_flight.contains_key(&name) {
                continue;
            }
            if let Some((before, at)) = self.done.get(&name)
                && before == point
                && now < later(*at, SECOND_RESTART_PAUSE)
            {
                again = again.into_iter().chain([later(*at, SECOND_RESTART_PAUSE)]).min();
                continue;
            }
            self.done.insert(name.clone(), (point.clone(), now));
            let restart = InFlight { request: recreate(request, &name, &instance, now), instance };
            if known {
                actions.push(UpdateAction::Restart(Box::new(restart.request.clone())));
            }
            self.in_flight.insert(name, restart);
        }
        (actions, again)
    }

    /// All of them, for a node that is told anew.
    pub(crate) fn all(&self) -> impl Iterator<Item = &RecreateRequest> {
        self.in_flight.values().map(|restart| &restart.request)
    }

    /// Drops all of them: nobody wants any of them any more.
    pub(crate) fn drop_all(&mut self) -> impl Iterator<Item = RequestId> {
        self.done.clear();
        std::mem::take(&mut self.in_flight).into_values().map(|restart| restart.request.id)
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
        named: None,
        containers: vec![RecreateTarget { name: name.clone(), instance: instance.clone() }],
        strategy: RecreateStrategy::default(),
        deadline: None,
        delete_after: None,
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    }
}
