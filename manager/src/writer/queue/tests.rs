//! Which write is next.

use std::time::Duration;

use super::*;
use crate::{
    time::later_timer,
    writer::tests::{node, patch, patch_in, set},
};

fn names(queue: &mut Queue, count: usize) -> Vec<String> {
    let now = Instant::now();
    (0..count).map_while(|_| queue.take(now).ok()).map(|item| item.order.target().key.to_string()).collect()
}

#[test]
fn one_write_of_each_object_the_latest_and_never_two_at_once() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    assert!(queue.push(patch("a", "1")).unwrap().is_none());
    assert!(queue.push(patch("b", "1")).unwrap().is_none());
    assert_eq!(queue.push(patch("a", "2")).unwrap().unwrap().resource_version(), "1");
    let first = queue.take(now).unwrap().order;
    assert_eq!((&*first.target().key.name, first.resource_version()), ("a", "2"));
    assert!(queue.push(patch("a", "3")).unwrap().is_none());
    assert_eq!(&*queue.take(now).unwrap().order.target().key.name, "b");
    assert!(queue.take(now).is_err(), "a is on its way");
    assert!(queue.done(&first.target(), None).is_none());
    assert_eq!(queue.take(now).unwrap().order.resource_version(), "3");
}

#[test]
fn what_is_tried_again_waits_and_what_is_newer_does_not() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_secs(3);
    queue.push(patch("a", "1")).unwrap();
    let item = queue.take(now).unwrap();
    let target = item.order.target();
    let again = |item: Item| Some((later, Item { tries: item.tries + 1, ..item }));
    assert!(queue.done(&target, again(item)).is_none());
    assert_eq!((queue.take(now).unwrap_err(), queue.len()), (Some(later), 1));
    let item = queue.take(later).unwrap();
    assert_eq!((item.tries, item.order.resource_version()), (1, "1"));
    assert!(queue.done(&target, again(item)).is_none());
    assert_eq!(queue.push(patch("a", "2")).unwrap().unwrap().resource_version(), "1");
    let item = queue.take(now).unwrap();
    assert_eq!((item.tries, item.order.resource_version()), (0, "2"), "at once");
    queue.push(patch("a", "3")).unwrap();
    assert_eq!(queue.done(&target, again(item)).unwrap().resource_version(), "2");
    assert_eq!(queue.take(now).unwrap().order.resource_version(), "3");
    assert!(queue.done(&target, None).is_none());
    assert!(queue.lanes.is_empty() && queue.later.is_empty() && queue.len() == 0, "{queue:?}");
}

#[test]
fn what_is_refused_stands_aside_and_is_given_back() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let target = |name: &str| patch(name, "1").target();
    // Tries that count as made before the first.
    let refuse = |queue: &mut Queue, name: &str, now: Instant| {
        queue.push(patch(name, "1")).unwrap();
        let item = queue.take(now).unwrap();
        queue.refused(&target(name), now);
        item.tries
    };
    assert_eq!([refuse(&mut queue, "a", now), refuse(&mut queue, "b", now)], [0, 0]);
    assert!(queue.lanes.is_empty() && queue.len() == 0, "{queue:?}");
    let later = later_timer(now, aside::PAUSE);
    assert_eq!((queue.take(now).unwrap_err(), queue.give_back(now).unwrap_err()), (None, Some(later)));
    // A newer one of the same object is as any.
    queue.push(patch("a", "2")).unwrap();
    let item = queue.take(now).unwrap();
    assert_eq!((item.order.resource_version(), item.tries), ("2", 0));
    assert!(queue.done(&target("a"), None).is_none());
    assert_eq!(queue.give_back(later).unwrap(), [target("b")]);
    // The same is owed to it, and refused as before.
    assert_eq!(refuse(&mut queue, "b", later), TRIES_OF_FORBIDDEN);
    let later = later_timer(later, aside::PAUSE);
    assert_eq!(queue.give_back(later).unwrap(), [target("b")]);
    // Nothing is owed to it any more: it is forgotten.
    assert_eq!(queue.give_back(later + aside::PAUSE).unwrap_err(), None);
    assert_eq!(refuse(&mut queue, "b", later), 0);
    // One that comes while it is on its way is what counts.
    queue.push(patch("c", "1")).unwrap();
    queue.take(now).unwrap();
    queue.push(patch("c", "2")).unwrap();
    queue.refused(&target("c"), now);
    assert_eq!(queue.take(now).unwrap().order.resource_version(), "2");
    assert_eq!(queue.give_back(later).unwrap_err(), Some(later + aside::PAUSE), "b alone");
}

