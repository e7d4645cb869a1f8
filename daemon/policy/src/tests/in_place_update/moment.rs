//! The moment of a patch, of the next one and of the gate, against the kubelet's looks at the runtime.

use std::time::Duration;

use super::world::{RELIST, World, told, update};
use crate::in_place_update::{Gate, Leftovers, Life, Next, Update, Why};

fn ordered() -> World {
    World::of(&[("a", Some(1), &[]), ("b", Some(0), &["k"])])
}

fn both() -> Update {
    update("r", &[("a", "a:2"), ("b", "b:2")], &[])
}

/// Carries out what is asked for until something is waited for.
fn act(world: &mut World, update: &Update) -> (Vec<String>, Next) {
    let mut steps = Vec::new();
    loop {
        let step = world.next(update);
        if matches!(step, Next::Wait { .. } | Next::Done) {
            return (told(&steps), step);
        }
        assert!(world.carry_out(&step, world.version));
        steps.push(step);
        assert!(steps.len() < 20, "never waits: {:?}", told(&steps));
    }
}

#[test]
fn without_leftovers_the_patch_goes_out_at_once() {
    for (gate, expect) in [
        (Gate::Absent, &["pull a:2", "patch a:2"][..]),
        (Gate::Ready, &["pull a:2", "not ready", "patch a:2"]),
    ] {
        let (mut world, update) = (ordered(), update("r", &[("a", "a:2")], &[]));
        world.gate = gate;
        assert_eq!(act(&mut world, &update).0, expect, "{gate:?}");
    }
}

#[test]
fn leftovers_go_first_and_the_kubelet_sees_that_before_the_patch() {
    let (mut world, update) = (ordered(), both());
    world.container("a").leftovers = Leftovers::There(["a-old".into()].into());
    world.container("b").leftovers = Leftovers::There(["b-old".into()].into());
    let (steps, waits) = act(&mut world, &update);
    assert_eq!(steps, ["pull a:2 b:2", "not ready", "clear a-old b-old"]);
    let until = Some(world.now + RELIST);
    assert_eq!(waits, Next::Wait { until, why: Why::Relist });
    // By the kubelet's look, or because it has had the time for one.
    world.pass(RELIST);
    assert_eq!(act(&mut world, &update).0, ["patch a:2"]);
    // The lower one's are long gone.
    world.settle(&[]);
    assert_eq!(act(&mut world, &update).0, ["patch b:2"]);
}

#[test]
fn leftovers_of_what_is_not_moved_are_nobodys_business() {
    let (mut world, update) = (ordered(), update("r", &[("a", "a:2")], &[("k", "2")]));
    world.container("b").leftovers = Leftovers::There(["b-old".into()].into());
    assert_eq!(act(&mut world, &update).0, ["pull a:2", "not ready", "patch a:2"]);
}

#[test]
fn leftovers_go_while_the_grace_passes() {
    let (mut world, mut update) = (ordered(), both());
    update.grace = RELIST * 5;
    world.container("a").leftovers = Leftovers::There(["a-old".into()].into());
    let (steps, waits) = act(&mut world, &update);
    assert_eq!(steps, ["pull a:2 b:2", "not ready", "clear a-old"]);
    assert!(matches!(waits, Next::Wait { why: Why::Grace, .. }), "{waits:?}");
    world.pass(RELIST * 5);
    assert_eq!(act(&mut world, &update).0, ["patch a:2"]);
}

#[test]
fn no_wait_for_a_look_outlasts_the_deadline() {
    let (mut world, mut update) = (ordered(), both());
    update.deadline = Some(world.now + Duration::from_millis(300));
    world.container("a").leftovers = Leftovers::There(["a-old".into()].into());
    assert_eq!(act(&mut world, &update).1, Next::Wait { until: update.deadline, why: Why::Relist });
    world.pass(RELIST);
    assert_eq!(told(&[world.next(&update)]), ["ready"], "the pod goes back into service");
}

/// Whether the lower batch goes, and whether the update is complete, by what is known of the upper container:
/// of one with a hook the kubelet's word counts alone.
#[test]
fn the_next_batch_does_not_wait_for_the_kubelets_word_and_the_end_does() {
    for (life, early_ready, hooked, goes) in [
        (Life::Running { ready: false }, false, false, false),
        (Life::Running { ready: false }, true, false, true),
        (Life::Running { ready: true }, false, false, true),
        (Life::Running { ready: false }, false, true, false),
        (Life::Running { ready: false }, true, true, false),
        (Life::Running { ready: true }, false, true, true),
        (Life::Running { ready: true }, true, true, true),
        (Life::Restarting, true, false, false),
        (Life::Crashing, true, false, false),
    ] {
        let (mut world, update) = (ordered(), both());
        act(&mut world, &update);
        world.settle(&[]);
        let instance = &mut world.container("a").instance;
        (instance.life, instance.early_ready, instance.hooked) = (life, early_ready, hooked);
        let (steps, _) = act(&mut world, &update);
        let row = format!("{life:?} {early_ready} {hooked}");
        assert_eq!(steps, if goes { &["patch b:2"][..] } else { &[] }, "{row}");
        if goes {
            world.kubelet_learns();
            (0..3).for_each(|_| world.kubelet_syncs(1));
            world.becomes_ready(1);
            let ended = act(&mut world, &update).1;
            assert_eq!(ended == Next::Done, life == Life::Running { ready: true }, "{row}: {ended:?}");
        }
    }
}

/// The gate is opened between the stop and the start, so that the kubelet's next look finds both; not for a
/// lower batch, not before the kubelet is at it, and not for one that went by itself.
#[test]
fn the_gate_is_opened_before_the_next_instance_is_started() {
    let (mut world, update) = (ordered(), both());
    act(&mut world, &update);
    world.kubelet_learns();
    world.kubelet_syncs(0);
    assert_eq!(world.container("a").instance.life, Life::Stopped);
    assert!(act(&mut world, &update).0.is_empty(), "another batch is to come");
    world.settle(&[]);
    assert_eq!(act(&mut world, &update).0, ["patch b:2"]);
    world.container("b").instance.life = Life::Stopped;
    assert!(act(&mut world, &update).0.is_empty(), "the kubelet does not know");
    world.container("b").instance.life = Life::Restarting;
    world.kubelet_learns();
    assert!(act(&mut world, &update).0.is_empty(), "it exited by itself");
    world.container("b").instance.life = Life::Stopped;
    assert_eq!(act(&mut world, &update).0, ["ready"]);
    assert_ne!(world.next(&update), Next::Done);
    world.settle(&[]);
    assert_eq!(act(&mut world, &update), (Vec::new(), Next::Done));
}
