use rstest::rstest;

use super::*;
use crate::{
    store::{BudgetSeen, JobSeen, NamespaceSeen, Weight},
    wire::{self, Watched},
};

/// Bytes that an object takes beside its parts, and some for the rest of it.
const SMALL: usize = 3 << 10;

/// A job that takes about so many bytes.
fn job(namespace: &str, name: &str, bytes: usize) -> Object {
    let spec_weight = Weight { memory: bytes, text: 0 };
    let uid = format!("{namespace}-{name}");
    let seen = JobSeen::of_test(namespace, name, Err("not read".to_owned()));
    Object::ImagePullJob(Box::new(JobSeen { uid, spec_weight, ..seen }))
}

fn is_aside(object: &Object) -> bool {
    match object {
        Object::ImagePullJob(seen) => seen.is_aside,
        Object::Budget(seen) => seen.is_aside,
        other => panic!("{other:?}"),
    }
}

/// Names of jobs that were set aside since.
fn left_out(room: &mut Room) -> Vec<String> {
    room.left_out().into_iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect()
}

/// There is room for 800 KiB. Rows: jobs by namespace, name and KiB, and those that are set aside in the end.
#[rstest]
#[case::all_fit(&[("a", "x", 300), ("b", "y", 300)], &[])]
#[case::the_last_one(&[("a", "x", 100), ("b", "y", 300), ("a", "z", 700)], &["a/z"])]
#[case::an_earlier_one(&[("a", "x", 700), ("a", "y", 50), ("b", "z", 300)], &["a/x"])]
fn the_largest_of_whom_takes_most(#[case] rows: &[(&str, &str, usize)], #[case] expected: &[&str]) {
    let mut room = Room::new(800 << 10);
    for (namespace, name, kib) in rows {
        let object = room.fit(job(namespace, name, kib << 10));
        let told = room.news();
        assert!(told.iter().all(is_aside));
        let is_left_out = expected.contains(&&*format!("{namespace}/{name}"));
        assert!(!is_aside(&object) || is_left_out, "{namespace}/{name}");
    }
    assert_eq!(left_out(&mut room), expected);
    assert_eq!((left_out(&mut room), room.all_left_out().len()), (Vec::new(), expected.len()));
}

/// Its index is told of one that was known before, and then of all when there is room again.
#[test]
fn one_that_was_set_aside_comes_back_by_a_list() {
    let (mut room, begin) = (Room::new(800 << 10), Instant::now());
    assert!(!is_aside(&room.fit(job("a", "x", 600 << 10))));
    assert!(!is_aside(&room.fit(job("b", "y", 300 << 10))));
    let told = room.news();
    let [Object::ImagePullJob(seen)] = &told[..] else { panic!("{told:?}") };
    let names = (&*seen.namespace, &*seen.name, &*seen.uid, &*seen.resource_version);
    assert_eq!(names, ("a", "x", "a-x", ""));
    assert!(seen.is_aside && seen.spec.is_err() && seen.status.is_err());
    // Shown as it is, it stays aside.
    let shown = room.fit(job("a", "x", 600 << 10));
    assert!(is_aside(&shown) && room.news().is_empty() && room.due(begin).is_empty());
    room.gone(Kind::ImagePullJob, "b", "y");
    assert!(room.news().is_empty(), "there is nothing of it to tell yet");
    assert_eq!((room.due(begin), room.due(begin)), (vec![Kind::ImagePullJob], Vec::new()));
    assert_eq!(room.all_left_out().len(), 1, "it was not shown yet");
    assert!(!is_aside(&room.fit(job("a", "x", 600 << 10))));
    assert_eq!(room.all_left_out().len(), 0);
    // Once more within the time: the list waits.
    room.fit(job("b", "y", 300 << 10));
    room.news();
    room.gone(Kind::ImagePullJob, "b", "y");
    room.news();
    let again = later(begin, LISTED_EVERY);
    assert_eq!((room.due(begin), room.next()), (Vec::new(), Some(again)));
    assert_eq!((room.due(again), room.next()), (vec![Kind::ImagePullJob], None));
}

