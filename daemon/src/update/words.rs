//! Words on entries of this node's `NodePodUpdate`: whether the owner of an entry asks for it. A word stands
//! as long as the entry stays as it was judged.

use std::collections::{BTreeMap, BTreeSet};

use berth_policy::RequestId;
use berth_proto::crd::DesiredPod;

use super::convert::desired_id;

/// Number of refusals in a row after which one is meant; a node that comes up is refused for a moment, too.
pub(super) const REFUSALS: u32 = 3;

/// Words of the owners of one kind; `E` says why an entry is not asked for.
#[derive(Debug)]
pub(super) struct Words<E>(BTreeMap<RequestId, (DesiredPod, Result<(), E>)>);

impl<E> Default for Words<E> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<E: Clone> Words<E> {
    /// The word on an entry; `None` before its owner was read.
    pub(super) fn on(&self, entry: &DesiredPod) -> Option<Result<(), E>> {
        let (judged, word) = self.0.get(&desired_id(entry))?;
        (judged == entry).then(|| word.clone())
    }

    /// Takes the word on an entry.
    pub(super) fn say(&mut self, entry: &DesiredPod, word: Result<(), E>) {
        self.0.insert(desired_id(entry), (entry.clone(), word));
    }

    /// Forgets the words on entries that are not there any more.
    pub(super) fn keep(&mut self, entries: &[DesiredPod]) {
        let ids: BTreeSet<RequestId> = entries.iter().map(desired_id).collect();
        self.0.retain(|id, _| ids.contains(id));
    }
}
