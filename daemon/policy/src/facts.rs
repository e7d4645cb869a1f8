//! Facts about a pod as they are now, for people: where each container stands and what it waits for. Reads
//! the same state the decisions read; `berthctl explain` turns them into sentences.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    model::{Container, ContainerId, ContainerName, ContainerState, Pod, PodRef, Readiness, SandboxId},
    node::{InFlightKind, Node},
    sandbox::{Instance, Sandbox},
    set_aside::Subject,
};

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Which pod.
    pub pod: PodRef,
    /// Its newest sandbox, once there is one.
    pub sandbox: Option<SandboxId>,
    /// The pod view shows it.
    pub seen: bool,
    /// Being deleted, with this grace.
    pub deleting: Option<Duration>,
    /// `StopPodSandbox` was asked.
    pub stopping: bool,
    /// Its phase is Succeeded or Failed.
    pub ended: bool,
    /// Why the declared order cannot be followed.
    pub order_error: Option<String>,
    /// Keys of the requests that hold it not Ready.
    pub held_unready: Vec<String>,
    /// Its condition `KruisePodReady` was not written yet.
    pub gate_unwritten: bool,
    /// It is left alone for so long, because its evaluation panicked.
    pub set_aside: Option<Duration>,
    /// Ordered ones first, highest priority first; then the others, as the spec has them.
    pub containers: Vec<ContainerFacts>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its name.
    pub name: ContainerName,
    /// Its launch priority, in a pod with an order.
    pub priority: Option<i32>,
    /// Its newest instance: identity, attempt, state.
    pub instance: Option<(ContainerId, u32, ContainerState)>,
    /// Since when that runs, as far as is known.
    pub running: Option<Duration>,
    /// The instance is Ready.
    pub ready: bool,
    /// How it becomes Ready, where the pod view shows it.
    pub readiness: Option<Readiness>,
    /// Whether the kubelet starts it again when it has exited as it has.
    pub restarts: bool,
    /// Whom its creation waits for, and since when.
    pub waiting: Option<(Vec<ContainerName>, Duration)>,
    /// A call about it that is held right now.
    pub held: Option<HeldFacts>,
    /// Somebody asked the runtime to stop that instance.
    pub stop_asked: bool,
    /// It ends when the main containers of its job have ended.
    pub ends_with_job: bool,
    /// It is being ended because they have; since then.
    pub ending: Option<Duration>,
}

/// A call that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFacts {
    /// `CreateContainer` or `StopContainer`.
    pub rpc: &'static str,
    /// A constant word for the reason.
    pub why: &'static str,
    /// The containers waited for.
    pub waiting_for: Vec<ContainerName>,
    /// Held so far.
    pub held: Duration,
    /// Held at most this much longer.
    pub remaining: Duration,
}

impl Node {
    /// Facts about the pods that `wanted` picks.
    pub fn facts(&self, now: Instant, wanted: impl Fn(&PodRef, Option<&SandboxId>) -> bool) -> Vec<PodFacts> {
        let of_view = self.pods.values().map(|pod| (&pod.pod, self.sandbox_of(&pod.pod)));
        let unseen = |sandbox: &Sandbox| !self.pods.contains_key(&sandbox.pod.uid);
        let beside_view = self
            .sandboxes
            .iter()
            .filter(|(_, sandbox)| unseen(sandbox))
            // Older sandboxes of the same pod are left out.
            .filter(|(id, sandbox)| self.sandbox_of(&sandbox.pod).is_some_and(|(newest, _)| newest == *id))
            .map(|(id, sandbox)| (&sandbox.pod, Some((id, sandbox))));
        of_view
            .chain(beside_view)
            .filter(|(pod, sandbox)| wanted(pod, sandbox.map(|(id, _)| id)))
            .map(|(pod, sandbox)| self.facts_of(pod, sandbox, now))
            .collect()
    }

