//! Revisions: numbers, names, which go, and how they are kept.

use std::{collections::BTreeSet, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_proto::crd::{MOST_HISTORY_BYTES, SidecarSetRevision, SidecarSetStatus};
use berth_sidecarset::{
    Content, Edit, Hashes, HistoryError, Recorded, Registered, Revisions, decode, encode, fields_of,
};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Map, Value, json};

fn fields(image: &str) -> Map<String, Value> {
    fields_of(json!({"containers": [{"name": "log", "image": image}], "selector": {}}).as_object().unwrap())
}

fn register(
    revisions: &mut Revisions,
    fields: &Map<String, Value>,
    custom_version: Option<&str>,
) -> Registered {
    let hashes = Hashes { hash: "h".into(), without_image: "w".into() };
    let edit = Edit { set: "s", fields, hashes: &hashes, custom_version };
    revisions.register(&edit, Timestamp::UNIX_EPOCH)
}

fn of_images(images: &[u32]) -> Revisions {
    let mut revisions = Revisions::default();
    for image in images {
        register(&mut revisions, &fields(&format!("log:{image}")), None);
    }
    revisions
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn status(recorded: Recorded) -> SidecarSetStatus {
    SidecarSetStatus {
        revisions: recorded.revisions,
        history: Some(recorded.history),
        collision_count: recorded.collisions,
        ..SidecarSetStatus::default()
    }
}

/// Image and number of each that is kept.
fn kept(revisions: Revisions) -> Vec<(String, i64)> {
    let recorded = revisions.write(&BTreeSet::new()).unwrap();
    let contents = decode(&recorded.history).unwrap();
    let numbers = recorded.revisions.iter().map(|revision| revision.revision);
    let image = |content: Content| content.fields["containers"][0]["image"].as_str().unwrap().to_owned();
    contents.into_iter().map(image).zip(numbers).collect()
}

#[test]
fn only_the_fields_of_a_pod_make_a_revision() {
    let spec = json!({"containers": [1], "initContainers": [2], "volumes": [3], "imagePullSecrets": [4],
        "patchPodMetadata": [5], "updateStrategy": {}, "selector": {}, "namespace": "x"});
    let fields = fields_of(spec.as_object().unwrap());
    let found: Vec<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(found, ["containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes"]);
    assert!(fields_of(json!({"containers": [], "volumes": null}).as_object().unwrap()).is_empty());
}

#[test]
fn numbers_and_names() {
    let mut revisions = Revisions::default();
    let first = register(&mut revisions, &fields("log:1"), None);
    assert_eq!((first.revision, first.changed), (1, true));
    // As a Go program names it, of the FNV-1 of the text and the count.
    assert_eq!(first.name, "s-5595b956bb");
    let again = register(&mut revisions, &fields("log:1"), None);
    assert_eq!(again, Registered { changed: false, ..first.clone() });
    let second = register(&mut revisions, &fields("log:2"), None);
    assert_eq!((second.revision, revisions.latest()), (2, Some(second.name.as_str())));
    let back = register(&mut revisions, &fields("log:1"), None);
    assert_eq!(back, Registered { revision: 3, changed: true, ..first });
    assert_eq!(kept(revisions), [("log:2".to_owned(), 2), ("log:1".to_owned(), 3)]);
}

/// Fifteen edits, then the twelfth again.
/// A sidecar as it was applied, and as a client with types writes it back.
#[rstest]
#[case::zero_values_are_written(json!({}), json!({"resources": {}}), false)]
#[case::zero_values_are_left_out(json!({"stdin": false, "env": []}), json!({"resources": {}}), false)]
#[case::another_value(json!({}), json!({"stdin": true}), true)]
#[case::a_zero_that_says_something(json!({}), json!({"securityContext": {"runAsUser": 0}}), true)]
#[case::of_another_type(json!({}), json!({"env": 1}), true)]
fn a_typed_client_makes_no_revision(#[case] before: Value, #[case] after: Value, #[case] changed: bool) {
    let fields = |more: Value| {
        let mut sidecar = json!({"name": "log", "image": "log:1"});
        sidecar.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields_of(json!({"containers": [sidecar]}).as_object().unwrap())
    };
    let mut revisions = Revisions::default();
    let first = register(&mut revisions, &fields(before), None);
    let second = register(&mut revisions, &fields(after), None);
    assert_eq!((second.changed, second.name != first.name), (changed, changed));
}

/// An earlier build filed both forms of a sidecar: the newest of them is the set's, each time.
#[test]
fn of_two_forms_the_newest_stays() {
    let fields = |sidecar: Value| fields_of(json!({"containers": [sidecar]}).as_object().unwrap());
    let lean = fields(json!({"name": "log", "image": "log:1"}));
    let typed = fields(json!({"name": "log", "image": "log:1", "resources": {}}));
    let contents = [("s-a", &lean), ("s-b", &typed)]
        .map(|(name, fields)| Content { name: name.to_owned(), fields: fields.clone() });
    let filed = |name: &str, revision| SidecarSetRevision {
        name: name.to_owned(),
        revision,
        hash: Some("h".to_owned()),
        hash_without_image: Some("w".to_owned()),
        ..SidecarSetRevision::default()
    };
    let status = SidecarSetStatus {
        revisions: vec![filed("s-a", 1), filed("s-b", 2)],
        history: Some(encode(&contents).unwrap()),
        ..SidecarSetStatus::default()
    };
    let mut revisions = Revisions::read(&status).unwrap();
    for fields in [&lean, &typed, &lean] {
        let again = register(&mut revisions, fields, None);
        assert_eq!(again, Registered { name: "s-b".to_owned(), revision: 2, changed: false });
    }
}

#[test]
fn truncation_after_an_edit_that_was_there_before() {
    let mut revisions = of_images(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 12]);
    revisions.truncate(10, &BTreeSet::new());
    let numbers: Vec<_> = kept(revisions).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [6, 7, 8, 9, 10, 11, 13, 14, 15, 16]);
}

