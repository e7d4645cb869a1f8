//! Updates of the pods of this node: all requests, all that is remembered of their pods, and what is owed to
//! the world.
//!
//! ```text
//!   requests of three sources ── RequestSeen, .. ──┐                    ┌──▶ Fetch, Inspect, Report, Delete, Tell
//!   the pod watch ── PodShown, PodGone, .. ────────┤                    ├──▶ Write: a patch, the readiness gate
//!   instances, relists, images ── NodeSeen ────────┼─▶ Updates ─ plan ──┼──▶ Clear, Stop, WantImage ▶ the runtime, crate::Images
//!   answers to actions ────────────────────────────┘                    └──▶ Restart, SetEnv ─▶ crate::Node
//!
//!   one pod, at each plan
//!
//!   PodView + NodeView + memory ──observe──▶ Observed ──super::plan──▶ reports, Next ──turn──▶ actions
//! ```
//!
//! The steps of an update are decided by [`super::plan`], which remembers nothing. What is remembered here is
//! what the objects do not show: what is under way, what failed a moment ago, since when something runs. None
//! of it has to survive.
//!
//! Invariants, each tried by the model test:
//! - one step of a pod and one question about it at a time, one write of a request at a time; pods do not
//!   wait for each other;
//! - a write names the newest version of the pod that is known, and nothing is written while somebody else's
//!   write is looked at;
//! - after a failure the same is not tried again before its pause is over;
//! - a restart is wanted for one instance at a time, and not before all requests are known to the node;
//! - the gate is closed and images are there before anything is stopped for them;
//! - a gate is opened with the word that an update is carried out only where all of it is;
//! - what is remembered is bounded by open requests and what is under way: with everything answered and
//!   ended, nothing is left.

mod action;
mod answers;
pub(crate) mod clock;
pub(crate) mod ends;
pub(crate) mod env;
mod event;
mod leftovers;
pub(crate) mod pod;
mod reports;
pub(crate) mod requests;
mod resets;
mod restarts;
mod retries;
pub(crate) mod settled;
mod shown;
pub(crate) mod snapshot;
mod turn;
mod view;
pub(crate) mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

pub use self::{
    action::{CarriedOut, InstanceQuestion, PodWrite, UpdateAction},
    event::{Fetched, StoredRequest, UpdateEvent, WriteOutcome},
    reports::is_news,
    shown::carried_out,
    view::{
        ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, EnvReference, GateView, NodeView,
        PodView, UpdatePermission,
    },
};
use self::{
    clock::Clock,
    ends::Ends,
    leftovers::Removal,
    pod::{Doubt, Step, UpdatedPod},
    requests::Requests,
    retries::Attempts,
    settled::{SeenPod, Watch},
    writes::Writes,
};
use crate::{
    config::Path,
    in_place_update::{UpdateReport, UpdateRequest, UpdateSource},
    model::{PodRef, PodUid, RequestId},
    set_aside::SetAside,
    step::Notice,
    time::later,
};

/// How long what an earlier process began is waited for, before what nobody has asked for again is dropped.
const CLEARED_BY: Duration = Duration::from_secs(10);

/// State of the updates of this node.
#[derive(Debug)]
pub struct Updates {
    path: Path,
    requests: Requests,
    permission: UpdatePermission,
    watch: Watch,
    pods: BTreeMap<PodUid, UpdatedPod>,
    /// Requests with a write under way.
    writing: Writes,
    /// When entries of a NodePodUpdate were last reported on.
    told_at: BTreeMap<RequestId, Instant>,
    /// Reports that no status has yet, without what was before.
    untold: BTreeMap<RequestId, UpdateReport>,
    /// Ends that wait for those of other pods.
    ends: Ends,
    /// Requests whose last write failed.
    unwritten: BTreeMap<RequestId, Attempts>,
    /// Words for users of pods that are owed.
    notices: Vec<(PodRef, Notice)>,
    /// Since when all requests are known.
    heard: Option<Instant>,
    /// The node was told of all restarts that an earlier process may have begun.
    told: bool,
    /// Pods whose evaluation panicked.
    set_aside: SetAside<PodUid>,
    /// The last plan looked at no open request.
    idle: bool,
    wake: Wake,
}

/// When to plan again. Collected while a plan is made.
#[derive(Debug, Default)]
struct Wake {
    planned: Option<Instant>,
    next: Option<Instant>,
}

impl Updates {
    /// Knows nothing yet.
    pub fn new(path: Path) -> Self {
        Self {
            path,
            requests: Requests::default(),
            permission: UpdatePermission::default(),
            watch: Watch::default(),
            pods: BTreeMap::new(),
            writing: Writes::default(),
            told_at: BTreeMap::new(),
            untold: BTreeMap::new(),
            ends: Ends::default(),
            unwritten: BTreeMap::new(),
            notices: Vec::new(),
            heard: None,
            told: false,
            set_aside: SetAside::default(),
            idle: true,
            wake: Wake::default(),
        }
    }

