//! Explanations for people: who waits for whom, since when. Reads the same state the decisions read.

use std::time::{Duration, Instant};

use crate::{
    model::{ContainerId, ContainerName, ContainerState, PodRef, SandboxId},
    node::{InFlightKind, Node},
    sandbox::Sandbox,
};

/// A pod with its declared order.
#[derive(Clone, Debug)]
pub struct PodOrder {
    /// Which pod.
    pub pod: PodRef,
    /// Its sandbox, once there is one.
    pub sandbox: Option<SandboxId>,
    /// Why the declared order cannot be followed.
    pub error: Option<String>,
    /// Being deleted.
    pub deleting: bool,
    /// Highest priority first; empty when nothing is ordered.
    pub containers: Vec<ContainerOrder>,
}

/// A container in the order of its pod.
#[derive(Clone, Debug)]
pub struct ContainerOrder {
    /// Its name.
    pub name: ContainerName,
    /// Its launch priority.
    pub priority: i32,
    /// Its newest instance, if it has one.
    pub instance: Option<(ContainerId, ContainerState)>,
    /// The pod view calls that instance Ready, or, while others wait for it, the agent's own runs of its
    /// probes do.
    pub ready: bool,
    /// Whom it waits for, and for how long already; empty when it does not wait.
    pub waiting_for: Vec<ContainerName>,
    /// Since the first attempt that was not let through.
    pub waiting: Duration,
}

/// A call that is held right now.
#[derive(Clone, Debug)]
pub struct HeldCall {
    /// `CreateContainer` or `StopContainer`.
    pub rpc: &'static str,
    /// Whose container.
    pub pod: PodRef,
    /// Which container.
    pub container: ContainerName,
    /// A constant word for the reason.
    pub why: &'static str,
    /// The containers waited for.
    pub waiting_for: Vec<ContainerName>,
    /// Held so far.
    pub held: Duration,
    /// Held at most this much longer.
    pub remaining: Duration,
}

/// How much the core remembers; each number is bounded by what exists on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pods in the view.
    pub pods: usize,
    /// Sandboxes known.
    pub sandboxes: usize,
    /// Container instances known.
    pub containers: usize,
    /// Calls in flight that were asked about.
    pub calls: usize,
    /// Launch levels open.
    pub latches: usize,
    /// Clients that are connected and were heard of.
    pub connections: usize,
}

impl Node {
    /// The pods that declare an order, or all that `wanted` picks.
    pub fn explain(
        &self,
        now: Instant,
        wanted: impl Fn(&PodRef, Option<&SandboxId>) -> bool,
    ) -> Vec<PodOrder> {
        let of_view = self.pods.values().map(|pod| {
            let sandbox = self.sandbox_of(&pod.pod);
            (&pod.pod, sandbox)
        });
        let beside_view = self
            .sandboxes
            .iter()
            .filter(|(_, sandbox)| !self.pods.contains_key(&sandbox.pod.uid))
            .map(|(id, sandbox)| (&sandbox.pod, Some((id, sandbox))));
        of_view
            .chain(beside_view)
            .filter(|(pod, sandbox)| wanted(pod, sandbox.map(|(id, _)| id)))
            .map(|(pod, sandbox)| self.explain_pod(pod, sandbox, now))
            .collect()
    }

    /// The calls held right now.
    pub fn held_calls(&self, now: Instant) -> Vec<HeldCall> {
        self.calls
            .values()
            .filter_map(|call| {
                let hold = call.hold.as_ref()?;
                let (rpc, sandbox, container) = match &call.kind {
                    InFlightKind::Create { sandbox, container, .. } => {
                        ("CreateContainer", self.sandboxes.get(sandbox)?, container.clone())
                    }
                    InFlightKind::Stop { sandbox, container, .. } => {
                        let sandbox = self.sandboxes.get(sandbox)?;
                        ("StopContainer", sandbox, sandbox.instances.get(container)?.container.name.clone())
                    }
                    InFlightKind::Hook { .. } | InFlightKind::Relist => return None,
                };
                Some(HeldCall {
                    rpc,
                    pod: sandbox.pod.clone(),
                    container,
                    why: hold.why.label(),
                    waiting_for: hold.why.waiting_for().to_vec(),
                    held: now.saturating_duration_since(hold.since),
                    remaining: hold.until.saturating_duration_since(now),
                })
            })
            .collect()
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        Size {
            pods: self.pods.len(),
            sandboxes: self.sandboxes.len(),
            containers: self.sandboxes.values().map(|sandbox| sandbox.instances.len()).sum(),
            calls: self.calls.len(),
            latches: self.sandboxes.values().map(|sandbox| sandbox.latched.len()).sum(),
            connections: self.connections.len(),
        }
    }

    /// The newest sandbox of a pod.
    pub(crate) fn sandbox_of(&self, pod: &PodRef) -> Option<(&SandboxId, &Sandbox)> {
        self.sandboxes
            .iter()
            .filter(|(_, sandbox)| sandbox.pod.uid == pod.uid)
            .max_by_key(|(_, sandbox)| sandbox.since)
    }

    pub(crate) fn explain_pod(
        &self,
        pod: &PodRef,
        sandbox: Option<(&SandboxId, &Sandbox)>,
        now: Instant,
    ) -> PodOrder {
        let view = self.pods.get(&pod.uid);
        let error = match (view, sandbox) {
            (Some(view), _) => view.order.as_ref().err().map(ToString::to_string),
            (None, Some((_, sandbox))) => {
                sandbox.declared.plan.as_ref().and_then(|plan| plan.as_ref().err()).map(ToString::to_string)
            }
            (None, None) => None,
        };
        let order = match (view, sandbox) {
            (Some(view), _) => view.order.clone().ok().flatten(),
            (None, Some((_, sandbox))) => self.order_of(sandbox),
            (None, None) => None,
        };
        let containers = order.iter().flat_map(|order| order.launch_sequence()).map(|(name, priority)| {
            let newest =
                sandbox.and_then(|(_, sandbox)| sandbox.newest(name)).map(|instance| &instance.container);
            let report = view.and_then(|view| view.statuses.get(name));
            let waiting = sandbox.and_then(|(_, sandbox)| sandbox.waiting.get(name));
            let reported = report.is_some_and(|report| {
                report.ready && newest.is_some_and(|container| container.id == report.id)
            });
            let early = sandbox.is_some_and(|(_, sandbox)| self.is_early_ready(sandbox, name));
            ContainerOrder {
                name: name.clone(),
                priority,
                instance: newest.map(|container| (container.id.clone(), container.state)),
                ready: reported || early,
                waiting_for: waiting.map(|waiting| waiting.waiting_for.clone()).unwrap_or_default(),
                waiting: waiting
                    .map(|waiting| now.saturating_duration_since(waiting.since))
                    .unwrap_or_default(),
            }
        });
        PodOrder {
            pod: pod.clone(),
            sandbox: sandbox.map(|(id, _)| id.clone()),
            error,
            deleting: view.is_some_and(|view| view.deletion.is_some()),
            containers: containers.collect(),
        }
    }
}
