//! ControllerRevisions of sets. `berth-workloads` files them as the status says, and OpenKruise's clients
//! look for them as soon as the status is about the newest spec: so it says that it is when they are there.
//!
//! ```text
//!  edit ──▶ status.revisions ──▶ berth-workloads ──▶ ControllerRevisions ──▶ status.observedGeneration
//! ```
//!
//! Nothing else is decided by them, and upgrades do not wait: who forges one delays a number by some seconds.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use berth_sidecarset::{FiledRevision, is_filed};

use super::{SidecarIndex, set::Known};
use crate::time::later;

/// Time that they have to be filed.
const FILED_WITHIN: Duration = Duration::from_secs(2);

/// Event of the ControllerRevisions of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FiledEvent {
    /// All of them follow.
    ListBegins,
    /// One is as given.
    Applied(FiledRevision),
    /// The one with this UID is gone, or no SidecarSet decides on it.
    Gone(String),
    /// The list has ended.
    ListEnds,
}

/// ControllerRevisions as the watch shows them.
#[derive(Debug, Default)]
pub(super) struct Filing {
    /// They are waited for.
    on: bool,
    /// They have been listed once.
    listed: bool,
    there: Copies,
    /// Part of a list that is coming in.
    fresh: Option<Copies>,
}

/// ControllerRevisions by their UIDs.
#[derive(Debug, Default)]
struct Copies {
    /// ControllerRevisions of each set, by the UID of the set.
    of_sets: HashMap<String, HashMap<String, FiledRevision>>,
    /// UID of the set of each.
    sets: HashMap<String, String>,
}

/// Wait for the ControllerRevisions of a set. One that is over stands until they are there: where nobody
/// files them, only the first edit waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    generation: Option<i64>,
    until: Instant,
}

impl Copies {
    fn of(&self, set: &str) -> Vec<&FiledRevision> {
        self.of_sets.get(set).into_iter().flat_map(HashMap::values).collect()
    }

    /// Takes one in, and returns the UID of the set that decided on it before.
    fn apply(&mut self, copy: FiledRevision) -> Option<String> {
        let before = self.remove(&copy.uid);
        self.sets.insert(copy.uid.clone(), copy.owner.clone());
        self.of_sets.entry(copy.owner.clone()).or_default().insert(copy.uid.clone(), copy);
        before
    }

    /// Takes one out, and returns the UID of its set.
    fn remove(&mut self, uid: &str) -> Option<String> {
        let set = self.sets.remove(uid)?;
        if let Some(copies) = self.of_sets.get_mut(&set) {
            copies.remove(uid);
            if copies.is_empty() {
                self.of_sets.remove(&set);
            }
        }
        Some(set)
    }
}

impl Filing {
    /// Generation that the status of a set says it is about; and when to look again, if the
    /// ControllerRevisions of a newer one are waited for.
    pub(super) fn observed(
        &self,
        name: &str,
        known: &mut Known,
        now: Instant,
    ) -> (Option<i64>, Option<Instant>) {
        let generation = known.generation;
        let said = known.shown.as_ref().and_then(|shown| shown.observed_generation);
        let is_over = known.wait.is_some_and(|wait| wait.until <= now);
        if !is_over && said == generation || self.is_filed(name, known) {
            known.wait = None;
            return (generation, None);
        }
        if is_over {
            return (generation, None);
        }
        let begun = known.wait.filter(|wait| wait.generation == generation);
        let wait = begun.unwrap_or_else(|| Wait { generation, until: later(now, FILED_WITHIN) });
        known.wait = Some(wait);
        (said, Some(wait.until))
    }

    /// Tells whether nothing is missing of a set, and nothing too much.
    fn is_filed(&self, name: &str, known: &Known) -> bool {
        let Some(filed) = known.filed.as_ref().filter(|_| self.on) else { return true };
        self.listed && is_filed(name, &filed.revisions, &self.there.of(&known.uid))
    }
}

impl SidecarIndex {
    /// The ControllerRevisions of sets are filed, and shown from now on.
    pub(crate) fn wait_for_filing(&mut self) {
        self.filing.on = true;
    }

    /// Takes in what the watch of the ControllerRevisions shows. What follows from it is owed as from any
    /// fact.
    pub(crate) fn filed(&mut self, event: FiledEvent) {
        let Filing { listed, there, fresh, .. } = &mut self.filing;
        let concerned = match event {
            FiledEvent::ListBegins => {
                *fresh = Some(Copies::default());
                return;
            }
            FiledEvent::ListEnds => {
                *there = fresh.take().unwrap_or_default();
                *listed = true;
                self.touched.extend(self.sets.keys().cloned());
                return;
            }
            FiledEvent::Applied(copy) => match fresh {
                Some(fresh) => {
                    fresh.apply(copy);
                    return;
                }
                None => [Some(copy.owner.clone()), there.apply(copy)],
            },
            FiledEvent::Gone(uid) => [there.remove(&uid), None],
        };
        let is_of = |known: &Known| concerned.iter().flatten().any(|uid| **uid == *known.uid);
        let sets = self.sets.iter().filter(|(_, known)| is_of(known)).map(|(name, _)| name.clone());
        self.touched.extend(sets);
    }
}
