//! Which agent gets a request, on which instances, and what is waited for.

use rstest::rstest;

use super::world::*;
use crate::{
    requests::{FailureReason, RequestAct},
    store::{ContainerSeen, Kind, PodSeen, PodStage, Role},
};

#[test]
fn a_running_pod_is_assigned_at_once() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1), container("b", 2)]));
    let patches = world.request(request("r", "p", &["b", "a"]));
    assert_eq!(only(&patches), assigned(&[("b", 2), ("a", 1)]));
    let RequestAct::Assign(assignment) = &patches[0].write else { panic!("{patches:?}") };
    assert_eq!((&*assignment.node, assignment.pod_uid.as_str()), ("node-1", "uid-of-p"));
    world.write_only(&patches);
    assert!(world.pass(seconds(59)).is_empty());
}

#[test]
fn an_init_container_that_restarts_always_is_assigned() {
    let mut world = World::new();
    let sidecar = ContainerSeen { role: Role::Sidecar, ..container("proxy", 7) };
    world.pod(pod("p", &[sidecar, container("a", 1)]));
    assert_eq!(only(&world.request(request("r", "p", &["proxy"]))), assigned(&[("proxy", 7)]));
}

#[test]
fn a_container_id_of_any_scheme_is_passed_on_as_it_is() {
    let mut world = World::new();
    let odd = ContainerSeen { id: Some("pouch://Some/Thing".to_owned()), ..container("a", 1) };
    world.pod(pod("p", &[odd]));
    let expected = Said::Assigned(vec![("a".to_owned(), "pouch://Some/Thing".to_owned(), 1)]);
    assert_eq!(only(&world.request(request("r", "p", &["a"]))), expected);
}

/// Each of these may only not have been seen yet: they are waited for, and named when they do not come.
#[rstest]
#[case::no_pod(None, FailureReason::PodNotFound, "pod \"p\" is not in namespace \"default\"")]
#[case::not_scheduled(
    Some(PodSeen { node: None, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodNotScheduled,
    "pod \"p\" is not scheduled to a node yet"
)]
#[case::terminating(
    Some(PodSeen { stage: PodStage::Terminating, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodTerminating,
    "pod \"p\" is being deleted"
)]
#[case::finished(
    Some(PodSeen { stage: PodStage::Finished, ..pod("p", &[container("a", 1)]) }),
    FailureReason::PodFinished,
    "pod \"p\" has ended: its containers stay as they are"
)]
#[case::no_such_container(
    Some(pod("p", &[container("b", 1)])),
    FailureReason::ContainerNotFound,
    "container \"a\" is not in pod \"p\""
)]
#[case::never_started(
    Some(pod("p", &[ContainerSeen { id: None, ..container("a", 0) }])),
    FailureReason::ContainerNotStarted,
    "container \"a\" of pod \"p\" has never started"
)]
#[case::empty_id(
    Some(pod("p", &[ContainerSeen { id: Some(String::new()), ..container("a", 0) }])),
    FailureReason::ContainerNotStarted,
    "container \"a\" of pod \"p\" has never started"
)]
#[case::init_container(
    Some(pod("p", &[ContainerSeen { role: Role::Init, ..container("a", 1) }])),
    FailureReason::InitContainer,
    "container \"a\" of pod \"p\" is an init container that runs once: only those with restartPolicy Always can be recreated"
)]
fn what_is_missing(#[case] seen: Option<PodSeen>, #[case] reason: FailureReason, #[case] message: &str) {
    let begin = |world: &mut World| {
        if let Some(pod) = seen.clone() {
            world.pod(pod);
        }
        assert!(world.request(request("r", "p", &["a"])).is_empty());
        assert!(world.pass(seconds(3) - std::time::Duration::from_millis(1)).is_empty());
    };
    let mut world = World::new();
    begin(&mut world);
    let patches = world.pass(seconds(1));
    assert_eq!(only(&patches), Said::Failed(reason, message.to_owned()));
    world.write_only(&patches);
    assert_eq!(world.index.next_deadline(), None);

    // The same, and it comes in time.
    let mut world = World::new();
    begin(&mut world);
    assert_eq!(only(&world.pod(pod("p", &[container("a", 5)]))), assigned(&[("a", 5)]));
}

#[test]
fn a_pod_that_is_seen_with_an_instance_that_was_replaced_is_waited_for() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("first", "p", &["a"]));
    let first = world.write_only(&patches);
    assert!(world.request(succeeded(first)).is_empty());

    assert!(world.request(request("second", "p", &["a"])).is_empty(), "the pod is old news");
    assert!(world.pass(seconds(9)).is_empty());
    assert_eq!(only(&world.pod(pod("p", &[container("a", 2)]))), assigned(&[("a", 2)]));
}

