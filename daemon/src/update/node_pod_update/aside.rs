//! Entries of the node's object that cannot be read: a newer program has written them. The object says so,
//! and the log once; what was decided for their pods stays until they can be read, or are taken away.

use std::sync::PoisonError;

use berth_policy::PodUid;
use tracing::warn;

use super::{
    NodeUpdates,
    object::{Key, Object},
    understood::Standing,
};
use crate::base::status::bounded;

/// Lines of the log about entries of one version of the object; its condition names more.
const MOST_LINES: usize = 8;

/// Name of the place of an entry, for people.
pub(super) fn named((uid, owner): &Key) -> String {
    let comma = if owner.is_empty() { "" } else { "," };
    format!("desiredPods[{uid}{comma}{owner}]")
}

/// Standing of an entry that cannot be read for this reason.
pub(super) fn standing(why: &str) -> Standing {
    Standing::Faulty(format!(
        "it cannot be read, and what was decided for the pod before stays: {why}; a newer program has written it, upgrade berthd"
    ))
}

impl NodeUpdates {
    /// Notes which entries of the object cannot be read, and tells of those that are new.
    pub(super) fn note_aside(&self, object: Option<&Object>) {
        let mut told = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = object.filter(|known| !known.aside.is_empty()) else {
            told.clear();
            return;
        };
        let new = known.aside.iter().filter(|(key, why)| told.get(*key) != Some(*why));
        for (key, why) in new.take(MOST_LINES) {
            warn!(
                node = self.node,
                entry = bounded(&named(key)),
                error = why,
                "Entry not understood, what was decided for its pod stays: a newer program has written it, upgrade berthd"
            );
        }
        told.clone_from(&known.aside);
    }

    /// Tells whether an entry of this pod cannot be read: somebody wants something of it, and nobody here
    /// knows what.
    pub(in crate::update) fn is_aside(&self, pod: &PodUid) -> bool {
        let aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.keys().any(|(uid, _)| uid == pod.as_str())
    }
}
