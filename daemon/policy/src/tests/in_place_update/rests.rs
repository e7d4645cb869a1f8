//! Rests of requests that nobody makes any more: what is left to do of a swap in each of its stages, and
//! that it ends with one version and one that rests.

use std::time::Duration;

use super::{
    asking::Asking,
    swaps::{EMPTY, LIMIT, hook_is_ended, pod, swap},
};
use crate::{
    ContainerName,
    in_place_update::{FailureReason, UpdateOutcome, UpdateOwner, UpdateRequest, WORKING},
};

const GAVE_UP: UpdateOutcome = UpdateOutcome::Failed(FailureReason::MigrationTimeout);

/// Stages of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Asked,
    TakenUp,
    Patched,
    Runs,
    TakenOver,
    Emptying,
    Returning,
    Done,
}

/// A swap of `mesh` to `mesh:2` in this stage.
fn asking(stage: At) -> Asking {
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    if stage >= At::TakenUp {
        let planned = asking.plan();
        asking.write(&planned);
    }
    if stage >= At::Patched {
        asking.act();
        assert_eq!(asking.images(), ["mesh:1", "mesh:2", "app:1"]);
    }
    match stage {
        At::Asked | At::TakenUp | At::Patched => {}
        At::Runs => asking.world.settle(&["mesh:2"]),
        At::TakenOver => asking.world.settle(&[]),
        At::Emptying => {
            asking.world.settle(&[]);
            asking.act();
            assert_eq!(asking.images()[0], EMPTY);
        }
        At::Returning => {
            asking.world.settle(&["mesh:2"]);
            asking.world.pass(LIMIT);
            asking.act();
            assert_eq!(asking.images()[1], EMPTY);
        }
        At::Done => asking.play(&[]),
    }
    asking
}

/// Nobody makes the requests any more.
fn withdraw(asking: &mut Asking) {
    asking.requests = asking.requests.iter().filter_map(UpdateRequest::to_rest).collect();
}

