//! Containers that fall over again and again.

use std::time::Duration;

use super::world::{World, told, update};
use crate::in_place_update::{Before, FailureReason, Gate, Life, Next, Update, Why};

const SECOND: Duration = Duration::from_secs(1);

fn ordered() -> World {
    World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])])
}

fn wanted() -> Update {
    update("r", &[("a", "bad"), ("b", "b:2")], &[])
}

/// Patched, restarted, and fallen over.
fn fallen(world: &mut World, update: &Update) {
    while world.version == 0 {
        let step = world.next(update);
        assert!(world.carry_out(&step, world.version));
    }
    world.settle(&["bad"]);
    world.container("a").instance.life = Life::Crashing;
}

#[test]
fn it_has_half_a_minute_from_its_batch() {
    for deadline in [None, Some(10), Some(100)] {
        let mut world = ordered();
        let start = world.now;
        let limit = deadline.map(|deadline| start + SECOND * deadline);
        let update = Update { deadline: limit, ..wanted() };
        fallen(&mut world, &update);
        world.pass(SECOND * 5);
        let until = Some(limit.map_or(start + SECOND * 30, |limit| limit.min(start + SECOND * 30)));
        let why = Why::Ready { container: "a".into(), restarts: 1 };
        assert_eq!(world.next(&update), Next::Wait { until, why: why.clone() });
        if deadline == Some(10) {
            continue;
        }
        world.pass(SECOND * 24);
        assert_eq!(world.next(&update), Next::Wait { until, why });
        world.pass(SECOND);
        let Next::Failed(failure) = world.next(&update) else { panic!("{:?}", world.next(&update)) };
        assert_eq!(failure.reason, FailureReason::CrashLoop);
        assert_eq!(
            failure.message,
            "container a runs what is wanted and falls over again and again (restart count 1)"
        );
        assert_eq!(&*world.container("b").image, "b:1", "lower batches are untouched");
        assert!(matches!(world.gate, Gate::NotReady { .. }));
    }
}

/// The pod of a workload stays as it is: what it needs may come late, and a newer update is the way out.
#[test]
fn a_workload_waits_for_one_that_falls_over() {
    let mut world = ordered();
    let wanted = Update { bears_crashes: true, ..wanted() };
    fallen(&mut world, &wanted);
    world.pass(SECOND * 3600);
    let why = Why::Ready { container: "a".into(), restarts: 1 };
    assert_eq!(world.next(&wanted), Next::Wait { until: None, why });
    assert_eq!(&*world.container("b").image, "b:1", "lower batches are untouched");
    let good = Update { bears_crashes: true, ..update("r2", &[("a", "good"), ("b", "b:2")], &[]) };
    let (steps, end) = world.play(&good, &[]);
    assert_eq!(
        (told(&steps), end),
        (["pull good", "patch good", "patch b:2", "ready"].map(str::to_owned).into(), Next::Done)
    );
    world.is_what_is_wanted(&good);
}

#[test]
fn one_that_comes_up_in_time_goes_on() {
    let mut world = ordered();
    fallen(&mut world, &wanted());
    world.pass(SECOND * 29);
    world.container("a").instance.life = Life::Running { ready: true };
    let (steps, end) = world.play(&wanted(), &[]);
    assert_eq!((told(&steps), end), (vec!["patch b:2".to_owned(), "ready".to_owned()], Next::Done));
}

#[test]
fn one_that_is_only_slow_is_waited_for() {
    let mut world = ordered();
    fallen(&mut world, &wanted());
    world.container("a").instance.life = Life::Running { ready: false };
    world.pass(SECOND * 3600);
    let why = Why::Ready { container: "a".into(), restarts: 1 };
    assert_eq!(world.next(&wanted()), Next::Wait { until: None, why });
}

#[test]
fn one_that_is_slow_does_not_hide_one_that_falls_over() {
    for slow in [Life::Running { ready: false }, Life::Restarting] {
        let mut world = World::of(&[("slow", None, &[]), ("a", None, &[])]);
        let update = update("r", &[("slow", "slow:2"), ("a", "bad")], &[]);
        fallen(&mut world, &update);
        world.container("slow").instance.life = slow;
        let start = world.now;
        let Next::Wait { until, .. } = world.next(&update) else { panic!("{:?}", world.next(&update)) };
        assert_eq!(until, Some(start + SECOND * 30), "somebody has to ask again");
        world.pass(SECOND * 30);
        assert_eq!(told(&[world.next(&update)]), ["failed: CrashLoop"]);
    }
}

#[test]
fn one_that_was_never_patched_is_not_waited_for() {
    let mut world = ordered();
    world.container("a").instance.life = Life::Crashing;
    assert_eq!(told(&[world.next(&update("r", &[("a", "a:1")], &[]))]), ["failed: CrashLoop"]);
}

#[test]
fn a_second_update_does_not_make_it_wait_for_ever() {
    let mut world = ordered();
    fallen(&mut world, &update("r", &[("a", "bad")], &[]));
    let both = update("r2", &[("a", "bad"), ("b", "b:2")], &[]);
    let start = world.now;
    world.on_node.insert("b:2".into());
    let patch = world.next(&both);
    assert_eq!(told(std::slice::from_ref(&patch)), ["patch b:2"]);
    assert!(world.carry_out(&patch, world.version));
    world.kubelet_learns();
    world.settle(&["bad"]);
    let Next::Wait { until, .. } = world.next(&both) else { panic!("{:?}", world.next(&both)) };
    assert_eq!(until, Some(start + SECOND * 30));
    world.pass(SECOND * 30);
    assert_eq!(told(&[world.next(&both)]), ["failed: CrashLoop"]);
}

#[test]
fn it_is_rolled_back_and_the_old_one_is_fine_again() {
    let mut world = ordered();
    let update = Update { rollback_on_failure: true, ..wanted() };
    world.before = Some(Before::of(&update, &world.observed(), None));
    fallen(&mut world, &update);
    world.pass(SECOND * 30);
    let Next::RollBack(back, failure) = world.next(&update) else { panic!("{:?}", world.next(&update)) };
    assert_eq!(failure.reason, FailureReason::CrashLoop);
    let back = Update { revision: "r-back".to_owned(), ..back };
    assert_eq!(told(&[world.next(&back)]), ["patch a:1"], "although it falls over now");
    let (steps, end) = world.play(&back, &[]);
    assert_eq!((told(&steps), end), (vec!["patch a:1".to_owned(), "ready".to_owned()], Next::Done));
    assert_eq!(world.gate, Gate::Ready);
    world.is_what_is_wanted(&back);
}

#[test]
fn the_way_back_has_half_a_minute_of_its_own() {
    let mut world = ordered();
    let update = Update { rollback_on_failure: true, ..wanted() };
    world.before = Some(Before::of(&update, &world.observed(), None));
    fallen(&mut world, &update);
    world.pass(SECOND * 600);
    let Next::RollBack(back, _) = world.next(&update) else { panic!("{:?}", world.next(&update)) };
    let back = Update { revision: "r-back".to_owned(), ..back };
    let patch = world.next(&back);
    assert!(world.carry_out(&patch, world.version));
    let start = world.now;
    world.settle(&["a:1"]);
    world.container("a").instance.life = Life::Crashing;
    let Next::Wait { until, .. } = world.next(&back) else { panic!("{:?}", world.next(&back)) };
    assert_eq!(until, Some(start + SECOND * 30));
    world.pass(SECOND * 30);
    assert_eq!(told(&[world.next(&back)]), ["failed: CrashLoop"]);
}
