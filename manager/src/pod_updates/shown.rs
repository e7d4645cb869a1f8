//! The object of a node as it was shown, and what was asked to be written into it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use berth_proto::crd::{DesiredPod, UpdatePhase};
use serde_json::Value;

use super::{EntryId, said::Said};

/// Object of a node as it was shown last.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) deleting: bool,
    /// Entries; the identity alone of those that cannot be read.
    pub(super) desired: BTreeMap<EntryId, Arc<DesiredPod>>,
    /// Entries that cannot be read, as they stand there.
    pub(super) unreadable: BTreeMap<EntryId, Arc<Value>>,
    pub(super) pods: HashMap<EntryId, Said>,
    pub(super) features: Vec<String>,
    /// Entries that were last asked to be written on this version.
    pub(super) asked: Option<Vec<Arc<DesiredPod>>>,
    /// When that was.
    pub(super) asked_at: Option<Instant>,
    /// Entries that are there, or in anything that was asked to be written on this version.
    pub(super) possible: BTreeSet<EntryId>,
}

impl Shown {
    /// Entry that was last asked to be written on this version.
    pub(super) fn asked_of(&self, id: &EntryId) -> Option<&Arc<DesiredPod>> {
        let all = self.asked.as_deref().unwrap_or_default();
        let at = all.binary_search_by_key(&(&*id.uid, &*id.owner), |pod| (&*pod.uid, &*pod.owner));
        at.ok().and_then(|at| all.get(at))
    }

    /// Tells whether nothing is news for owners or for what is owed.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.deleting == other.deleting
            && self.features == other.features
            && self.pods == other.pods
            && self.desired == other.desired
    }

    /// Tells whether this order may wait for the agent's next word: it takes entries back that are carried
    /// out, and nothing else, while others go on. The object is dear to write, and the agent writes it as
    /// well.
    pub(super) fn can_wait(&self, pods: &BTreeMap<EntryId, Arc<DesiredPod>>) -> bool {
        let phase = |id: &EntryId, pod: &DesiredPod| {
            let said = self.pods.get(id).filter(|said| said.is_of(pod));
            said.map(|said| said.progress.phase)
        };
        let has_ended = |id: &EntryId, pod: &DesiredPod| {
            matches!(phase(id, pod), Some(UpdatePhase::Succeeded | UpdatePhase::Failed))
        };
        let is_kept_or_done = |(id, pod): (&EntryId, &Arc<DesiredPod>)| match pods.get(id) {
            Some(kept) => kept == pod,
            None => phase(id, pod) == Some(UpdatePhase::Succeeded),
        };
        self.desired.iter().all(is_kept_or_done)
            && pods.iter().all(|(id, _)| self.desired.contains_key(id))
            && pods.iter().any(|(id, pod)| !has_ended(id, pod))
    }
}
