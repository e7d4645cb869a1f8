//! Swaps of twins, from request to end: what is patched when, ways back, and that some twin serves at every
//! moment, whatever comes.

use std::time::Duration;

use super::{
    asking::Asking,
    world::{World, annotation},
};
use crate::in_place_update::{
    FailureReason, Leftovers, Life, Next, Reset, SwapPhase, UpdateOutcome, UpdateOwner, UpdateRequest,
    UpdateSource, WORKING, WantedSwap,
};

pub(super) const COMPLETE: UpdateOutcome = UpdateOutcome::Complete;
pub(super) const EMPTY: &str = "empty";
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// `mesh-1` serves `mesh:1`, `mesh-2` is empty, and there is an app.
pub(super) fn pod() -> Asking {
    let mut world = World::of(&[("mesh-1", None, &[]), ("mesh-2", None, &[]), ("app", None, &[])]);
    for (name, image) in [("mesh-1", "mesh:1"), ("mesh-2", EMPTY)] {
        let container = world.container(name);
        (container.image, container.runs) = (image.into(), image.into());
    }
    world.on_node.extend([EMPTY.into(), "mesh:1".into()]);
    let versions = [
        ("version.sidecarset.kruise.io/mesh-1", "1"),
        ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
        ("version.sidecarset.kruise.io/mesh-2", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
        (WORKING, r#"{"mesh":"mesh-1","other":"other-2"}"#),
    ];
    world.metadata.extend(versions.map(|(key, value)| (annotation(key), value.to_owned())));
    world.kubelet_learns();
    Asking::of(world)
}

/// The kubelet had its time to end the hook of the new twin: the agent does, and the swap has failed.
pub(super) fn hook_is_ended(asking: &mut Asking) {
    asking.world.pass(Duration::from_secs(3));
    let planned = asking.plan();
    let Some(Next::Stop(held)) = planned.next else { panic!("{planned:?}") };
    assert_eq!(held.keys().map(ToString::to_string).collect::<Vec<_>>(), ["mesh-2"]);
    asking.world.container("mesh-2").instance.in_hook = false;
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::MigrationTimeout));
}

pub(super) fn swap<'a>(asking: &'a mut Asking, id: &str, image: &str) -> &'a mut UpdateRequest {
    let image = Some(image.into());
    let wanted = WantedSwap { image, empty_image: EMPTY.into(), version: 0, limit: LIMIT };
    let request = asking.ask(id, &[], &[]);
    request.swaps.insert("mesh".to_owned(), wanted);
    request.source = UpdateSource::NodePodUpdate;
    (request.owner, request.keeps_service) = (UpdateOwner::SidecarSet("s".to_owned()), true);
    request.rollback_on_failure = true;
    request
}

pub(super) fn reset(twin: &str, serving: &str, gave_up: bool) -> Reset {
    Reset { twin: twin.into(), serving: serving.into(), gave_up }
}

fn value<'a>(asking: &'a Asking, key: &str) -> &'a str {
    asking.world.metadata.get(&annotation(key)).map(String::as_str).unwrap_or_default()
}

fn versions(asking: &Asking) -> [&str; 4] {
    ["version", "versionalt"]
        .map(|kind| ["mesh-1", "mesh-2"].map(|twin| format!("{kind}.sidecarset.kruise.io/{twin}")))
        .concat()
        .try_into()
        .map(|keys: [String; 4]| keys.map(|key| value(asking, &key)))
        .unwrap()
}

#[test]
fn two_patches_and_the_app_runs_on() {
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.play(&[]);
    let said: Vec<&str> =
        asking.log.iter().map(|line| line.split(" kruise.io").next().unwrap_or_default()).collect();
    assert_eq!(
        said,
        [
            "r: Updating",
            "pull mesh:2",
            "patch mesh:2",
            "patch empty version.sidecarset.kruise.io/mesh-1=0 versionalt.sidecarset.kruise.io/mesh-2=0",
            "r: complete"
        ]
    );
    assert_eq!(asking.images(), [EMPTY, "mesh:2", "app:1"]);
    assert_eq!(asking.world.restarts(), [1, 1, 0]);
    assert_eq!(asking.world.version, 2, "two patches");
    assert_eq!(versions(&asking), ["0", "2", "2", "0"]);
    assert_eq!(value(&asking, WORKING), r#"{"mesh":"mesh-2","other":"other-2"}"#);
    let report = &asking.report("r").swaps[0];
    assert_eq!((report.step, report.working.clone()), (SwapPhase::Done, Some("mesh-2".into())));
    // And the next one the other way.
    swap(&mut asking, "next", "mesh:3");
    asking.play(&[]);
    assert_eq!(asking.images(), ["mesh:3", EMPTY, "app:1"]);
    assert_eq!(versions(&asking), ["3", "0", "0", "3"]);
    assert_eq!(asking.world.restarts(), [2, 2, 0]);
    assert_eq!(asking.resets, [reset("mesh-1", "mesh-2", false), reset("mesh-2", "mesh-1", false)]);
}

/// The pod is as it was, and a swap to another version comes about.
fn is_as_before(asking: &mut Asking) {
    assert_eq!(asking.images(), ["mesh:1", EMPTY, "app:1"]);
    assert_eq!(versions(asking), ["1", "0", "0", "1"]);
    assert_eq!(value(asking, WORKING), r#"{"mesh":"mesh-1","other":"other-2"}"#);
    assert_eq!(asking.world.restarts()[2], 0);
    swap(asking, "rolled-back", "mesh:1");
    let before = asking.world.version;
    asking.play(&[]);
    assert_eq!(asking.outcome("rolled-back"), COMPLETE, "what served before is wanted again");
    assert!(asking.world.version <= before + 1, "only its record is written");
    swap(asking, "again", "mesh:9");
    asking.play(&[]);
    assert_eq!((asking.outcome("again"), asking.images()[1]), (COMPLETE, "mesh:9"));
}

#[test]
fn an_image_that_is_nowhere_changes_nothing() {
    let mut asking = pod();
    asking.world.refused.insert("bad".into(), "no such tag".to_owned());
    swap(&mut asking, "r", "bad");
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::ImageNotPulled));
    assert_eq!(asking.world.version, 0, "nothing was patched");
    is_as_before(&mut asking);
}

