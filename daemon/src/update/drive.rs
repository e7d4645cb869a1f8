//! The loop: what is known, what follows from it, and whoever does that. One step of a pod at a time; pods do not wait for
//! each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerId, ImageEvent, PodUid, RequestId, SetAside, WishId, WishSource,
    in_place_update::{
        Metadata, MetadataKey, Next, PodPlan, Reason, UpdateOutcome, UpdatePhase, UpdateReport,
        UpdateRequest, UpdateSource, Why, plan,
    },
    time::later,
};
use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Parts,
    desk::{Entry, LOOKED_AT},
    jobs::{Act, Done},
    leftovers::Removal,
    observe::{self, Facts},
    outcomes::Pause,
    recreates::Recreates,
};
use crate::{
    agent::now,
    base::{clock::Clock, deadline},
};

/// How long what an earlier process began is waited for, before what nobody has asked for again is dropped.
const CLEARED_BY: Duration = Duration::from_secs(10);

/// The message of requests that are left alone.
const SET_ASIDE: &str = "berthd has failed to evaluate it and leaves it alone for a while; this is a bug of berthd, whose log has the place";

/// Driver of the updates, with the state of its loop from one turn to the next. None of it has to survive.
pub(super) struct Driver {
    pub(super) parts: Arc<Parts>,
    pub(super) clock: Clock,
    /// How the instances were made.
    pub(super) facts: BTreeMap<ContainerId, Facts>,
    /// When a pod's gate was closed by this process.
    pub(super) closed: BTreeMap<PodUid, Instant>,
    /// Patches that the API server did not take.
    pub(super) refused: BTreeMap<PodUid, (String, String)>,
    pub(super) recreates: Recreates,
    /// The last removal of exited instances of each pod.
    pub(super) removals: BTreeMap<PodUid, Removal>,
    /// Since when instances were seen running.
    pub(super) running: BTreeMap<ContainerId, Instant>,
    /// Pods with a step, or a question about them, under way.
    pub(super) stepping: BTreeSet<PodUid>,
    pub(super) looking: BTreeSet<PodUid>,
    pub(super) pauses: BTreeMap<PodUid, Pause>,
    /// Requests with a write under way, and those whose last one failed.
    pub(super) writing: BTreeSet<RequestId>,
    pub(super) unwritten: BTreeMap<RequestId, Pause>,
    wished: BTreeMap<PodUid, BTreeSet<Arc<str>>>,
    /// The pods of the turn before.
    known: BTreeSet<PodUid>,
    /// Since when all requests are known.
    heard: Option<Instant>,
    /// Pods whose evaluation panicked.
    set_aside: SetAside<PodUid>,
    pub(super) jobs: JoinSet<Done>,
}