#[test]
fn one_that_a_list_has_not_shown_is_gone() {
    let mut room = Room::new(100 << 10);
    room.list_begins(Kind::ImagePullJob);
    for name in ["x", "y"] {
        assert!(is_aside(&room.fit(job("a", name, 200 << 10))));
    }
    assert!(room.list_ends(Kind::ImagePullJob).is_empty());
    room.list_begins(Kind::ImagePullJob);
    // Another one of that name.
    let Object::ImagePullJob(seen) = job("a", "y", 200 << 10) else { panic!("a job") };
    room.fit(Object::ImagePullJob(Box::new(JobSeen { uid: "other".to_owned(), ..*seen })));
    let gone = room.list_ends(Kind::ImagePullJob);
    assert_eq!(gone.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(room.all_left_out().map(|one| &*one.uid).collect::<Vec<_>>(), ["other"]);
}

/// A set with a variable of so many KiB, and revisions of so many.
fn set(name: &str, kib: usize, revisions: usize) -> Object {
    let text = |kib: usize| "x".repeat(kib << 10);
    let env = serde_json::json!([{ "name": "A", "value": text(kib) }]);
    let object = serde_json::json!({
        "metadata": { "name": name, "uid": name },
        "spec": { "selector": {}, "containers": [{ "name": "log", "image": "log:1", "env": env }] },
        "status": { "history": text(revisions) },
    });
    serde_json::from_value::<Watched<wire::SidecarSets>>(object).unwrap().into_object()
}

/// Whatever authors of namespaces make, sets keep their room, and have no more.
#[test]
fn sets_have_their_own_room() {
    let mut room = Room::new(100 << 10);
    assert!(is_aside(&room.fit(job("a", "x", 200 << 10))));
    room.news();
    let is_set_aside = |object: &Object| match object {
        Object::SidecarSet(seen) => seen.spec.is_err() && seen.status.is_err(),
        other => panic!("{other:?}"),
    };
    // Some 2 MiB each, as text and as revisions that are kept three times.
    let all = || (0..60).map(|at| set(&format!("s{at:0>2}"), 400, 300));
    let fitting = all().filter(|one| !is_set_aside(&room.fit(one.clone()))).count();
    let told = room.news();
    assert!(told.iter().all(is_set_aside));
    let aside = room.all_left_out().filter(|one| one.kind == Kind::SidecarSet).count();
    assert!(fitting > 40 && aside == told.len() && (10..20).contains(&aside), "{fitting} {aside}");
    for at in 0..30 {
        room.gone(Kind::SidecarSet, "", &format!("s{at:0>2}"));
    }
    room.news();
    let due = room.due(Instant::now());
    assert_eq!(due, [Kind::SidecarSet]);
    assert!(all().skip(30).all(|one| !is_set_aside(&room.fit(one))));
    assert_eq!(room.all_left_out().map(|one| one.kind).collect::<Vec<_>>(), [Kind::ImagePullJob]);
}

/// Requests are kept by their names; an object of which nothing is kept takes little all the same.
#[test]
fn what_is_counted() {
    let weight = |memory, text| Weight { memory, text };
    let seen = |spec_weight, status_weight| {
        let seen = BudgetSeen::of_test("a", "b", Err("not read".to_owned()));
        Object::Budget(Box::new(BudgetSeen { spec_weight, status_weight, ..seen }))
    };
    let bytes = |object: &Object| object.weighed().map_or(0, |weighed| weighed.bytes);
    assert!((1..SMALL).contains(&bytes(&seen(weight(0, 0), weight(0, 0)))));
    let table = [(weight(600, 100), weight(600, 100), 1200), (weight(10, 1000), weight(10, 2000), 6000)];
    for (spec, status, expected) in table {
        let more = bytes(&seen(spec, status)) - bytes(&seen(weight(0, 0), weight(0, 0)));
        assert_eq!(more, expected, "{spec:?} {status:?}");
    }
    let namespace = Object::Namespace(NamespaceSeen::default());
    assert_eq!(namespace.weighed(), None);
    for kind in Kind::ALL {
        let absent = Object::absent(kind, "a", "b", "u");
        assert_eq!(absent.is_some(), KINDS.contains(&kind), "{kind:?}");
        assert!(absent.is_none_or(|object| object.kind() == kind && object.weighed().is_some()));
    }
}