#[test]
fn one_that_never_takes_over_goes_back() {
    let mut asking = pod();
    swap(&mut asking, "r", "bad");
    asking.play(&["bad"]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::MigrationTimeout));
    assert!(
        asking.report("r").message.contains("mesh-2 has not taken over within 60 s"),
        "{:?}",
        asking.report("r")
    );
    assert_eq!(asking.world.version, 2, "there and back");
    assert_eq!(asking.resets, [reset("mesh-2", "mesh-1", true)]);
    is_as_before(&mut asking);
}

/// The kubelet does nothing for the pod as long as the hook runs; the agent ends it, and not before the pod
/// has the empty image again.
#[test]
fn a_hook_that_hangs_is_ended() {
    let mut asking = pod();
    swap(&mut asking, "r", "bad");
    asking.act();
    asking.world.settle(&["bad"]);
    asking.world.container("mesh-2").instance.in_hook = true;
    asking.act();
    assert!(!asking.log.iter().any(|line| line.starts_with("stop")), "{:#?}", asking.log);
    asking.world.pass(LIMIT);
    asking.act();
    assert_eq!(asking.images()[1], EMPTY);
    assert!(
        !asking.log.iter().any(|line| line.starts_with("stop")),
        "the kubelet may see to it: {:#?}",
        asking.log
    );
    hook_is_ended(&mut asking);
    is_as_before(&mut asking);
}

#[test]
fn the_second_patch_does_not_wait_for_the_kubelets_word() {
    let mut asking = pod();
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.world.settle(&["mesh:2"]);
    asking.act();
    assert_eq!(asking.images()[0], "mesh:1", "it is neither Ready nor has its hook ended");
    let instance = &mut asking.world.container("mesh-2").instance;
    // Its hook has ended: it has taken over.
    (instance.early_ready, instance.hooked) = (true, true);
    let mut seen = asking.world.observed();
    seen.kubelet_knows = false;
    let planned = asking.plan_of(&crate::in_place_update::Sight::Seen(Box::new(seen.clone())));
    assert!(matches!(&planned.next, Some(Next::Patch(patch)) if patch.images.len() == 1), "{planned:?}");
    // But for what else the kubelet may not know.
    seen.kubelet_told = false;
    let planned = asking.plan_of(&crate::in_place_update::Sight::Seen(Box::new(seen)));
    assert!(matches!(planned.next, Some(Next::Wait { .. })), "{planned:?}");
}

/// The old version may be what falls over: the new one has all of its time, and ends that.
#[test]
fn an_old_version_that_falls_over_is_no_fault_of_the_new_one() {
    let mut asking = pod();
    asking.world.container("mesh-1").instance.life = Life::Crashing;
    swap(&mut asking, "r", "mesh:2");
    asking.act();
    asking.world.kubelet_learns();
    (0..2).for_each(|_| asking.world.kubelet_syncs(1));
    asking.world.pass(LIMIT - Duration::from_secs(5));
    asking.act();
    assert_eq!(asking.report("r").rolling_back, None);
    assert_eq!(asking.images(), ["mesh:1", "mesh:2", "app:1"]);
    asking.world.becomes_ready(1);
    asking.act();
    assert_eq!(asking.images(), [EMPTY, "mesh:2", "app:1"]);
    // One that never takes over is given up all the same.
    let mut asking = pod();
    asking.world.container("mesh-1").instance.life = Life::Crashing;
    swap(&mut asking, "r", "bad");
    asking.play(&["mesh:1", "bad"]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::MigrationTimeout));
    assert_eq!(asking.images(), ["mesh:1", EMPTY, "app:1"]);
}

