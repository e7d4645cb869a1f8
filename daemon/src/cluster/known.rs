//! The requests of this node as the API server showed them last: where a report goes, and what it says there now.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use berth_policy::RequestId;

use super::object::{Object, Target};

/// The watch puts them in, the writers look them up. Nothing awaits while the lock is held.
#[derive(Debug, Default)]
pub(super) struct Known {
    targets: Mutex<HashMap<RequestId, Target>>,
}

impl Known {
    /// These and no others.
    pub(super) fn replace(&self, objects: &[Object]) {
        let all = objects.iter().map(|object| (object.id.clone(), object.target.clone()));
        *self.targets() = all.collect();
    }

    /// The watch, or the answer to a write, shows this state. The two can overtake each other.
    pub(super) fn put(&self, object: &Object) {
        let mut targets = self.targets();
        let outdated = targets.get(&object.id).is_some_and(|known| known.is_newer_than(&object.target));
        if !outdated {
            targets.insert(object.id.clone(), object.target.clone());
        }
    }

    /// It is there no more.
    pub(super) fn remove(&self, id: &RequestId) {
        self.targets().remove(id);
    }

    /// Where to write to; `None` for a request that is not there.
    pub(super) fn target(&self, id: &RequestId) -> Option<Target> {
        self.targets().get(id).cloned()
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<RequestId, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