#[test]
fn a_pod_that_stays_old_news_is_taken_as_it_is_after_10_s() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("first", "p", &["a"]));
    let first = world.write_only(&patches);
    world.request(succeeded(first));
    assert!(world.request(request("second", "p", &["a"])).is_empty());
    assert!(world.pass(seconds(10) - std::time::Duration::from_millis(1)).is_empty());
    assert_eq!(only(&world.pass(seconds(1))), assigned(&[("a", 1)]));
}

#[test]
fn an_instance_that_another_container_or_pod_has_is_no_old_news() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1), container("b", 2)]));
    let patches = world.request(request("first", "p", &["a"]));
    let first = world.write_only(&patches);
    world.request(succeeded(first));
    assert_eq!(only(&world.request(request("second", "p", &["b"]))), assigned(&[("b", 2)]));
}

/// A request may be deleted as soon as it ends (ttlSecondsAfterFinished 0).
#[test]
fn what_a_deleted_request_replaced_is_remembered_for_a_minute() {
    let replaced = |waited| {
        let mut world = World::new();
        world.pod(pod("p", &[container("a", 1)]));
        let patches = world.request(request("first", "p", &["a"]));
        let first = world.write_only(&patches);
        world.request(succeeded(first));
        world.no_request("first");
        world.pass(waited);
        world.request(request("second", "p", &["a"])).is_empty()
    };
    assert!(replaced(seconds(0)));
    assert!(replaced(seconds(59)));
    assert!(!replaced(seconds(60)));
}

/// Deleted and made again between two events: the watch shows one object after the other under the same name.
#[test]
fn a_request_of_the_same_name_is_another_one() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(request("r", "p", &["a"]));
    let first = world.write_only(&patches);
    world.request(succeeded(first));
    let mut again = request("r", "p", &["a"]);
    (again.uid, again.resource_version) = ("another".to_owned(), "9".to_owned());
    assert!(world.request(again).is_empty(), "the pod is old news");
    let patches = world.pod(pod("p", &[container("a", 2)]));
    assert_eq!(only(&patches), assigned(&[("a", 2)]));
    assert_eq!(&*patches[0].uid, "another");
}

/// By the API server's clock it was over long before. Clocks differ, so it gets its second, and its agent's
/// clock counts.
#[test]
fn a_deadline_is_never_over_at_first_sight() {
    let late = with_deadline(request("late", "p", &["a"]), 30);
    let mut world = World::new();
    world.pass(seconds(100));
    world.pod(pod("p", &[container("a", 1)]));
    assert_eq!(only(&world.request(late.clone())), assigned(&[("a", 1)]));

    let mut world = World::new();
    world.pass(seconds(100));
    assert!(world.request(late).is_empty(), "the pod is not there");
    assert_eq!(reason(&world.pass(seconds(1))), FailureReason::DeadlineExceeded);
}

#[test]
fn an_absence_proves_nothing_while_the_view_of_the_pods_is_behind() {
    let mut world = World::new();
    let now = world.now();
    world.index.view_broke(Kind::Pod, now);
    assert!(world.request(request("r", "p", &["a"])).is_empty());
    assert!(world.pass(seconds(9)).is_empty());
    assert_eq!(reason(&world.pass(seconds(1))), FailureReason::PodNotFound);
}

/// Where there are many pods a list takes a minute, and a new one may be among the last.
#[test]
fn an_absence_proves_nothing_before_the_end_of_a_list() {
    let mut world = World::new();
    let now = world.now();
    world.index.list_begins(Kind::Pod, now);
    assert!(world.request(request("r", "p", &["a"])).is_empty());
    assert!(world.request(request("q", "none", &["a"])).is_empty());
    for _ in 0..6 {
        assert!(world.pass(seconds(10)).is_empty());
    }
    assert_eq!(only(&world.pod(pod("p", &[container("a", 1)]))), assigned(&[("a", 1)]));
    let now = world.now();
    assert_eq!(reason(&world.index.list_ends(Kind::Pod, now)), FailureReason::PodNotFound);
}

#[test]
fn a_request_that_is_being_deleted_is_left_alone() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut deleting = request("r", "p", &["a"]);
    deleting.deleting = true;
    assert!(world.request(deleting).is_empty());
    assert_eq!(world.index.next_deadline(), None);
}

#[test]
fn a_status_that_cannot_be_read_is_left_alone() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut odd = request("r", "p", &["a"]);
    odd.status = Err("invalid type".to_owned());
    assert!(world.request(odd).is_empty());
}
