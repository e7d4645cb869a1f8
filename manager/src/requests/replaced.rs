//! Which instances of containers are known to be history.
//!
//! Requests and pods are watched apart, and two watches have no common order. So after a request has ended,
//! the pod may for a moment still be seen with the instance that request has replaced, and a next request
//! would be about an instance that is gone. What a request replaced is in its own status; it is remembered
//! here as long as the request exists, and for a while after its deletion (requests may be deleted as soon as
//! they end).

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use crate::{
    store::{ContainerId, Uid},
    time::later,
};

/// Far longer than a watch lags behind one that works.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Deleted requests whose instances are remembered; the oldest make room. 70 deletions a second for a minute.
const MOST_DEPARTED: usize = 4096;

/// An instance of a container. That of another pod is another one, whatever a request says of its ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Instance {
    pod: Uid,
    id: ContainerId,
}

impl Instance {
    pub(super) fn new(pod: &Uid, id: &ContainerId) -> Self {
        Self { pod: pod.clone(), id: id.clone() }
    }
}

/// The instances that are history.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// By how many requests, deleted ones included: a request may be seen twice around its deletion.
    known: HashMap<Instance, u32>,
    /// Instances of deleted requests, and until when they are kept; oldest first.
    departed: VecDeque<(Instant, Instance)>,
}

impl Replaced {
    pub(super) fn add(&mut self, ids: &[Instance]) {
        for id in ids {
            *self.known.entry(id.clone()).or_default() += 1;
        }
    }

    /// The request is seen anew; what it replaced is added again.
    pub(super) fn remove(&mut self, ids: &[Instance]) {
        for id in ids {
            self.forget(id);
        }
    }

    /// The request was deleted.
    pub(super) fn depart(&mut self, ids: &[Instance], now: Instant) {
        self.expire(now);
        for id in ids {
            self.departed.push_back((later(now, REMEMBERED), id.clone()));
        }
        while self.departed.len() > MOST_DEPARTED {
            if let Some((_, id)) = self.departed.pop_front() {
                self.forget(&id);
            }
        }
    }

    pub(super) fn contains(&mut self, id: &Instance, now: Instant) -> bool {
        self.expire(now);
        self.known.contains_key(id)
    }

    fn expire(&mut self, now: Instant) {
        while self.departed.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, id)) = self.departed.pop_front() {
                self.forget(&id);
            }
        }
    }

    fn forget(&mut self, id: &Instance) {
        if let Some(count) = self.known.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.known.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(pod: &str, id: &str) -> Instance {
        Instance::new(&pod.into(), &id.into())
    }

    #[test]
    fn memory_is_bounded_and_ends() {
        let (mut replaced, start) = (Replaced::default(), Instant::now());
        let id = |number: usize| instance("u", &format!("containerd://{number:064x}"));
        for number in 0..MOST_DEPARTED + 10 {
            replaced.add(&[id(number)]);
            replaced.depart(&[id(number)], start);
        }
        assert_eq!(replaced.known.len(), MOST_DEPARTED);
        assert!(!replaced.contains(&id(0), start));
        assert!(replaced.contains(&id(10), start + REMEMBERED - Duration::from_millis(1)));
        assert!(!replaced.contains(&id(10), start + REMEMBERED));
        assert_eq!((replaced.known.len(), replaced.departed.len()), (0, 0));
    }

    #[test]
    fn an_id_two_requests_replaced_stays_until_both_are_gone() {
        let (mut replaced, start) = (Replaced::default(), Instant::now());
        let id = instance("u", "x://1");
        replaced.add(std::slice::from_ref(&id));
        replaced.add(std::slice::from_ref(&id));
        replaced.depart(std::slice::from_ref(&id), start);
        assert!(replaced.contains(&id, start + REMEMBERED));
        assert!(!replaced.contains(&instance("another", "x://1"), start));
    }
}
