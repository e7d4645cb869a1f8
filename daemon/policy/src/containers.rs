//! Steps of sandboxes and containers on their way through the agent.

use std::time::Instant;

use crate::{
    call::Declared,
    model::{CallId, Container, ContainerId, ContainerName, ContainerState, PodRef, SandboxId},
    node::{InFlight, InFlightKind, Node},
    sandbox::{Instance, PostStart, Sandbox, Start},
};

impl Node {
    pub(crate) fn sandbox_seen(&mut self, id: SandboxId, pod: PodRef, declared: Declared) {
        let seq = self.seq;
        if self.pods.get(&pod.uid).is_some_and(|known| known.mirror.is_some() && known.pod != pod) {
            // It was seen before there was anything that spoke against it.
            self.pod_gone(&pod.uid);
        }
        let sandbox = self.sandboxes.entry(id).or_insert_with(|| Sandbox::new(pod, Declared::default(), seq));
        sandbox.confirmed = true;
        sandbox.declared = declared;
    }

    /// The runtime has it no more.
    pub(crate) fn sandbox_removed(&mut self, id: &SandboxId) {
        self.listing.sandbox_removed(id);
        self.forget_sandbox(id);
    }

    pub(crate) fn forget_sandbox(&mut self, id: &SandboxId) {
        if let Some(sandbox) = self.sandboxes.remove(id) {
            for container in sandbox.instances.keys() {
                self.containers.remove(container);
            }
            if !sandbox.latched.is_empty() {
                self.forgotten.insert(id.clone());
            }
        }
    }

    pub(crate) fn container_created(&mut self, call: CallId, id: ContainerId) {
        let Some(InFlight { kind: InFlightKind::Create { sandbox, container, attempt }, .. }) =
            self.calls.get(&call)
        else {
            return;
        };
        let created = Container {
            id: id.clone(),
            name: container.clone(),
            attempt: *attempt,
            state: ContainerState::Created,
        };
        let sandbox_id = sandbox.clone();
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) {
            sandbox.confirmed = true;
            let start = Start { at: self.seq, pass: sandbox.pass.number };
            sandbox.instances.insert(id.clone(), Instance::new(created, self.seq, start));
            self.containers.insert(id, sandbox_id);
        }
    }

    pub(crate) fn container_started(&mut self, id: &ContainerId, now: Instant) {
        let seq = self.seq;
        let Some(sandbox_id) = self.containers.get(id).cloned() else { return };
        let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) else { return };
        let pass = sandbox.pass.number;
        if let Some(instance) = sandbox.instances.get_mut(id) {
            instance.container.state = ContainerState::Running;
            instance.changed = seq;
            instance.start = Start { at: seq, pass };
            instance.runs(now);
            instance.post_start = PostStart::Awaited;
        }
        self.note_launch(&sandbox_id);
    }

    /// A hook ended. The first one after the start is postStart's; every other one is preStop's.
    pub(crate) fn hook_ended(&mut self, id: &ContainerId, well: bool) {
        if let Some(instance) = self.instance_mut(id)
            && instance.post_start == PostStart::Awaited
        {
            instance.post_start = PostStart::Ended { well };
        }
    }

    /// Its process has ended.
    pub(crate) fn container_stopped(&mut self, id: &ContainerId) {
        let seq = self.seq;
        if let Some(instance) = self.instance_mut(id) {
            if !matches!(instance.container.state, ContainerState::Exited { .. }) {
                instance.container.state = ContainerState::Exited { code: None };
            }
            instance.running_since = None;
            instance.changed = seq;
            instance.stop_asked = true;
        }
    }

    /// The runtime has it no more.
    pub(crate) fn forget_container(&mut self, id: &ContainerId) {
        self.listing.container_removed(id);
        for sandbox in self.sandboxes.values_mut().filter(|sandbox| sandbox.inspection.in_flight) {
            sandbox.inspection.removed.insert(id.clone());
        }
        let Some(sandbox_id) = self.containers.remove(id) else { return };
        let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) else { return };
        sandbox.instances.remove(id);
        self.close_if_empty(sandbox_id);
    }

    /// Forgets the open levels of a sandbox in which no container is left that its order is about.
    pub(crate) fn close_if_empty(&mut self, id: SandboxId) {
        let Some(sandbox) = self.sandboxes.get(&id).filter(|sandbox| !sandbox.latched.is_empty()) else {
            return;
        };
        let order = self.order_of(sandbox);
        let is_ordered =
            |name: &ContainerName| order.as_ref().is_none_or(|order| order.priority(name).is_some());
        if self.sandboxes.get_mut(&id).is_some_and(|sandbox| sandbox.begins_anew(is_ordered)) {
            self.forgotten.insert(id);
        }
    }

    /// A call is over. What only it spoke of is forgotten.
    pub(crate) fn call_ended(&mut self, call: CallId) {
        let exited = match self.calls.get(&call).map(|call| &call.kind) {
            Some(InFlightKind::Stop { container, .. }) => self.has_exited(container),
            Some(InFlightKind::Create { .. } | InFlightKind::Hook { .. } | InFlightKind::Relist) | None => {
                false
            }
        };
        self.recreates.call_ended(call, exited);
        let Some(InFlight { kind: InFlightKind::Create { sandbox: id, container, .. }, .. }) =
            self.calls.remove(&call)
        else {
            return;
        };
        if let Some(sandbox) = self.sandboxes.get(&id) {
            let created = |instance: &Instance| {
                instance.container.name == container
                    && !matches!(instance.container.state, ContainerState::Exited { .. })
            };
            if !sandbox.instances.values().any(created) {
                self.recreates.create_failed(&container, |id| sandbox.instances.contains_key(id));
            }
        }
        // A sandbox that only requests spoke of, and none does any more, never was.
        let named =
            |kind: &InFlightKind| matches!(kind, InFlightKind::Create { sandbox, .. } if *sandbox == id);
        let imagined = self.sandboxes.get(&id).is_some_and(|sandbox| !sandbox.confirmed);
        if imagined && !self.calls.values().any(|call| named(&call.kind)) {
            self.forget_sandbox(&id);
        }
    }

    pub(crate) fn instance(&self, id: &ContainerId) -> Option<&Instance> {
        self.sandboxes.get(self.containers.get(id)?)?.instances.get(id)
    }

    pub(crate) fn instance_mut(&mut self, id: &ContainerId) -> Option<&mut Instance> {
        self.sandboxes.get_mut(self.containers.get(id)?)?.instances.get_mut(id)
    }

    /// Notes that something may have happened to this container.
    pub(crate) fn hint(&mut self, container: &ContainerId) {
        let seq = self.seq;
        if let Some(sandbox) = self.containers.get(container).and_then(|id| self.sandboxes.get_mut(id)) {
            sandbox.hinted = seq;
        }
    }

    /// A client asked the runtime to stop this instance.
    pub(crate) fn was_stopped(&self, id: &ContainerId) -> bool {
        self.instance(id).is_some_and(|instance| instance.stop_asked)
    }
}
