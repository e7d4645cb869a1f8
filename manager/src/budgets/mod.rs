//! PodUnavailableBudgets: how many pods may be unavailable at once by anybody's will.
//!
//! ```text
//!  watches ── budgets, pods ──▶ BudgetIndex ──▶ Step ──▶ adapter ──▶ status of budgets
//!                                   ▲                     │
//!                                   └────── Fact ◀────────┘ scales of workloads, owners of ReplicaSets
//!  API server ── evict, delete, update ──▶ admission/budgets ──▶ permit (pure) ──▶ the same status
//! ```
//!
//! The leader counts: it writes how many pods are available, and takes permits back. Every replica gives
//! permits, by the status alone and by the scale as it is at that moment; so a workload that is scaled down
//! or deleted needs nobody to have counted it first. Both write the version that they decided on.
//!
//! - `spec`: what a budget asks for; `permit`: the answer to one question; `count`: the status;
//! - `held`: permits of pods that are being recreated, which stand until that has ended;
//! - `lookup`: facts that no watch shows; `in_flight`: those on their way; `adapter`: carries out steps;
//! - `known`: one budget as it is known, and `finder` those that may cover a pod; `objects` takes facts in,
//!   `settle` says what is owed.
//!
//! Costs: an event of a pod touches the budgets of its namespace that may cover it. A budget that was touched
//! looks at the pods of its namespace and asks for the scales of its workloads, once in [`COUNTED_EVERY`]. It
//! looks at them once more for each [`MOST_OF_ROUND`] facts that it waits for, and not for each of them.
//!
//! Invariants:
//! - nothing is counted before all kinds have been listed once, or while this replica does not lead;
//! - a pod that has a permit does not count as available;
//! - a new budget is counted when its webhook entries stand, so that whoever reads the count finds it kept;
//! - while pods may be seen too late (a broken watch, a leader that has just begun), no more of them are
//!   taken to be available than the status says.

mod adapter;
mod count;
mod finder;
mod held;
mod in_flight;
mod known;
mod lookup;
mod objects;
mod permit;
mod settle;
mod spec;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

pub use self::{
    adapter::{Answer, BudgetWrite, Step, carry_out},
    lookup::{Fact, Found, Lookup},
};
use self::{finder::Finder, held::Held, in_flight::InFlight, known::Known};
pub(crate) use self::{
    lookup::{parent, scale},
    permit::{Answer as Permission, Question, UPDATED_FOR, as_counted, decide},
    spec::{Budget, Cover, Operation, ReplicaSets, Workload, is_replica_set},
};
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    store::{Entered, Key, Kind, Now, Object, Owner, PodChange, Pods, Texts, Views},
    work::{Names, WorkQueue},
};

/// A budget is counted once in it at the most.
pub const COUNTED_EVERY: Duration = Duration::from_millis(200);
/// A fact without an answer is asked for again after it: the answer is lost. What a round has found is asked
/// for anew after it.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(30);
/// A new budget is counted after it, though its webhook entries do not stand.
const ENTERED_WITHIN: Duration = Duration::from_secs(3);
/// Facts that a budget waits for at once.
const MOST_OF_ROUND: usize = 64;
/// The controller of a ReplicaSet that may have another one by now is asked for again after it.
const RENEWED_EVERY: Duration = Duration::from_secs(30);
/// The most ReplicaSets that are remembered; past them all are asked for again.
const MOST_OWNERS: usize = 100_000;

/// The kinds without which budgets are not counted.
const KINDS: &[Kind] = &[Kind::Pod, Kind::Budget];
/// The kinds by which they are counted. Requests to recreate containers may not be installed.
const FOLLOWED: &[Kind] = &[Kind::Pod, Kind::Budget, Kind::Request];

/// Index of budgets: the manager's knowledge of them, and the steps that follow from it.
#[derive(Debug, Default)]
pub struct BudgetIndex {
    views: Views,
    /// All kinds without which nothing is counted have been listed once.
    listed: bool,
    /// Since when this replica may write.
    leads: Option<Instant>,
    texts: Texts,
    budgets: BTreeMap<Key, Known>,
    /// Names of the budgets of a namespace.
    spaces: Names,
    finder: Finder,
    /// Controllers of ReplicaSets, as far as they were looked up.
    parents: Parents,
    asked: InFlight,
    held: Held,
    /// Budgets whose pods are asked about.
    entered: Entered,
    queue: WorkQueue,
    steps: Vec<Effect>,
}

/// Controllers of ReplicaSets, by namespace and UID.
type Parents = HashMap<(Arc<str>, Arc<str>), LookedUp>;

/// Controller of a ReplicaSet, as it was when it was looked up.
#[derive(Debug)]
struct LookedUp {
    parent: Parent,
    at: Instant,
}

/// Controller of a ReplicaSet. One that belongs to nobody, or to a workload that is not there any more, may
/// be adopted and keeps its UID.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parent {
    Gone,
    /// It belongs to nobody.
    Itself,
    Owner(Arc<Owner>),
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Budgets.
    pub budgets: usize,
    /// Budgets among them that cannot be kept.
    pub refused: usize,
}

impl Index for BudgetIndex {
    fn kinds(&self) -> &'static [Kind] {
        FOLLOWED
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, change: &PodChange, _: &Pods, _: Now) {
        self.pod_changed(change);
    }

    fn apply(&mut self, object: &Object, _: &Pods, _: Now) {
        match object {
            Object::Budget(seen) => self.apply_budget(seen),
            Object::Request(seen) => self.apply_request(seen),
            // It is told of no other kinds.
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, _: &Pods, _: Now) {
        match kind {
            Kind::Budget => self.remove_budget(namespace, name),
            Kind::Request => self.remove_request(namespace, name),
            _ => {}
        }
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        match kind {
            Kind::Budget => {
                let gone = self.budgets.iter().filter(|(_, known)| known.object.list != list);
                gone.map(|(key, _)| key.clone()).collect()
            }
            Kind::Request => self.held.vanished(list),
            _ => Vec::new(),
        }
    }

    fn list_ended(&mut self, _: bool, _: &Pods, _: Now) {
        // Changes that a later list shows are told of each by itself.
        if !self.listed && self.views.complete_since(KINDS).is_some() {
            self.listed = true;
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
        self.budgets.values_mut().for_each(Known::rests);
        self.asked.rests();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.next()
    }

    fn settle(&mut self, now: Now) -> Vec<Effect> {
        // Pods are looked at when the time of a budget has come, which may be now.
        self.queue.put_off(now.instant);
        std::mem::take(&mut self.steps)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.budgets(self.size());
    }
}

impl BudgetIndex {
    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let refused = self.budgets.values().filter(|known| known.budget.is_err()).count();
        Size { budgets: self.budgets.len(), refused }
    }

    /// Takes in whose webhook entries stand. New budgets have waited for that.
    pub(crate) fn entries_stand(&mut self, entered: Entered) {
        self.entered = entered;
        self.queue.touch_all(self.budgets.iter().filter(|(_, known)| known.is_new()).map(|(key, _)| key));
    }

    fn look_at_all(&mut self) {
        self.queue.touch_all(self.budgets.keys());
    }
}