#[rstest]
#[case::limit(2, &[], &[2, 3])]
#[case::zero_keeps_the_newest(0, &[], &[3])]
#[case::negative(-5, &[], &[3])]
#[case::none_too_many(9, &[], &[1, 2, 3])]
#[case::in_use(1, &[1], &[1, 3])]
#[case::the_others_go_first(2, &[1], &[1, 3])]
#[case::more_in_use_than_the_limit(1, &[1, 2], &[1, 2, 3])]
fn truncation(#[case] limit: i32, #[case] in_use: &[i64], #[case] expected: &[i64]) {
    let mut revisions = of_images(&[1, 2, 3]);
    let all = revisions.clone().write(&BTreeSet::new()).unwrap().revisions;
    let in_use = all
        .iter()
        .filter(|revision| in_use.contains(&revision.revision))
        .map(|revision| revision.name.clone());
    revisions.truncate(limit, &in_use.collect());
    let numbers: Vec<_> = kept(revisions).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn the_version_goes_to_the_newest() {
    let mut revisions = of_images(&[1]);
    assert!(register(&mut revisions, &fields("log:1"), Some("stable")).changed);
    assert!(!register(&mut revisions, &fields("log:1"), Some("stable")).changed);
    register(&mut revisions, &fields("log:2"), Some("canary"));
    assert!(register(&mut revisions, &fields("log:2"), Some("next")).changed, "only the label changed");
    let recorded = revisions.write(&BTreeSet::new()).unwrap();
    let versions: Vec<_> =
        recorded.revisions.iter().map(|revision| revision.custom_version.as_deref()).collect();
    assert_eq!(versions, [Some("stable"), Some("next")]);
}

#[test]
fn written_and_read() {
    let mut revisions = of_images(&[1, 2]);
    let recorded = revisions.clone().write(&BTreeSet::new()).unwrap();
    assert_eq!(recorded.latest.as_deref(), revisions.latest());
    assert_eq!(Revisions::read(&status(recorded.clone())), Ok(revisions.clone()));
    let next = register(&mut revisions, &fields("log:3"), None);
    assert_eq!(next.revision, 3);
    // One without contents cannot be had by any pod.
    let mut broken = status(recorded);
    broken.revisions.remove(0);
    assert_eq!(
        Revisions::read(&broken).unwrap().latest(),
        broken.revisions.last().map(|revision| revision.name.as_str())
    );
}

/// The name of the contents is taken by others: counting gives another one.
#[test]
fn collisions() {
    let mut revisions = of_images(&[1]);
    let mut taken = status(revisions.clone().write(&BTreeSet::new()).unwrap());
    let name = revisions.latest().unwrap().to_owned();
    taken.history = Some(encode(&[Content { name: name.clone(), fields: fields("other") }]).unwrap());
    revisions = Revisions::read(&taken).unwrap();
    let other = register(&mut revisions, &fields("log:1"), None);
    assert_ne!(other.name, name);
    assert_eq!(revisions.write(&BTreeSet::new()).unwrap().collisions, Some(1));
}

/// Text that no compression makes shorter.
fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(
            b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"[(state >> 58) as usize],
        )
    };
    (0..bytes).map(letter).collect()
}

