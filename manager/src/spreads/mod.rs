//! WorkloadSpreads: the subset of each new pod, and how many pods each subset has.
//!
//! ```text
//!  watches ── spreads, pods ──▶ SpreadIndex ──▶ Step ──▶ adapter ──▶ status of spreads
//!                                   ▲                     │
//!                                   └──── Replicas ◀──────┘ of a workload, where shares follow from them
//!  API server ── new pods, deletions ──▶ admission/spreads ──▶ berth-spread (pure) ──▶ the same status
//! ```
//!
//! The leader counts: it writes how many pods are in each subset, and ends the entries of those that were on
//! their way. Every replica lets pods in, by the status alone and by the replicas as they are at that moment.
//! Both write the version that they decided on. Pods themselves are the business of `berth-workloads`.
//!
//! Costs: an event of a pod with the annotation touches its WorkloadSpread, if it changes anything that is
//! counted; and that one looks at the pods of its namespace, once in [`COUNTED_EVERY`].
//!
//! Invariants:
//! - nothing is counted before all kinds have been listed once, or while this replica does not lead;
//! - nothing is counted while pods may be seen too late (a broken watch, a leader that has just begun): a pod
//!   that is not seen yet would leave its place to another one.

mod adapter;
mod replicas;
mod settle;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_proto::crd::{WorkloadSpreadSpec, WorkloadSpreadStatus};
use berth_spread::{Ages, Spread, Target};

pub use self::adapter::{Replicas, SpreadStep, SpreadWrite, carry_out};
pub(crate) use self::replicas::replicas;
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    observed::Observed,
    store::{Key, Kind, Now, Object, Pod, PodChange, Pods, SpreadSeen, Texts, Views},
    work::{Names, WorkQueue},
};

/// A WorkloadSpread is counted once in it at the most.
pub const COUNTED_EVERY: Duration = Duration::from_millis(200);

/// The kinds by which spreads are counted.
const KINDS: &[Kind] = &[Kind::Pod, Kind::Spread];

/// Index of WorkloadSpreads: the manager's knowledge of them, and the steps that follow from it.
#[derive(Debug, Default)]
pub struct SpreadIndex {
    views: Views,
    /// Since when this replica may write.
    leads: Option<Instant>,
    texts: Texts,
    spreads: BTreeMap<Key, Known>,
    /// Names of the spreads of a namespace.
    spaces: Names,
    queue: WorkQueue,
    effects: Vec<Effect>,
}

/// One WorkloadSpread, as it is known.
#[derive(Debug)]
struct Known {
    object: Observed<WorkloadSpreadSpec, WorkloadSpreadStatus>,
    /// The spread as far as it is counted by, or why it cannot be carried out.
    spread: Result<Spread, String>,
    ages: Ages,
    /// When it was counted last.
    counted: Option<Instant>,
    /// Time from which the replicas of its workload may be asked for again, for the count that is due.
    asked: Option<Instant>,
    /// Answer to it.
    replicas: Option<i32>,
    /// Number of times in a row that they could not be read.
    failures: u32,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// WorkloadSpreads.
    pub spreads: usize,
    /// WorkloadSpreads among them that cannot be carried out.
    pub refused: usize,
}

impl Known {
    fn new(seen: &SpreadSeen, list: u32) -> Self {
        Self {
            object: Observed::new(seen, list),
            spread: seen.spec.as_ref().map_err(Clone::clone).and_then(Spread::parse).map(without_rules),
            ages: Ages::default(),
            counted: None,
            asked: None,
            replicas: None,
            failures: 0,
        }
    }

    /// Workload that is counted, if the spread can be carried out.
    fn target(&self) -> Option<&Target> {
        self.spread.as_ref().ok().map(|spread| &spread.target)
    }
}

/// A spread without what it puts into pods: that is for admission, and nearly all of its size.
pub(crate) fn without_rules(mut spread: Spread) -> Spread {
    for subset in &mut spread.subsets {
        (subset.required, subset.patch) = (None, None);
        (subset.preferred, subset.tolerations) = (Vec::new(), Vec::new());
    }
    spread
}

impl Index for SpreadIndex {
    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, change: &PodChange, _: &Pods, _: Now) {
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && counts_as(before, after)
        {
            return;
        }
        for pod in [&change.before, &change.after].into_iter().flatten() {
            let Some(spread) = pod.spread.as_deref() else { continue };
            if let Some(name) = self.spaces.get(&change.key.namespace, &spread.name) {
                self.queue.touch(change.key.sibling(name));
            }
        }
    }

    fn apply(&mut self, object: &Object, _: &Pods, _: Now) {
        let Object::Spread(seen) = object else { return };
        let key = self.texts.key(&seen.namespace, &seen.name);
        let mut next = Known::new(seen, self.views.list(Kind::Spread));
        if let Some(known) = self.spreads.get_mut(&key).filter(|known| known.object.uid == next.object.uid) {
            if !next.object.follow(&mut known.object) {
                return;
            }
            next.ages = std::mem::take(&mut known.ages);
            next.counted = known.counted;
            // Another workload is asked for at once, however often the one before could not be read.
            if next.target() == known.target() {
                (next.asked, next.replicas) = (known.asked, known.replicas);
                next.failures = known.failures;
            }
        }
        self.spaces.insert(&key);
        self.spreads.insert(key.clone(), next);
        self.queue.touch(key);
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, _: &Pods, _: Now) {
        if kind != Kind::Spread {
            return;
        }
        let key = self.texts.key(namespace, name);
        self.spreads.remove(&key);
        self.queue.forget(&key);
        self.spaces.remove(&key);
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        let gone = self.spreads.iter().filter(|(_, known)| kind == Kind::Spread && known.object.list != list);
        gone.map(|(key, _)| key.clone()).collect()
    }

    fn list_ended(&mut self, complete: bool, _: &Pods, _: Now) {
        if complete {
            self.look_at_all();
        }
    }

    fn time_passed(&mut self, pods: &Pods, now: Now) {
        self.advance(pods, now);
    }

    fn leads(&mut self, _: &Pods, now: Now) {
        self.leads = Some(now.instant);
        self.look_at_all();
    }

    fn rests(&mut self, _: &Pods, _: Now) {
        self.leads = None;
        for known in self.spreads.values_mut() {
            (known.counted, known.asked, known.replicas) = (None, None, None);
            known.failures = 0;
            known.object.rests();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.next()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        // Pods are looked at when the time of a spread has come, which may be now.
        self.queue.put_off(now.instant);
        std::mem::take(&mut self.effects)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.spreads(self.size());
    }
}

/// Tells whether nothing has changed of what a count looks at.
fn counts_as(before: &Pod, after: &Pod) -> bool {
    let of = |pod: &Pod| (pod.uid.clone(), pod.stage, pod.node.is_some(), pod.created);
    of(before) == of(after) && before.spread == after.spread && before.owner == after.owner
}

impl SpreadIndex {
    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let refused = self.spreads.values().filter(|known| known.spread.is_err()).count();
        Size { spreads: self.spreads.len(), refused }
    }

    fn look_at_all(&mut self) {
        self.queue.touch_all(self.spreads.keys());
    }
}
