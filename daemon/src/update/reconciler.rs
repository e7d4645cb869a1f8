//! Reconciler of the updates: snapshots in, a plan, effects out. All that is decided and remembered is the
//! policy's.

use std::{sync::Arc, time::Instant};

use berth_policy::in_place_update::{UpdateEvent, UpdatePermission};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Parts;
use crate::{
    agent::now,
    base::{clock::wall, deadline},
    cluster::features::Permission,
};

/// Reconciler, with the effects under way.
pub(super) struct Reconciler {
    parts: Arc<Parts>,
    tasks: JoinSet<UpdateEvent>,
}

impl Reconciler {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        // What another one had under way was lost with it.
        parts.updates.apply(UpdateEvent::ExecutorLost);
        Self { parts, tasks: JoinSet::new() }
    }

    /// Runs until the shutdown, or until an effect was lost. What is under way then is given up: who comes
    /// next sees in the pod how far it got.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        // Subscribed before the first look, so that no change in between is lost.
        let mut requests = self.parts.updates.changes();
        let mut pods = self.parts.updates.pod_changes();
        let mut identity = self.parts.identity.clone();
        let (mut facts, mut images) = (self.parts.agent.facts(), self.parts.images.news());
        loop {
            requests.mark_unchanged();
            pods.mark_unchanged();
            identity.mark_unchanged();
            facts.mark_unchanged();
            images.mark_unchanged();
            let (again, idle) = self.turn();
            // All cancel-safe: numbers, a timer, and tasks that go on.
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = requests.changed() => {}
                _ = pods.changed(), if !idle => {}
                _ = identity.changed(), if !idle => {}
                _ = facts.changed(), if !idle => {}
                _ = images.changed(), if !idle => {}
                Some(answer) = self.tasks.join_next() => match answer {
                    Ok(answer) => self.parts.updates.apply(answer),
                    Err(error) => {
                        warn!(%error, "A step of an update was lost");
                        return;
                    }
                },
                () = deadline::reached(again) => {}
            }
        }
    }

    /// Looks at everything once and begins what is owed. When to look again, and whether nobody waits for
    /// anything.
    fn turn(&mut self) -> (Option<Instant>, bool) {
        let parts = &self.parts;
        parts.updates.apply(UpdateEvent::PermissionKnown(match parts.permission() {
            Permission::Unknown => UpdatePermission::Unknown,
            Permission::Given => UpdatePermission::Given,
            Permission::Denied(why) => UpdatePermission::Denied(why),
        }));
        for (pod, images) in parts.updates.followed() {
            let view = parts.node_view(&pod, images.iter());
            parts.updates.apply(UpdateEvent::NodeSeen(pod, Box::new(view)));
        }
        let plan = parts.updates.plan(now(), wall(), parts.agent.metrics());
        for action in plan.actions {
            parts.begin(action, &mut self.tasks);
        }
        parts.pods.prune();
        (plan.deadline, plan.idle)
    }
}
