//! A SidecarSet, its pods, and what is counted of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use berth_proto::crd::{SidecarSetRevision, SidecarSetStatus};

use super::{
    filing::Wait,
    progress::Progress,
    revise::Filed,
    spec::{Named, Rules},
    standing::{Standing, State},
};
use crate::store::{Key, Pod};

/// A set.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) generation: Option<i64>,
    /// When it was made, in seconds.
    pub(super) created: i64,
    pub(super) deleting: bool,
    pub(super) custom_version: Option<Box<str>>,
    /// The rules, or what is wrong with the spec.
    pub(super) rules: Result<Arc<Rules>, Box<str>>,
    /// Its status as shown; `None` is none that this manager could have written, and is left alone.
    pub(super) shown: Option<SidecarSetStatus>,
    /// Revisions as they are to stand in its status, once they have been worked out.
    pub(super) filed: Option<Filed>,
    pub(super) pods: Crew,
    /// How far its upgrade was when it was last looked at.
    pub(super) progress: Option<Progress>,
    /// When that was.
    pub(super) planned_at: Option<Instant>,
    /// Revision that was spoken of, and the reasons.
    pub(super) told: Vec<(String, &'static str)>,
    /// Status that was last asked to be written, and on which version.
    pub(super) sent: Option<(Box<str>, SidecarSetStatus)>,
    /// When that was.
    pub(super) sent_at: Option<Instant>,
    /// Its ControllerRevisions are waited for, or were for too long.
    pub(super) wait: Option<Wait>,
    /// Its webhook entry fell: until then it counts as standing, for it is put right.
    pub(super) falls_at: Option<Instant>,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

/// Pods of a set, counted.
#[derive(Debug, Default)]
pub(super) struct Crew {
    /// Pods that have its sidecars.
    pub(super) members: BTreeMap<Key, Member>,
    /// Pods that were made without them.
    pub(super) missing: BTreeSet<Key>,
    pub(super) counts: Counts,
    /// How many pods have which revision.
    revisions: HashMap<Arc<str>, usize>,
}

/// A pod that counts.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pod: Arc<Pod>,
    pub(super) state: State,
}

/// How many pods are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) updated: usize,
    pub(super) ready: usize,
    pub(super) updated_ready: usize,
}

impl Known {
    /// Its rules, if it is to be carried out.
    pub(super) fn active(&self) -> Option<&Arc<Rules>> {
        self.rules.as_ref().ok().filter(|_| !self.deleting)
    }

    /// Names of the revisions that may not go: a pod has them, or new pods get them.
    pub(super) fn in_use(&self) -> BTreeSet<String> {
        let of_pods = self.pods.revisions.keys().map(|name| (**name).to_owned());
        of_pods.chain(self.named_revision()).collect()
    }

    fn named_revision(&self) -> Option<String> {
        match self.rules.as_ref().ok()?.named.as_ref()? {
            Named::Name(name) => Some((**name).to_owned()),
            Named::Version(version) => {
                let has = |record: &&SidecarSetRevision| record.custom_version.as_deref() == Some(version);
                let all = &self.shown.as_ref()?.revisions;
                let newest = all.iter().filter(has).max_by_key(|record| record.revision);
                newest.map(|record| record.name.clone())
            }
        }
    }
}

impl Crew {
    /// Gives a pod its place, and says whether anything of it has changed.
    pub(super) fn place(&mut self, set: &str, key: &Key, pod: Option<&Arc<Pod>>, standing: Standing) -> bool {
        let before = self.members.remove(key);
        let was_missing = self.missing.remove(key);
        if let Some(member) = &before {
            self.count(set, member, false);
        }
        match (standing, pod) {
            (Standing::Member(state), Some(pod)) => {
                let member = Member { pod: pod.clone(), state };
                self.count(set, &member, true);
                let same = before.is_some_and(|before| {
                    let (before, after) = (&before.pod, &member.pod);
                    // By its labels an upgrade may select it, or take it earlier.
                    before.uid == after.uid
                        && before.node == after.node
                        && before.sidecars == after.sidecars
                        && before.labels == after.labels
                });
                self.members.insert(key.clone(), member);
                !same
            }
            (Standing::NotInjected, _) => {
                self.missing.insert(key.clone());
                !was_missing || before.is_some()
            }
            _ => was_missing || before.is_some(),
        }
    }

    fn count(&mut self, set: &str, member: &Member, comes: bool) {
        let State { updated, ready } = member.state;
        let counts = &mut self.counts;
        let counted = [
            (&mut counts.updated, updated),
            (&mut counts.ready, ready),
            (&mut counts.updated_ready, updated && ready),
        ];
        for (count, _) in counted.into_iter().filter(|(_, holds)| *holds) {
            *count = if comes { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
        let Some(revision) = member.pod.sidecars.as_ref().and_then(|sidecars| sidecars.revision(set)) else {
            return;
        };
        let pods = self.revisions.entry(revision.clone()).or_default();
        *pods = if comes { pods.saturating_add(1) } else { pods.saturating_sub(1) };
        if *pods == 0 {
            self.revisions.remove(revision);
        }
    }
}
