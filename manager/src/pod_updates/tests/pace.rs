//! Writes of a node: how far apart they are, and what waits for the next one.

use super::*;

/// The object is dear to write, and the agent writes it as well. Rows: how the others of the node stand,
/// whether another pod is wanted along with it, and whether the entry that is done goes at once.
#[test]
fn an_entry_that_is_done_goes_with_the_next_write_of_its_node() {
    use UpdatePhase::{Failed, RollingBack, Succeeded, Updating};
    let table = [
        (None, None, false, true),
        (None, Some(Updating), false, true),
        (Some(Succeeded), None, false, false),
        (Some(Succeeded), Some(Updating), false, false),
        (Some(Succeeded), Some(RollingBack), false, false),
        (Some(Succeeded), Some(Succeeded), false, true),
        (Some(Succeeded), Some(Failed), false, true),
        (Some(Succeeded), Some(Updating), true, true),
        (Some(Failed), Some(Updating), false, true),
    ];
    for (said, other, is_more, goes) in table {
        let mut world = World::new();
        world.want("p0", 1);
        world.want("p2", 1);
        world.settle();
        for (uid, said) in [("p0", said), ("p2", other)] {
            if let Some(said) = said {
                world.answer(uid, 1, said);
            }
        }
        world.updates.forget(&id("p0"));
        if is_more {
            world.want("p4", 1);
        }
        world.settle();
        let there: Vec<&str> = world.there("even").into_iter().map(|(uid, _)| uid).collect();
        assert_eq!(!there.contains(&"p0"), goes, "{said:?} {other:?} {is_more}: {there:?}");
        // Once nothing goes on, nothing is left.
        world.answer("p2", 1, Succeeded);
        world.updates.forget(&id("p2"));
        world.updates.forget(&id("p4"));
        world.settle();
        assert!(world.there("even").is_empty(), "{said:?} {other:?} {is_more}");
    }
}

#[test]
fn a_node_that_was_just_written_waits() {
    let mut world = World::new();
    world.want("p0", 1);
    world.want("p1", 1);
    let (first, again) = world.updates.owed(now().instant);
    assert_eq!((first.len(), again), (2, None), "nothing was written before");
    let begun = now().instant;
    first.iter().for_each(|order| world.write(order));
    world.show("even");
    world.want("p2", 1);
    world.want("p3", 1);
    let (orders, again) = world.updates.owed(begun);
    assert_eq!(orders.iter().map(|order| &*order.node).collect::<Vec<_>>(), ["odd"]);
    let until = again.unwrap();
    assert!(until >= begun + Duration::from_millis(100) && world.updates.owes());
    let (orders, again) = world.updates.owed(until);
    assert_eq!((orders.len(), again), (1, None));
}

/// The agent writes the object all the time.
#[test]
fn writes_that_come_too_late_are_asked_for_less_often() {
    let mut world = World::new();
    world.want("p0", 1);
    let mut orders = world.owed();
    for pause in [50, 100, 200, 400, 800, 1600, 3200, 3200, 3200].map(Duration::from_millis) {
        assert_eq!(orders.len(), 1);
        let begun = now().instant;
        world.changed("even");
        let shown = now().instant;
        let (early, again) = world.updates.owed(begun);
        assert!(early.is_empty());
        let until = again.unwrap();
        // It begins somewhere between the two.
        let (least, most) = (until - shown, until - begun);
        assert!(least <= pause && pause <= most, "{pause:?} is not from {least:?} to {most:?}");
        orders = world.updates.owed(until).0;
    }
    // The one that is in time ends that.
    world.write(&orders[0]);
    world.show("even");
    world.want("p2", 1);
    world.owed();
    let begun = now().instant;
    world.changed("even");
    let shown = now().instant;
    let pause = world.updates.owed(begun).1.unwrap() - shown;
    assert!(pause < Duration::from_millis(100), "{pause:?}");
}