    /// Takes a fact. Total: whatever comes, in whatever order. Ask [`Updates::plan`] afterwards.
    pub fn apply(&mut self, event: UpdateEvent, now: Instant) {
        match event {
            UpdateEvent::RequestSeen(entry) => self.requests.seen(*entry),
            UpdateEvent::RequestGone(id) => self.requests.gone(&id),
            UpdateEvent::RequestsListed(source, entries) => self.requests.listed(source, entries),
            UpdateEvent::PermissionKnown(permission) => self.permission = permission,
            UpdateEvent::PodShown(view) => {
                let settled = self.watch.settles(self.path, now);
                self.shown(view, settled, now);
            }
            UpdateEvent::PodGone(pod) => self.gone(&pod),
            UpdateEvent::PodsListed(lacking) => {
                self.watch.listed();
                for (_, pod) in self.pods.iter_mut().filter(|(uid, _)| lacking.contains(*uid)) {
                    // The list may be older than the answer to a question: it is asked again.
                    if pod.seen.view().is_some() {
                        pod.seen = SeenPod::Unseen;
                    }
                }
            }
            UpdateEvent::WatchLost => self.watch.lost(),
            UpdateEvent::NodeSeen(pod, view) => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.node = Some(view);
                }
            }
            UpdateEvent::Fetched(pod, found) => self.fetched(&pod, found, now),
            UpdateEvent::Inspected(pod, found) => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.asking = false;
                    match found {
                        Some(found) => pod.created.extend(found),
                        None => pod.attempts.failed(now),
                    }
                }
            }
            UpdateEvent::Cleared { pod, failed, moment } => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.step = None;
                    pod.removal = Some(Removal::new(failed, moment, now));
                }
            }
            UpdateEvent::Stopped(pod, stopped) => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.step = None;
                    if !stopped {
                        pod.attempts.failed(now);
                    }
                }
            }
            UpdateEvent::Written(pod, outcome) => self.written(&pod, outcome, now),
            UpdateEvent::Reported(id, report, outcome) => self.reported(&id, *report, outcome, now),
            UpdateEvent::Deleted(id, outcome) => self.deleted(&id, outcome, now),
            // Nothing depends on it.
            UpdateEvent::Told => {}
            UpdateEvent::ExecutorLost => self.begin_anew(),
        }
    }

    /// Returns the actions that are owed now; each is given out once. `wall` is `now` since the epoch.
    pub fn plan(&mut self, now: Instant, wall: Duration) -> Vec<UpdateAction> {
        let clock = Clock { now, wall };
        self.wake = Wake { planned: Some(now), next: None };
        let notices = std::mem::take(&mut self.notices).into_iter();
        let mut actions: Vec<UpdateAction> =
            notices.map(|(pod, notice)| UpdateAction::Tell(pod, notice)).collect();
        self.expire(now, &mut actions);
        let by_pod = self.looked_at(now, &mut actions);
        self.count_taken_away(&mut actions);
        self.forget(|pod| by_pod.contains_key(pod), &mut actions);
        let (mut unclear, complete) = (false, self.requests.complete());
        let set_aside = std::mem::take(&mut self.set_aside);
        for (pod, requests) in &by_pod {
            let complete = complete.get(pod).map_or(&[][..], Vec::as_slice);
            let turn = || self.turn(pod, requests, complete, clock, &mut actions);
            // Nothing more is to be expected of one that is set aside.
            unclear |= !set_aside.evaluate(|| pod.clone(), now, turn).unwrap_or(true);
        }
        self.set_aside = set_aside;
        self.let_rested_go(&by_pod, &mut actions);
        self.tell_ends(&by_pod, now, &mut actions);
        self.tell_what_is_set_aside(&by_pod, now, &mut actions);
        if self.is_clear(unclear, now) && !std::mem::replace(&mut self.told, true) {
            let all = self.pods.values().flat_map(|pod| pod.restarts.all()).cloned();
            actions.push(UpdateAction::AllKnown(all.collect()));
        }
        self.idle = by_pod.is_empty();
        actions
    }

    /// Returns when to ask [`Updates::plan`] again, even if nothing happens. Of the last plan: a fact asks
    /// for one of its own.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wake.next
    }

    /// Tells whether nothing but a request makes a difference.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// The UID of these under which a pod is updated: what is shown of it counts.
    pub fn followed_as<'a>(&self, uids: &'a [PodUid]) -> Option<&'a PodUid> {
        uids.iter().find(|uid| self.pods.get(*uid).is_some_and(|pod| pod.followed))
    }

    /// The pods for which [`UpdateEvent::NodeSeen`] is to be applied before the next plan, with the images to
    /// tell of.
    pub fn followed(&self) -> impl Iterator<Item = (&PodUid, &BTreeSet<Arc<str>>)> {
        self.pods.iter().filter(|(_, pod)| pod.followed).map(|(uid, pod)| (uid, &pod.images))
    }

    /// All requests.
    pub fn requests(&self) -> impl Iterator<Item = &StoredRequest> {
        self.requests.all()
    }

    /// All requests as they stand, also where their status does not say so yet, and the rests of others.
    pub fn standing(&self) -> impl Iterator<Item = UpdateRequest> {
        self.requests.all_with_rests().map(|entry| {
            let mut request = entry.request.clone();
            if let Some(untold) = self.untold.get(&request.id) {
                request.reported = untold.clone();
            }
            request
        })
    }

    /// One of them.
    pub fn request(&self, id: &RequestId) -> Option<&StoredRequest> {
        self.requests.get(id)
    }

    /// Tells whether this is the rest of a request that nobody makes any more: its twins come to rest.
    pub fn is_rest(&self, id: &RequestId) -> bool {
        self.requests.is_rest(id)
    }

    /// Tells whether somebody waits for something to be done to this pod.
    pub fn wants(&self, pod: &PodUid) -> bool {
        self.requests.wants(pod)
    }

    /// Tells whether an update goes on that decides on the readiness gate of this pod.
    pub fn minds_gate(&self, pod: &PodUid) -> bool {
        self.requests.minds_gate(pod)
    }

    /// Tells whether these sources have all told what they have.
    pub fn has_heard(&self, sources: &[UpdateSource]) -> bool {
        self.requests.has_heard(sources)
    }

    /// The pods that are left alone because their evaluation panicked, with the time when each is tried
    /// again.
    pub fn set_aside(&self, now: Instant) -> Vec<(PodUid, Instant)> {
        self.set_aside.all(now)
    }

    /// Returns how often the evaluation of a pod panicked.
    pub fn panics(&self) -> u64 {
        self.set_aside.panics()
    }

    /// Sizes of what is remembered of pods and of writes under way: nothing is, once everything was answered
    /// and has ended.
    pub fn remembered(&self) -> (usize, usize) {
        (self.pods.len(), self.writing.len())
    }

    /// Forgets what was under way, and what was judged by it. What the objects and the node were told stands.
    fn begin_anew(&mut self) {
        for pod in self.pods.values_mut() {
            let known = std::mem::take(pod);
            *pod = UpdatedPod {
                doubt: if known.may_have_changed() { Doubt::Unasked } else { Doubt::None },
                followed: known.followed,
                seen: known.seen,
                images: known.images,
                env: known.env,
                is_unheard: known.is_unheard || matches!(known.step, Some(Step::Patch(_))),
                ..UpdatedPod::default()
            };
        }
        self.writing = Writes::default();
        self.unwritten.clear();
        (self.heard, self.told) = (None, false);
    }

    /// Forgets the pods that nobody asks about any more; once nothing about them is under way, altogether.
    fn forget(&mut self, is_asked_about: impl Fn(&PodUid) -> bool, actions: &mut Vec<UpdateAction>) {
        for (uid, pod) in self.pods.iter_mut().filter(|(uid, _)| !is_asked_about(uid)) {
            let images = std::mem::take(&mut pod.images).into_iter();
            actions.extend(images.map(|image| UpdateAction::LetImageGo(uid.clone(), image)));
            actions.extend(pod.restarts.drop_all().map(UpdateAction::DropRestart));
            if !pod.env.is_empty() {
                actions.push(UpdateAction::SetEnv(uid.clone(), BTreeMap::new()));
            }
            pod.forget();
        }
        self.pods.retain(|_, pod| !pod.is_idle());
    }

    /// Forgets the rests of requests that this plan has brought to their ends, and the pods that nobody else
    /// asks about: no answer to an action says so.
    fn let_rested_go(
        &mut self,
        by_pod: &BTreeMap<PodUid, Vec<UpdateRequest>>,
        actions: &mut Vec<UpdateAction>,
    ) {
        if self.requests.forget_rested() {
            let asked_about = by_pod.keys().filter(|pod| self.requests.wants(pod)).cloned();
            let asked_about: BTreeSet<PodUid> = asked_about.collect();
            self.forget(|pod| asked_about.contains(pod), actions);
        }
    }

    /// Everything is known that an earlier process may have begun; or it takes too long, and the others must
    /// not wait for it.
    fn is_clear(&mut self, unclear: bool, now: Instant) -> bool {
        if !self.requests.has_heard(&UpdateSource::ALL) {
            return false;
        }
        let until = later(*self.heard.get_or_insert(now), CLEARED_BY);
        if unclear {
            self.wake.at(until);
        }
        !unclear || now >= until
    }
}

impl Wake {
    /// Takes note that something may be owed then.
    fn at(&mut self, then: Instant) {
        let is_ahead = self.planned.is_none_or(|planned| then > planned);
        if is_ahead && self.next.is_none_or(|next| then < next) {
            self.next = Some(then);
        }
    }
}