#[test]
fn a_history_that_is_too_large() {
    let mut revisions = Revisions::default();
    for seed in 1..=4 {
        register(&mut revisions, &fields(&noise(80_000, seed)), None);
    }
    let first = revisions.clone().write(&BTreeSet::new()).unwrap();
    assert_eq!((first.revisions.len(), first.dropped.len()), (3, 1));
    assert!(first.history.len() <= MOST_HISTORY_BYTES);
    let oldest = first.dropped[0].clone();
    let kept = revisions.clone().write(&names(&[&oldest])).unwrap();
    assert!(!kept.dropped.contains(&oldest), "one that is in use goes last");
    register(&mut revisions, &fields(&noise(400_000, 9)), None);
    assert_eq!(revisions.write(&BTreeSet::new()), Err(HistoryError::TooLarge(MOST_HISTORY_BYTES)));
}

/// A few bytes that become very many.
#[test]
fn a_history_that_unpacks_without_end() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..64 {
        bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    let text = STANDARD.encode(bomb.finish().unwrap());
    assert!(text.len() < MOST_HISTORY_BYTES);
    assert_eq!(decode(&text), Err(HistoryError::TooLarge(16 << 20)));
}

#[rstest]
#[case("")]
fn no_history(#[case] text: &str) {
    assert_eq!(decode(text), Ok(Vec::new()));
}

#[rstest]
#[case("x")]
#[case("eHh4")]
fn histories_that_are_none(#[case] text: &str) {
    assert!(matches!(decode(text), Err(HistoryError::Unreadable(_))));
}

/// A text may stand for eighty times as much memory. What is written can be read, and what could not be is
/// not written: the oldest revisions go instead.
#[test]
fn a_history_that_takes_too_much_memory_is_none() {
    let packed = |maps: usize| {
        let json = format!(r#"[{{"name":"s-1","containers":[{}{{}}]}}]"#, r#"{"a":1},"#.repeat(maps));
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(json.as_bytes()).unwrap();
        STANDARD.encode(packed.finish().unwrap())
    };
    let contents = decode(&packed(50_000)).unwrap();
    assert_eq!(decode(&encode(&contents).unwrap()).as_ref(), Ok(&contents));
    // 1.6 MB.
    assert!(matches!(decode(&packed(200_000)), Err(HistoryError::TooLarge(_))));
    let twice = [contents.clone(), contents].concat();
    assert!(matches!(encode(&twice), Err(HistoryError::TooLarge(_))));
}
