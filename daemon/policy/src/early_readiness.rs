//! Early readiness: the agent runs the probes of containers that lower ones wait for, so that the gate need
//! not wait for the kubelet's.
//!
//! The kubelet's prober learns of a new container when the pod worker returns from its SyncPod, which a held
//! `CreateContainer` keeps it from. The agent's own run begins as soon as the container does:
//!
//! ```text
//!   a starts ---> plan: Probe(a) ---> ProbeBegan ---> ProbeEnded(success) ---> a is satisfied, in this very SyncPod
//!                      ^                                    |
//!                      '---------- after the period --------'   until no barrier below a is closed any more
//! ```
//!
//! Runs happen only while they can matter: the pod declares an order, the awaited instance is the newest of
//! its container and runs, a container below it was never created and its barrier is closed, nothing is being
//! stopped or deleted. Never two at once of one container, and a bounded number on the node. A run whose end
//! never comes is given up.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    config::Path,
    model::{ContainerId, ContainerName, ContainerSpec, Pod, PodUid, SandboxId},
    node::Node,
    own_probes::{Stage, probe, runnable},
    probes::{ProbeResult, ProbeRun},
    sandbox::{Instance, Sandbox},
};

/// Runs in flight on the node at once. Each may be a process in a container, and a node that starts many pods
/// is busy.
const MOST_RUNS: usize = 16;
/// How much longer than its own timeout a run may take before it counts as lost.
const PATIENCE_WITH_RUN: Duration = Duration::from_secs(10);

/// The runs of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyReadiness {
    /// Sandboxes with a container whose probes matter, and a few in which that was so when the last plan was
    /// made.
    launching: BTreeSet<SandboxId>,
    in_flight: BTreeMap<ContainerId, Run>,
}

/// A run that began and has not ended.
#[derive(Clone, Debug)]
struct Run {
    run: ProbeRun,
    stage: Stage,
    /// Lost then.
    give_up: Option<Instant>,
}

/// An instance whose probes matter.
struct Awaited<'a> {
    instance: &'a Instance,
    spec: &'a ContainerSpec,
    since: Instant,
}

/// Result of the agent's own probe runs for a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// Its probes succeeded.
    Ready,
    /// They may succeed before this, and no call is held for it any longer than until then.
    Until(Instant),
    /// Nothing that a call could be held for.
    Silent,
}

impl Node {
    /// Gives the conclusion that the gate may draw about a running container of this pod.
    pub(crate) fn early(&self, pod: &Pod, instance: &Instance) -> Early {
        let Some(spec) = pod.containers.get(&instance.container.name) else { return Early::Silent };
        let Some(since) = instance.running_since else { return Early::Silent };
        if !self.runs_probes() || !runnable(spec) {
            return Early::Silent;
        }
        if instance.own.succeeded(spec) {
            return Early::Ready;
        }
        if instance.own.stage(spec).is_some_and(|(stage, _)| instance.own.is_blind(stage)) {
            return Early::Silent;
        }
        let in_flight = self.early.in_flight.get(&instance.container.id);
        let next = match in_flight {
            Some(run) => instance.own.began(run.stage),
            None => instance.own.due(spec, since),
        };
        let earliest = next.and_then(|next| instance.own.earliest_success(spec, since, next));
        match since.checked_add(self.config.early_hold) {
            Some(end) if earliest.is_some_and(|earliest| earliest < end) => Early::Until(end),
            _ => Early::Silent,
        }
    }

    /// The agent's own probes call this container Ready, at a time when that matters to somebody.
    pub(crate) fn is_early_ready(&self, sandbox: &Sandbox, name: &ContainerName) -> bool {
        let mut awaited = self.awaited(sandbox);
        awaited.any(|one| one.instance.container.name == *name && one.instance.own.succeeded(one.spec))
    }

    /// Notes that after a launch in this sandbox a probe may matter.
    pub(crate) fn note_launch(&mut self, id: &SandboxId) {
        if self.is_launching(id) {
            self.early.launching.insert(id.clone());
        }
    }

    /// The pod view shows what was not known of the pod before.
    pub(crate) fn note_launch_of(&mut self, pod: &PodUid) {
        if self.pods.get(pod).is_some_and(|pod| matches!(pod.order, Ok(Some(_)))) {
            let of_pod = self.sandboxes.iter().filter(|(_, sandbox)| sandbox.pod.uid == *pod);
            let ids: Vec<SandboxId> = of_pod.map(|(id, _)| id.clone()).collect();
            ids.iter().for_each(|id| self.note_launch(id));
        }
    }

    /// The runtime was listed: anything may be known now that was not before.
    pub(crate) fn note_launches(&mut self) {
        let ids: Vec<SandboxId> = self.sandboxes.keys().cloned().collect();
        ids.iter().for_each(|id| self.note_launch(id));
    }

    /// Forgets what does not matter any more, and runs that were lost.
    pub(crate) fn advance_early_readiness(&mut self, now: Instant) {
        self.early.in_flight.retain(|_, run| run.give_up.is_none_or(|give_up| now < give_up));
        let launching = std::mem::take(&mut self.early.launching);
        self.early.launching = launching.into_iter().filter(|id| self.is_launching(id)).collect();
    }

    /// The runs to begin now: those that are due longest, as many as may be in flight.
    pub(crate) fn probe_runs(&self, now: Instant) -> Vec<ProbeRun> {
        let mut due: Vec<_> = self.next_runs().filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        let free = MOST_RUNS.saturating_sub(self.early.in_flight.len());
        due.into_iter().take(free).map(|(_, run)| run).collect()
    }