#[test]
fn swaps_that_make_no_sense_are_refused() {
    let mut asking = pod();
    swap(&mut asking, "r", EMPTY);
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::InvalidRequest));
    assert_eq!(asking.world.version, 0);
    let mut asking = pod();
    let request = swap(&mut asking, "r", "mesh:2");
    let wanted = request.swaps.remove("mesh").unwrap();
    request.swaps.insert("absent".to_owned(), wanted);
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), UpdateOutcome::Failed(FailureReason::ContainerNotFound));
}

#[test]
fn two_sets_and_a_workload_change_one_pod_at_once() {
    let mut world = pod().world;
    let more = World::of(&[("log", None, &[])]);
    world.containers.extend(more.containers);
    let mut asking = Asking::of(world);
    swap(&mut asking, "mesh", "mesh:2");
    let log = asking.ask("log", &[("log", "log:2")], &[]);
    log.source = UpdateSource::NodePodUpdate;
    (log.owner, log.keeps_service) = (UpdateOwner::SidecarSet("t".to_owned()), true);
    asking.ask("app", &[("app", "app:2")], &[]).source = UpdateSource::NodePodUpdate;
    asking.play(&[]);
    for id in ["mesh", "log", "app"] {
        assert_eq!(asking.outcome(id), COMPLETE, "{id}: {:#?}", asking.log);
    }
    assert_eq!(asking.images(), [EMPTY, "mesh:2", "app:2", "log:2"]);
    assert_eq!(asking.world.restarts(), [1, 1, 1, 1]);
    // Another owner that wants the twins is refused.
    let mut asking = pod();
    swap(&mut asking, "mesh", "mesh:2");
    let other = asking.ask("other", &[("mesh-2", "evil:1")], &[]);
    other.source = UpdateSource::NodePodUpdate;
    other.owner = UpdateOwner::SidecarSet("t".to_owned());
    asking.play(&[]);
    assert_eq!(asking.outcome("other"), UpdateOutcome::Failed(FailureReason::Conflict));
    assert_eq!(asking.outcome("mesh"), COMPLETE);
}

/// Leftovers of a swap go at its end, so that the kubelet has forgotten them before the next one begins,
/// which waits for nothing then. Leftovers of one that was given up are for people to look at.
#[test]
fn what_a_swap_leaves_goes_at_its_end() {
    for (image, cleared) in [("mesh:2", &["clear mesh-1-old mesh-2-old"][..]), ("bad", &[])] {
        let mut asking = pod();
        swap(&mut asking, "r", image);
        while asking.world.version < 2 {
            asking.act();
            asking.world.settle(&["bad"]);
            if image == "bad" {
                asking.world.pass(LIMIT);
            }
        }
        for twin in ["mesh-1", "mesh-2"] {
            let old = format!("{twin}-old").as_str().into();
            asking.world.container(twin).leftovers = Leftovers::There([old].into());
        }
        asking.play(&[]);
        let removed: Vec<&str> =
            asking.log.iter().map(String::as_str).filter(|line| line.starts_with("clear")).collect();
        assert_eq!(removed, cleared, "{image}: {:#?}", asking.log);
        assert_eq!(asking.outcome("r") == COMPLETE, !cleared.is_empty(), "{image}");
        assert_eq!(asking.world.version, 2, "{image}");
    }
}

/// Any sequence of versions, good and bad, asked for at any moment, with a kubelet that does its part at any
/// pace: some twin with a version runs and is Ready all the time.
#[test]
fn somebody_serves_whatever_comes() {
    for seed in 0..100_u32 {
        let mut random = seed.wrapping_mul(2_654_435_761).wrapping_add(99);
        let mut next = |of: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % of
        };
        let mut asking = pod();
        let mut asked = 0;
        for turn in 0..80 {
            if turn < 60 && next(5) == 0 {
                let image = ["mesh:1", "mesh:2", "mesh:3", "bad"][next(4) as usize];
                asked += 1;
                // An entry of the same owner takes the place of the one before.
                asking.requests.clear();
                swap(&mut asking, &format!("r{asked}"), image);
            }
            match next(4) {
                0 => asking.world.kubelet_learns(),
                1 => {
                    let index = next(2) as usize;
                    asking.world.kubelet_syncs(index);
                }
                2 => {
                    let index = next(2) as usize;
                    if &*asking.world.containers[index].runs != "bad" {
                        asking.world.becomes_ready(index);
                    }
                }
                _ => asking.world.pass(Duration::from_secs(u64::from(next(30)))),
            }
            asking.act();
            let serves = asking.world.containers[..2].iter().any(|twin| {
                let runs = &*twin.runs != EMPTY && &*twin.runs != "bad";
                runs && twin.instance.life == (Life::Running { ready: true })
            });
            assert!(serves, "seed {seed}, turn {turn}: nobody serves: {:#?}", asking.log);
        }
        if asked > 0 {
            asking.play(&["bad"]);
            let rests = asking.images()[..2].iter().filter(|image| **image == EMPTY).count();
            assert_eq!(rests, 1, "seed {seed}: {:?} {:#?}", asking.images(), asking.log);
        }
        assert_eq!(asking.world.restarts()[2], 0);
    }
}
