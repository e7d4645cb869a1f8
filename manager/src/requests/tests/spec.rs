//! Requests that cannot be carried out are ended at once, in words that name the field and the remedy.

use berth_proto::crd::{ContainerRecreateRequestSpec, RecreateContainer, RecreateStrategy};
use rstest::rstest;

use super::world::*;
use crate::requests::FailureReason;

type Spec = ContainerRecreateRequestSpec;

fn strategy(change: impl FnOnce(&mut RecreateStrategy)) -> impl FnOnce(&mut Spec) {
    |spec| change(spec.strategy.get_or_insert_default())
}

#[rstest]
#[case::no_pod(|spec: &mut Spec| spec.pod_name.clear(), &["spec.podName", "name a pod"])]
#[case::no_containers(|spec: &mut Spec| spec.containers.clear(), &["spec.containers is empty", "at least one"])]
#[case::nameless(|spec: &mut Spec| spec.containers[0].name.clear(), &["spec.containers[0].name is empty"])]
#[case::twice(
    |spec: &mut Spec| spec.containers.push(RecreateContainer { name: "a".to_owned(), ..Default::default() }),
    &["spec.containers[1].name", "\"a\"", "once"]
)]
#[case::short_deadline(
    |spec: &mut Spec| spec.active_deadline_seconds = Some(2),
    &["spec.activeDeadlineSeconds is 2", "3 or more"]
)]
#[case::negative_deadline(
    |spec: &mut Spec| spec.active_deadline_seconds = Some(-1),
    &["spec.activeDeadlineSeconds is -1", "3 or more"]
)]
#[case::negative_ttl(
    |spec: &mut Spec| spec.ttl_seconds_after_finished = Some(-1),
    &["spec.ttlSecondsAfterFinished is -1", "0 or more"]
)]
#[case::negative_grace(
    strategy(|strategy| strategy.termination_grace_period_seconds = Some(-5)),
    &["spec.strategy.terminationGracePeriodSeconds is -5", "0 or more"]
)]
#[case::negative_unready_grace(
    strategy(|strategy| strategy.unready_grace_period_seconds = Some(-1)),
    &["spec.strategy.unreadyGracePeriodSeconds is -1", "0 or more"]
)]
#[case::negative_min_started(
    strategy(|strategy| strategy.min_started_seconds = Some(-1)),
    &["spec.strategy.minStartedSeconds is -1", "0 or more"]
)]
fn a_fault_is_named(#[case] spoil: impl FnOnce(&mut Spec), #[case] words: &[&str]) {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut bad = request("r", "p", &["a"]);
    spoil(bad.spec.as_mut().unwrap());
    let patches = world.request(bad);
    let Said::Failed(reason, message) = only(&patches) else { panic!("{patches:?}") };
    assert_eq!(reason, FailureReason::InvalidSpec);
    for word in words {
        assert!(message.contains(word), "no {word:?} in {message:?}");
    }
    world.write_only(&patches);
}

#[test]
fn zero_is_a_number() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let mut bare = request("r", "p", &["a"]);
    let spec = bare.spec.as_mut().unwrap();
    spec.active_deadline_seconds = Some(3);
    spec.ttl_seconds_after_finished = Some(0);
    spec.strategy = Some(RecreateStrategy {
        termination_grace_period_seconds: Some(0),
        unready_grace_period_seconds: Some(0),
        min_started_seconds: Some(0),
        ..Default::default()
    });
    assert_eq!(only(&world.request(bare)), assigned(&[("a", 1)]));
}

#[test]
fn a_spec_that_cannot_be_read_is_a_fault() {
    let mut world = World::new();
    let mut bad = request("r", "p", &["a"]);
    bad.spec = Err("missing field `podName`".to_owned());
    let expected = "spec cannot be read: missing field `podName`";
    assert_eq!(only(&world.request(bad)), Said::Failed(FailureReason::InvalidSpec, expected.to_owned()));
}

/// A request that is repaired before anybody has ended it is as good as new.
#[test]
fn a_fault_can_be_repaired() {
    let mut world = World::new();
    world.pod(pod("p", &[container("a", 1)]));
    let good = request("r", "p", &["a"]);
    let mut bad = good.clone();
    bad.spec.as_mut().unwrap().containers.clear();
    assert_eq!(reason(&world.request(bad)), FailureReason::InvalidSpec);
    assert_eq!(only(&world.request(changed(good))), assigned(&[("a", 1)]));
}
