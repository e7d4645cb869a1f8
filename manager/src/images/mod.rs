//! The pure core for images: nodes, NodeImages, ImagePullJobs and pods in, writes that are owed out.
//!
//! ```text
//!  watches ── apply / remove / pod_changed / list_ended ──▶ ImageIndex ──▶ Vec<Effect> ──▶ writer, secrets
//!  clock ──── time_passed, at next_deadline ─────────▶
//!  lease ──── leads: from now on; rests: no more ─────▶
//!  secrets ── secrets_ready / secrets_missing ──────────▶
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients: `now` is an argument, a write
//! is a value.
//!
//! - `spec`, `parallelism`: what a job asks for, parsed once;
//! - `node`: a node with its NodeImage; `pods`: what selectors look at;
//! - `rollout`: one image on its way to many nodes;
//! - `job`, `status`, `memory`: what a job's status says, and what of it a later manager goes on from;
//! - `room`: how much of a NodeImage who may have, and `crowd`: who waits for some;
//! - `queue`: which jobs of a namespace are carried out, and `standings`: whether all keep too much;
//! - `objects` and `jobs` take facts in, `place` says what they mean for one node, `advance` decides,
//!   `entries` says what a node's NodeImage is to contain.
//!
//! Costs, with J jobs that have their turn and N nodes:
//! - an event of a NodeImage touches the jobs named in its entries and nothing else, each with O(log N);
//! - a node that comes, goes or changes its labels evaluates J selectors;
//! - a pod evaluates the selectors of the jobs with a `podSelector` in its namespace;
//! - a job that comes, or another selector of it, evaluates N selectors;
//! - the status of a running job is made anew with O(N) at most twice a second, with many nodes less often.
//!
//! Nothing costs J × N but the start.
//!
//! Invariants:
//! - nothing is decided before all kinds have been listed once, or while this replica does not lead;
//! - a job never has more nodes asked than its parallelism, those included that are not selected any more and
//!   whose entry is still there. Nodes are asked in the order of their names. Only a manager that lost the
//!   lease without noticing can add the few writes it has on their way;
//! - a node is asked once: its entry stays while the job runs and for [`KEPT`] after its end, or until
//!   another job of the namespace needs its room, and what ended is in the job's `endedNodes` before it is
//!   over. So an entry is taken back only when the job, as shown, remembers the node, or is gone, or does not
//!   select the node any more before it ended;
//! - the entries of a node never take more than their namespace, and all together, may have there (`room`). A
//!   wish without room takes no part of its job's parallelism, and comes in when there is some: the oldest
//!   job of a namespace first, then the first by name;
//! - an entry once written stays as it is until it is taken back: another image, limit or secret of a job
//!   counts for nodes that are asked after that;
//! - a write is asked for once for each version of an object, and again only if it was lost or the lease came
//!   anew;
//! - a namespace never has more jobs carried out than [`queue::MOST`], or few while there are many standings:
//!   the oldest ones. A later one has no rollout, its time does not begin, and its status says that it waits;
//! - a job that pauses has no rollout once its status is written, and goes on from it;
//! - the end of a job is told once, by who leads and has seen the job before its end.

mod advance;
mod crowd;
mod ended;
mod entries;
mod job;
mod jobs;
mod memory;
mod node;
mod objects;
mod parallelism;
mod place;
mod pods;
mod queue;
mod rollout;
mod room;
mod spec;
mod standings;
mod status;
mod write;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

pub use self::write::{Fetch, JobAct, JobWrite, NodeImageWrite, Seal, Wish};
use self::{
    job::{Job, Secrets, Stage},
    node::NodeState,
    queue::JobQueue,
    rollout::Rollout,
    spec::Spec,
    standings::Standings,
};
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    store::{Key, Kind, LabelSets, Now, Object, PodChange, Pods, Texts, Views},
    time::later,
    timers::Timers,
    write::Target,
};

/// An entry that the agent has said nothing about for so long: the node has failed for the job. An agent says
/// of each entry at once that it waits; OpenKruise gives it as long.
pub const UNHEARD: Duration = Duration::from_secs(60);
/// An entry about which the agent says nothing new for so long, added to what all its attempts may take. The
/// pauses between them are in it.
pub const SILENCE: Duration = Duration::from_secs(600);
/// How long entries stay after the end of their job, so that what it did can be looked up on the nodes. They
/// go before that where another job of the namespace waits for the room.
pub const KEPT: Duration = Duration::from_secs(300);
/// The status of a running job is written once in it at the most, its first and its last at once; that of a
/// job with many nodes less often.
pub const WRITTEN_EVERY: Duration = Duration::from_millis(500);
/// A job without a single node is over. Not before so long after it was seen: nodes and pods come by watches
/// of their own.
const EMPTY_AFTER: Duration = Duration::from_secs(2);
/// Entries of somebody who is not known stay so long: whoever it is may only not have been seen yet.
const UNKNOWN_KEPT: Duration = Duration::from_secs(10);
/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);
/// Secrets are read again after it: their owner may have changed them.
const SECRETS_KEPT: Duration = Duration::from_secs(300);
/// Secrets that were not there are looked for again after it.
const SECRETS_PAUSE: Duration = Duration::from_secs(30);

/// A turn that a job has given away is taken after it: those that rest at one moment give theirs together.
const TURN_AFTER: Duration = Duration::from_millis(10);
/// A job waits so long for Secrets that may not be read: their Role may come along with it. Its deadline
/// runs meanwhile.
const SECRETS_AWAITED: Duration = Duration::from_secs(10);

/// The kinds by which images are decided.
const KINDS: &[Kind] = &[Kind::Pod, Kind::Node, Kind::NodeImage, Kind::ImagePullJob];

