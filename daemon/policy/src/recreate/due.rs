//! Steps that are due for requests and marks now, and when to ask again.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    config::Path,
    model::{ContainerId, ContainerName, PodRef, PodUid, RequestId, RestartPolicy, SandboxId},
    node::Node,
    recreate::{
        ContainerPhase, MarkPhase, Origin, RecreateMark,
        liveness::{PodLiveness, Standing},
        requests::LOOKED_AT,
        state::{Drain, Marked, PATIENCE_FOR_POD, PATIENCE_FOR_RUNNING_POD, Request, Stop},
    },
    set_aside::Subject,
    step::{DirectStop, Effect, PodEffect, RequestEffect, RuntimeEffect, Step, StoreEffect},
    time::later,
};

/// How often the runtime is asked about the pods of requests. What passes through the agent is known at once.
const INSPECTION_INLINE: Duration = Duration::from_secs(1);
const INSPECTION_BESIDE: Duration = Duration::from_millis(200);
/// On top of the grace, for a stop that is not seen coming.
const LATE: Duration = Duration::from_secs(5);
/// How many writes about requests that nobody looks at are under way at once: somebody's ten thousand must
/// not keep the API server from another's.
const MOST_WRITES: usize = 32;
/// How many are looked through for such a write: of these the last one may have failed a moment ago.
const MOST_TRIED: usize = 256;
/// The API server's default.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl Node {
    /// The steps about requests that are due.
    pub(crate) fn recreate_steps(&self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        let requests = &self.recreates.requests;
        let mut under_way = self.effects_in_flight.reports_in_hand();
        for request in requests.in_hand() {
            let subject = || Subject::Request(request.asked.id.clone());
            let own = self
                .set_aside
                .evaluate(subject, now, || (self.open_steps(request, now), self.report_step(request)));
            let Some((own, report)) = own else { continue };
            steps.extend(own);
            // Where each ends as soon as it is looked at, the next ones come with every look.
            let of_pod = under_way.entry(&request.asked.pod).or_default();
            if let Some(report) = report.filter(|report| self.effects_in_flight.may_begin(report, now))
                && *of_pod < LOOKED_AT
            {
                *of_pod += 1;
                steps.push(report);
            }
        }
        steps.extend(self.steps_of_the_rest(now));
        steps.extend(self.release_steps());
        let unmarked = self.recreates.unmarked.iter().cloned().chain(self.orphaned_marks());
        steps.extend(unmarked.map(|request| StoreEffect::ForgetMarks(request).into()));
        steps
    }

    /// Reports and deletions of requests that nobody looks at: as many as there is room
    /// for, a pod after the other.
    fn steps_of_the_rest(&self, now: Instant) -> Vec<Step> {
        let room = MOST_WRITES.saturating_sub(self.effects_in_flight.writes_about_the_rest());
        let requests = &self.recreates.requests;
        let reports = requests.untold().take(MOST_TRIED).filter_map(|request| {
            let subject = || Subject::Request(request.asked.id.clone());
            self.set_aside.evaluate(subject, now, || self.report_step(request)).flatten()
        });
        let deletions = requests
            .expired(now)
            .take(MOST_TRIED)
            .filter_map(|request| change(request, RequestEffect::Delete));
        reports
            .chain(deletions)
            .filter(|step| self.effects_in_flight.may_begin(step, now))
            .take(room)
            .collect()
    }

    /// Takes note of a report that begins, where its request is looked at.
    pub(crate) fn report_began(&mut self, effect: &Effect) {
        let Effect::Request(_, id, RequestEffect::Report(_)) = effect else { return };
        let requests = &self.recreates.requests;
        let open = requests.get(id).filter(|request| request.end.is_none());
        if let Some(request) = open.filter(|request| requests.is_in_hand(request)) {
            self.effects_in_flight.report_in_hand_began(id.clone(), request.asked.pod.clone());
        }
    }

    /// The report of a request, where its source does not say so yet.
    fn report_step(&self, request: &Request) -> Option<Step> {
        let report = self.report_of(request).filter(|report| *report != request.reported)?;
        change(request, RequestEffect::Report(report))
    }

    /// Returns when to ask again because of a request.
    pub(crate) fn recreate_deadlines(&self) -> impl Iterator<Item = Instant> {
        let now = self.looked;
        let timers = self.recreates.requests.in_hand().flat_map(move |request| match now {
            Some(now) => {
                let subject = || Subject::Request(request.asked.id.clone());
                self.set_aside.evaluate(subject, now, || self.timers_of(request)).unwrap_or_default()
            }
            None => self.timers_of(request),
        });
        let late = self.recreates.marks.values().filter_map(|marked| {
            let request = self.recreates.requests.get(&marked.mark.request)?;
            Some(later(marked.since, self.grace_of(request).saturating_add(LATE)))
        });
        timers.chain(self.recreates.requests.times(now)).chain(late)
    }

    fn timers_of(&self, request: &Request) -> Vec<Instant> {
        let strategy = &request.asked.strategy;
        let grace = match (strategy.unready_grace, request.unready) {
            (Some(grace), Drain::Since(since)) => Some(later(since, grace)),
            _ => None,
        };
        let started = request.asked.containers.iter().filter_map(|target| {
            match self.standing_in(&request.asked.pod, &target.name, &target.instance) {
                Standing::Replaced(instance) => Some(later(instance.running_since?, strategy.min_started)),
                _ => None,
            }
        });
        let missing = request.since.map(|since| later(since, PATIENCE_FOR_POD));
        let unseen = request.since.filter(|_| !request.pod_seen);
        let behind = unseen.map(|since| later(since, PATIENCE_FOR_RUNNING_POD));
        grace.into_iter().chain(started).chain(missing).chain(behind).collect()
    }

    /// The sandboxes of pods with open requests, with the time when the runtime is to be asked about each.
    pub(crate) fn recreate_inspections(&self) -> Vec<(&SandboxId, Option<Instant>)> {
        let period = match self.config.path {
            Path::Inline => INSPECTION_INLINE,
            Path::Beside => INSPECTION_BESIDE,
        };
        let pods: BTreeSet<&PodUid> = self.recreates.requests.pods().collect();
        self.sandboxes
            .iter()
            .filter(|(_, sandbox)| pods.contains(&sandbox.pod.uid) && !sandbox.inspection.in_flight)
            .map(|(id, sandbox)| (id, sandbox.inspection.ended.map(|ended| later(ended, period))))
            .collect()
    }

    /// A request is about a container that the runtime's list did not have: beside the kubelet a sandbox made
    /// since is not known before the next one.
    pub fn misses_container(&self) -> bool {
        let alive = |request: &&Request| self.pod_liveness(&request.asked.pod) == PodLiveness::Alive;
        let asked = || {
            self.recreates.requests.in_hand().filter(alive).any(|request| {
                request.progress.iter().any(|(name, progress)| {
                    let standing = self.standing_in(&request.asked.pod, name, &progress.target);
                    !request.is_done(name) && matches!(standing, Standing::Absent)
                })
            })
        };
        self.config.path == Path::Beside && (asked() || self.misses_followed())
    }

    /// A request waits for what only the pod view shows.
    pub(crate) fn recreates_wait_for_view(&self) -> bool {
        self.recreates.requests.in_hand().any(|request| {
            request.progress.values().any(|progress| progress.phase == ContainerPhase::Recreating)
        })
    }

    fn open_steps(&self, request: &Request, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.pod_liveness(&request.asked.pod) != PodLiveness::Alive {
            return steps;
        }
        if request.asked.strategy.unready_grace.is_some()
            && request.unready == Drain::Wanted
            && let Some(pod) = self.pod_ref(request)
        {
            steps.push(Step::of_pod(pod, PodEffect::HoldUnready(request.asked.key.clone())));
        }
        let mut exited = BTreeSet::new();
        let mut marks = Vec::new();
        for (name, progress) in &request.progress {
            if let Some(marked) = self.recreates.mark_for(request, name) {
                steps.extend(self.marked_steps(request, marked, now));
            } else if progress.begun.is_some() && self.old_runs(request, name, &progress.target) {
                exited.extend(self.older_exited(&request.asked.pod, name, &progress.target));
                marks.push(self.first_mark(request, name, &progress.target));
            }
        }
        if !exited.is_empty() {
            steps.push(RuntimeEffect::RemoveContainers(exited.into_iter().collect()).into());
        } else if !marks.is_empty() {
            steps.push(StoreEffect::WriteMarks(marks).into());
        }
        steps
    }

    pub(super) fn old_runs(&self, request: &Request, name: &ContainerName, target: &ContainerId) -> bool {
        matches!(self.standing_in(&request.asked.pod, name, target), Standing::OldRuns)
    }

    fn first_mark(&self, request: &Request, name: &ContainerName, target: &ContainerId) -> RecreateMark {
        RecreateMark {
            request: request.asked.id.clone(),
            name: name.clone(),
            container: target.clone(),
            phase: match self.config.path {
                Path::Inline => MarkPhase::Armed,
                Path::Beside => MarkPhase::Stopping,
            },
        }
    }

    /// Gives the step that is due for a mark: usually none, because the kubelet acts on it.
    fn marked_steps(&self, request: &Request, marked: &Marked, now: Instant) -> Option<Step> {
        let (pod, mark) = (&request.asked.pod, &marked.mark);
        match self.standing_in(pod, &mark.name, &mark.container) {
            Standing::OldRuns if mark.phase == MarkPhase::Stopping => self.direct_stop(request, marked),
            Standing::OldRuns if self.must_take_over(request, marked, now) => {
                let mark = RecreateMark { phase: MarkPhase::Stopping, ..mark.clone() };
                Some(StoreEffect::WriteMarks(vec![mark]).into())
            }
            _ => None,
        }
    }

    /// The kubelet had begun to stop the container and will not end it, and must not be asked again.
    fn must_take_over(&self, request: &Request, marked: &Marked, now: Instant) -> bool {
        if marked.mark.phase == MarkPhase::Armed || self.may_be_asked_again(marked, request) {
            return false;
        }
        let alive = |connection| self.is_connected(connection);
        match marked.stop {
            Stop::Failed => true,
            Stop::InFlight(_, connection) | Stop::Done(connection) if alive(connection) => false,
            // The hook goes on without the agent, and the kubelet's stop follows it.
            Stop::InFlight(..) | Stop::Done(_) | Stop::NotAsked => {
                now >= later(marked.since, self.grace_of(request).saturating_add(LATE))
            }
        }
    }

    /// Should it exit, or has it, nobody is about to create the next one, and the restart policy leaves it
    /// so.
    pub(super) fn is_stranded(&self, request: &Request, marked: &Marked) -> bool {
        marked.mark.phase >= MarkPhase::Shown
            && self.stays_exited(request, marked)
            && !marked.is_carried_by(|connection| self.is_connected(connection))
    }

    /// The restart policy would leave it as it is once it has exited; beside the kubelet nothing can be done
    /// about that.
    pub(super) fn stays_exited(&self, request: &Request, marked: &Marked) -> bool {
        let policy = self.restart_policy(&request.asked.pod, &marked.mark.name);
        self.config.path == Path::Inline && policy != Some(RestartPolicy::Always)
    }

    fn direct_stop(&self, request: &Request, marked: &Marked) -> Option<Step> {
        let mark = &marked.mark;
        let sandbox = self.containers.get(&mark.container)?;
        let pod = self.sandboxes.get(sandbox)?.pod.clone();
        let beside = self.config.path == Path::Beside;
        // A hook that may have begun is not begun again; beside the kubelet it is the agent that begins it.
        let first = beside && !marked.inherited && !marked.stopping;
        let hook = self.hook_of(&request.asked.pod, &mark.name).flatten().filter(|_| first);
        let stop = DirectStop {
            container: mark.container.clone(),
            name: mark.name.clone(),
            pod,
            sandbox: sandbox.clone(),
            ip: self.pods.get(&request.asked.pod).and_then(|pod| pod.ip.clone()),
            hook: hook.cloned(),
            mark: None,
            grace: self.grace_of(request),
        };
        Some(RuntimeEffect::StopContainer(Box::new(stop)).into())
    }

    fn grace_of(&self, request: &Request) -> Duration {
        let own = self.pods.get(&request.asked.pod).map_or(DEFAULT_GRACE, |pod| pod.grace);
        request.asked.strategy.grace.unwrap_or(own)
    }

    /// The pod of a request, where the node still knows it.
    pub(super) fn pod_ref(&self, request: &Request) -> Option<PodRef> {
        self.pod_of(&request.asked.pod)
    }

    /// Entries of requests that are over, or that nobody knows any more, in the shared readiness gate.
    fn release_steps(&self) -> Vec<Step> {
        // Updates hold nothing in this gate.
        if !self.are_listed(&[Origin::Api, Origin::File]) {
            return Vec::new();
        }
        let wanted: BTreeSet<&str> =
            self.recreates.requests.holding().map(|request| request.asked.key.as_str()).collect();
        let mut steps = Vec::new();
        for pod in self.pods.values().filter(|pod| pod.deletion.is_none() && !pod.ended) {
            if pod.unready.as_ref().is_some_and(|unready| unready.unwritten) {
                steps.push(Step::of_pod(pod.pod.clone(), PodEffect::OpenGate));
            }
            for key in pod.unready.iter().flat_map(|unready| &unready.requests) {
                if !wanted.contains(key.as_str()) {
                    steps.push(Step::of_pod(pod.pod.clone(), PodEffect::ReleaseUnready(key.clone())));
                }
            }
        }
        steps
    }

    /// A pod has something in the shared readiness gate that may be to be changed.
    pub(crate) fn has_gates(&self) -> bool {
        let mut gates = self.pods.values().filter_map(|pod| pod.unready.as_ref());
        gates.any(|unready| unready.unwritten || !unready.requests.is_empty())
    }

    /// Tells whether an exit of this instance is part of its replacement: the request is not over, or nobody
    /// knows yet.
    pub(crate) fn recreates_main(&self, container: &ContainerId) -> bool {
        let Some(marked) = self.recreates.mark_of(container) else { return false };
        match self.recreates.requests.get(&marked.mark.request) {
            Some(request) => request.end.is_none(),
            None => !self.are_listed(&[Origin::Api, Origin::File, Origin::Update]),
        }
    }

    /// Tells whether an earlier process has begun to replace this instance, for another request than this
    /// one, which a source may still show.
    pub(super) fn is_claimed(&self, request: &Request, container: &ContainerId) -> bool {
        let is_unknown = |id: &RequestId| *id != request.asked.id && !self.recreates.requests.contains(id);
        let mut marks = self.recreates.marks.values().map(|marked| &marked.mark);
        !self.are_listed(&[Origin::Api, Origin::File, Origin::Update])
            && marks.any(|mark| mark.container == *container && is_unknown(&mark.request))
    }

    /// All requests of these sources are known.
    fn are_listed(&self, origins: &[Origin]) -> bool {
        let listed = |source| self.recreates.listed.contains(&source) || !self.config.has_source(source);
        origins.iter().copied().all(listed)
    }

    /// Requests that left marks and are not known to any source.
    fn orphaned_marks(&self) -> BTreeSet<RequestId> {
        let recreates = &self.recreates;
        if !self.are_listed(&[Origin::Api, Origin::File, Origin::Update]) {
            return BTreeSet::new();
        }
        let marked = recreates.marks.keys().map(|(request, _)| request);
        marked.filter(|request| !recreates.requests.contains(request)).cloned().collect()
    }
}

/// The change of a request where it is kept; `None` for one that is kept nowhere.
fn change(request: &Request, effect: RequestEffect) -> Option<Step> {
    let source = request.asked.origin.source()?;
    Some(Step::Effect(Effect::Request(source, request.asked.id.clone(), effect)))
}
