//! Updates that fail, how far each had got by then, and the way back.

use std::time::Duration;

use super::world::{World, annotation, told, update};
use crate::in_place_update::{Before, FailureReason, Gate, Life, Liveness, Next, Update};

const MINUTE: Duration = Duration::from_secs(60);

fn ordered() -> World {
    World::of(&[("a", Some(1), &[]), ("b", Some(0), &["k"])])
}

fn limited(world: &World, rollback_on_failure: bool) -> Update {
    let deadline = Some(world.now + MINUTE);
    Update { deadline, rollback_on_failure, ..update("r", &[("a", "bad"), ("b", "y")], &[("k", "2")]) }
}

#[test]
fn a_missing_image_stops_nothing() {
    for rollback in [false, true] {
        let mut world = ordered();
        world.refused.insert("y".into(), "manifest unknown".to_owned());
        let update = limited(&world, rollback);
        world.before = Some(Before::of(&update, &world.observed(), None));
        let (steps, end) = world.play(&update, &[]);
        assert_eq!(steps, []);
        let Next::Failed(failure) = end else { panic!("{end:?}") };
        assert_eq!(failure.reason, FailureReason::ImageNotPulled);
        assert_eq!(failure.message, "image y could not be pulled: manifest unknown");
        assert_eq!((world.version, world.gate, world.restarts()), (0, Gate::Ready, vec![0, 0]));
    }
}

#[test]
fn a_crash_loop_stops_there() {
    let mut world = ordered();
    let update = limited(&world, false);
    let (steps, end) = world.play(&update, &["bad"]);
    assert_eq!(told(&steps), ["pull bad y", "not ready", "patch bad"]);
    let Next::Failed(failure) = end else { panic!("{end:?}") };
    assert_eq!(failure.reason, FailureReason::DeadlineExceeded);
    assert_eq!(
        failure.message,
        "the update has exceeded its deadline: container a runs what is wanted and is not Ready (restart count 1)"
    );
    assert_eq!(&*world.container("b").image, "b:1");
    assert_eq!(world.restarts(), [1, 0]);
}

#[test]
fn a_crash_loop_is_rolled_back() {
    let mut world = ordered();
    let update = limited(&world, true);
    world.before = Some(Before::of(&update, &world.observed(), None));
    let (_, end) = world.play(&update, &["bad"]);
    let Next::RollBack(back, failure) = end else { panic!("{end:?}") };
    assert_eq!(failure.reason, FailureReason::DeadlineExceeded);
    let back = Update { revision: "back".to_owned(), ..back };
    let (steps, end) = world.play(&back, &["bad"]);
    assert_eq!(told(&steps), ["patch a:1", "ready"], "b was never touched");
    assert_eq!(end, Next::Done);
    assert_eq!(world.restarts(), [2, 0]);
    world.is_what_is_wanted(&back);
}

#[test]
fn a_rollback_brings_values_back_too() {
    let mut world = World::of(&[("a", Some(1), &["k", "new"]), ("b", Some(0), &[])]);
    world.metadata.remove(&annotation("new"));
    world.container("a").instance.env = Some(world.observed().containers[0].env);
    let update = Update {
        rollback_on_failure: true,
        deadline: Some(world.now + MINUTE),
        ..update("r", &[("b", "bad")], &[("k", "2"), ("new", "x")])
    };
    world.before = Some(Before::of(&update, &world.observed(), None));
    let (_, end) = world.play(&update, &["bad"]);
    let Next::RollBack(back, _) = end else { panic!("{end:?}") };
    assert!(!back.rollback_on_failure);
    let (steps, end) = world.play(&back, &["bad"]);
    assert_eq!(told(&steps), ["not ready", "patch k=1 new=", "recreate a", "patch b:1", "ready"]);
    assert_eq!(end, Next::Done);
    assert_eq!(world.restarts(), [2, 2]);
}

#[test]
fn a_deadline_before_the_first_patch_gives_the_pod_back() {
    let mut world = ordered();
    let grace = MINUTE * 2;
    for rollback in [false, true] {
        let update = Update { grace, ..limited(&world, rollback) };
        world.before = Some(Before::of(&update, &world.observed(), None));
        let (steps, end) = world.play(&update, &[]);
        assert_eq!(told(&steps).last().unwrap(), "ready");
        assert_eq!(told(&[end]), ["failed: DeadlineExceeded"]);
        assert_eq!((world.version, world.gate, world.restarts()), (0, Gate::Ready, vec![0, 0]));
    }
}

#[test]
fn done_is_done_after_the_deadline_too() {
    let mut world = ordered();
    let update = limited(&world, false);
    let (_, end) = world.play(&update, &[]);
    assert_eq!(end, Next::Done);
    world.now += MINUTE * 2;
    assert_eq!(world.next(&update), Next::Done);
}

#[test]
fn a_pod_deleted_in_the_middle_is_left_alone() {
    let mut world = ordered();
    let update = limited(&world, true);
    world.before = Some(Before::of(&update, &world.observed(), None));
    let mut seen = 0;
    for _ in 0..20 {
        let step = world.next(&update);
        let mut gone = world.clone();
        gone.liveness = Liveness::Gone;
        assert_eq!(told(&[gone.next(&update)]), ["failed: PodGone"]);
        seen += u32::from(matches!(step, Next::Patch(_)));
        world.carry_out(&step, world.version);
        world.settle(&[]);
    }
    assert_eq!((seen, world.next(&update)), (2, Next::Done));
}

#[test]
fn a_container_that_has_ended_is_not_waited_for() {
    let mut world = ordered();
    let update = update("r", &[("a", "x"), ("b", "y")], &[]);
    world.container("b").instance.life = Life::Ended;
    let (steps, end) = world.play(&update, &[]);
    assert_eq!((told(&steps), told(&[end])), (vec![], vec!["failed: ContainerEnded".to_owned()]));
    // One that ends after it was moved.
    let mut world = ordered();
    let mut steps = 0;
    while !matches!(world.next(&update), Next::Wait { .. }) {
        let step = world.next(&update);
        world.carry_out(&step, world.version);
        steps += 1;
    }
    assert_eq!(steps, 3);
    world.settle(&[]);
    world.container("a").instance.life = Life::Ended;
    assert_eq!(told(&[world.next(&update)]), ["failed: ContainerEnded"]);
}

#[test]
fn an_image_lost_between_two_batches_returns_what_was_moved() {
    for rollback in [false, true] {
        let mut world = ordered();
        let update = Update { rollback_on_failure: rollback, ..update("r", &[("a", "x"), ("b", "y")], &[]) };
        world.before = Some(Before::of(&update, &world.observed(), None));
        while world.version == 0 {
            let step = world.next(&update);
            world.carry_out(&step, world.version);
        }
        world.settle(&[]);
        world.on_node.remove("y");
        world.refused.insert("y".into(), "gone".to_owned());
        let (steps, end) = world.play(&update, &[]);
        let expected: (&[&str], &str) = match rollback {
            true => (&[], "roll back: ImageNotPulled"),
            false => (&["ready"], "failed: ImageNotPulled"),
        };
        assert_eq!(
            (&told(&steps)[..], told(&[end]).remove(0).as_str()),
            (&expected.0.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..], expected.1)
        );
    }
}