#[test]
fn each_stage_ends_with_one_version_and_one_that_rests() {
    let (back, there) = (["mesh:1", EMPTY], [EMPTY, "mesh:2"]);
    // The stage, whether something is left to do, and the images in the end.
    let table = [
        (At::Asked, false, back),
        (At::TakenUp, true, back),
        (At::Patched, true, there),
        (At::Runs, true, there),
        (At::TakenOver, true, there),
        (At::Emptying, true, there),
        (At::Returning, true, back),
        (At::Done, false, there),
    ];
    for (stage, is_left, images) in table {
        let mut asking = asking(stage);
        withdraw(&mut asking);
        assert_eq!(!asking.requests.is_empty(), is_left, "{stage:?}");
        let before = asking.world.version;
        asking.play(&[]);
        assert_eq!(asking.images()[..2], images, "{stage:?}: {:#?}", asking.log);
        assert!(asking.world.version <= before + 1, "{stage:?}: one patch at the most");
        assert_eq!(asking.world.restarts()[2], 0, "{stage:?}: the app runs on");
        let runs: Vec<&str> = asking.world.containers.iter().map(|container| &*container.runs).collect();
        assert_eq!(runs[..2], images, "{stage:?}");
        if is_left {
            let outcome = if stage == At::Returning { GAVE_UP } else { UpdateOutcome::Complete };
            assert_eq!(asking.outcome("r"), outcome, "{stage:?}");
        }
        let works = if images == back { "mesh-1" } else { "mesh-2" };
        let working = format!(r#"{{"mesh":"{works}","other":"other-2"}}"#);
        let key = super::world::annotation(WORKING);
        assert_eq!(asking.world.metadata.get(&key), Some(&working), "{stage:?}");
    }
}

/// A version that does not take over has the time that it had, and not more, however late anybody looks.
#[test]
fn a_version_that_never_takes_over_is_given_up() {
    for stage in [At::Patched, At::Runs] {
        for late in [0, 3600] {
            let mut asking = asking(stage);
            withdraw(&mut asking);
            asking.act();
            assert_eq!(asking.images()[..2], ["mesh:1", "mesh:2"], "{stage:?}: it has its time");
            asking.world.pass(Duration::from_secs(late));
            asking.play(&["mesh:2"]);
            assert_eq!(asking.images()[..2], ["mesh:1", EMPTY], "{stage:?}, {late} s late");
            assert_eq!(asking.outcome("r"), GAVE_UP, "{stage:?}, {late} s late");
            assert_eq!(asking.world.restarts()[2], 0, "the app runs on");
            assert!(asking.resets.iter().all(|reset| reset.gave_up) && asking.resets.len() == 1);
        }
    }
}

/// Another process reads that a swap was begun, and not how long its version has: the pod's record says that.
#[test]
fn the_time_of_a_version_outlives_its_request() {
    let long = LIMIT * 10;
    let mut asking = asking(At::Asked);
    asking.requests[0].swaps.get_mut("mesh").unwrap().limit = long;
    asking.act();
    asking.world.settle(&["mesh:2"]);
    withdraw(&mut asking);
    asking.requests[0].swaps.get_mut("mesh").unwrap().limit = LIMIT;
    asking.world.pass(LIMIT * 2);
    asking.act();
    assert_eq!(asking.images()[..2], ["mesh:1", "mesh:2"], "it has time left");
    asking.world.pass(long);
    asking.play(&["mesh:2"]);
    assert_eq!((asking.outcome("r"), &asking.images()[..2]), (GAVE_UP, &["mesh:1", EMPTY][..]));
}

/// Its hook holds the kubelet, which comes to nothing else of the pod: it is stopped when it had its time.
#[test]
fn a_hook_that_hangs_is_ended() {
    let mut asking = asking(At::Runs);
    asking.world.container("mesh-2").instance.in_hook = true;
    withdraw(&mut asking);
    asking.act();
    assert_eq!(asking.images()[1], "mesh:2");
    asking.world.pass(LIMIT);
    asking.act();
    assert_eq!(asking.images()[1], EMPTY);
    hook_is_ended(&mut asking);
}

/// The pod does not say who serves, as where somebody has edited it: nobody guesses.
#[test]
fn twins_of_which_nobody_knows_who_serves_stay() {
    let mut asking = asking(At::Runs);
    withdraw(&mut asking);
    asking.world.metadata.clear();
    asking.world.kubelet_learns();
    asking.play(&[]);
    assert!(matches!(asking.outcome("r"), UpdateOutcome::Failed(_)));
    assert_eq!(asking.images()[..2], ["mesh:1", "mesh:2"]);
}

/// Another set swaps the same twins, as one with another name does: it is not refused for it.
#[test]
fn another_owner_takes_its_place() {
    let mut asking = asking(At::Runs);
    withdraw(&mut asking);
    swap(&mut asking, "renamed", "mesh:3").owner = UpdateOwner::SidecarSet("t".to_owned());
    let planned = asking.plan();
    assert_eq!(planned.next, None, "it writes down what the pod was before anything else");
    let [(id, report)] = &planned.reports[..] else { panic!("{planned:?}") };
    assert_eq!((id.as_str(), report.outcome), ("renamed", None));
    let before = report.previous.as_ref().unwrap();
    let image = before.images.get(&ContainerName::from("mesh-2")).map(|image| &**image);
    assert_eq!(image, Some(EMPTY), "what was under way is no state to return to");
}

/// A newer request of the same pod goes on beside it, whoever makes it.
#[test]
fn others_go_on_beside_it() {
    let mut asking = asking(At::Runs);
    withdraw(&mut asking);
    asking.ask("app", &[("app", "app:2")], &[]);
    asking.play(&[]);
    assert_eq!(asking.outcome("app"), UpdateOutcome::Complete);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Complete);
    let images = asking.images();
    assert_eq!(images[2], "app:2");
    assert_eq!(images[..2].iter().filter(|image| **image == EMPTY).count(), 1, "{images:?}");
}
