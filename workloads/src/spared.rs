//! Revisions whose templates a reading need not keep: they are known already, or there is no room for them. A
//! reading of all sets would otherwise hold each template for a second time.

use std::collections::BTreeSet;

use berth_workloads_policy::revision::Revision;

use crate::owned::Ownable;

/// Revisions whose templates a reading need not keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spared {
    /// UIDs of those that are known: no template ever changes.
    pub(crate) known: BTreeSet<String>,
    /// Namespace and name of groups for which there is no room.
    pub(crate) aside: BTreeSet<(String, String)>,
}

impl Spared {
    /// Returns a revision as it is kept by a reading.
    pub(crate) fn of(&self, revision: Revision) -> Revision {
        if self.known.contains(&revision.uid) {
            return Revision { template: Default::default(), ..revision };
        }
        let group = (revision.namespace.clone(), revision.key().into_owned());
        if self.aside.contains(&group) { revision.bare() } else { revision }
    }
}
