//! A second update in the middle of the first one, at every point of it.

use super::world::{World, told, update};
use crate::in_place_update::{Before, Next, Update};

fn three() -> World {
    World::of(&[("a", Some(2), &["k"]), ("b", Some(1), &["l"]), ("c", Some(0), &["l"])])
}

fn first() -> Update {
    update("r1", &[("a", "a:2"), ("c", "c:2")], &[("k", "2"), ("l", "2")])
}

/// The worlds that the first update passes through, each before one of its steps; the kubelet does its part
/// or not yet.
fn moments() -> Vec<World> {
    let (mut world, mut moments) = (three(), Vec::new());
    loop {
        moments.push(world.clone());
        assert!(moments.len() < 500, "never ends");
        let step = world.next(&first());
        match step {
            Next::Done => return moments,
            Next::Wait { .. } | Next::Recreate(_) => {
                world.carry_out(&step, world.version);
                world.kubelet_learns();
                for index in 0..3 {
                    moments.push(world.clone());
                    world.kubelet_syncs(index);
                    moments.push(world.clone());
                    world.kubelet_syncs(index);
                }
                world.settle(&[]);
            }
            _ => assert!(world.carry_out(&step, world.version)),
        }
    }
}

#[test]
fn it_ends_in_exactly_the_second_update() {
    let seconds = [
        update("r2", &[("a", "a:3"), ("c", "c:3")], &[("k", "3"), ("l", "3")]),
        update("r2", &[("b", "b:3")], &[]),
        update("r2", &[("a", "a:2"), ("c", "c:2")], &[("k", "2"), ("l", "2")]),
        update("r2", &[], &[("l", "3")]),
        // The way back.
        update("r2", &[("a", "a:1"), ("c", "c:1")], &[("k", "1"), ("l", "1")]),
    ];
    let moments = moments();
    assert!(moments.len() > 20, "{}", moments.len());
    for second in &seconds {
        for moment in &moments {
            let mut world = moment.clone();
            let (_, end) = world.play(second, &[]);
            assert_eq!(end, Next::Done);
            world.is_what_is_wanted(second);
            assert!(world.restarts().iter().all(|restarts| *restarts <= 2), "{:?}", world.restarts());
        }
    }
}

#[test]
fn what_was_not_touched_goes_straight_to_the_second() {
    let mut world = three();
    while world.version == 0 {
        let step = world.next(&first());
        world.carry_out(&step, world.version);
    }
    world.settle(&[]);
    let second = update("r2", &[("a", "a:3"), ("c", "c:3")], &[("k", "2")]);
    let (steps, _) = world.play(&second, &[]);
    assert_eq!(told(&steps), ["pull a:3 c:3", "patch a:3", "patch c:3", "ready"]);
    assert_eq!(world.restarts(), [2, 0, 1], "l, which the first one had not set yet, is dropped");
}

#[test]
fn a_restart_that_the_first_still_owed_is_not_lost() {
    // b has the value already, and was not restarted for it.
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &["k"])]);
    let first = update("r1", &[], &[("k", "2")]);
    while world.version == 0 {
        let step = world.next(&first);
        world.carry_out(&step, world.version);
    }
    world.kubelet_learns();
    let second = update("r2", &[("a", "a:2")], &[]);
    let (steps, _) = world.play(&second, &[]);
    assert_eq!(told(&steps), ["pull a:2", "patch a:2", "patch", "recreate b", "ready"], "in its turn");
    assert_eq!(world.restarts(), [1, 1]);
    world.is_what_is_wanted(&second);
}

#[test]
fn values_that_came_with_an_image_that_is_taken_back_are_still_read() {
    let mut world = World::of(&[("a", None, &["k"])]);
    let first = update("r1", &[("a", "a:2")], &[("k", "2")]);
    while world.version == 0 {
        let step = world.next(&first);
        world.carry_out(&step, world.version);
    }
    let second = update("r2", &[("a", "a:1")], &[]);
    let (steps, end) = world.play(&second, &[]);
    assert_eq!(told(&steps), ["patch a:1", "recreate a", "ready"]);
    assert_eq!((world.restarts(), end), (vec![1], Next::Done));
    world.is_what_is_wanted(&second);
}

