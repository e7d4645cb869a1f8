//! Many sets with many pods: they are looked at one after the other, with pauses for others, and none waits
//! for ever.

use super::world::{World, pod, set, with};
use crate::store::Kind;

/// So many sets, each of which has all of so many pods.
fn crowded(sets: usize, pods: usize) -> World {
    let names: Vec<String> = (0..sets).map(|number| format!("s{number:02}")).collect();
    let mut world = World::new();
    for number in 0..pods {
        let listed = names.clone();
        world.pod(with(pod(&format!("p{number}"), "log:1"), |it| it.listed = listed));
    }
    names.iter().for_each(|name| world.set(set(name, "log:1")));
    world.pass(3_000);
    world
}

/// Each of a hundred sets has all pods, and all sets are due at once.
#[test]
fn sets_that_are_due_together_are_looked_at_in_turns() {
    let mut world = crowded(100, 210);
    assert_eq!(world.index.size().members, 21_000);
    world.list(Kind::SidecarSet);
    let (now, before) = (world.now(), world.index.planned);
    world.index.owed(now);
    assert_eq!(world.index.planned - before, 96, "as many as have 20,000 pods");
    assert_eq!(world.index.next_deadline(), Some(now.instant), "at once, and after whatever is due");
    world.index.due(now);
    assert_eq!(world.index.planned - before, 100);
    assert!(world.index.next_deadline().is_none_or(|next| next > now.instant));
}

/// Four of five sets have as many pods as one call looks at, and each event touches all of them.
#[test]
fn the_last_one_has_its_turn_however_often_the_others_are_touched() {
    let mut world = crowded(5, 5_000);
    world.list(Kind::SidecarSet);
    let (now, before) = (world.now(), world.index.planned);
    world.index.owed(now);
    assert_eq!(world.index.planned - before, 4);
    world.index.look_at_all();
    world.index.due(now);
    assert_eq!(world.index.planned - before, 5);
}
