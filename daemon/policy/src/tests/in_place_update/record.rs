//! The state annotation, field by field.

use std::collections::BTreeMap;

use super::world::{World, annotation, names, update};
use crate::in_place_update::{Batch, Gate, Next, Record};

fn patches(steps: &[Next]) -> Vec<&Record> {
    let mut records = Vec::new();
    for step in steps {
        if let Next::Patch(patch) = step {
            records.push(&patch.record);
        }
    }
    records
}

fn batch(timestamp: i64, containers: &[&str]) -> Batch {
    Batch { timestamp, containers: names(containers), migration: None }
}

/// The example of OpenKruise's v1.1 release post: the sidecar reads a changed annotation, main gets another
/// image.
#[test]
fn the_two_step_example() {
    let mut world = World::of(&[("sidecar", Some(10), &["app-config"]), ("main", Some(0), &[])]);
    let update = update("clone-5d4b", &[("main", "main:2")], &[("app-config", "2")]);
    let (steps, end) = world.play(&update, &[]);
    assert_eq!(end, Next::Done);
    let first = Record {
        revision: "clone-5d4b".to_owned(),
        update_timestamp: 1020,
        last_container_statuses: BTreeMap::new(),
        update_env_from_metadata: true,
        update_images: false,
        next_container_images: BTreeMap::from([("main".into(), "main:2".into())]),
        next_container_ref_metadata: BTreeMap::new(),
        containers_required_ready: names(&["sidecar"]),
        container_batches_record: vec![batch(1020, &["sidecar"])],
    };
    let second = Record {
        revision: "clone-5d4b".to_owned(),
        update_timestamp: 1020,
        last_container_statuses: BTreeMap::from([("main".into(), "sha256:main:1".to_owned())]),
        update_env_from_metadata: true,
        update_images: true,
        next_container_images: BTreeMap::new(),
        next_container_ref_metadata: BTreeMap::new(),
        containers_required_ready: names(&[]),
        container_batches_record: vec![batch(1020, &["sidecar"]), batch(1040, &["main"])],
    };
    assert_eq!(patches(&steps), [&first, &second]);
    assert_eq!(world.restarts(), [1, 1]);
    world.is_what_is_wanted(&update);
}

#[test]
fn metadata_that_waits_is_listed_for_its_readers() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &["k", "other"])]);
    let update = update("r", &[("a", "a:2")], &[("k", "2"), ("unread", "x")]);
    let (steps, _) = world.play(&update, &[]);
    let waits = BTreeMap::from([(annotation("k"), "2".to_owned())]);
    let records = patches(&steps);
    assert_eq!(records[0].next_container_ref_metadata, BTreeMap::from([("b".into(), waits)]));
    assert_eq!(records[0].last_container_statuses, BTreeMap::from([("a".into(), "sha256:a:1".to_owned())]));
    assert!(records[0].update_env_from_metadata, "of the whole update");
    assert_eq!(records[1].next_container_ref_metadata, BTreeMap::new());
    assert_eq!(records.len(), 2);
}

/// Somebody has put a label back that the update had set. The API server takes it with the record alone.
#[test]
fn a_label_that_is_set_again_comes_with_the_record() {
    let mut world = World::of(&[("a", None, &[])]);
    let update = update("r", &[("a", "a:2")], &[("unread", "2")]);
    world.play(&update, &[]);
    let before = world.record.clone().unwrap();
    world.metadata.insert(annotation("unread"), "1".to_owned());
    let start = world.wall;
    let (steps, end) = world.play(&update, &[]);
    assert_eq!(end, Next::Done);
    let records = patches(&steps);
    assert_eq!(records.len(), 1);
    assert!(records[0].update_timestamp >= start && *records[0] != before);
    assert_eq!(records[0].container_batches_record, before.container_batches_record);
    assert_eq!(world.restarts(), [1]);
}

/// An OpenKruise writes a record and the revision before the images, and shuts the gate.
#[test]
fn a_record_without_batches_is_gone_on_with() {
    let mut world = World::of(&[("a", None, &[])]);
    let record = Record { revision: "r".to_owned(), update_timestamp: world.wall, ..Record::default() };
    world.record = Some(record.clone());
    world.gate = Gate::NotReady { since: world.now };
    let (steps, end) = world.play(&update("r", &[("a", "a:2")], &[]), &[]);
    assert_eq!((end, world.gate), (Next::Done, Gate::Ready));
    let records = patches(&steps);
    assert_eq!((records.len(), records[0].update_timestamp), (1, record.update_timestamp));
    assert!(records[0].update_images);
    assert_eq!(world.restarts(), [1]);
}

