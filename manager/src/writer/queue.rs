//! What waits to be written: bounded, in order, one write for each object, the latest.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::order::{Order, Target};

/// What can wait. The writer does some 200 writes a second at the least that can be called working (16 at once, 80 ms
/// each); what waits longer than half a minute is better decided anew. 8 MB at the most: a write is about 1 KiB, and of
/// the larger ones, the status of jobs, there are few.
const CAPACITY: usize = 8192;

/// There was no room for a write of this object.
#[derive(Debug, thiserror::Error)]
#[error("no room in the queue for a write of {} {}", target.kind.name(), target.key)]
pub struct Full {
    /// The object.
    pub target: Target,
}

/// The queue. A target is in `order` exactly if its write waits and none of it is on its way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: VecDeque<Target>,
    waiting: HashMap<Target, Order>,
    on_their_way: HashSet<Target>,
}

impl Queue {
    /// Takes a write; gives back the one whose place it has taken.
    pub(super) fn push(&mut self, order: Order) -> Result<Option<Order>, Full> {
        let target = order.target();
        if let Some(waiting) = self.waiting.get_mut(&target) {
            return Ok(Some(std::mem::replace(waiting, order)));
        }
        if self.waiting.len() >= CAPACITY {
            return Err(Full { target });
        }
        if !self.on_their_way.contains(&target) {
            self.order.push_back(target.clone());
        }
        self.waiting.insert(target, order);
        Ok(None)
    }

    /// The next to write. [`Queue::done`] says when that is over; until then no other of its object comes out.
    pub(super) fn take(&mut self) -> Option<Order> {
        let target = self.order.pop_front()?;
        let order = self.waiting.remove(&target)?;
        self.on_their_way.insert(target);
        Some(order)
    }

    /// The write of this object is over.
    pub(super) fn done(&mut self, target: &Target) {
        self.on_their_way.remove(target);
        if self.waiting.contains_key(target) {
            self.order.push_back(target.clone());
        }
    }

    /// Whether a newer write of this object waits.
    pub(super) fn has_newer(&self, target: &Target) -> bool {
        self.waiting.contains_key(target)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::tests::patch;

    #[test]
    fn one_write_of_each_object_the_latest_and_never_two_at_once() {
        let mut queue = Queue::default();
        assert!(queue.push(patch("a", "1")).unwrap().is_none());
        assert!(queue.push(patch("b", "1")).unwrap().is_none());
        assert_eq!(queue.push(patch("a", "2")).unwrap().unwrap().resource_version(), "1");
        let first = queue.take().unwrap();
        assert_eq!((&*first.target().key.name, first.resource_version()), ("a", "2"));
        assert!(queue.push(patch("a", "3")).unwrap().is_none());
        assert!(queue.has_newer(&first.target()));
        assert_eq!(&*queue.take().unwrap().target().key.name, "b");
        assert!(queue.take().is_none(), "a is on its way");
        queue.done(&first.target());
        assert_eq!(queue.take().unwrap().resource_version(), "3");
    }

    #[test]
    fn what_has_no_room_is_named() {
        let mut queue = Queue::default();
        for number in 0..CAPACITY {
            queue.push(patch(&number.to_string(), "1")).unwrap();
        }
        assert_eq!(&*queue.push(patch("late", "1")).unwrap_err().target.key.name, "late");
        assert!(queue.push(patch("0", "2")).unwrap().is_some(), "a newer one takes the place it has");
    }
}