#[test]
fn what_was_not_sent_in_its_time_is_given_back_at_once() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for name in ["a", "b"] {
        queue.push(patch(name, "1")).unwrap();
        queue.take(now).unwrap();
    }
    // A newer one was decided since.
    queue.push(patch("b", "2")).unwrap();
    for name in ["a", "b"] {
        queue.late(&patch(name, "1").target());
    }
    assert_eq!(queue.give_back(now).unwrap(), [patch("a", "1").target()]);
    assert_eq!(queue.give_back(now).unwrap_err(), None);
    assert_eq!(queue.take(now).unwrap().order.resource_version(), "2");
}

/// One that has 1,000 writes has its turn after another's one, and nodes have every second one.
#[test]
fn namespaces_and_nodes_take_turns() {
    let mut queue = Queue::default();
    for number in 0..1000 {
        queue.push(patch_in("flood", &format!("f{number}"), "1")).unwrap();
    }
    queue.push(patch_in("shop", "a", "1")).unwrap();
    queue.push(patch_in("shop", "b", "1")).unwrap();
    queue.push(node("n0")).unwrap();
    queue.push(node("n1")).unwrap();
    assert_eq!(names(&mut queue, 7), ["/n0", "flood/f0", "/n1", "shop/a", "flood/f1", "shop/b", "flood/f2"]);
}

/// A rollout writes to every node; how far it is can be read all the same.
#[test]
fn a_set_does_not_wait_for_all_nodes() {
    let mut queue = Queue::default();
    for number in 0..1000 {
        queue.push(node(&format!("n{number}"))).unwrap();
    }
    queue.push(set("logs")).unwrap();
    assert_eq!(names(&mut queue, 3), ["/n0", "/logs", "/n1"]);
    let logs = set("logs").target();
    queue.push(set("logs")).unwrap();
    assert_eq!(names(&mut queue, 2), ["/n2", "/n3"], "it is on its way");
    queue.done(&logs, None);
    assert_eq!(names(&mut queue, 2), ["/logs", "/n4"]);
}

/// Half of all at once is the most that one namespace has.
#[test]
fn one_namespace_does_not_have_all_permits() {
    let mut queue = Queue::default();
    for number in 0..1000 {
        queue.push(patch_in("flood", &format!("f{number}"), "1")).unwrap();
    }
    let first = names(&mut queue, 1000);
    assert_eq!(first.len(), ON_THEIR_WAY);
    queue.push(patch_in("shop", "a", "1")).unwrap();
    assert_eq!(names(&mut queue, 2), ["shop/a"]);
    queue.done(&patch_in("flood", "f0", "1").target(), None);
    assert_eq!(names(&mut queue, 2), ["flood/f8"]);
}

#[test]
fn what_has_no_room_is_named_and_others_have_some() {
    let mut queue = Queue::default();
    for number in 0..OF_ONE {
        queue.push(patch(&number.to_string(), "1")).unwrap();
    }
    assert_eq!(&*queue.push(patch("late", "1")).unwrap_err().target.key.name, "late");
    assert!(queue.push(patch("0", "2")).unwrap().is_some(), "a newer one takes the place it has");
    for namespace in ["b", "c", "d"] {
        for number in 0..OF_ONE {
            queue.push(patch_in(namespace, &number.to_string(), "1")).unwrap();
        }
    }
    for number in 0..ALWAYS {
        queue.push(patch_in("shop", &number.to_string(), "1")).unwrap();
    }
    queue.push(patch_in("shop", "late", "1")).unwrap_err();
    for number in 0..CAPACITY {
        queue.push(node(&number.to_string())).unwrap();
    }
    queue.push(node("late")).unwrap_err();
}
