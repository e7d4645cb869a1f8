//! Writes about requests that are under way. Each is a call of its own, so how many there are at once is
//! bounded: somebody's ten thousand requests must not keep the API server from another's.

use std::collections::BTreeMap;

use crate::{
    in_place_update::{UpdateRequest, UpdateSource},
    model::{PodUid, RequestId},
};

/// Most writes at once that say what is done to one pod.
pub(crate) const MOST_OF_A_POD: usize = 4;
/// Most writes at once about requests that nothing is done for: refusals, those that wait, deletions.
pub(crate) const MOST_OF_THE_REST: usize = 32;

/// Reason for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Progress of its pod.
    Pod,
    /// Neither of the others: it may wait.
    Rest,
    /// It is said once, and not again if there is no room.
    Once,
}

/// The writes.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    under_way: BTreeMap<RequestId, Counted>,
    of_pods: BTreeMap<PodUid, usize>,
    of_the_rest: usize,
}

#[derive(Debug)]
enum Counted {
    Of(PodUid),
    Rest,
    Not,
}

impl Writes {
    /// Begins a write about a request. False: one goes on, or there are too many; ask again when one has
    /// ended.
    pub(crate) fn begin(&mut self, request: &UpdateRequest, about: About) -> bool {
        if self.contains(&request.id) {
            return false;
        }
        let counted = match (request.source, about) {
            // All entries of a node are written together.
            (UpdateSource::NodePodUpdate, _) | (_, About::Once) => Counted::Not,
            (UpdateSource::Api | UpdateSource::Admin, About::Pod) => Counted::Of(request.pod.uid.clone()),
            (UpdateSource::Api | UpdateSource::Admin, About::Rest) => Counted::Rest,
        };
        let room = match &counted {
            Counted::Not => None,
            Counted::Rest => Some((&mut self.of_the_rest, MOST_OF_THE_REST)),
            Counted::Of(pod) => Some((self.of_pods.entry(pod.clone()).or_default(), MOST_OF_A_POD)),
        };
        if let Some((number, most)) = room {
            if *number >= most {
                return false;
            }
            *number = number.saturating_add(1);
        }
        self.under_way.insert(request.id.clone(), counted);
        true
    }

    /// A write has ended.
    pub(crate) fn end(&mut self, id: &RequestId) {
        match self.under_way.remove(id) {
            Some(Counted::Rest) => self.of_the_rest = self.of_the_rest.saturating_sub(1),
            Some(Counted::Of(pod)) => {
                if let Some(number) = self.of_pods.get_mut(&pod) {
                    *number = number.saturating_sub(1);
                }
                self.of_pods.retain(|_, number| *number > 0);
            }
            Some(Counted::Not) | None => {}
        }
    }

    /// Tells whether a write about this request goes on.
    pub(crate) fn contains(&self, id: &RequestId) -> bool {
        self.under_way.contains_key(id)
    }

    /// Number of writes that go on.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }
}
