//! The state of a node and how facts change it. Decisions are in `launch_order` and `exit_order`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    call::{Call, Declared, Request},
    config::Config,
    event::{Event, ListedSandbox},
    model::{
        CallId, ConnectionId, Container, ContainerId, ContainerName, ContainerState, Pod, PodRef, PodUid,
        SandboxId,
    },
    recreate::Recreates,
    sandbox::{Asked, Instance, Sandbox, Seq, Start},
    verdict::{HoldReason, Latch, Verdict},
};

/// All that is known of a node. Every input is an [`Event`] or a [`Call`]; the same inputs give the same node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) seq: Seq,
    pub(crate) pods: BTreeMap<PodUid, Pod>,
    pub(crate) sandboxes: BTreeMap<SandboxId, Sandbox>,
    /// Where each container instance lives: most CRI calls name only the container.
    pub(crate) containers: BTreeMap<ContainerId, SandboxId>,
    pub(crate) calls: BTreeMap<CallId, InFlight>,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// Sandboxes that are gone and whose latches the store still has.
    pub(crate) forgotten: BTreeSet<SandboxId>,
    /// Latches of the store whose sandbox was not seen yet.
    pub(crate) loaded: Vec<Latch>,
    pub(crate) view_fresh: bool,
    pub(crate) kubelet_poll: KubeletPoll,
    /// The runtime was listed at least once: what it has is known.
    pub(crate) runtime_listed: bool,
    pub(crate) recreates: Recreates,
    listing_asked: Seq,
}

/// A call that was admitted or watched and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) connection: ConnectionId,
    pub(crate) arrived_at: Seq,
    pub(crate) kind: InFlightKind,
    pub(crate) hold: Option<Held>,
}

#[derive(Clone, Debug)]
pub(crate) enum InFlightKind {
    Create { sandbox: SandboxId, container: ContainerName, attempt: u32 },
    Stop { sandbox: SandboxId, container: ContainerId, whole_pod: bool, grace: Option<Duration> },
    Relist,
}

/// What a call waits for right now.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    pub(crate) why: HoldReason,
}

/// A client, as long as it is connected. A kubelet has one connection for all its calls to the runtime, so a new one is
/// a new kubelet, or the same one after an agent it lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// When it was first heard of.
    pub(crate) since: Instant,
    /// The same, as a position.
    pub(crate) since_seq: Seq,
    /// When the last relist that was answered was asked.
    pub(crate) relisted: Option<Seq>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct KubeletPoll {
    pub(crate) in_flight: bool,
    pub(crate) ended: Option<Instant>,
}

