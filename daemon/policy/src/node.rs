//! The state of a node and how facts change it. Decisions are in `launch_order` and `exit_order`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    announced::Announced,
    call::{Call, Request},
    config::Config,
    creation_env::CreationEnv,
    distinct_seconds::WallClock,
    early_readiness::EarlyReadiness,
    event::Event,
    in_flight::EffectsInFlight,
    job_sidecars::JobSidecars,
    listed::Listing,
    model::{CallId, ConnectionId, ContainerId, ContainerName, Pod, PodRef, PodUid, SandboxId},
    recreate::Recreates,
    sandbox::{Sandbox, Seq},
    set_aside::{SetAside, Subject},
    step::{Effect, Notice, RuntimeEffect},
    timeline::Timeline,
    verdict::{HoldReason, Latch, Verdict},
};

/// All that is known of a node. Every input is an [`Event`], a [`Call`] or a look at the wall clock; the same
/// inputs give the same node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) config: Config,
    pub(crate) seq: Seq,
    pub(crate) pods: BTreeMap<PodUid, Pod>,
    /// Pods that the pod view has and cannot read.
    pub(crate) unread: BTreeSet<PodUid>,
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
    /// The pod view was listed at least once: which pods there are is known.
    pub(crate) pods_are_listed: bool,
    pub(crate) kubelet_poll: KubeletPoll,
    /// The runtime was listed at least once: what it has is known.
    pub(crate) runtime_listed: bool,
    /// Effects under way, one of each subject.
    pub(crate) effects_in_flight: EffectsInFlight,
    /// When it was last planned; a deadline before that was looked at.
    pub(crate) looked: Option<Instant>,
    pub(crate) recreates: Recreates,
    pub(crate) sidecars: JobSidecars,
    /// Said to users of pods, not written yet.
    pub(crate) notices: Vec<(PodRef, Notice)>,
    /// Pods whose users know something already.
    pub(crate) announced: Announced,
    /// It was said that this node does not keep the order of pods.
    pub(crate) node_told_of_lost_order: bool,
    /// For people; nothing is decided by it.
    pub(crate) timeline: Timeline,
    /// Objects whose evaluation panicked.
    pub(crate) set_aside: SetAside<Subject>,
    pub(crate) early: EarlyReadiness,
    /// Pods that are probed.
    pub(crate) probed: BTreeSet<PodUid>,
    /// The runtime itself says which containers end.
    pub(crate) ends_told: bool,
    /// A pull of the kubelet's may have one of ours to wait for. Until it is said, it may.
    pub(crate) images_busy: bool,
    /// The last event said who asks the runtime what, and nothing of what is there.
    pub(crate) only_asked: bool,
    /// Env values that containers of pods under update are created with.
    pub(crate) creation_env: BTreeMap<PodUid, CreationEnv>,
    pub(crate) wall_clock: Option<WallClock>,
    /// Our own question for everything that the runtime has.
    pub(crate) listing: Listing,
    /// A successor does what is due. Left to do here is only what the calls need that still wait.
    pub(crate) handed_over: bool,
    /// Grows with what may alter what is known in advance.
    pub(crate) foretold: u64,
}

/// A call that was admitted or watched and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) connection: ConnectionId,
    pub(crate) arrived_at: Seq,
    pub(crate) kind: InFlightKind,
    pub(crate) hold: Option<Held>,
    /// Since when a creation waits for nothing but the runtime's word that what it needs is there.
    pub(crate) satisfied: Option<Seq>,
}

#[derive(Clone, Debug)]
pub(crate) enum InFlightKind {
    Create {
        sandbox: SandboxId,
        container: ContainerName,
        attempt: u32,
    },
    Stop {
        sandbox: SandboxId,
        container: ContainerId,
        whole_pod: bool,
        grace: Option<Duration>,
    },
    /// The kubelet's lifecycle hook. Told to an agent that has just begun before it knows the container.
    Hook {
        container: ContainerId,
    },
    Relist,
}

/// Wait of a call right now.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    pub(crate) why: HoldReason,
}

