//! Instances that a webhook noted when a request was made.

use berth_proto::crd::SpecStatusContext;
use rstest::rstest;

use super::world::*;
use crate::store::RecreateSeen;

/// Labels a request as one for the pod of this UID, and notes an instance of each of its containers.
fn noted(mut request: RecreateSeen, pod: &str, instances: &[&str]) -> RecreateSeen {
    request.pod_uid = Some(pod.to_owned()).filter(|pod| !pod.is_empty());
    let spec = request.spec.as_mut().unwrap();
    for (container, instance) in spec.containers.iter_mut().zip(instances) {
        let context = SpecStatusContext { container_id: (*instance).to_owned(), restart_count: 7 };
        container.status_context = Some(context).filter(|context| !context.container_id.is_empty());
    }
    request
}

/// The container `a` of pod `p` is in its second instance when the request is assigned. Rows: the pod of the
/// label, what was noted, and which instance is to be replaced, with its count of restarts.
#[rstest]
#[case::as_it_is("uid-of-p", &id(2), &id(2), 7)]
#[case::it_was_replaced_since_then("uid-of-p", &id(1), &id(1), 7)]
#[case::it_is_seen_late("uid-of-p", &id(3), &id(3), 7)]
#[case::nothing_was_noted("uid-of-p", "", &id(2), 2)]
#[case::no_label("", &id(1), &id(2), 2)]
#[case::a_pod_before_of_that_name("uid-of-another", &id(1), &id(2), 2)]
#[case::another_runtime("uid-of-p", &id(1).replace("containerd", "containers"), &id(2), 2)]
#[case::no_runtime("uid-of-p", &id(1).replace("://", "..."), &id(2), 2)]
#[case::too_short("uid-of-p", "containerd://1", &id(2), 2)]
#[case::too_long("uid-of-p", &format!("{}0", id(1)), &id(2), 2)]
fn the_instance_of_when_it_was_made(
    #[case] pod_uid: &str,
    #[case] instance: &str,
    #[case] replaced: &str,
    #[case] restarts: i32,
) {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 2)]));
    let patches = world.request(noted(request("r", "p", &["a"]), pod_uid, &[instance]));
    assert_eq!(only(&patches), Said::Assigned(vec![("a".to_owned(), replaced.to_owned(), restarts)]));
}

/// OpenKruise's daemon had stopped the first of two.
#[test]
fn each_container_has_its_own() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 2), container("b", 4)]));
    let both = noted(request("r", "p", &["b", "a"]), "uid-of-p", &[&id(4), &id(1)]);
    let expected = [("b", id(4)), ("a", id(1))].map(|(name, id)| (name.to_owned(), id, 7));
    assert_eq!(only(&world.request(both)), Said::Assigned(expected.to_vec()));
}

/// The webhook's view may be as old as the manager's: the next instance is the one to restart.
#[test]
fn one_that_another_request_replaced_was_old_news() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let patches = world.request(noted(request("first", "p", &["a"]), "uid-of-p", &[&id(1)]));
    let first = world.write_only(&patches);
    world.request(succeeded(first));
    let second = noted(request("second", "p", &["a"]), "uid-of-p", &[&id(1)]);
    assert!(world.request(second).is_empty());
    assert_eq!(only(&world.pod(pod("p", &[container("a", 2)]))), assigned(&[("a", 2)]));
}

/// Somebody makes up the instance of another pod: the requests of that pod do not wait for it.
#[test]
fn one_of_another_pod_is_no_history_there() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    world.pod(pod("q", &[container("a", 2)]));
    let patches = world.request(noted(request("r", "p", &["a"]), "uid-of-p", &[&id(2)]));
    let done = world.write_only(&patches);
    world.request(succeeded(done));
    assert_eq!(only(&world.request(request("other", "q", &["a"]))), assigned(&[("a", 2)]));
}
