//! Swaps that are under way when another version is wanted: what is started meanwhile has its time, and then
//! the other one comes.

use super::{
    swaps::{COMPLETE, EMPTY, LIMIT, pod, reset, swap},
    world::annotation,
};
use crate::in_place_update::Life;

/// The manager writes another revision over the entry: the one of before is not there any more.
#[test]
fn a_newer_version_in_the_middle_goes_into_the_same_twin() {
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    assert_eq!(asking.images(), ["mesh:1", "mesh:2", "app:1"]);
    asking.requests.clear();
    swap(&mut asking, "newer", "mesh:3");
    asking.play(&[]);
    assert_eq!((asking.outcome("newer"), asking.images()), (COMPLETE, vec![EMPTY, "mesh:3", "app:1"]));
    // Where it had taken over, its swap is finished first.
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.world.settle(&[]);
    asking.requests.clear();
    swap(&mut asking, "newer", "mesh:3");
    asking.play(&[]);
    assert_eq!((asking.outcome("newer"), asking.images()), (COMPLETE, vec!["mesh:3", EMPTY, "app:1"]));
    // The one of before is wanted again: nothing is told of it.
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.requests.clear();
    swap(&mut asking, "older", "mesh:1");
    asking.play(&[]);
    assert_eq!((asking.outcome("older"), asking.images()), (COMPLETE, vec!["mesh:1", EMPTY, "app:1"]));
    assert_eq!(asking.resets, []);
    // A newer one that never takes over leads to the one that served all the time.
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.requests.clear();
    swap(&mut asking, "newer", "bad");
    asking.play(&["bad"]);
    assert_eq!(asking.images(), ["mesh:1", EMPTY, "app:1"]);
}

/// The new one may have the sockets of the old one, which is wanted again: it has its time to take over, and
/// not more, also where annotations are written meanwhile.
#[test]
fn the_version_of_before_lets_the_one_under_way_take_over() {
    for bad in [&["mesh:2"][..], &[]] {
        for annotated in [false, true] {
            let what = format!("{bad:?}, annotated: {annotated}");
            let mut asking = pod();
            swap(&mut asking, "r", "mesh:2");
            asking.act();
            asking.world.settle(&["mesh:2"]);
            asking.requests.clear();
            let older = swap(&mut asking, "older", "mesh:1");
            older.metadata.extend(annotated.then(|| (annotation("hash"), "1".to_owned())));
            asking.act();
            assert_eq!(
                asking.images(),
                ["mesh:1", "mesh:2", "app:1"],
                "{what}: it may be about to take over"
            );
            asking.play(bad);
            assert_eq!(
                (asking.outcome("older"), asking.images()),
                (COMPLETE, vec!["mesh:1", EMPTY, "app:1"])
            );
            let took_over = asking.resets.first() == Some(&reset("mesh-1", "mesh-2", false));
            assert_eq!(took_over, bad.is_empty(), "{what}: {:#?}", asking.log);
            assert_eq!(asking.world.restarts()[2], 0, "{what}: the app runs on");
        }
    }
}

/// The second one may have them where a third one is wanted, too, which comes after it, or after its time.
#[test]
fn a_third_version_lets_the_one_under_way_take_over() {
    for (bad, images) in [(&["mesh:2"][..], [EMPTY, "mesh:3", "app:1"]), (&[], ["mesh:3", EMPTY, "app:1"])] {
        let mut asking = pod();
        swap(&mut asking, "r", "mesh:2");
        asking.act();
        asking.world.settle(&["mesh:2"]);
        asking.requests.clear();
        swap(&mut asking, "third", "mesh:3");
        asking.act();
        assert_eq!(asking.images(), ["mesh:1", "mesh:2", "app:1"], "{bad:?}: it may be about to take over");
        asking.play(bad);
        assert_eq!((asking.outcome("third"), asking.images()), (COMPLETE, images.to_vec()), "{bad:?}");
        let taken_over = asking.resets.len();
        assert_eq!(taken_over, if bad.is_empty() { 2 } else { 1 }, "{bad:?}: {:?}", asking.resets);
        assert_eq!(asking.world.restarts()[2], 0, "{bad:?}: the app runs on");
    }
    // One that does not run may be the reason for the third one.
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.world.settle(&["mesh:2"]);
    asking.world.container("mesh-2").instance.life = Life::Crashing;
    asking.requests.clear();
    swap(&mut asking, "third", "mesh:3");
    asking.act();
    assert_eq!(asking.images(), ["mesh:1", "mesh:3", "app:1"]);
}

/// One that finds it under way gives it no less, and no more.
#[test]
fn a_version_has_the_time_that_its_own_request_gave_it() {
    let long = LIMIT * 10;
    for image in ["mesh:1", "mesh:3"] {
        let mut asking = pod();
        swap(&mut asking, "r", "mesh:2").swaps.get_mut("mesh").unwrap().limit = long;
        asking.act();
        asking.world.settle(&["mesh:2"]);
        asking.requests.clear();
        swap(&mut asking, "next", image);
        asking.world.pass(LIMIT * 2);
        asking.act();
        assert_eq!(asking.images()[1], "mesh:2", "{image}: it has time left");
        asking.world.pass(long);
        asking.act();
        assert_ne!(asking.images()[1], "mesh:2", "{image}: it had its time");
    }
}