#[test]
fn a_new_update_begins_a_new_record() {
    let mut world = World::of(&[("a", None, &[])]);
    world.play(&update("r1", &[("a", "a:2")], &[]), &[]);
    let start = world.wall;
    world.play(&update("r2", &[("a", "a:3")], &[]), &[]);
    let record = world.record.unwrap();
    assert_eq!(record.revision, "r2");
    assert!(record.update_timestamp >= start);
    assert_eq!(record.container_batches_record, [batch(record.update_timestamp, &["a"])]);
    assert_eq!(record.last_container_statuses, BTreeMap::from([("a".into(), "sha256:a:2".to_owned())]));
}

#[test]
fn what_is_fulfilled_is_not_written() {
    let mut world = World::of(&[("a", None, &["k"])]);
    let wanted = update("r1", &[("a", "a:1")], &[("k", "1")]);
    assert_eq!(world.next(&wanted), Next::Done);
    // Another update's record is replaced, with nothing else.
    world.record = Some(Record { revision: "r0".to_owned(), ..Record::default() });
    let Next::Patch(patch) = world.next(&wanted) else { panic!("{:?}", world.next(&wanted)) };
    assert!(patch.images.is_empty() && patch.metadata.is_empty());
    let closed = Record { revision: "r1".to_owned(), update_timestamp: 1000, ..Record::default() };
    assert_eq!(patch.record, closed);
    let (steps, end) = world.play(&wanted, &[]);
    assert_eq!((steps.len(), end), (1, Next::Done));
    assert_eq!(world.restarts(), [0]);
}

/// Agents of before recorded the name of a revision where the pod's label is its hash. Rows: the revision
/// that the record has, the one that is wanted, and whether they are the same.
#[test]
fn a_record_of_before_is_recognised() {
    for (recorded, wanted, is_same) in [
        ("log-5d4b", "5d4b", true),
        ("log-5d4b", "log-5d4b", true),
        ("5d4b", "5d4b", true),
        ("log-5d4b", "d4b", false),
        ("5d4b", "log-5d4b", false),
        ("other-log-5d4b", "log-5d4b", false),
        ("web-1a2b3c4d-back", "web-1a2b3c4d", false),
        ("log-5d4b", "6e5c", false),
        ("log-", "", false),
    ] {
        let mut world = World::of(&[("a", None, &[])]);
        let record = Record {
            revision: recorded.to_owned(),
            container_batches_record: vec![batch(900, &["a"])],
            ..Record::default()
        };
        world.record = Some(record);
        let next = world.next(&update(wanted, &[("a", "a:1")], &[]));
        assert_eq!(next == Next::Done, is_same, "{recorded} {wanted}: {next:?}");
        // What is patched next goes on with it, under the name of now.
        let (steps, _) = world.play(&update(wanted, &[("a", "a:2")], &[]), &[]);
        let record = patches(&steps)[0];
        let batches = if is_same { 2 } else { 1 };
        let of = (record.revision.as_str(), record.container_batches_record.len());
        assert_eq!(of, (wanted, batches), "{recorded}");
    }
}

/// Workloads write a record of labels and annotations alone: nothing of it is under way, and the next image
/// begins a record of its own.
#[test]
fn a_record_of_metadata_alone_asks_for_nothing() {
    let mut world = World::of(&[("a", None, &[])]);
    let record = Record { revision: "r2".to_owned(), update_timestamp: 990, ..Record::default() };
    world.record = Some(record);
    assert_eq!(world.next(&update("r2", &[("a", "a:1")], &[])), Next::Done);
    let (steps, end) = world.play(&update("r3", &[("a", "a:2")], &[]), &[]);
    assert_eq!(end, Next::Done);
    let records = patches(&steps);
    assert_eq!((records.len(), records[0].revision.as_str()), (1, "r3"));
    assert_eq!(records[0].last_container_statuses, BTreeMap::from([("a".into(), "sha256:a:1".to_owned())]));
}

#[test]
fn a_condition_nobody_wrote_is_written_in_the_end() {
    let mut world = World::of(&[("a", None, &[])]);
    world.gate = Gate::Unwritten;
    assert_eq!(world.next(&update("r1", &[("a", "a:1")], &[])), Next::SetReady);
}
