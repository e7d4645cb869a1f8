//! Entries of several owners on one pod: what is done together, what each of them is told, and what is
//! refused.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{
    asking::Asking,
    world::{World, annotation},
};
use crate::{
    in_place_update::{
        FailureReason, Gate, MergePatch, UpdateOutcome, UpdateOwner, UpdateRequest, UpdateSource,
    },
    tests::world::NowForTests,
};

const COMPLETE: UpdateOutcome = UpdateOutcome::Complete;

fn pod() -> Asking {
    Asking::of(World::of(&[("a", None, &[]), ("b", None, &[]), ("c", None, &["k"])]))
}

fn set(name: &str) -> UpdateOwner {
    UpdateOwner::SidecarSet(name.to_owned())
}

/// An entry of this owner; `""`: of a workload.
fn entry<'a>(asking: &'a mut Asking, owner: &str, images: &[(&str, &str)]) -> &'a mut UpdateRequest {
    let id = format!("{owner}-{}", asking.requests.len());
    let request = asking.ask(&id, images, &[]);
    request.source = UpdateSource::NodePodUpdate;
    if !owner.is_empty() {
        (request.owner, request.keeps_service) = (set(owner), true);
    }
    request
}

fn merge(request: &mut UpdateRequest, key: &str, patch: &str) {
    request.merges.insert(key.to_owned(), MergePatch::parse(patch).unwrap());
}

fn value<'a>(asking: &'a Asking, key: &str) -> Option<&'a str> {
    asking.world.metadata.get(&annotation(key)).map(String::as_str)
}

