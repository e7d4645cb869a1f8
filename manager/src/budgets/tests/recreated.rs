//! Pods that are being recreated: their permits stand until the request has ended, and no longer.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::world::{World, of_web};
use crate::budgets::{permit::Answer, spec::Operation};

/// However the request ends, the permit comes back; requests of that kind were never listed, as where the
/// kind is not installed.
#[rstest]
#[case::ended(|world: &mut World| world.recreate("p0", true))]
#[case::deleted(World::no_recreate)]
#[case::about_another_pod(|world: &mut World| world.recreate("p1", false))]
fn a_permit_stands_until_the_request_has_ended(#[case] end: fn(&mut World)) {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    let (Answer::Permit(status), version) = world.ask("p0", Operation::Update) else { panic!("refused") };
    assert!(world.write(version, *status));
    world.recreate("p0", false);
    world.pass(Duration::from_secs(600));
    assert!(world.status.unavailable_pods.contains_key("p0"), "{:?}", world.status);
    assert!(matches!(world.ask("p1", Operation::Delete).0, Answer::Refused(_)));
    end(&mut world);
    world.pass(Duration::from_secs(5));
    assert!(world.status.unavailable_pods.is_empty(), "{:?}", world.status);
    assert_eq!(world.status.unavailable_allowed, 1);
}

/// A permit of a request that was never assigned is one that nothing came of.
#[test]
fn a_permit_that_was_not_used_comes_back() {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    let (Answer::Permit(status), version) = world.ask("p0", Operation::Update) else { panic!("refused") };
    assert!(world.write(version, *status));
    world.pass(Duration::from_secs(15));
    assert_eq!((world.status.unavailable_pods.len(), world.status.unavailable_allowed), (0, 1));
}

/// A request for which there is no room may go on.
#[test]
fn a_permit_stands_while_nothing_is_known_of_the_request() {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    let (Answer::Permit(status), version) = world.ask("p0", Operation::Update) else { panic!("refused") };
    assert!(world.write(version, *status));
    world.recreate("p0", false);
    world.set_recreate_aside();
    world.pass(Duration::from_secs(600));
    assert!(world.status.unavailable_pods.contains_key("p0"), "{:?}", world.status);
    world.recreate("p0", true);
    world.pass(Duration::from_secs(5));
    assert!(world.status.unavailable_pods.is_empty(), "{:?}", world.status);
}