impl Driver {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self {
            parts,
            clock: Clock::read(),
            facts: BTreeMap::new(),
            closed: BTreeMap::new(),
            refused: BTreeMap::new(),
            recreates: Recreates::default(),
            removals: BTreeMap::new(),
            running: BTreeMap::new(),
            stepping: BTreeSet::new(),
            looking: BTreeSet::new(),
            pauses: BTreeMap::new(),
            writing: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            wished: BTreeMap::new(),
            known: BTreeSet::new(),
            heard: None,
            set_aside: SetAside::default(),
            jobs: JoinSet::new(),
        }
    }

    /// Until the shutdown, or until a job was lost. What is under way then is given up: who comes next sees in the pod how far
    /// it got.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        // Subscribed before the first look, so that no change in between is lost.
        let mut asked = self.parts.desk.changes();
        let mut pods = self.parts.pods.changes();
        let mut identity = self.parts.identity.clone();
        let (mut facts, mut images) = (self.parts.agent.facts(), self.parts.keeper.news());
        loop {
            asked.mark_unchanged();
            pods.mark_unchanged();
            identity.mark_unchanged();
            facts.mark_unchanged();
            images.mark_unchanged();
            let (again, idle) = self.turn();
            // All cancel-safe: numbers, a timer, and jobs that go on.
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = asked.changed() => {}
                _ = pods.changed(), if !idle => {}
                _ = identity.changed(), if !idle => {}
                _ = facts.changed(), if !idle => {}
                _ = images.changed(), if !idle => {}
                Some(done) = self.jobs.join_next() => match done {
                    Ok(done) => self.take(done),
                    Err(error) => {
                        warn!(%error, "A step of an update was lost");
                        return;
                    }
                },
                () = deadline::reached(again) => {}
            }
        }
    }

    /// Looks at everything once. When to look again, and whether nobody waits for anything.
    fn turn(&mut self) -> (Option<Instant>, bool) {
        self.clock = self.clock.kept(Clock::read());
        let now = now();
        let mut again: Vec<Instant> = Vec::new();
        let mut by_pod: BTreeMap<PodUid, Vec<UpdateRequest>> = BTreeMap::new();
        for (id, at) in self.parts.desk.over() {
            again.extend(self.expire(id, at, now));
        }
        let open = self.parts.desk.open();
        for request in open.untold {
            let message = format!("waits for its turn: more than {LOOKED_AT} updates for this pod are open");
            let report =
                UpdateReport { phase: Some(UpdatePhase::Pending), message, ..request.reported.clone() };
            self.report(request, report, now);
        }
        for entry in open.entries {
            match &entry.flaw {
                Some(flaw) => self.refuse(&entry, flaw, now),
                None => by_pod.entry(entry.request.pod.uid.clone()).or_default().push(entry.request),
            }
        }
        let desk = &self.parts.desk;
        self.unwritten.retain(|id, _| desk.has(id));
        again.extend(self.unwritten.values().map(|pause| pause.until).filter(|until| *until > now));
        self.forget(&by_pod);
        let (mut unclear, complete) = (false, self.parts.desk.complete());
        let set_aside = std::mem::take(&mut self.set_aside);
        for (pod, requests) in &by_pod {
            let complete = complete.get(pod).map_or(&[][..], Vec::as_slice);
            let turn = || self.turn_of(pod, requests, complete, now);
            let (decided, next) = set_aside.evaluate(|| pod.clone(), now, turn).unwrap_or((true, Vec::new()));
            unclear |= !decided;
            again.extend(next);
        }
        self.set_aside = set_aside;
        again.extend(self.tell_what_is_set_aside(&by_pod, now));
        if self.is_clear(unclear, now, &mut again) {
            self.recreates.all_known(&self.parts.agent);
            self.parts.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
        }
        (again.into_iter().min(), by_pod.is_empty())
    }

    /// Looks at one pod and does what follows: whether that is known, and when to look again.
    fn turn_of(
        &mut self,
        pod: &PodUid,
        requests: &[UpdateRequest],
        complete: &[UpdateRequest],
        now: Instant,
    ) -> (bool, Vec<Instant>) {
        let (sight, next) = self.see(pod, requests, now);
        let wall = Timestamp::now().as_second();
        let planned = match complete {
            [] => plan(requests, &sight, now, wall),
            complete => plan(&[requests, complete].concat(), &sight, now, wall),
        };
        let decided = is_decided(&planned);
        let limits = requests.iter().filter_map(UpdateRequest::limit).filter(|at| *at > now);
        let mut again: Vec<Instant> = next.into_iter().chain(limits).collect();
        again.extend(self.carry_out(pod, requests, planned, now));
        (decided, again)
    }

    /// Says in the requests of a pod that its evaluation panicked. When the first of them is evaluated again.
    fn tell_what_is_set_aside(
        &mut self,
        by_pod: &BTreeMap<PodUid, Vec<UpdateRequest>>,
        now: Instant,
    ) -> Option<Instant> {
        self.set_aside.keep(|pod| by_pod.contains_key(pod));
        for pod in self.set_aside.news() {
            for request in by_pod.get(&pod).into_iter().flatten() {
                let report = UpdateReport { message: SET_ASIDE.to_owned(), ..request.reported.clone() };
                self.report(request.clone(), report, now);
            }
        }
        let metrics = self.parts.agent.metrics();
        metrics.set_aside("updates", self.set_aside.panics(), || {
            let all = self.set_aside.all(now).into_iter();
            let name = |pod: &PodUid| {
                let request = by_pod.get(pod).and_then(|requests| requests.first());
                request.map_or_else(
                    || format!("updates of pod {pod}"),
                    |request| format!("updates of pod {}/{}", request.pod.namespace, request.pod.name),
                )
            };
            all.map(|(pod, again)| (name(&pod), again)).collect()
        });
        self.set_aside.next(now)
    }

    /// Does what was planned for a pod, and says when it is worth another look.
    fn carry_out(
        &mut self,
        pod: &PodUid,
        requests: &[UpdateRequest],
        planned: PodPlan,
        now: Instant,
    ) -> Option<Instant> {
        let decided = is_decided(&planned);
        for (id, report) in planned.reports {
            if let Some(request) = requests.iter().find(|request| request.id == id) {
                self.report(request.clone(), report, now);
            }
        }
        let paused = self.is_paused(pod, now);
        let wanted = match &planned.next {
            Some(Next::Recreate(wanted)) => wanted.clone(),
            _ => BTreeMap::new(),
        };
        let version = self.parts.pods.known(pod).there();
        if let (Some(version), false) = (&version, self.stepping.contains(pod)) {
            self.parts.agent.set_env(pod, observe::env(&version.pod, &Metadata::new(), &named(requests)));
        }
        // What was asked for stands until it is known that it is not wanted any more.
        let later = version
            .as_ref()
            .filter(|_| decided)
            .and_then(|version| self.recreates.want(&self.parts, requests, version, wanted, now));
        let act = match planned.next {
            Some(Next::Pull(images)) => {
                self.wish(pod, images);
                return None;
            }
            Some(Next::Wait { until, .. }) => return until,
            Some(Next::Clear(exited)) => {
                if let Some(request) = requests.first()
                    && self.stepping.insert(pod.clone())
                {
                    self.jobs.spawn(self.parts.clone().clear(request.pod.clone(), exited));
                }
                return None;
            }
            Some(Next::SetNotReady) => Act::Close,
            Some(Next::SetReady) => Act::Open,
            Some(Next::Patch(patch)) => Act::Patch(Box::new(patch)),
            // The ends are reports, and nothing is left to do.
            Some(Next::Recreate(_) | Next::Done | Next::RollBack(..) | Next::Failed(_)) | None => {
                return later;
            }
        };
        if paused.is_some() {
            return paused;
        }
        let (Some(version), Some(request)) = (version, requests.first()) else { return None };
        if self.stepping.insert(pod.clone()) {
            let keys = named(requests);
            self.jobs.spawn(self.parts.clone().step(request.pod.clone(), version, act, keys));
        }
        None
    }

    /// Everything is known that an earlier process may have begun; or it takes too long, and the others must not wait for it.
    fn is_clear(&mut self, unclear: bool, now: Instant, again: &mut Vec<Instant>) -> bool {
        if !self.parts.desk.has_heard(&UpdateSource::ALL) {
            return false;
        }
        let until = later(*self.heard.get_or_insert(now), CLEARED_BY);
        if unclear && now < until {
            again.push(until);
        }
        !unclear || now >= until
    }

    fn report(&mut self, request: UpdateRequest, report: UpdateReport, now: Instant) {
        let paused = self.unwritten.get(&request.id).is_some_and(|pause| pause.until > now);
        if !paused && self.writing.insert(request.id.clone()) {
            self.jobs.spawn(self.parts.clone().report(request, report));
        }
    }

    /// A request that makes no sense fails.
    fn refuse(&mut self, entry: &Entry, flaw: &str, now: Instant) {
        let report = UpdateReport {
            phase: Some(UpdatePhase::Ended),
            message: flaw.to_owned(),
            outcome: Some(UpdateOutcome::Failed(Reason::Invalid)),
            ..entry.request.reported.clone()
        };
        self.report(entry.request.clone(), report, now);
    }

    /// Deletes a request that has ended, from then on; when, where that is later.
    fn expire(&mut self, id: RequestId, at: Instant, now: Instant) -> Option<Instant> {
        let at = self.unwritten.get(&id).map_or(at, |pause| pause.until.max(at));
        if at > now {
            return Some(at);
        }
        if !self.writing.contains(&id)
            && let Some(entry) = self.parts.desk.entry(&id)
        {
            self.writing.insert(id);
            self.jobs.spawn(self.parts.clone().delete(entry.request));
        }
        None
    }

    /// Has these images brought to the node, and kept there.
    fn wish(&mut self, pod: &PodUid, images: BTreeSet<Arc<str>>) {
        let wished = self.wished.entry(pod.clone()).or_default();
        for image in images {
            if wished.insert(image.clone())
                && let Some(wish) = self.parts.wish(wish_id(pod, &image), &image)
            {
                info!(image = %image, "Image is pulled before anything is stopped for it");
                self.parts.keeper.apply(ImageEvent::WishSeen(Box::new(wish)));
            }
        }
    }

    /// Forgets the pods and image wishes that nobody asks for any more.
    fn forget(&mut self, by_pod: &BTreeMap<PodUid, Vec<UpdateRequest>>) {
        let gone: Vec<PodUid> =
            self.wished.keys().filter(|pod| !by_pod.contains_key(*pod)).cloned().collect();
        for pod in gone {
            for image in self.wished.remove(&pod).unwrap_or_default() {
                self.parts.keeper.apply(ImageEvent::WishGone(wish_id(&pod, &image)));
            }
        }
        self.parts.pods.keep_only(|pod| by_pod.contains_key(pod));
        for pod in self.known.iter().filter(|pod| !by_pod.contains_key(*pod)) {
            self.parts.agent.set_env(pod, BTreeMap::new());
        }
        self.known = by_pod.keys().cloned().collect();
        self.closed.retain(|pod, _| by_pod.contains_key(pod));
        self.removals.retain(|pod, _| by_pod.contains_key(pod));
        self.refused.retain(|pod, _| by_pod.contains_key(pod));
        self.pauses.retain(|pod, _| by_pod.contains_key(pod));
        self.recreates.keep_only(&self.parts.agent, |pod| by_pod.contains_key(pod));
        if by_pod.is_empty() {
            self.facts.clear();
            self.running.clear();
        }
    }
}

/// It is known what is to be done next: not while something has to be reported first, or the kubelet has to learn of it.
fn is_decided(planned: &PodPlan) -> bool {
    match &planned.next {
        None => false,
        Some(Next::Wait { why, .. }) => *why != Why::Kubelet,
        Some(_) => true,
    }
}

/// The labels and annotations that these requests are about.
fn named(requests: &[UpdateRequest]) -> BTreeSet<MetadataKey> {
    let before = requests.iter().filter_map(|request| request.reported.previous.as_ref());
    let before = before.flat_map(|previous| previous.metadata.keys());
    requests.iter().flat_map(|request| request.metadata.keys()).chain(before).cloned().collect()
}

/// One wish for each pod and image: no other pod's update ends it.
pub(super) fn wish_id(pod: &PodUid, image: &str) -> WishId {
    WishId { source: WishSource::Update, key: format!("{pod}/{image}").into() }
}