#[test]
fn a_set_keeps_the_pod_in_service_and_its_own_record() {
    let mut asking = pod();
    let request = entry(&mut asking, "s", &[("a", "a:2")]);
    merge(request, "hash", r#"{"s":2}"#);
    request.defaults.insert("list".to_owned(), "s".to_owned());
    asking.play(&[]);
    assert_eq!(
        asking.log,
        ["s-0: Updating", "pull a:2", r#"patch a:2 hash={"s":2} list=s"#, "s-0: complete"]
    );
    assert_eq!(asking.world.gate, Gate::Ready);
    assert_eq!(asking.world.record, None, "no workload's record");
    let record = &asking.world.records[&set("s")];
    assert_eq!((record.revision.as_str(), record.container_batches_record.len()), ("s-0", 1));
    assert_eq!(record.last_container_statuses[&"a".into()], "sha256:a:1");
    assert_eq!(asking.world.version, 1, "one patch");
}

/// A pod that somebody else has shut is not opened by a set.
#[test]
fn a_set_leaves_the_gate_as_it_is() {
    let mut asking = pod();
    asking.world.gate = Gate::NotReady { since: asking.world.now };
    entry(&mut asking, "s", &[("a", "a:2")]);
    asking.play(&[]);
    assert_eq!(asking.outcome("s-0"), COMPLETE);
    assert!(matches!(asking.world.gate, Gate::NotReady { .. }));
}

#[test]
fn two_sets_and_a_workload_share_a_patch_and_have_a_record_each() {
    let mut asking = pod();
    merge(entry(&mut asking, "s", &[("a", "a:2")]), "hash", r#"{"s":2}"#);
    merge(entry(&mut asking, "t", &[("b", "b:2")]), "hash", r#"{"t":2}"#);
    entry(&mut asking, "", &[("c", "c:2")]);
    asking.world.metadata.insert(annotation("hash"), r#"{"s":1,"t":1,"u":1}"#.to_owned());
    asking.play(&[]);
    for id in ["s-0", "t-1", "-2"] {
        assert_eq!(asking.outcome(id), COMPLETE, "{id}");
    }
    assert_eq!(asking.images(), ["a:2", "b:2", "c:2"]);
    assert_eq!(value(&asking, "hash"), Some(r#"{"s":2,"t":2,"u":1}"#));
    assert!(asking.log.contains(&"not ready".to_owned()), "the workload's update drains");
    let records = asking.world.all_records();
    let told: Vec<(String, &str, Vec<String>)> = records
        .iter()
        .map(|(owner, record)| {
            let batches = record.container_batches_record.iter().flat_map(|batch| &batch.containers);
            (owner.to_string(), record.revision.as_str(), batches.map(ToString::to_string).collect())
        })
        .collect();
    let row = |owner: &str, revision, name: &str| (owner.to_owned(), revision, vec![name.to_owned()]);
    assert_eq!(
        told,
        [row("a workload", "-2", "c"), row("SidecarSet s", "s-0", "a"), row("SidecarSet t", "t-1", "b")]
    );
    assert!(records.values().all(|record| !record.has_next()));
    assert_eq!(asking.world.restarts(), [1, 1, 1]);
}

/// The later one; the first column says who has begun.
#[test]
fn of_two_owners_that_want_one_thing_the_later_is_refused() {
    type Change = fn(&mut UpdateRequest, &str);
    let table: [(&str, Change, bool); 6] = [
        ("container c", |request, value| drop(request.images.insert("c".into(), value.into())), true),
        (
            "annotation x",
            |request, value| drop(request.metadata.insert(annotation("x"), value.to_owned())),
            true,
        ),
        ("merged", |request, value| merge(request, "x", &format!(r#"{{"{value}":1}}"#)), false),
        ("default", |request, value| drop(request.defaults.insert("x".to_owned(), value.to_owned())), false),
        ("container b", |request, _| drop(request.images.insert("b".into(), "b:2".into())), false),
        (
            "annotation x",
            |request, value| match value {
                "c:2" => merge(request, "x", "{}"),
                _ => drop(request.metadata.insert(annotation("x"), value.to_owned())),
            },
            true,
        ),
    ];
    for (thing, change, refused) in table {
        for begun in [false, true] {
            let mut asking = pod();
            change(entry(&mut asking, "s", &[("a", "a:2")]), "c:2");
            if begun {
                asking.act();
            }
            let later = entry(&mut asking, "t", &[]);
            change(later, "c:3");
            if begun {
                // However old it says it is, what has begun came before it.
                later.created -= Duration::from_secs(3600);
            }
            asking.play(&[]);
            assert_eq!(asking.outcome("s-0"), COMPLETE, "{thing}");
            match refused {
                true => {
                    assert_eq!(
                        asking.outcome("t-1"),
                        UpdateOutcome::Failed(FailureReason::Conflict),
                        "{thing}"
                    );
                    let message = &asking.report("t-1").message;
                    assert!(message.contains(thing) && message.contains("SidecarSet s"), "{message}");
                    assert!(!asking.images().contains(&"c:3"));
                }
                false => assert_eq!(asking.outcome("t-1"), COMPLETE, "{thing}"),
            }
        }
    }
}

#[test]
fn what_a_person_asks_for_goes_over_an_entry() {
    let mut asking = pod();
    entry(&mut asking, "s", &[("a", "a:2")]);
    asking.ask("r", &[("a", "a:3")], &[]);
    asking.play(&[]);
    assert_eq!(asking.outcome("s-0"), UpdateOutcome::Failed(FailureReason::Replaced));
    assert_eq!((asking.outcome("r"), asking.images()[0]), (COMPLETE, "a:3"));
}

#[test]
fn each_owner_fails_and_goes_back_for_itself() {
    for (rollback, image) in [(false, "b:bad"), (true, "b:1")] {
        for bad_first in [false, true] {
            let mut asking = pod();
            let others = |asking: &mut Asking| {
                entry(asking, "s", &[("a", "a:2")]);
            };
            if !bad_first {
                others(&mut asking);
            }
            let bad = entry(&mut asking, "t", &[("b", "b:bad")]);
            (bad.rollback_on_failure, bad.deadline) = (rollback, Some(bad.created + Duration::from_secs(60)));
            merge(bad, "hash", r#"{"t":2}"#);
            if bad_first {
                others(&mut asking);
            }
            asking.world.metadata.insert(annotation("hash"), r#"{"t":1}"#.to_owned());
            asking.play(&["b:bad"]);
            let (good, bad) = if bad_first { ("s-1", "t-0") } else { ("s-0", "t-1") };
            assert_eq!(asking.outcome(good), COMPLETE, "{bad_first} {:#?}", asking.log);
            assert_eq!(asking.outcome(bad), UpdateOutcome::Failed(FailureReason::DeadlineExceeded));
            assert_eq!(asking.images()[..2], ["a:2", image]);
            let hash = if rollback { r#"{"t":1}"# } else { r#"{"t":2}"# };
            assert_eq!(value(&asking, "hash"), Some(hash));
            assert_eq!(asking.world.restarts()[0], 1);
        }
    }
}

/// It fails at once, when the other one has not begun.
#[test]
fn an_image_that_is_missing_fails_its_own_entry_only() {
    for owners in [["s", "t"], ["t", "s"]] {
        let mut asking = pod();
        asking.world.refused.insert("b:2".into(), "no".to_owned());
        for owner in owners {
            entry(&mut asking, owner, &[if owner == "s" { ("a", "a:2") } else { ("b", "b:2") }]);
        }
        asking.play(&[]);
        let id =
            |owner: &str| format!("{owner}-{}", owners.iter().position(|known| *known == owner).unwrap());
        assert_eq!(asking.outcome(&id("s")), COMPLETE, "{owners:?}");
        assert_eq!(asking.outcome(&id("t")), UpdateOutcome::Failed(FailureReason::ImageNotPulled));
        assert_eq!(asking.images(), ["a:2", "b:1", "c:1"]);
    }
}

/// The agent has no credentials of the pod, the kubelet has them; it pulls what the patch names.
#[test]
fn an_image_that_the_agent_cannot_pull_may_be_left_to_the_kubelet() {
    for leaves_pull in [true, false] {
        let mut asking = pod();
        asking.world.refused.insert("a:2".into(), "no".to_owned());
        entry(&mut asking, "s", &[("a", "a:2")]).leaves_pull = leaves_pull;
        asking.act();
        assert_eq!(asking.log.iter().any(|step| step == "patch a:2"), leaves_pull, "{:?}", asking.log);
        // The kubelet pulls it, with the credentials of the pod.
        asking.world.on_node.insert("a:2".into());
        asking.play(&[]);
        let (image, outcome) = match leaves_pull {
            true => ("a:2", COMPLETE),
            false => ("a:1", UpdateOutcome::Failed(FailureReason::ImageNotPulled)),
        };
        assert_eq!((asking.outcome("s-0"), asking.images()), (outcome, vec![image, "b:1", "c:1"]));
    }
}

#[test]
fn a_value_that_cannot_be_merged_sets_its_entry_aside_alone() {
    let mut asking = pod();
    merge(entry(&mut asking, "s", &[("a", "a:2")]), "hash", r#"{"s":2}"#);
    entry(&mut asking, "t", &[("b", "b:2")]);
    asking.world.metadata.insert(annotation("hash"), "no JSON".to_owned());
    asking.play(&[]);
    assert_eq!(asking.outcome("s-0"), UpdateOutcome::Failed(FailureReason::AnnotationNotMergeable));
    assert!(asking.report("s-0").message.contains("annotation hash"));
    assert_eq!((asking.outcome("t-1"), asking.images()), (COMPLETE, vec!["a:1", "b:2", "c:1"]));
    assert_eq!(value(&asking, "hash"), Some("no JSON"));
}

/// Merging starts from the version that is patched, whatever it was when the entry was taken up.
#[test]
fn what_others_write_meanwhile_stays() {
    let mut asking = pod();
    merge(entry(&mut asking, "s", &[("a", "a:2")]), "hash", r#"{"s":2}"#);
    asking.write(&asking.plan());
    asking.world.metadata.insert(annotation("hash"), r#"{"z":9}"#.to_owned());
    asking.play(&[]);
    assert_eq!(value(&asking, "hash"), Some(r#"{"s":2,"z":9}"#));
}

#[test]
fn another_attempt_is_carried_out_anew() {
    let mut asking = pod();
    asking.world.refused.insert("a:2".into(), "no".to_owned());
    entry(&mut asking, "s", &[("a", "a:2")]);
    asking.play(&[]);
    assert_eq!(asking.outcome("s-0"), UpdateOutcome::Failed(FailureReason::ImageNotPulled));
    asking.world.refused.clear();
    let again = entry(&mut asking, "s", &[("a", "a:2")]);
    again.revision = "s-0".to_owned();
    asking.play(&[]);
    assert_eq!((asking.outcome("s-1"), asking.images()[0]), (COMPLETE, "a:2"));
}

#[derive(Clone, Debug)]
struct Wish {
    owner: usize,
    /// By container; 0: none, 4: falls over.
    images: [u8; 3],
    member: u8,
    rollback: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    let image = || prop_oneof![3 => Just(0), 4 => 2..4_u8, 1 => Just(4)];
    (0..3_usize, [image(), image(), image()], 0..4_u8, any::<bool>())
        .prop_map(|(owner, images, member, rollback)| Wish { owner, images, member, rollback })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random wishes, each at another time: all of them end; of one container no two owners are told that
    /// theirs runs; a member of a shared annotation is what its owner was told; a pod with sets only never
    /// leaves service.
    #[test]
    fn whatever_several_owners_want_each_is_told_the_truth(wishes in proptest::collection::vec((wish(), 0..6_usize), 1..5)) {
        let mut asking = pod();
        let mut drained = false;
        asking.world.metadata.insert(annotation("hash"), r#"{"z":9}"#.to_owned());
        for (wish, turns) in &wishes {
            let owner = ["", "s", "t"][wish.owner];
            // An owner has one entry at a time.
            if asking.requests.iter().any(|known| known.ended.is_none() && known.owner == owned(owner)) {
                continue;
            }
            let images: Vec<_> = ["a", "b", "c"].iter().zip(wish.images).filter(|(_, tag)| *tag > 0).collect();
            let images: Vec<_> = images.iter().map(|(name, tag)| (**name, format!("{name}:{tag}"))).collect();
            let images: Vec<_> = images.iter().map(|(name, image)| (*name, image.as_str())).collect();
            let request = entry(&mut asking, owner, &images);
            merge(request, "hash", &format!(r#"{{"{owner}":{}}}"#, wish.member));
            request.rollback_on_failure = wish.rollback;
            request.deadline = Some(request.created + Duration::from_secs(300));
            drained |= owner.is_empty();
            for _ in 0..*turns {
                let planned = asking.plan();
                asking.write(&planned);
                if let Some(step) = &planned.next {
                    prop_assert!(asking.world.carry_out(step, asking.world.version));
                }
                asking.world.settle(&["a:4", "b:4", "c:4"]);
            }
        }
        asking.play(&["a:4", "b:4", "c:4"]);
        if !drained {
            prop_assert_eq!(asking.world.gate, Gate::Ready);
            prop_assert!(!asking.log.contains(&"not ready".to_owned()));
        }
        // The last one of each owner that is complete says what is there, unless a later one changed it.
        let hash: String = value(&asking, "hash").unwrap_or_default().to_owned();
        prop_assert!(hash.contains(r#""z":9"#), "{}", hash);
        let mut last = std::collections::BTreeMap::new();
        for request in &asking.requests {
            last.insert(request.owner.clone(), request);
        }
        for request in last.values().filter(|request| asking.outcome(request.id.as_str()) == COMPLETE) {
            let (name, patch) = request.merges.first_key_value().unwrap();
            let again = patch.merge(value(&asking, name)).unwrap();
            prop_assert_eq!(&again, &hash, "as it is already");
            let begun = |other: &&UpdateRequest| {
                let report = &other.reported;
                let without_report = other.is_one_way() && !report.message.contains("the later one is refused");
                other.owner != request.owner && (report.previous.is_some() || without_report)
            };
            for (name, image) in &request.images {
                let mut others = asking.requests.iter().filter(begun);
                if !others.any(|other| other.images.contains_key(name)) {
                    let there = asking.world.containers.iter().find(|known| known.name == *name).unwrap();
                    prop_assert_eq!(&there.image, image);
                }
            }
        }
    }

    /// Texts of any kind.
    #[test]
    fn any_patch_is_read_and_merged_or_refused(texts in proptest::collection::vec(".{0,40}|\\{\"[a-c]\":(null|[0-9]|\\{\"[a-c]\":null\\})\\}", 1..20)) {
        let mut value: Option<String> = None;
        for text in &texts {
            if let Ok(patch) = MergePatch::parse(text) {
                let merged = patch.merge(value.as_deref()).unwrap();
                prop_assert_eq!(patch.merge(Some(&merged)).unwrap(), merged.clone());
                value = Some(merged);
            }
        }
    }
}

fn owned(owner: &str) -> UpdateOwner {
    if owner.is_empty() { UpdateOwner::Workload } else { set(owner) }
}

/// Flood of entries: as many owners of one pod as are looked at, all with large patches of the same
/// annotations.
#[test]
fn many_owners_with_large_patches_hold_nobody_up() {
    let mut asking = pod();
    let large = format!(r#"{{"m":"{}"}}"#, "x".repeat(4096));
    for number in 0..64 {
        let request = entry(&mut asking, &format!("s{number}"), &[("a", "a:2")]);
        for key in 0..20 {
            merge(request, &format!("k{key}"), &large);
        }
    }
    let begin = Instant::now_for_tests();
    asking.play(&[]);
    let took = Instant::now_for_tests() - begin;
    assert!(asking.requests.iter().all(|request| request.reported.outcome == Some(COMPLETE)));
    assert!(took < Duration::from_secs(60), "{took:?}");
}
