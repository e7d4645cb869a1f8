//! Cache of the requests of one kind on this node, as the API server showed them last: where a report goes,
//! and what it says there now.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use berth_policy::RequestId;
use berth_proto::crd::ContainerRecreateRequestStatus;

use super::{object::Object, target::Target};

/// The watch puts them in, the writers look them up. Nothing awaits while the lock is held.
#[derive(Debug, Default)]
pub(crate) struct RequestCache<T = ContainerRecreateRequestStatus> {
    targets: Mutex<HashMap<RequestId, Target<T>>>,
}

impl<T: Clone> RequestCache<T> {
    /// Puts these in the place of all that are known.
    pub(crate) fn replace(&self, objects: &[Object<impl Sized, T>]) {
        let all = objects.iter().map(|object| (object.id.clone(), object.target.clone()));
        *self.targets() = all.collect();
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.targets().clear();
    }

    /// The watch, or the answer to a write, shows this state. The two can overtake each other: false, a newer
    /// one is known.
    pub(crate) fn put(&self, object: &Object<impl Sized, T>) -> bool {
        let mut targets = self.targets();
        let outdated = targets.get(&object.id).is_some_and(|known| known.is_newer_than(&object.target));
        if !outdated {
            targets.insert(object.id.clone(), object.target.clone());
        }
        !outdated
    }

    /// Forgets one that is there no more.
    pub(crate) fn remove(&self, id: &RequestId) {
        self.targets().remove(id);
    }

    /// Returns where to write to; `None` for a request that is not there.
    pub(crate) fn target(&self, id: &RequestId) -> Option<Target<T>> {
        self.targets().get(id).cloned()
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<RequestId, Target<T>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