#[test]
fn a_restart_that_the_kubelet_makes_anyway_is_only_waited_for() {
    let mut world = World::of(&[("a", Some(1), &["k"]), ("b", Some(0), &[])]);
    let first = update("r1", &[("a", "a:2")], &[("k", "2")]);
    while world.version == 0 {
        let step = world.next(&first);
        world.carry_out(&step, world.version);
    }
    let second = update("r2", &[("b", "b:2")], &[]);
    let (steps, _) = world.play(&second, &[]);
    // The second patch says that nothing is waited for any more.
    assert_eq!(told(&steps), ["pull b:2", "patch b:2", "patch", "ready"]);
    assert_eq!(world.restarts(), [1, 1]);
    world.is_what_is_wanted(&second);
}

#[test]
fn a_restart_that_is_owed_no_more_is_not_made() {
    let mut world = World::of(&[("a", None, &["k"])]);
    let first = update("r1", &[], &[("k", "2")]);
    while world.version == 0 {
        let step = world.next(&first);
        world.carry_out(&step, world.version);
    }
    let second = update("r2", &[], &[("k", "1")]);
    assert_eq!(told(&[world.next(&second)]), ["patch k=1"], "before the kubelet has learned of the first");
    let (steps, end) = world.play(&second, &[]);
    assert_eq!((told(&steps), end), (vec!["patch k=1".to_owned(), "ready".to_owned()], Next::Done));
    assert_eq!(world.restarts(), [0]);
}

#[test]
fn a_second_that_cannot_be_pulled_leaves_a_pod_in_service() {
    for moment in moments() {
        let mut world = moment.clone();
        world.refused.insert("c:3".into(), "no".to_owned());
        let (steps, end) = world.play(&update("r2", &[("c", "c:3")], &[]), &[]);
        assert_eq!(told(&[end]), ["failed: ImageNotPulled"]);
        assert!(told(&steps).is_empty() || told(&steps) == ["ready"], "{:?}", told(&steps));
        assert_eq!(world.version, moment.version);
        assert!(!matches!(world.gate, crate::in_place_update::Gate::NotReady { .. }));
    }
}

#[test]
fn a_failed_second_returns_to_what_was_before_the_first() {
    let mut world = three();
    let before = Before::of(&first(), &world.observed(), None);
    let start = world.clone();
    while world.version == 0 {
        let step = world.next(&first());
        world.carry_out(&step, world.version);
    }
    world.settle(&[]);
    let second = Update {
        rollback_on_failure: true,
        deadline: Some(world.now + std::time::Duration::from_secs(60)),
        ..update("r2", &[("b", "bad")], &[])
    };
    world.before = Some(Before::of(&second, &world.observed(), Some(&before)));
    let (_, end) = world.play(&second, &["bad"]);
    let Next::RollBack(back, _) = end else { panic!("{end:?}") };
    assert_eq!(world.play(&back, &["bad"]).1, Next::Done);
    assert_eq!(world.metadata, start.metadata);
    for (now, then) in world.containers.iter().zip(&start.containers) {
        assert_eq!(now.image, then.image);
    }
    world.is_what_is_wanted(&back);
}

#[test]
fn a_restart_that_nobody_makes_any_more_is_not_waited_for() {
    let mut world = World::of(&[("a", None, &["k"])]);
    let first = update("r1", &[], &[("k", "2")]);
    while world.version == 0 {
        let step = world.next(&first);
        world.carry_out(&step, world.version);
    }
    // Another one joins it, beneath.
    world.refused.insert("a:3".into(), "no".to_owned());
    let (steps, end) = world.play(&update("r1", &[("a", "a:3")], &[("k", "2")]), &[]);
    assert_eq!((told(&steps), told(&[end])), (vec![], vec!["failed: ImageNotPulled".to_owned()]));
    assert!(matches!(world.gate, crate::in_place_update::Gate::NotReady { .. }), "until somebody asks again");
}
