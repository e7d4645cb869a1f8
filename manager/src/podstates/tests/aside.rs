//! A state for which there is no room.

use super::*;

/// Its set goes, which ends records, and a pod comes: both count when there is room again.
#[test]
fn its_records_stay_as_they_are() {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    assert_eq!(zones(&world.pass(SECOND)), [("web-0", "z1")]);
    let (writes, aside) = (world.writes, world.seen().aside());
    world.tell(&aside);
    world.pod("web-1", Some("n2"), "set");
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1")]);
    world.tell(&sts(3, true));
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1")]);
    assert_eq!(world.writes, writes);
    world.tell(&sts(3, false));
    let seen = world.seen();
    world.tell(&seen);
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1"), ("web-1", "z2")]);
}