/// A client, as long as it is connected. A kubelet has one connection for all its calls to the runtime, so a
/// new one is a new kubelet, or the same one after an agent it lost.
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
            unread: BTreeSet::new(),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            calls: BTreeMap::new(),
            connections: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            loaded: Vec::new(),
            view_fresh: false,
            pods_are_listed: false,
            kubelet_poll: KubeletPoll::default(),
            runtime_listed: false,
            effects_in_flight: EffectsInFlight::default(),
            looked: None,
            recreates: Recreates::default(),
            sidecars: JobSidecars::default(),
            notices: Vec::new(),
            announced: Announced::default(),
            node_told_of_lost_order: false,
            timeline: Timeline::default(),
            set_aside: SetAside::default(),
            early: EarlyReadiness::default(),
            probed: BTreeSet::new(),
            ends_told: false,
            images_busy: true,
            only_asked: false,
            creation_env: BTreeMap::new(),
            wall_clock: None,
            listing: Listing::default(),
            handed_over: false,
            foretold: 0,
        }
    }

    /// May this call proceed? The first question about a call records it as in flight; it stays so until
    /// [`Event::CallEnded`].
    pub fn admit(&mut self, call: &Call, now: Instant) -> Verdict {
        self.meet(call.connection, call.arrived);
        let verdict = match &call.request {
            Request::CreateContainer(request) => self.admit_create(call, request, now),
            Request::StopContainer(request) => {
                if let Some(instance) = self.instance_mut(&request.container) {
                    instance.stop_asked = true;
                }
                self.admit_stop(call, request, now)
            }
        };
        if matches!(verdict, Verdict::Latch(_)) || self.recreates.has_marks() {
            self.foretold += 1;
        }
        self.note_verdict(call, &verdict, now);
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

    /// Takes note of a call that goes on already: what is known in advance has let it, or an agent before
    /// this one.
    pub fn passed(&mut self, call: &Call) {
        self.meet(call.connection, call.arrived);
        match &call.request {
            Request::CreateContainer(request) => self.note_create(call, request),
            Request::StopContainer(request) => {
                if let Some(instance) = self.instance_mut(&request.container) {
                    instance.stop_asked = true;
                }
                self.stop_passed(call, request);
            }
        }
        if let Some(in_flight) = self.calls.get_mut(&call.id) {
            in_flight.hold = None;
        }
        if self.recreates.has_marks() {
            self.foretold += 1;
        }
    }

    /// Takes a fact. Total: whatever comes, in whatever order, and however often.
    pub fn apply(&mut self, event: Event, now: Instant) {
        self.seq += 1;
        // A pod is shown with each change of its status, and mostly nothing follows from that in advance.
        let (number, shown) = (self.foretold, self.foretold_of_shown(&event, now));
        self.note_foretold(&event);
        self.note_event(&event, now);
        self.only_asked = self.is_question(&event);
        match event {
            Event::PodSeen(pod) => self.pod_seen(*pod, now),
            Event::PodGone(uid) => self.pod_gone(&uid),
            Event::PodsListed(pods) => self.pods_listed(pods, now),
            Event::PodsUnread(pods) => self.pods_unread(pods),
            Event::SandboxCreated { sandbox, pod, declared } => self.sandbox_seen(sandbox, pod, declared),
            Event::SandboxStopping(id) => {
                if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                    sandbox.stopping = true;
                }
            }
            Event::SandboxRemoved(id) => self.sandbox_removed(&id),
            Event::ContainerCreated { call, container } => self.container_created(call, container),
            Event::ContainerStarted(id) => self.container_started(&id, now),
            Event::ContainerStopped(id) => self.container_stopped(&id),
            Event::HookAsked { call, container, connection } => {
                self.meet(connection, now);
                self.track(call, connection, InFlightKind::Hook { container });
            }
            Event::HookEnded(id, well) => self.hook_ended(&id, well),
            Event::HookBegins(id) => self.sidecars.hook_begins(&id),
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
                // Otherwise it is a question and nothing else.
                if !self.only_asked {
                    self.hint(&container);
                }
                self.sidecars.status_asked(&container);
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
            Event::InspectionStarted(id) => self.inspection_started(&id, now),
            Event::SandboxInspected { sandbox, containers } => self.inspected(&sandbox, containers, now),
            Event::InspectionFailed(id) => {
                if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                    sandbox.inspection.in_flight = false;
                    sandbox.inspection.ended = Some(now);
                }
            }
            Event::ListingStarted => self.listing_started(),
            Event::RuntimeListed { sandboxes, containers } => {
                self.runtime_listed(sandboxes, containers, now);
            }
            Event::ContainersCreated(times) => self.created(times),
            Event::LatchesLoaded(latches) => {
                self.loaded.extend(latches);
                self.place_latches();
            }
            Event::HandedOver => self.handed_over = true,
            Event::LatchesForgotten(id) => {
                self.forgotten.remove(&id);
            }
            Event::RecreateSeen(request) => self.recreates.seen(*request),
            Event::RecreateGone(id) => self.recreates.gone(&id),
            Event::RecreatesListed(origin, requests) => self.recreates.listed(origin, requests),
            Event::MarksLoaded(marks) => self.recreates.marks_loaded(marks, now),
            Event::SidecarsLoaded(marks) => self.sidecars.loaded(marks, now),
            Event::MarkWritten(mark, connection) => {
                self.recreates.place(mark, Some(connection), false, now);
            }
            Event::EffectBegan(effect) => {
                self.effects_in_flight.began(&effect);
                self.report_began(&effect);
                if let Effect::Runtime(RuntimeEffect::StopContainer(stop)) = &effect {
                    self.sidecars.stop_began(stop, now);
                    self.recreates.stop_began(stop);
                }
            }
            Event::EffectEnded(effect, outcome) => {
                if self.effects_in_flight.ended(&effect, outcome, now) {
                    self.effect_ended(effect, outcome, now);
                }
            }
            Event::ProbeBegan(run) => self.probe_began(run, now),
            Event::ProbeEnded(run, result) => self.probe_ended(&run, &result),
            Event::EndHinted(container) => self.end_hinted(container, now),
            Event::EndsTold(told) => self.ends_told(told),
            Event::CreationEnvSet(pod, values) => self.creation_env_set(pod, values),
            Event::ProbedPods(pods) => self.probed_pods(pods),
            Event::ImagesBusy(busy) => self.images_busy = busy,
            Event::ViewFresh(fresh) => self.view_fresh = fresh,
            Event::KubeletPollStarted => self.kubelet_poll.in_flight = true,
            Event::KubeletPollEnded => self.kubelet_poll = KubeletPoll { in_flight: false, ended: Some(now) },
        }
        if let Some((pod, before)) = shown
            && self.foretold_of(&pod, now) == before
        {
            self.foretold = number;
        }
    }

    /// Records a call once; what it was recorded as stays.
    pub(crate) fn track(&mut self, id: CallId, connection: ConnectionId, kind: InFlightKind) -> bool {
        let arrived_at = self.seq;
        let mut new = false;
        self.calls.entry(id).or_insert_with(|| {
            new = true;
            InFlight { connection, arrived_at, kind, hold: None, satisfied: None }
        });
        new
    }

    /// Remembers since when a connection is there.
    fn meet(&mut self, connection: ConnectionId, now: Instant) {
        let since_seq = self.seq;
        self.connections.entry(connection).or_insert(Connection { since: now, since_seq, relisted: None });
    }
}