/// Index of images: the manager's knowledge of them, and the writes that follow from it.
#[derive(Debug, Default)]
pub struct ImageIndex {
    views: Views,
    /// Since when this replica may write.
    leads: Option<Timestamp>,
    texts: Texts,
    sets: LabelSets,
    nodes: HashMap<Arc<str>, NodeState>,
    /// Number of `nodes` with a NodeImage.
    node_images: usize,
    /// By UID.
    jobs: HashMap<Arc<str>, Job>,
    uids: HashMap<Key, Arc<str>>,
    /// Turns of jobs that are not over, by namespace.
    turns: HashMap<Arc<str>, JobQueue>,
    /// By UID; of jobs that have their turn, or rest.
    rollouts: HashMap<Arc<str>, Rollout>,
    standings: Standings,
    /// Namespaces with fewer turns than they may have, because there are many standings.
    held_up: VecDeque<Arc<str>>,
    /// Rollouts whose nodes follow pods, by namespace.
    by_pods: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Names of the NodeImages in which a UID has an entry, shown or decided.
    placed: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// When the entries go of UIDs that are over, gone or not known.
    expiry: HashMap<Arc<str>, Instant>,
    timers: Timers<Wake>,
    /// UIDs and nodes to look at before the call returns.
    touched: BTreeSet<Arc<str>>,
    dirty: BTreeSet<Arc<str>>,
    effects: Vec<Effect>,
    /// Evaluations of selectors on nodes, for the tests of what an event costs.
    #[cfg(test)]
    evaluations: usize,
}

/// Object to look at again although nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Wake {
    /// A job, or whoever else has this UID.
    Wish(Arc<str>),
    /// The entries of this UID on all nodes: their time may be over.
    Entries(Arc<str>),
    /// A node.
    Node(Arc<str>),
    /// The turns of this namespace: one is free.
    Queue(Arc<str>),
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// NodeImages.
    pub node_images: usize,
    /// Jobs, ended ones included.
    pub jobs: usize,
    /// Jobs that are carried out, or wait for their turn.
    pub running: usize,
    /// Jobs that cannot be.
    pub refused: usize,
    /// Nodes that were asked and have not ended, over all jobs and workloads.
    pub asked: usize,
}

impl Index for ImageIndex {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, PodChange { key, before, after }: &PodChange, _: &Pods, now: Now) {
        let (before, after) = (pods::counts(before.as_ref()), pods::counts(after.as_ref()));
        if before != after {
            self.pod_changed(&key.namespace, before, after, now);
        }
    }

    fn apply(&mut self, object: &Object, pods: &Pods, now: Now) {
        match object {
            Object::Node(seen) => self.apply_node(seen, now),
            Object::NodeImage(seen) => self.apply_node_image(seen, now),
            Object::ImagePullJob(seen) => self.apply_job(seen, pods, now),
            // It is told of no other kinds.
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, pods: &Pods, now: Now) {
        self.remove(kind, namespace, name, pods, now);
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        self.vanished(kind)
    }

    fn list_ended(&mut self, complete: bool, pods: &Pods, now: Now) {
        if complete {
            self.begin(pods, now);
        }
        self.touched.extend(self.jobs.keys().cloned());
    }

    fn time_passed(&mut self, pods: &Pods, now: Now) {
        while let Some(wake) = self.timers.due(now.instant) {
            match wake {
                Wake::Wish(uid) => drop(self.touched.insert(uid)),
                Wake::Entries(uid) => self.dirty.extend(self.placed.get(&uid).into_iter().flatten().cloned()),
                Wake::Node(name) => drop(self.dirty.insert(name)),
                Wake::Queue(namespace) => self.take_turns(&namespace, pods, now),
            }
        }
    }

    fn leads(&mut self, _: &Pods, now: Now) {
        self.leads = Some(now.wall);
        self.forget_decisions(now);
        self.touched.extend(self.rollouts.keys().chain(self.jobs.keys()).cloned());
        self.dirty.extend(self.nodes.keys().cloned());
    }

    fn rests(&mut self, _: &Pods, now: Now) {
        self.leads = None;
        let read = self.jobs.iter().filter(|(_, job)| job.secrets != Secrets::Unknown);
        self.effects.extend(read.map(|(uid, _)| Effect::Forget(uid.clone())));
        self.forget_decisions(now);
    }

    fn lost(&mut self, target: &Target, now: Now) {
        let at = Some(later(now.instant, LOST_PAUSE));
        if target.kind == Kind::NodeImage {
            if let Some(image) = self.nodes.get_mut(&target.key.name).and_then(|state| state.image.as_mut()) {
                image.sent = None;
                self.timers.set(Wake::Node(target.key.name.clone()), at);
            }
        } else if let Some(uid) = self.uids.get(&target.key)
            && let Some(job) = self.jobs.get_mut(uid)
        {
            job.sent = None;
            self.timers.set(Wake::Wish(uid.clone()), at);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        self.settle(now)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.images(self.size());
    }
}

impl ImageIndex {
    /// Tells whether these Secrets of a job are still asked for, and for this image.
    pub fn wants_secrets(&self, fetch: &Fetch) -> bool {
        self.jobs.get(&fetch.uid).is_some_and(|job| {
            let same = |spec: &Spec| spec.image() == fetch.image && spec.secrets == fetch.names;
            job.secrets != Secrets::Unknown && job.spec.as_ref().is_ok_and(same)
        })
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let open = self.jobs.values().filter(|job| job.stage == Stage::Open);
        let (running, refused): (Vec<_>, Vec<_>) = open.partition(|job| job.spec.is_ok());
        Size {
            node_images: self.node_images,
            jobs: self.jobs.len(),
            running: running.len(),
            refused: refused.len(),
            asked: self.rollouts.values().map(Rollout::active).sum(),
        }
    }
}
