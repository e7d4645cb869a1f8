//! The same, in whatever order it is seen; and what is asked for twice.

use super::world::*;
use crate::{
    requests::{FailureReason, RequestKind},
    store::{Kind, Object},
    write::Write,
};

#[test]
fn nothing_is_decided_before_everything_was_listed() {
    for &last in RequestKind::Recreate.decided_by() {
        let mut world = World::unlisted();
        let now = world.now();
        for kind in Kind::ALL {
            world.index.list_begins(kind, now);
        }
        assert!(world.request(request("good", "p", &["a"])).is_empty());
        assert!(world.request(request("bad", "none", &["a"])).is_empty());
        assert!(world.node("node-1").is_empty());
        assert!(world.pod(pod("p", &[container("a", 1)])).is_empty());
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != last) {
            let now = world.now();
            assert!(world.index.list_ends(kind, now).is_empty());
            assert!(world.pass(seconds(100)).is_empty(), "{last:?} is missing");
        }
        let now = world.now();
        assert_eq!(only(&world.index.list_ends(last, now)), assigned(&[("a", 1)]));
        assert_eq!(
            reason(&world.pass(seconds(3))),
            FailureReason::PodNotFound,
            "the wait begins with the lists"
        );
    }
}

#[test]
fn what_a_new_list_does_not_show_is_gone() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    let request = world.write_only(&patches);
    let now = world.now();
    for kind in Kind::ALL {
        world.index.list_begins(kind, now);
    }
    world.request(request);
    world.pod(pod("q", &[]));
    let patches: Vec<_> = Kind::ALL.into_iter().flat_map(|kind| world.index.list_ends(kind, now)).collect();
    assert!(patches.is_empty());
    let size = world.index.size();
    assert_eq!((world.index.pods.len(), size.nodes, size.requests, size.assigned), (1, 0, 1, 1));
    assert_eq!(reason(&world.pass(seconds(3))), FailureReason::NodeGone);

    let now = world.now();
    world.index.list_begins(Kind::Request, now);
    assert!(world.index.list_ends(Kind::Request, now).is_empty());
    assert_eq!(world.index.size().requests, 0);
    assert_eq!(world.index.next_deadline(), None);
}

/// A list of requests comes in any order: the request that follows may be seen before the one it follows.
#[test]
fn a_new_list_is_seen_as_a_whole() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("z-first", "p", &["a"]));
    let first = world.write_only(&patches);
    let now = world.now();
    world.index.list_begins(Kind::Request, now);
    assert!(world.request(request("a-second", "p", &["a"])).is_empty());
    assert!(world.request(succeeded(first)).is_empty());
    assert!(world.index.list_ends(Kind::Request, now).is_empty(), "the pod is old news");
    assert_eq!(only(&world.pod(pod("p", &[container("a", 2)]))), assigned(&[("a", 2)]));
}

#[test]
fn a_manager_that_starts_where_all_is_written_writes_nothing() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("assigned", "p", &["a"]));
    world.write_only(&patches);
    world.request(request("failed", "none", &["a"]));
    let patches = world.pass(seconds(3));
    world.write_only(&patches);

    let mut restarted = World::unlisted();
    let now = restarted.now();
    for kind in Kind::ALL {
        restarted.index.list_begins(kind, now);
    }
    for request in world.requests.into_values() {
        restarted.request(request);
    }
    restarted.pod(pod("p", &[container("a", 1)]));
    restarted.node("node-1");
    let patches: Vec<_> =
        Kind::ALL.into_iter().flat_map(|kind| restarted.index.list_ends(kind, now)).collect();
    assert!(patches.is_empty(), "{patches:?}");
    let now = restarted.now();
    assert!(restarted.index.owed(now).is_empty());
    assert!(restarted.pass(seconds(59)).is_empty());
}

#[test]
fn a_write_is_asked_for_once_for_each_version() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let wanted = request("r", "p", &["a"]);
    assert_eq!(world.request(wanted.clone()).len(), 1);
    assert!(world.request(wanted.clone()).is_empty(), "the same version again");
    assert!(world.pod(pod("p", &[container("a", 1)])).is_empty());
    let patches = world.request(changed(wanted));
    assert_eq!(&*patches[0].resource_version, "2", "somebody has changed it: the first write fails");
}

#[test]
fn a_decision_that_has_changed_is_asked_for_anew() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    assert_eq!(only(&world.request(request("r", "p", &["a"]))), assigned(&[("a", 1)]));
    assert_eq!(only(&world.pod(pod("p", &[container("a", 2)]))), assigned(&[("a", 2)]));
}

#[test]
fn a_new_leader_owes_everything_once_more() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let first = world.request(request("r", "p", &["a"]));
    let now = world.now();
    let again = world.index.owed(now);
    assert_eq!(only(&again), only(&first));
}

#[test]
fn a_write_that_found_no_room_is_owed_again_soon() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    let now = world.now();
    let target = Write::Request(patches[0].clone()).target();
    world.index.lost(&target, now);
    assert!(world.pass(seconds(4)).is_empty());
    let patches = world.pass(seconds(1));
    assert_eq!(only(&patches), assigned(&[("a", 1)]));
    assert!(world.pass(seconds(100)).is_empty());
}

#[test]
fn many_requests_of_one_pod_and_many_pods() {
    let mut world = World::new();
    for number in 0..50 {
        assert!(world.request(request(&format!("r{number}"), "p", &["a"])).is_empty());
    }
    assert_eq!(world.pod(pod("p", &[container("a", 1)])).len(), 50);
    let now = world.now();
    // A namesake in another namespace is not meant.
    let mut other = pod("p", &[container("a", 9)]);
    other.namespace = "other".to_owned();
    assert!(world.index.apply(Object::Pod(other), now).is_empty());
}

#[test]
fn one_without_room_is_left_alone_until_there_is_some() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let made = request("r", "p", &["a"]);
    let now = world.now();
    let aside = Object::Request(Box::new(made.clone())).aside();
    assert!(world.index.apply(aside, now).is_empty());
    assert!(world.pass(seconds(100)).is_empty());
    assert_eq!(only(&world.request(made)), assigned(&[("a", 1)]));
}

#[test]
fn what_one_without_room_has_replaced_is_history() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("first", "p", &["a"]));
    let first = succeeded(world.write_only(&patches));
    world.request(first.clone());
    world.show(Object::Request(Box::new(first)).aside());
    assert!(world.request(request("second", "p", &["a"])).is_empty(), "the pod is old news");
    assert_eq!(only(&world.pod(pod("p", &[container("a", 2)]))), assigned(&[("a", 2)]));
}