impl Node {
    /// A node of which nothing is known yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            seq: 0,
            pods: BTreeMap::new(),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            calls: BTreeMap::new(),
            connections: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            loaded: Vec::new(),
            view_fresh: false,
            kubelet_poll: KubeletPoll::default(),
            runtime_listed: false,
            recreates: Recreates::default(),
            listing_asked: 0,
        }
    }

    /// May this call proceed? The first question about a call records it as in flight; it stays so until
    /// [`Event::CallEnded`].
    pub fn admit(&mut self, call: &Call, now: Instant) -> Verdict {
        self.meet(call.connection, call.arrived);
        let verdict = match &call.request {
            Request::CreateContainer(request) => self.admit_create(call, request, now),
            Request::StopContainer(request) => self.admit_stop(call, request, now),
        };
        if let Some(in_flight) = self.calls.get_mut(&call.id) {
            in_flight.hold = match &verdict {
                Verdict::Hold { until, why } => {
                    Some(Held { since: call.arrived, until: *until, why: why.clone() })
                }
                Verdict::Forward | Verdict::Latch(_) | Verdict::Amend(_) | Verdict::Refuse(_) => None,
            };
        }
        verdict
    }

    /// Takes a fact. Total: whatever comes, in whatever order, and however often.
    pub fn apply(&mut self, event: Event, now: Instant) {
        self.seq += 1;
        match event {
            Event::PodSeen(pod) => self.pod_seen(*pod, now),
            Event::PodGone(uid) => {
                self.pods.remove(&uid);
            }
            Event::PodsListed(pods) => {
                self.pods.clear();
                for pod in pods {
                    self.pod_seen(pod, now);
                }
            }
            Event::SandboxCreated { sandbox, pod, declared } => self.sandbox_seen(sandbox, pod, declared),
            Event::SandboxStopping(id) => {
                if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                    sandbox.stopping = true;
                }
            }
            Event::SandboxRemoved(id) => self.forget_sandbox(&id),
            Event::ContainerCreated { call, container } => self.container_created(call, container),
            Event::ContainerStarted(id) => self.container_started(&id, now),
            Event::ContainerStopped(id) => self.container_stopped(&id),
            Event::ContainerRemoved(id) => self.forget_container(&id),
            Event::RelistAsked { call, connection } => {
                self.meet(connection, now);
                self.track(call, connection, InFlightKind::Relist);
            }
            Event::RelistAnswered { call, connection } => {
                let asked = self.calls.remove(&call).map(|call| call.arrived_at);
                if let Some(client) = self.connections.get_mut(&connection) {
                    client.relisted = client.relisted.max(asked);
                }
                self.recreates.relist_answered(call, now);
            }
            Event::StatusAsked { container, connection } => {
                self.meet(connection, now);
                let seq = self.seq;
                if let Some(instance) = self.instance_mut(&container) {
                    instance.status_asked = Some((connection, seq));
                }
            }
            // The business of [`crate::Images`].
            Event::PullPassed { .. } => {}
            Event::CallEnded(call) => self.call_ended(call),
            Event::ConnectionClosed(connection) => {
                self.connections.remove(&connection);
                let ended: Vec<CallId> = self
                    .calls
                    .iter()
                    .filter(|(_, call)| call.connection == connection)
                    .map(|(id, _)| *id)
                    .collect();
                ended.into_iter().for_each(|call| self.call_ended(call));
            }
            Event::InspectionStarted(id) => {
                let seq = self.seq;
                if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                    sandbox.inspection.in_flight = true;
                    sandbox.inspection.asked = Some(Asked { seq, at: now });
                }
            }
            Event::SandboxInspected { sandbox, containers } => self.inspected(&sandbox, containers, now),
            Event::InspectionFailed(id) => {
                if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                    sandbox.inspection.in_flight = false;
                    sandbox.inspection.ended = Some(now);
                }
            }
            Event::ListingStarted => self.listing_asked = self.seq,
            Event::RuntimeListed { sandboxes, containers } => {
                self.runtime_listed(sandboxes, containers, now);
            }
            Event::LatchesLoaded(latches) => {
                self.loaded.extend(latches);
                self.place_latches();
            }
            Event::LatchesForgotten(id) => {
                self.forgotten.remove(&id);
            }
            Event::RecreateSeen(request) => self.recreates.seen(*request),
            Event::RecreateGone(id) => self.recreates.gone(&id),
            Event::RecreatesListed(origin, requests) => self.recreates.listed(origin, requests),
            Event::MarksLoaded(marks) => self.recreates.marks_loaded(marks, now),
            Event::MarkWritten(mark, connection) => {
                self.recreates.place(mark, Some(connection), false, now);
            }
            Event::StepBegan(step) => self.recreates.step_began(&step),
            Event::StepEnded(step, outcome) => self.step_ended(step, outcome, now),
            Event::ViewFresh(fresh) => self.view_fresh = fresh,
            Event::KubeletPollStarted => self.kubelet_poll.in_flight = true,
            Event::KubeletPollEnded => self.kubelet_poll = KubeletPoll { in_flight: false, ended: Some(now) },
        }
    }

    /// Records a call once; what it was recorded as stays.
    pub(crate) fn track(&mut self, id: CallId, connection: ConnectionId, kind: InFlightKind) -> bool {
        let arrived_at = self.seq;
        let mut new = false;
        self.calls.entry(id).or_insert_with(|| {
            new = true;
            InFlight { connection, arrived_at, kind, hold: None }
        });
        new
    }

    /// Remembers since when a connection is there.
    fn meet(&mut self, connection: ConnectionId, now: Instant) {
        let since_seq = self.seq;
        self.connections.entry(connection).or_insert(Connection { since: now, since_seq, relisted: None });
    }

    fn pod_seen(&mut self, pod: Pod, now: Instant) {
        for report in pod.statuses.values() {
            if let Some(instance) = self.instance_mut(&report.id) {
                instance.ready_since = report.ready.then(|| instance.ready_since.unwrap_or(now));
            }
        }
        self.pods.insert(pod.pod.uid.clone(), pod);
    }

    pub(crate) fn sandbox_seen(&mut self, id: SandboxId, pod: PodRef, declared: Declared) {
        let seq = self.seq;
        let sandbox = self.sandboxes.entry(id).or_insert_with(|| Sandbox::new(pod, Declared::default(), seq));
        sandbox.confirmed = true;
        sandbox.declared = declared;
    }

    fn forget_sandbox(&mut self, id: &SandboxId) {
        if let Some(sandbox) = self.sandboxes.remove(id) {
            for container in sandbox.instances.keys() {
                self.containers.remove(container);
            }
            if !sandbox.latched.is_empty() {
                self.forgotten.insert(id.clone());
            }
        }
    }

    fn container_created(&mut self, call: CallId, id: ContainerId) {
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
            let instance = Instance {
                container: created,
                changed: self.seq,
                start,
                status_asked: None,
                running_since: None,
                ready_since: None,
            };
            sandbox.instances.insert(id.clone(), instance);
            self.containers.insert(id, sandbox_id);
        }
    }

    fn container_started(&mut self, id: &ContainerId, now: Instant) {
        let seq = self.seq;
        let Some(sandbox) = self.containers.get(id).and_then(|sandbox| self.sandboxes.get_mut(sandbox))
        else {
            return;
        };
        let pass = sandbox.pass.number;
        if let Some(instance) = sandbox.instances.get_mut(id) {
            instance.container.state = ContainerState::Running;
            instance.changed = seq;
            instance.start = Start { at: seq, pass };
            instance.runs(now);
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
        }
    }

    /// The runtime has it no more.
    pub(crate) fn forget_container(&mut self, id: &ContainerId) {
        if let Some(sandbox) = self.containers.remove(id).and_then(|id| self.sandboxes.get_mut(&id)) {
            sandbox.instances.remove(id);
        }
    }

    fn instance_mut(&mut self, id: &ContainerId) -> Option<&mut Instance> {
        self.sandboxes.get_mut(self.containers.get(id)?)?.instances.get_mut(id)
    }

    fn call_ended(&mut self, call: CallId) {
        let exited = match self.calls.get(&call).map(|call| &call.kind) {
            Some(InFlightKind::Stop { container, .. }) => self.has_exited(container),
            Some(InFlightKind::Create { .. } | InFlightKind::Relist) | None => false,
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

    fn inspected(&mut self, id: &SandboxId, containers: Vec<Container>, now: Instant) {
        let seq = self.seq;
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        if !std::mem::take(&mut sandbox.inspection.in_flight) {
            return;
        }
        sandbox.inspection.answered = sandbox.inspection.asked;
        let Some(Asked { seq: asked, .. }) = sandbox.inspection.asked else { return };
        sandbox.inspection.ended = Some(now);
        let shown: BTreeSet<ContainerId> = containers.iter().map(|container| container.id.clone()).collect();
        for container in containers {
            self.containers.insert(container.id.clone(), id.clone());
            sandbox.learn(container, asked, seq, now);
        }
        sandbox.keep_only(&shown, asked);
        self.drop_stale_index();
    }

    fn runtime_listed(
        &mut self,
        sandboxes: Vec<ListedSandbox>,
        containers: Vec<(SandboxId, Container)>,
        now: Instant,
    ) {
        self.runtime_listed = true;
        let asked = self.listing_asked;
        let seq = self.seq;
        let shown: BTreeSet<SandboxId> = sandboxes.iter().map(|listed| listed.sandbox.clone()).collect();
        let gone: Vec<SandboxId> = self
            .sandboxes
            .iter()
            .filter(|(id, sandbox)| !shown.contains(*id) && sandbox.since <= asked)
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
        // What is left belongs to sandboxes that went while the agent was away.
        self.forgotten.extend(self.loaded.drain(..).map(|latch| latch.sandbox));
    }

    fn drop_stale_index(&mut self) {
        let sandboxes = &self.sandboxes;
        self.containers.retain(|container, sandbox| {
            sandboxes.get(sandbox).is_some_and(|sandbox| sandbox.instances.contains_key(container))
        });
    }

    fn place_latches(&mut self) {
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
