//! Answers of the runtime itself and what they change: those about one sandbox, and the list of everything.
//!
//! An answer is as old as its question. What came into being since then may be missing in it, and what was
//! removed since then may still be in it: neither is taken for news. The runtime never uses an identity
//! twice.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    event::ListedSandbox,
    model::{Container, ContainerId, SandboxId},
    node::Node,
    sandbox::{AskedAt, Seq},
};

/// The state of our own question for everything that the runtime has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// When it was last asked.
    asked: Seq,
    /// Asked and not answered; one that failed is under way until it is asked again.
    in_flight: bool,
    /// Removals while it was under way: its answer may still show these.
    sandboxes: BTreeSet<SandboxId>,
    containers: BTreeSet<ContainerId>,
}

impl Listing {
    pub(crate) fn sandbox_removed(&mut self, id: &SandboxId) {
        if self.in_flight {
            self.sandboxes.insert(id.clone());
        }
    }

    pub(crate) fn container_removed(&mut self, id: &ContainerId) {
        if self.in_flight {
            self.containers.insert(id.clone());
        }
    }
}

impl Node {
    /// Sets the creation time of containers whose creation the agent has not seen.
    pub(crate) fn created(&mut self, times: Vec<(ContainerId, Instant)>) {
        for (id, at) in times {
            if let Some(instance) = self.instance_mut(&id) {
                instance.created.get_or_insert(at);
            }
        }
    }

    /// The runtime is being asked about this sandbox.
    pub(crate) fn inspection_started(&mut self, id: &SandboxId, now: Instant) {
        let seq = self.seq;
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.inspection.in_flight = true;
            sandbox.inspection.asked = Some(AskedAt { seq, at: now });
            sandbox.inspection.removed.clear();
        }
    }

    /// The runtime is being asked for everything.
    pub(crate) fn listing_started(&mut self) {
        self.listing = Listing { asked: self.seq, in_flight: true, ..Listing::default() };
    }

    pub(crate) fn inspected(&mut self, id: &SandboxId, mut containers: Vec<Container>, now: Instant) {
        let seq = self.seq;
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        if !std::mem::take(&mut sandbox.inspection.in_flight) {
            return;
        }
        sandbox.inspection.answered = sandbox.inspection.asked;
        let Some(AskedAt { seq: asked, .. }) = sandbox.inspection.asked else { return };
        sandbox.inspection.ended = Some(now);
        let removed = std::mem::take(&mut sandbox.inspection.removed);
        containers.retain(|container| !removed.contains(&container.id));
        let shown: BTreeSet<ContainerId> = containers.iter().map(|container| container.id.clone()).collect();
        for container in containers {
            self.containers.insert(container.id.clone(), id.clone());
            sandbox.learn(container, asked, seq, now);
        }
        sandbox.keep_only(&shown, asked);
        self.close_if_empty(id.clone());
        self.drop_stale_index();
        self.note_launch(id);
    }

    pub(crate) fn runtime_listed(
        &mut self,
        mut sandboxes: Vec<ListedSandbox>,
        mut containers: Vec<(SandboxId, Container)>,
        now: Instant,
    ) {
        self.runtime_listed = true;
        let asked = self.listing.asked;
        let removed = std::mem::replace(&mut self.listing, Listing { asked, ..Listing::default() });
        sandboxes.retain(|listed| !removed.sandboxes.contains(&listed.sandbox));
        containers.retain(|(_, container)| !removed.containers.contains(&container.id));
        let seq = self.seq;
        let shown_sandboxes: BTreeSet<SandboxId> =
            sandboxes.iter().map(|listed| listed.sandbox.clone()).collect();
        let gone: Vec<SandboxId> = self
            .sandboxes
            .iter()
            .filter(|(id, sandbox)| !shown_sandboxes.contains(*id) && sandbox.since <= asked)
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.forget_sandbox(id));
        for ListedSandbox { sandbox, pod, declared } in sandboxes {
            self.sandbox_seen(sandbox, pod, declared);
        }
        let shown: BTreeSet<ContainerId> =
            containers.iter().map(|(_, container)| container.id.clone()).collect();
        for (id, container) in containers {
            if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                self.containers.insert(container.id.clone(), id);
                sandbox.learn(container, asked, seq, now);
            }
        }
        self.sandboxes.values_mut().for_each(|sandbox| sandbox.keep_only(&shown, asked));
        self.drop_stale_index();
        self.place_latches();
        shown_sandboxes.into_iter().for_each(|id| self.close_if_empty(id));
        self.note_launches();
        // What is left belongs to sandboxes that went while the agent was away.
        self.forgotten.extend(self.loaded.drain(..).map(|latch| latch.sandbox));
    }

    fn drop_stale_index(&mut self) {
        let sandboxes = &self.sandboxes;
        self.containers.retain(|container, sandbox| {
            sandboxes.get(sandbox).is_some_and(|sandbox| sandbox.instances.contains_key(container))
        });
    }

    pub(crate) fn place_latches(&mut self) {
        let sandboxes = &mut self.sandboxes;
        self.loaded.retain(|latch| match sandboxes.get_mut(&latch.sandbox) {
            Some(sandbox) => {
                sandbox.latched.insert(latch.priority);
                false
            }
            None => true,
        });
    }
}
