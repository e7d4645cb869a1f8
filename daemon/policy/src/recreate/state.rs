//! Memory of requests and marks, and how facts change it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    model::{CallId, ConnectionId, ContainerId, ContainerName, PodUid, RequestId},
    recreate::{
        ContainerPhase, MarkPhase, Origin, Outcome, RecreateMark, RecreateReport, RecreateRequest,
        RequestPhase, requests::Requests,
    },
    step::DirectStop,
    time::later,
};

/// How long the pod view may be behind the request.
pub(super) const PATIENCE_FOR_POD: Duration = Duration::from_secs(3);
/// The same of a pod that runs here: it is there, and its API server is slow.
pub(super) const PATIENCE_FOR_RUNNING_POD: Duration = Duration::from_secs(30);

/// All requests and marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recreates {
    pub(super) requests: Requests,
    /// By request and container. A mark is here once it is durable.
    pub(super) marks: BTreeMap<(RequestId, ContainerName), Marked>,
    /// Requests of which the store has marks that mean nothing any more.
    pub(super) unmarked: BTreeSet<RequestId>,
    /// Relists that carry a nudge, and for which pods.
    pub(super) nudging: BTreeMap<CallId, BTreeSet<PodUid>>,
    /// When the last nudge for a pod was delivered.
    pub(super) nudged: BTreeMap<PodUid, Instant>,
    /// When the last list of a kubelet went out, with a nudge or without.
    pub(super) relisted: Option<Instant>,
    /// Sources whose requests are all known.
    pub(super) listed: BTreeSet<Origin>,
    pub(super) arrivals: u64,
    pub(super) nudges_made: u64,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) asked: RecreateRequest,
    /// Earlier is smaller; first come, first served.
    pub(super) arrival: u64,
    pub(super) progress: BTreeMap<ContainerName, Progress>,
    /// Report that its source has written down.
    pub(super) reported: RecreateReport,
    pub(super) unready: Drain,
    /// When it was first looked at, and whether its pod was there since.
    pub(super) since: Option<Instant>,
    pub(super) pod_seen: bool,
    pub(super) end: Option<End>,
}

/// How far one container of a request got.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) phase: ContainerPhase,
    pub(super) message: String,
    /// The old instance was told to stop, for this request.
    pub(super) killed: bool,
    /// The instance to replace.
    pub(super) target: ContainerId,
    /// Its turn has come: what is due may be done.
    pub(super) begun: Option<Instant>,
}

/// Holding the pod not Ready before anything is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// Not asked for, or not begun.
    Not,
    /// The condition is to be written.
    Wanted,
    /// It is written; the grace runs.
    Since(Instant),
}

/// The end of a request.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) at: Instant,
    pub(super) outcome: Option<Outcome>,
    pub(super) message: String,
}

/// A mark, and what this process knows about it.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) mark: RecreateMark,
    /// When its phase was reached, or when it was read from the store.
    pub(super) since: Instant,
    /// It was read from the store: an earlier process made it, and what it saw is lost.
    pub(super) inherited: bool,
    /// Whom it was shown to.
    pub(super) shown_to: Option<ConnectionId>,
    /// The kubelet's StopContainer.
    pub(super) stop: Stop,
    /// The agent's own stop was begun by this process.
    pub(super) stopping: bool,
}

/// The kubelet's StopContainer of a marked instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    NotAsked,
    InFlight(CallId, ConnectionId),
    /// It succeeded; the one who asked goes on to create the next instance.
    Done(ConnectionId),
    Failed,
}

// === impl Recreates ===

impl Recreates {
    pub(crate) fn seen(&mut self, asked: RecreateRequest) {
        if self.requests.contains(&asked.id) {
            let id = asked.id.clone();
            self.requests.change(&id, |known| {
                // What it asks for was settled when it came. Its echo may be older than what was reported
                // since.
                if asked.ended.is_some() && known.end.is_none() {
                    known.end = ended(&asked);
                    known.reported = asked.reported;
                }
            });
            return;
        }
        self.arrivals += 1;
        self.requests.insert(Request::new(asked, self.arrivals));
    }

    pub(crate) fn gone(&mut self, id: &RequestId) {
        self.requests.remove(id);
        self.drop_marks(id);
    }

