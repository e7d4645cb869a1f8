//! One image on its way to many nodes: which are to have it, which have been asked, which have ended.
//!
//! ```text
//!   (not selected) ──▶ Pending ──asked, in the order of names──▶ Asked ──▶ Ended
//!                      Keyless ──its sealing key is there──▶ Pending         ▲ │
//!                      Crowded ──there is room for it──▶ Pending             │ │
//!                                           │       selected again, or not: ▼
//!                        not selected any more ▼                         Former
//!                                          Leaving ──its entry has gone──▶ (not selected)
//! ```
//!
//! Sets over shared names, so that whatever happens to one node costs the logarithm of their number.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_proto::crd::DesiredImage;
use jiff::Timestamp;

use super::{parallelism::Parallelism, room::SEALED, standings::Standings};
use crate::{selector::Selector, store::Labels};

/// Which nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Names(BTreeSet<String>),
    Labels(Selector),
    /// Nodes that run such pods of this namespace.
    Pods(Arc<str>, Selector),
}

/// How it ended on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
    /// Its agent has said nothing for too long.
    Silent,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// To be asked.
    Pending,
    /// To be asked once it has published the key to which credentials are sealed.
    Keyless,
    /// To be asked once there is room for the wish in its NodeImage.
    Crowded,
    /// Asked; counted as silent from then on.
    Asked(Instant),
    /// Not selected any more, and its entry is still there or on its way: until that has gone it may be
    /// pulling. No longer than until then.
    Leaving(Instant),
    /// It has ended.
    Ended(End),
    /// It has ended, and is not selected now: kept, so that it is not asked anew when it is again.
    Former(End),
}

/// Plan of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) which: Which,
    pub(super) parallelism: Parallelism,
    /// Without what differs from node to node.
    pub(super) content: Arc<DesiredImage>,
    /// Longest time of all attempts on one node together.
    pub(super) patience: Duration,
    /// Credentials are sealed to each node.
    pub(super) sealed: bool,
    /// Whose room the wish takes on each node.
    pub(super) namespace: Arc<str>,
    /// How much of it.
    pub(super) weight: usize,
}

impl Plan {
    /// The room that the wish takes without its credentials.
    pub(super) fn content_weight(&self) -> usize {
        self.weight.saturating_sub(if self.sealed { SEALED } else { 0 })
    }
}

/// Write in which room is found: the object made first, then the first by name.
pub(super) type Rank = (Timestamp, Arc<str>);

/// How far it is.
#[derive(Debug)]
pub(super) struct Rollout {
    pub(super) rank: Rank,
    pub(super) plan: Plan,
    /// Nodes may be asked.
    pub(super) open: bool,
    pending: BTreeSet<Arc<str>>,
    keyless: BTreeSet<Arc<str>>,
    crowded: BTreeSet<Arc<str>>,
    asked: BTreeMap<Arc<str>, Instant>,
    leaving: BTreeMap<Arc<str>, Instant>,
    silence: BTreeSet<(Instant, Arc<str>)>,
    ended: BTreeMap<Arc<str>, End>,
    former: BTreeMap<Arc<str>, End>,
    /// Number of `ended` that failed.
    failed: usize,
    /// Number of `failed` that were silent.
    silent: usize,
    /// For `Which::Pods`: how many pods of each node match.
    pods: HashMap<Arc<str>, u32>,
    /// Counts the changes, so that what was written can be compared.
    pub(super) changes: u64,
    /// Standings of all rollouts.
    all: Standings,
}

impl Drop for Rollout {
    fn drop(&mut self) {
        let own = self.desired().saturating_add(self.leaving.len()).saturating_add(self.former.len());
        self.all.went(own);
    }
}

impl Rollout {
    pub(super) fn new(rank: Rank, plan: Plan, all: Standings) -> Self {
        Self {
            rank,
            plan,
            open: false,
            pending: BTreeSet::new(),
            keyless: BTreeSet::new(),
            crowded: BTreeSet::new(),
            asked: BTreeMap::new(),
            leaving: BTreeMap::new(),
            silence: BTreeSet::new(),
            ended: BTreeMap::new(),
            former: BTreeMap::new(),
            failed: 0,
            silent: 0,
            pods: HashMap::new(),
            changes: 0,
            all,
        }
    }

    /// One evaluation of the selector.
    pub(super) fn selects(&self, node: &str, labels: &Labels) -> bool {
        match &self.plan.which {
            Which::All => true,
            Which::Names(names) => names.contains(node),
            Which::Labels(selector) => selector.matches(labels),
            Which::Pods(..) => self.pods.contains_key(node),
        }
    }

