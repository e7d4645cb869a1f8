//! New pods that are lost at once, and made anew after a while.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use super::world::{NOW, World};
use crate::pod::{Phase, PodView};

fn made(seconds: i64) -> Timestamp {
    NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}

/// A set of three with these pods, of which the first ones have ended so many seconds after they were made.
fn ended(pods: &str, count: usize, seconds: i64) -> World {
    let mut world = World::new(json!({ "replicas": 3 }), pods);
    let end = |pod: &mut PodView| {
        (pod.phase, pod.ready_since, pod.created) = (Phase::Ended, None, made(seconds));
    };
    world.pods.iter_mut().take(count).for_each(end);
    world
}

/// A node that has no room left refuses each of them. As many as the set is to have are made anew at once.
#[rstest]
#[case::one(ended("3n", 1, 1), "create n")]
#[case::all(ended("3n", 3, 1), "create n x3")]
#[case::one_more(ended("6n", 4, 1), "NewPodsLost")]
#[case::one_more_than_all(ended("4n", 4, 59), "create n x2, NewPodsLost")]
#[case::all_of_them_again(ended("6n", 6, 1), "NewPodsLost")]
#[case::they_are_new_no_longer(ended("6n", 6, 60), "create n x3")]
#[case::evicted_after_a_day(ended("90n", 90, 86_400), "create n x3")]
#[case::by_another_clock(ended("6n", 6, -3600), "create n x3")]
fn pods_that_end_at_once_are_not_made_without_end(#[case] world: World, #[case] effect: &str) {
    assert_eq!(world.effect(), effect);
}

#[test]
fn a_set_says_why_it_waits() {
    let world = ended("6n", 6, 59);
    let plan = world.plan();
    assert_eq!(plan.again.map(|again| again.as_secs()), Some(1));
    let condition = plan.status.unwrap().conditions.remove(0);
    assert_eq!(condition.type_, "FailedScale");
    assert!(condition.message.unwrap().contains("see why their nodes refuse them"));
}