    pub(crate) fn listed(&mut self, origin: Origin, mut requests: Vec<RecreateRequest>) {
        let shown: BTreeSet<&RequestId> = requests.iter().map(|request| &request.id).collect();
        let gone: Vec<RequestId> = self
            .requests
            .values()
            .filter(|request| request.asked.origin == origin && !shown.contains(&request.asked.id))
            .map(|request| request.asked.id.clone())
            .collect();
        gone.iter().for_each(|id| self.gone(id));
        requests.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        requests.into_iter().for_each(|request| self.seen(request));
        self.listed.insert(origin);
    }

    pub(crate) fn marks_loaded(&mut self, marks: Vec<RecreateMark>, now: Instant) {
        for mark in marks {
            self.place(mark, None, true, now);
        }
    }

    /// A mark that is durable now.
    pub(crate) fn place(
        &mut self,
        mark: RecreateMark,
        shown_to: Option<ConnectionId>,
        inherited: bool,
        now: Instant,
    ) {
        let key = (mark.request.clone(), mark.name.clone());
        let old = self.marks.get(&key).filter(|old| old.mark.container == mark.container);
        if old.is_some_and(|old| old.mark.phase >= mark.phase) {
            return;
        }
        let marked = Marked {
            since: now,
            inherited,
            shown_to: shown_to.or(old.and_then(|old| old.shown_to)),
            stop: old.map_or(Stop::NotAsked, |old| old.stop),
            stopping: false,
            mark,
        };
        self.marks.insert(key, marked);
    }

    /// The marks of a request mean nothing from now on.
    pub(super) fn drop_marks(&mut self, id: &RequestId) {
        let before = self.marks.len();
        self.marks.retain(|(request, _), _| request != id);
        if self.marks.len() < before {
            self.unmarked.insert(id.clone());
        }
    }

    /// The store has no marks of this request any more. One that left marks and is known to nobody is
    /// forgotten here, too.
    pub(super) fn forgotten(&mut self, id: &RequestId) {
        self.unmarked.remove(id);
        if !self.requests.contains(id) {
            self.marks.retain(|(request, _), _| request != id);
        }
    }

    /// Tells whether it is known.
    pub(crate) fn has(&self, id: &RequestId) -> bool {
        self.requests.contains(id)
    }

    /// The pod of a request.
    pub(crate) fn pod_of(&self, id: &RequestId) -> Option<&PodUid> {
        self.requests.get(id).map(|request| &request.asked.pod)
    }

    /// Its `namespace/name`.
    pub(crate) fn key_of(&self, id: &RequestId) -> Option<&str> {
        self.requests.get(id).map(|request| request.asked.key.as_str())
    }

    /// The mark that a request has on a container.
    pub(super) fn mark_for(&self, request: &Request, name: &ContainerName) -> Option<&Marked> {
        self.marks.get(&(request.asked.id.clone(), name.clone()))
    }

    /// The mark of an instance.
    pub(super) fn mark_of(&self, container: &ContainerId) -> Option<&Marked> {
        self.marks.values().find(|marked| marked.mark.container == *container)
    }

    /// The kubelet may have been shown that this instance has to be replaced, or the agent stops it itself. A
    /// mark whose request is not known (any more, or yet) does nothing.
    pub(crate) fn was_shown(&self, container: &ContainerId) -> bool {
        let marked = self.mark_of(container).filter(|marked| marked.mark.phase > MarkPhase::Armed);
        marked.is_some_and(|marked| self.requests.contains(&marked.mark.request))
    }

    /// Any container is marked.
    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Tells whether this instance is marked.
    pub(crate) fn has_mark_of(&self, container: &ContainerId) -> bool {
        self.mark_of(container).is_some()
    }

    /// The connection that was shown its mark.
    pub(crate) fn shown_to(&self, container: &ContainerId) -> Option<ConnectionId> {
        self.mark_of(container)?.shown_to
    }

    pub(super) fn mark_of_mut(&mut self, container: &ContainerId) -> Option<&mut Marked> {
        self.marks.values_mut().find(|marked| marked.mark.container == *container)
    }

    /// Tells whether something is to be done, or to be waited for.
    pub(crate) fn is_active(&self) -> bool {
        let requests = &self.requests;
        !self.marks.is_empty() || !self.unmarked.is_empty() || requests.is_active() || requests.has_new_time()
    }

    /// Takes in that a look was taken at all times.
    pub(crate) fn times_are_looked_at(&mut self) {
        self.requests.times_are_looked_at();
    }