    /// Counts a pod of the namespace; whether the node is selected now and was not before.
    pub(super) fn add_pod(&mut self, node: &Arc<str>, labels: &Labels) -> bool {
        let Which::Pods(_, selector) = &self.plan.which else { return false };
        if !selector.matches(labels) {
            return false;
        }
        let count = self.pods.entry(node.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// The same for one that is gone; whether the node is not selected any more.
    pub(super) fn remove_pod(&mut self, node: &Arc<str>, labels: &Labels) -> bool {
        let Which::Pods(_, selector) = &self.plan.which else { return false };
        if !selector.matches(labels) {
            return false;
        }
        match self.pods.get_mut(node) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => self.pods.remove(node).is_some(),
        }
    }

    pub(super) fn forget_pods(&mut self) {
        self.pods.clear();
    }

    pub(super) fn standing(&self, node: &str) -> Option<Standing> {
        if self.pending.contains(node) {
            return Some(Standing::Pending);
        }
        if self.keyless.contains(node) {
            return Some(Standing::Keyless);
        }
        if self.crowded.contains(node) {
            return Some(Standing::Crowded);
        }
        let asked = self.asked.get(node).map(|until| Standing::Asked(*until));
        let ended = || self.ended.get(node).map(|end| Standing::Ended(*end));
        let leaving = || self.leaving.get(node).map(|until| Standing::Leaving(*until));
        asked
            .or_else(ended)
            .or_else(leaving)
            .or_else(|| self.former.get(node).map(|end| Standing::Former(*end)))
    }

    /// The only place where a node moves.
    pub(super) fn set(&mut self, node: &Arc<str>, standing: Option<Standing>) {
        let before = self.standing(node);
        if before == standing {
            return;
        }
        match before {
            Some(Standing::Pending) => drop(self.pending.remove(node)),
            Some(Standing::Keyless) => drop(self.keyless.remove(node)),
            Some(Standing::Crowded) => drop(self.crowded.remove(node)),
            Some(Standing::Asked(until)) => {
                self.asked.remove(node);
                self.silence.remove(&(until, node.clone()));
            }
            Some(Standing::Leaving(until)) => {
                self.leaving.remove(node);
                self.silence.remove(&(until, node.clone()));
            }
            Some(Standing::Ended(end)) => {
                self.ended.remove(node);
                self.failed -= usize::from(end != End::Succeeded);
                self.silent -= usize::from(end == End::Silent);
            }
            Some(Standing::Former(_)) => drop(self.former.remove(node)),
            None => {}
        }
        let name = node.clone();
        match standing {
            Some(Standing::Pending) => drop(self.pending.insert(name)),
            Some(Standing::Keyless) => drop(self.keyless.insert(name)),
            Some(Standing::Crowded) => drop(self.crowded.insert(name)),
            Some(Standing::Asked(until)) => {
                self.asked.insert(name.clone(), until);
                self.silence.insert((until, name));
            }
            Some(Standing::Leaving(until)) => {
                self.leaving.insert(name.clone(), until);
                self.silence.insert((until, name));
            }
            Some(Standing::Ended(end)) => {
                self.ended.insert(name, end);
                self.failed += usize::from(end != End::Succeeded);
                self.silent += usize::from(end == End::Silent);
            }
            Some(Standing::Former(end)) => drop(self.former.insert(name, end)),
            None => {}
        }
        match (before, standing) {
            (None, Some(_)) => self.all.one_came(),
            (Some(_), None) => self.all.went(1),
            _ => {}
        }
        // That one more answers in time is nothing to report.
        if !matches!((before, standing), (Some(Standing::Asked(_)), Some(Standing::Asked(_)))) {
            self.changes += 1;
        }
    }

    /// The next to ask, where one more may be.
    pub(super) fn next(&self) -> Option<Arc<str>> {
        if self.may_ask() { self.pending.first().cloned() } else { None }
    }

    /// Tells whether one more node may be asked. Those that wait for room do not count: they pull nothing.
    pub(super) fn may_ask(&self) -> bool {
        let busy = self.asked.len() + self.leaving.len();
        self.open && busy < self.plan.parallelism.of(self.desired())
    }

    /// One that has been silent for too long.
    pub(super) fn silent_at(&self, now: Instant) -> Option<Arc<str>> {
        self.silence.first().filter(|(until, _)| *until <= now).map(|(_, node)| node.clone())
    }

    /// Returns when the next one will have been.
    pub(super) fn silence(&self) -> Option<Instant> {
        self.silence.first().map(|(until, _)| *until)
    }

    /// Nodes that are selected.
    pub(super) fn desired(&self) -> usize {
        self.pending.len() + self.keyless.len() + self.crowded.len() + self.asked.len() + self.ended.len()
    }

    /// Nodes on which there is no room for the wish.
    pub(super) fn crowded(&self) -> &BTreeSet<Arc<str>> {
        &self.crowded
    }

    pub(super) fn keyless(&self) -> usize {
        self.keyless.len()
    }

    /// Tells whether nothing is pulled for it, and nothing may be asked for: it pauses, or each node has
    /// ended or lacks its key.
    pub(super) fn is_idle(&self) -> bool {
        let are_left = self.ended().saturating_add(self.keyless()) < self.desired();
        self.active() == 0 && (self.plan.parallelism.is_pause() || !are_left)
    }

    /// Tells whether it pauses, and nothing of it is on its way.
    pub(super) fn is_paused(&self) -> bool {
        self.plan.parallelism.is_pause() && self.asked.is_empty() && self.leaving.is_empty()
    }

    pub(super) fn active(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn ended(&self) -> usize {
        self.ended.len()
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    pub(super) fn silent(&self) -> usize {
        self.silent
    }

    /// Names of selected nodes that gave up; in the order of names.
    pub(super) fn failed_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ended.iter().filter(|(_, end)| **end != End::Succeeded).map(|(name, _)| name)
    }

    /// Names of selected nodes that have not ended.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Arc<str>> {
        self.asked.keys().chain(&self.pending).chain(&self.keyless).chain(&self.crowded)
    }

    /// All that ended, selected now or not; in the order of names.
    pub(super) fn memory(&self) -> impl Iterator<Item = (&Arc<str>, End)> {
        let (mut ended, mut former) = (self.ended.iter().peekable(), self.former.iter().peekable());
        std::iter::from_fn(move || {
            let first = match (ended.peek(), former.peek()) {
                (Some((one, _)), Some((other, _))) => one < other,
                (one, _) => one.is_some(),
            };
            if first { ended.next() } else { former.next() }.map(|(name, end)| (name, *end))
        })
    }
}