    fn facts_of(&self, pod: &PodRef, sandbox: Option<(&SandboxId, &Sandbox)>, now: Instant) -> PodFacts {
        let view = self.pods.get(&pod.uid);
        let order = self.explain_pod(pod, sandbox, now);
        let aside = self.set_aside.all(now).into_iter();
        let aside = aside.filter(|(subject, _)| *subject == Subject::Pod(pod.uid.clone()));
        let mut names: Vec<ContainerName> = order.containers.iter().map(|known| known.name.clone()).collect();
        let mut listed: BTreeSet<ContainerName> = names.iter().cloned().collect();
        let mut by_spec: Vec<(usize, &ContainerName)> =
            view.iter().flat_map(|pod| &pod.containers).map(|(name, spec)| (spec.position, name)).collect();
        by_spec.sort();
        let started = sandbox.into_iter().flat_map(|(_, sandbox)| sandbox.instances.values());
        let others = by_spec
            .into_iter()
            .map(|(_, name)| name)
            .chain(started.map(|instance| &instance.container.name))
            .chain(sandbox.into_iter().flat_map(|(_, sandbox)| sandbox.waiting.keys()));
        for name in others {
            if listed.insert(name.clone()) {
                names.push(name.clone());
            }
        }
        let unready = view.and_then(|pod| pod.unready.clone());
        let containers = names.into_iter().map(|name| {
            let ordered = order.containers.iter().find(|known| known.name == name);
            let priority = ordered.map(|known| known.priority);
            let early = ordered.is_some_and(|known| known.ready);
            self.container_facts(name, view, sandbox, priority, early, now)
        });
        PodFacts {
            sandbox: sandbox.map(|(id, _)| id.clone()),
            seen: view.is_some(),
            deleting: view.and_then(|pod| pod.deletion).map(|deletion| deletion.grace),
            stopping: sandbox.is_some_and(|(_, sandbox)| sandbox.stopping),
            ended: view.is_some_and(|pod| pod.ended),
            order_error: order.error,
            gate_unwritten: unready.as_ref().is_some_and(|unready| unready.unwritten),
            held_unready: unready.map(|unready| unready.requests).unwrap_or_default(),
            set_aside: aside.map(|(_, again)| again.saturating_duration_since(now)).next(),
            containers: containers.collect(),
            pod: order.pod,
        }
    }

    fn container_facts(
        &self,
        name: ContainerName,
        view: Option<&Pod>,
        sandbox: Option<(&SandboxId, &Sandbox)>,
        priority: Option<i32>,
        early: bool,
        now: Instant,
    ) -> ContainerFacts {
        let newest = sandbox.and_then(|(_, sandbox)| sandbox.newest(&name));
        let spec = view.and_then(|pod| pod.containers.get(&name));
        let report = view.and_then(|pod| pod.statuses.get(&name));
        let same = |instance: &Instance| report.is_some_and(|report| report.id == instance.container.id);
        let restarts = |pod: &Pod| match newest.map(|instance| &instance.container) {
            Some(Container { id, state: ContainerState::Exited { code }, .. }) => {
                !pod.leaves_exited(&name, id, *code) && !self.is_completed(id)
            }
            _ => pod.restart_policy_of(&name).restarts(None),
        };
        let since = |at: Instant| now.saturating_duration_since(at);
        let waiting = sandbox.and_then(|(_, sandbox)| sandbox.waiting.get(&name));
        let marked = newest.and_then(|instance| self.sidecars.ending_since(&instance.container.id));
        ContainerFacts {
            priority,
            instance: newest.map(|instance| {
                (instance.container.id.clone(), instance.container.attempt, instance.container.state)
            }),
            running: newest.and_then(|instance| instance.running_since).map(since),
            ready: early || newest.is_some_and(|new| same(new) && report.is_some_and(|report| report.ready)),
            readiness: spec.map(|spec| spec.readiness),
            restarts: view.filter(|_| spec.is_some()).is_some_and(restarts),
            waiting: waiting.map(|waiting| (waiting.waiting_for.clone(), since(waiting.since))),
            held: sandbox.and_then(|(id, _)| self.held_about(id, &name, now)),
            stop_asked: newest.is_some_and(|instance| instance.stop_asked),
            ends_with_job: spec.is_some_and(|spec| spec.ends_with_job)
                && view.is_none_or(|pod| !pod.restarts_completed(&name)),
            ending: marked.map(since),
            name,
        }
    }

    fn held_about(&self, id: &SandboxId, name: &ContainerName, now: Instant) -> Option<HeldFacts> {
        self.calls.values().find_map(|call| {
            let hold = call.hold.as_ref()?;
            let rpc = match &call.kind {
                InFlightKind::Create { sandbox, container, .. } if sandbox == id && container == name => {
                    "CreateContainer"
                }
                InFlightKind::Stop { sandbox, container, .. }
                    if sandbox == id && self.instance(container)?.container.name == *name =>
                {
                    "StopContainer"
                }
                InFlightKind::Create { .. }
                | InFlightKind::Stop { .. }
                | InFlightKind::Hook { .. }
                | InFlightKind::Relist => return None,
            };
            Some(HeldFacts {
                rpc,
                why: hold.why.label(),
                waiting_for: hold.why.waiting_for().to_vec(),
                held: now.saturating_duration_since(hold.since),
                remaining: hold.until.saturating_duration_since(now),
            })
        })
    }
}
