//! ControllerRevisions that a set waits for before it says that its newest spec was seen.

use berth_sidecarset::FiledRevision;
use rstest::rstest;
use serde_json::json;

use super::world::{World, pod, set};
use crate::sidecarsets::FiledEvent;

/// ControllerRevisions of the set `s` as its status has them.
fn files(world: &World) -> Vec<FiledRevision> {
    let filed = world.status().revisions.iter().map(|one| FiledRevision {
        name: one.name.clone(),
        uid: format!("uid-of-{}", one.name),
        version: String::new(),
        owner: "uid-of-s".to_owned(),
        number: one.revision,
        custom_version: one.custom_version.clone(),
    });
    filed.collect()
}

fn tell(world: &mut World, events: impl IntoIterator<Item = FiledEvent>) {
    events.into_iter().for_each(|event| world.index.filed(event));
    world.pass(0);
}

/// These are all that are there.
fn list(world: &mut World, files: Vec<FiledRevision>) {
    let files = files.into_iter().map(FiledEvent::Applied);
    tell(world, [FiledEvent::ListBegins].into_iter().chain(files).chain([FiledEvent::ListEnds]));
}

/// A set that had two images, and both are filed.
fn filed() -> World {
    let mut world = World::new();
    world.index.wait_for_filing();
    list(&mut world, Vec::new());
    for image in ["log:1", "log:2"] {
        world.upgrade(image, json!({}));
        let files = files(&world);
        list(&mut world, files);
        world.pass(3_000);
    }
    assert!(is_observed(&world));
    world
}

fn is_observed(world: &World) -> bool {
    world.status().observed_generation == world.sets["s"].generation
}

/// Rows: an edit to this image; what is filed after it, of what stood there before and what should; whether
/// the set is observed after so many milliseconds, and how often its status was written by then.
#[rstest]
#[case::only_the_strategy("log:2", |before, _| before, 0, true, 1)]
#[case::nothing_is_filed("log:3", |before, _| before, 1_900, false, 1)]
#[case::it_is_filed("log:3", |_, all| all, 100, true, 2)]
#[case::one_too_many("log:3", |_, mut all: Vec<_>| { all.extend(another(&all[0])); all }, 1_900, false, 1)]
#[case::an_old_number("log:1", |before, _| before, 1_900, false, 1)]
#[case::renumbered("log:1", |_, all| all, 100, true, 2)]
#[case::of_a_set_before("log:3", |_, all| owned(all, "uid-before"), 1_900, false, 1)]
#[case::it_takes_too_long("log:3", |before, _| before, 2_000, true, 2)]
fn observed_when_filed(
    #[case] image: &str,
    #[case] then: fn(Vec<FiledRevision>, Vec<FiledRevision>) -> Vec<FiledRevision>,
    #[case] millis: u64,
    #[case] observed: bool,
    #[case] writes: usize,
) {
    let mut world = filed();
    let (before, written) = (files(&world), world.set_writes);
    world.upgrade(image, json!({ "paused": true }));
    let all = files(&world);
    assert_eq!(all == before, image == "log:2", "revisions go out at once");
    list(&mut world, then(before, all));
    world.pass(millis);
    assert_eq!((is_observed(&world), world.set_writes - written), (observed, writes));
    // Whatever becomes of it.
    world.pass(3_000);
    assert!(is_observed(&world) && world.set_writes - written <= 2);
}

fn another(file: &FiledRevision) -> Option<FiledRevision> {
    Some(FiledRevision { name: "s-old".to_owned(), uid: "uid-of-s-old".to_owned(), ..file.clone() })
}

fn owned(files: Vec<FiledRevision>, owner: &str) -> Vec<FiledRevision> {
    files.into_iter().map(|file| FiledRevision { owner: owner.to_owned(), ..file }).collect()
}

/// Single events, of which each concerns the set that decides on it.
#[test]
fn the_last_event_ends_the_wait() {
    let mut world = filed();
    world.upgrade("log:3", json!({}));
    world.pass(200);
    let newest = files(&world).pop().unwrap();
    let old = another(&newest).unwrap();
    let elsewhere = FiledRevision { owner: "uid-before".to_owned(), ..newest.clone() };
    for event in [FiledEvent::Applied(elsewhere), FiledEvent::Applied(old.clone())] {
        tell(&mut world, [event]);
        assert!(!is_observed(&world));
    }
    tell(&mut world, [FiledEvent::Applied(newest)]);
    assert!(!is_observed(&world), "one too many");
    tell(&mut world, [FiledEvent::Gone(old.uid)]);
    assert!(is_observed(&world));
    world.pass(200);
    // One that belongs to another set now is missing here.
    let files = files(&world);
    world.upgrade("log:3", json!({ "paused": true }));
    assert!(is_observed(&world), "nothing is missing");
    world.pass(200);
    tell(&mut world, owned(files, "uid-before").into_iter().map(FiledEvent::Applied));
    world.upgrade("log:3", json!({}));
    world.pass(1_900);
    assert!(!is_observed(&world));
}

/// An upgrade goes by the revision in the status alone.
#[test]
fn upgrades_do_not_wait() {
    let mut world = filed();
    world.pod(pod("a", "log:2"));
    world.pass(3_000);
    world.upgrade("log:3", json!({}));
    world.pass(500);
    assert_eq!((world.asked("n0"), is_observed(&world)), (vec!["a"], false));
}

/// A program that does not file them is waited for once, and again when it has caught up.
#[test]
fn who_files_nothing_is_waited_for_once() {
    let mut world = filed();
    world.upgrade("log:3", json!({}));
    world.pass(1_900);
    assert!(!is_observed(&world));
    world.upgrade("log:4", json!({}));
    world.pass(1_900);
    assert!(!is_observed(&world), "each spec has its time");
    world.pass(100);
    assert!(is_observed(&world));
    world.pass(60_000);
    world.upgrade("log:5", json!({}));
    assert!(is_observed(&world));
    world.pass(1_000);
    let files = files(&world);
    list(&mut world, files);
    world.upgrade("log:6", json!({}));
    world.pass(1_900);
    assert!(!is_observed(&world));
}

#[test]
fn a_list_that_does_not_come_is_waited_for_once() {
    let mut world = World::new();
    world.index.wait_for_filing();
    for (image, is_at_once) in [("log:1", false), ("log:2", true)] {
        world.upgrade(image, json!({}));
        assert_eq!(is_observed(&world), is_at_once, "{image}");
        world.pass(2_000);
        assert!(is_observed(&world), "{image}");
        world.pass(3_000);
    }
}

#[test]
fn a_name_that_cannot_be_filed_is_not_waited_for() {
    let mut world = World::new();
    world.index.wait_for_filing();
    list(&mut world, Vec::new());
    for (letters, is_at_once) in [(63, false), (64, true)] {
        let name = "n".repeat(letters);
        world.set(set(&name, "log:1"));
        let observed = world.sets[&name].status.as_ref().unwrap().observed_generation;
        assert_eq!(observed.is_some(), is_at_once, "{letters} letters");
    }
}
