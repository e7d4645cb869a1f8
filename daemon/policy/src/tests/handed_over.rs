//! After a hand-over: the calls that wait are served to their end, and nothing else is owed.

use std::time::Duration;

use super::world::{World, pod};
use crate::{Amendment, CallId, Event, HoldReason, Question, Step, Verdict};

#[test]
fn a_held_stop_is_kept_to_its_end() {
    let three = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(three.seen());
    for name in ["a", "b"] {
        world.launch(&three, name);
    }
    world.apply(three.deleting(30).seen());
    let (a, verdict) = world.stop("a-0", 30);
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::StillRunning(_), .. }), "{verdict:?}");
    world.apply(Event::HandedOver);
    assert!(world.node.is_waiting());
    // The stop of the other one goes to the successor; that it has ended the runtime tells.
    world.pass(Duration::from_secs(3));
    world.exit("b-0", 0);
    assert!(world.node.next_deadline().is_some_and(|due| due <= world.now));
    assert_eq!(world.node.plan(world.now), [Question::InspectSandbox("sandbox".into()).into()]);
    world.inspect();
    assert_eq!(world.ask(&a), Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(27))));
    world.end(&a);
    assert!(!world.node.is_waiting());
    assert_eq!(world.node.next_deadline(), None);
}

#[test]
fn what_is_owed_is_the_successors() {
    let one = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    world.apply(one.seen());
    world.launch(&one, "a");
    let (call, _) = world.create(&one, "b");
    world.end(&call);
    world.apply(Event::ContainerRemoved("a-0".into()));
    world.apply(Event::LatchesLoaded(vec![crate::Latch { sandbox: "sandbox".into(), priority: 1 }]));
    world.apply(Event::SandboxRemoved("sandbox".into()));
    assert_eq!(world.node.plan(world.now), [Step::ForgetLatches("sandbox".into())]);
    world.apply(Event::HandedOver);
    assert!(world.node.plan(world.now).is_empty());
    assert_eq!(world.node.next_deadline(), None);
    assert!(world.node.nudges(CallId(99), world.now).is_empty());
}