    /// Returns when the next run is due, and when those in flight are given up.
    pub(crate) fn probe_deadlines(&self) -> impl Iterator<Item = Instant> {
        let lost = self.early.in_flight.values().filter_map(|run| run.give_up);
        // With all slots taken only the end of a run changes anything.
        let free = self.early.in_flight.len() < MOST_RUNS;
        lost.chain(self.next_runs().filter(move |_| free).map(|(due, _)| due))
    }

    /// A probe is due, in flight or to be run again, so that facts are worth waking somebody.
    pub(crate) fn has_probes_to_run(&self) -> bool {
        !self.early.launching.is_empty()
    }

    /// The executor began a run.
    pub(crate) fn probe_began(&mut self, run: ProbeRun, now: Instant) {
        let Some(sandbox) = self.sandboxes.get_mut(&run.sandbox) else { return };
        let Some(instance) = sandbox.instances.get_mut(&run.container) else { return };
        let pod = self.pods.get(&sandbox.pod.uid);
        let spec = pod.and_then(|pod| pod.containers.get(&instance.container.name));
        let Some((stage, _)) = spec.and_then(|spec| instance.own.stage(spec)) else { return };
        instance.own.begin(stage, now);
        let give_up = now.checked_add(run.timeout.saturating_add(PATIENCE_WITH_RUN));
        self.early.in_flight.insert(run.container.clone(), Run { run, stage, give_up });
    }

    /// Takes in the end of a run. One that was given up before says nothing any more.
    pub(crate) fn probe_ended(&mut self, run: &ProbeRun, result: &ProbeResult) {
        if self.early.in_flight.get(&run.container).is_none_or(|begun| begun.run != *run) {
            return;
        }
        let Some(Run { stage, .. }) = self.early.in_flight.remove(&run.container) else { return };
        let Some(sandbox) = self.sandboxes.get_mut(&run.sandbox) else { return };
        let Some(instance) = sandbox.instances.get_mut(&run.container) else { return };
        let pod = self.pods.get(&sandbox.pod.uid);
        let spec = pod.and_then(|pod| pod.containers.get(&instance.container.name));
        if let Some(probe) = spec.and_then(|spec| probe(spec, stage)) {
            instance.own.count(stage, probe, result);
        }
    }

    /// Tells whether there is a gate, and the agent may run probes for it.
    fn runs_probes(&self) -> bool {
        self.config.early_readiness && self.config.launch_order && self.config.path == Path::Inline
    }

    fn is_launching(&self, id: &SandboxId) -> bool {
        self.sandboxes.get(id).is_some_and(|sandbox| self.awaited(sandbox).next().is_some())
    }

    /// The instances of a sandbox whose probes matter.
    fn awaited<'a>(&'a self, sandbox: &'a Sandbox) -> impl Iterator<Item = Awaited<'a>> {
        let pod = self.pods.get(&sandbox.pod.uid);
        let pod = pod.filter(|pod| self.runs_probes() && !sandbox.stopping && pod.deletion.is_none());
        let order = pod.and_then(|pod| Some((pod, pod.order.as_ref().ok()?.as_ref()?)));
        let newest = order.map(|_| sandbox.newest_of_each()).unwrap_or_default();
        // The lowest level that somebody still has to enter: all above it are waited for.
        let lowest = order.and_then(|(_, order)| {
            let gated = |name: &ContainerName, priority: i32| {
                !sandbox.latched.contains(&priority) && !newest.contains_key(name)
            };
            let priorities = order.launch_sequence().filter(|(name, priority)| gated(name, *priority));
            priorities.map(|(_, priority)| priority).min()
        });
        let waited_for = order.zip(lowest).into_iter().flat_map(|((pod, order), lowest)| {
            let above = order.launch_sequence().filter(move |(_, priority)| *priority > lowest);
            above.map(move |(name, _)| (pod, name))
        });
        waited_for.filter_map(move |(pod, name)| {
            let spec = pod.containers.get(name).filter(|spec| runnable(spec))?;
            let instance = newest.get(name).copied()?;
            // The kubelet has said so itself.
            let reported = pod.statuses.get(name);
            let reported = reported.is_some_and(|report| report.ready && report.id == instance.container.id);
            let since = instance.running_since.filter(|_| !reported)?;
            Some(Awaited { instance, spec, since })
        })
    }

    /// The next run of each container whose probes matter and of which none is in flight, with the time when.
    fn next_runs(&self) -> impl Iterator<Item = (Instant, ProbeRun)> {
        let launching = self.early.launching.iter().filter_map(|id| Some((id, self.sandboxes.get(id)?)));
        launching.flat_map(move |(id, sandbox)| {
            self.awaited(sandbox).filter_map(move |Awaited { instance, spec, since }| {
                let container = &instance.container.id;
                if self.early.in_flight.contains_key(container) {
                    return None;
                }
                let due = instance.own.due(spec, since)?;
                let (_, probe) = instance.own.stage(spec)?;
                let run = ProbeRun {
                    pod: sandbox.pod.clone(),
                    sandbox: id.clone(),
                    container: container.clone(),
                    action: probe.action.clone(),
                    timeout: probe.timeout.min(self.config.early_hold),
                };
                Some((due, run))
            })
        })
    }
}