    /// A call ended; `exited`: it was to stop a container, which has exited.
    pub(crate) fn call_ended(&mut self, call: CallId, exited: bool) {
        self.nudging.remove(&call);
        for marked in self.marks.values_mut() {
            if let Stop::InFlight(stop, connection) = marked.stop
                && stop == call
            {
                marked.stop = if exited { Stop::Done(connection) } else { Stop::Failed };
            }
        }
    }

    /// The kubelet could not create the next instance of this container: it may not try again.
    pub(crate) fn create_failed(&mut self, name: &ContainerName, is_here: impl Fn(&ContainerId) -> bool) {
        for marked in self.marks.values_mut() {
            let carried = matches!(marked.stop, Stop::Done(_));
            if carried && marked.mark.name == *name && is_here(&marked.mark.container) {
                marked.stop = Stop::Failed;
            }
        }
    }

    /// The kubelet's list with the nudges went out in full.
    pub(crate) fn relist_answered(&mut self, call: CallId, now: Instant) {
        self.relisted = Some(now);
        for pod in self.nudging.remove(&call).unwrap_or_default() {
            self.nudged.insert(pod, now);
        }
    }

    /// Tells whether a list of a kubelet went out within this time.
    pub(super) fn has_relisted_within(&self, limit: Duration, now: Instant) -> bool {
        self.relisted.is_some_and(|at| now < later(at, limit))
    }

    pub(crate) fn stop_began(&mut self, stop: &DirectStop) {
        if let Some(marked) = self.mark_of_mut(&stop.container) {
            marked.stopping = true;
        }
    }
}

// === impl Request ===

impl Request {
    fn new(asked: RecreateRequest, arrival: u64) -> Self {
        let before = |name: &ContainerName| {
            asked.reported.containers.iter().find(|progress| progress.name == *name).cloned()
        };
        let progress = asked.containers.iter().map(|target| {
            let before = before(&target.name);
            let killed = before.as_ref().is_some_and(|before| before.killed);
            let (phase, message) = match before {
                Some(done) if done.phase >= ContainerPhase::Succeeded => (done.phase, done.message),
                Some(_) | None => (ContainerPhase::Pending, String::new()),
            };
            let target_id = target.instance.clone();
            (target.name.clone(), Progress { phase, message, killed, target: target_id, begun: None })
        });
        Self {
            progress: progress.collect(),
            end: ended(&asked),
            unready: asked.unready_since.map_or(Drain::Not, Drain::Since),
            since: None,
            pod_seen: false,
            reported: asked.reported.clone(),
            arrival,
            asked,
        }
    }

    /// Its source has written down all there is to say.
    pub(super) fn is_told(&self) -> bool {
        self.end.is_some() && (!self.has_status() || self.reported.phase == Some(RequestPhase::Completed))
    }

    /// Tells whether it is kept somewhere, with a status that can be written.
    pub(super) fn has_status(&self) -> bool {
        self.asked.origin.source().is_some()
    }

    /// Its pod, which the pod view does not show, is gone for good. `runs`: the runtime shows it.
    pub(super) fn gives_up(&self, runs: bool, now: Instant) -> bool {
        let patience = if runs { PATIENCE_FOR_RUNNING_POD } else { PATIENCE_FOR_POD };
        self.pod_seen || self.since.is_some_and(|since| now >= later(since, patience))
    }

    pub(super) fn is_done(&self, name: &ContainerName) -> bool {
        self.progress.get(name).is_none_or(|progress| progress.phase >= ContainerPhase::Succeeded)
    }

    pub(super) fn finish(&mut self, outcome: Outcome, message: impl Into<String>, now: Instant) {
        self.end = Some(End { at: now, outcome: Some(outcome), message: message.into() });
    }
}

fn ended(asked: &RecreateRequest) -> Option<End> {
    let at = asked.ended?;
    Some(End { at, outcome: asked.reported.outcome, message: asked.reported.message.clone() })
}

// === impl Marked ===

impl Marked {
    /// The kubelet has the stop in hand, or had and goes on to create: it is alive and did not fail.
    pub(super) fn is_carried_by(&self, alive: impl Fn(ConnectionId) -> bool) -> bool {
        match self.stop {
            Stop::InFlight(_, connection) | Stop::Done(connection) => alive(connection),
            Stop::NotAsked | Stop::Failed => false,
        }
    }

    /// The old instance was told to stop.
    pub(super) fn is_killed(&self) -> bool {
        self.mark.phase >= MarkPhase::Hooked || !matches!(self.stop, Stop::NotAsked)
    }
}
