//! Upgrades from the edit of a set to the last pod.

use berth_proto::crd::{PodPull, PodService, UpdatePhase};
use berth_sidecarset::names;
use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, hash, pod, set, spec, with};
use crate::store::{PodStage, SidecarSetSeen};

/// Three pods with `log:1`, and the set upgraded to `log:2`.
pub(super) fn upgraded(strategy: Value) -> World {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    ["a", "b", "c"].into_iter().for_each(|name| world.pod(pod(name, "log:1")));
    world.pass(3_000);
    world.upgrade("log:2", strategy);
    world.pass(3_000);
    world
}

#[test]
fn one_after_the_other_until_all_have_it() {
    let mut world = upgraded(json!({}));
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "InProgress"));
    for (done, next) in [(1, "b"), (2, "c")] {
        world.agent("n0", UpdatePhase::Succeeded);
        world.pass(3_000);
        assert_eq!((world.asked("n0"), world.counts()[1]), (vec![next], done));
    }
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()), (vec![], [3, 3, 3, 3, 0]));
    assert_eq!(world.reason("UpToDate"), "Updated");
    assert_eq!(world.notes.iter().map(|note| note.reason).collect::<Vec<_>>(), ["InProgress", "Updated"]);
}

/// News of an upgrade: that it has begun, rests, and is done.
#[test]
fn an_upgrade_that_rests_says_so() {
    let mut world = upgraded(json!({ "paused": true }));
    let told = |world: &mut World| {
        std::mem::take(&mut world.notes).iter().map(|note| note.reason).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), ["Paused"]);
    world.upgrade("log:2", json!({ "partition": 2 }));
    world.pass(3_000);
    assert_eq!(told(&mut world), ["InProgress"]);
    assert_eq!(world.asked("n0"), ["a"]);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(told(&mut world), ["PartitionReached"]);
    world.upgrade("log:2", json!({ "partition": 1 }));
    world.pass(3_000);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(told(&mut world), ["PartitionReached"], "again, and that it goes on only once");
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(told(&mut world), ["Updated"]);
}

/// Annotations ride along with images, as upstream; a set may say that they go alone.
#[test]
fn annotations_alone_go_to_pods_where_the_set_says_so() {
    let mut world = World::new();
    let with_annotation = |value: &str, refreshes: bool| {
        let mut wanted = spec("log:1", json!({ "maxUnavailable": 2 }));
        wanted["patchPodMetadata"] = json!([{ "annotations": { "o": value }, "patchPolicy": "Overwrite" }]);
        let mut set =
            SidecarSetSeen { spec: Ok(serde_json::from_value(wanted).unwrap()), ..set("s", "log:1") };
        if refreshes {
            set.annotations.insert("berth.dev/refresh-metadata".to_owned(), "true".to_owned());
        }
        set
    };
    world.set(with_annotation("1", false));
    ["a", "b", "c"].into_iter().for_each(|name| world.pod(pod(name, "log:1")));
    world.pass(3_000);
    world.set(with_annotation("2", false));
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()[1]), (vec![], 3));
    world.set(with_annotation("2", true));
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["a", "b"], "maxUnavailable counts");
    let entry = world.nodes["n0"].desired[0].clone();
    assert_eq!((entry.containers, &*entry.annotations["o"]), (vec![], "2"));
    for _ in 0..2 {
        world.agent("n0", UpdatePhase::Succeeded);
        world.pass(3_000);
    }
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec![], "Updated"));
}

/// Pods that differ in more than images are told so, and that they can follow when that is so again.
#[test]
fn pods_are_told_whether_they_can_follow() {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    ["a", "b"].into_iter().for_each(|name| world.pod(pod(name, "log:1")));
    world.pass(3_000);
    let edit = |world: &mut World, image: &str, without_image: &str| {
        let spec = Ok(serde_json::from_value(spec(image, json!({}))).unwrap());
        let mut edited = SidecarSetSeen { spec, ..set("s", image) };
        edited.annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), without_image.to_owned());
        world.set(edited);
        world.pass(3_000);
    };
    let words =
        |world: &World| world.nodes["n0"].desired.iter().map(|pod| pod.upgradable).collect::<Vec<_>>();
    edit(&mut world, "log:2", "other");
    assert_eq!(words(&world), [], "an agent of before");
    world.node("n0", &["owners/v1", "upgradable/v1"]);
    world.pass(3_000);
    assert_eq!(words(&world), [Some(false), Some(false)]);
    assert_eq!(world.reason("UpToDate"), "NotUpgradable");
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(words(&world), [], "they show it");
    // The set is as it was.
    edit(&mut world, "log:1", "same");
    assert_eq!(words(&world), [Some(true), Some(true)]);
    // The answer to a word is none to an upgrade.
    edit(&mut world, "log:3", "same");
    assert_eq!(words(&world), [None, Some(true)]);
    assert_eq!(world.nodes["n0"].desired[0].containers[0].image, "log:3");
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    // One has the newest and is told so, and the other one's upgrade is next.
    assert_eq!((words(&world), world.counts()[1]), (vec![Some(true), None], 1));
}

/// The agent looks the revision up in the set.
#[test]
fn nothing_is_asked_before_the_revision_stands_in_the_status() {
    let mut world = upgraded(json!({ "paused": true }));
    world.loses = true;
    world.upgrade("log:3", json!({}));
    world.pass(5_000);
    assert_eq!(world.asked("n0"), Vec::<&str>::new());
    world.loses = false;
    world.upgrade("log:3", json!({}));
    world.pass(5_000);
    assert_eq!(world.asked("n0"), ["a"]);
}

#[test]
fn an_entry_says_what_the_pod_is_to_be() {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    world.pod(pod("a", "log:1"));
    world.pass(3_000);
    let mut wanted = spec("log:2", json!({}));
    wanted["patchPodMetadata"] = json!([
        { "annotations": { "r": "1" } },
        { "annotations": { "o": "2" }, "patchPolicy": "Overwrite" },
        { "annotations": { "m": "{\"x\":1}" }, "patchPolicy": "MergePatchJson" },
    ]);
    world.set(SidecarSetSeen { spec: Ok(serde_json::from_value(wanted).unwrap()), ..set("s", "log:2") });
    world.pass(3_000);
    let revision = world.status().latest_revision.clone().unwrap();
    let entry = world.nodes["n0"].desired[0].clone();
    assert_eq!((&*entry.owner, &*entry.owner_uid), ("SidecarSet/s", "uid-of-s"));
    assert_eq!((&*entry.uid, &*entry.namespace, &*entry.name), ("uid-of-a", "shop", "a"));
    assert_eq!(
        (entry.revision.clone(), entry.attempt, entry.service),
        (revision.clone(), 0, PodService::Keep)
    );
    assert_eq!(entry.pull, PodPull::BestEffort);
    let images: Vec<_> = entry.containers.iter().map(|one| (&*one.name, &*one.image)).collect();
    assert_eq!(images, [("log", "log:2")]);
    assert_eq!(entry.default_annotations, [("r".to_owned(), "1".to_owned())].into());
    assert_eq!(entry.annotations, [("o".to_owned(), "2".to_owned())].into());
    assert_eq!(entry.merge_annotations["m"], "{\"x\":1}");
    let merged: Value = serde_json::from_str(&entry.merge_annotations["kruise.io/sidecarset-hash"]).unwrap();
    assert_eq!(merged["s"]["hash"], hash("log:2"));
    assert_eq!(merged["s"]["controllerRevision"], revision);
    assert_eq!(merged["s"]["sidecarList"], json!(["log"]));
}

/// A whole upgrade asks for each pod once, and takes back with the next.
#[test]
fn few_writes_for_many_pods() {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    (0..30).for_each(|number| world.pod(pod(&format!("p{number:02}"), "log:1")));
    world.pass(3_000);
    let before = world.node_writes;
    world.upgrade("log:2", json!({ "maxUnavailable": "10%" }));
    for _ in 0..12 {
        world.pass(1_000);
        world.agent("n0", UpdatePhase::Succeeded);
    }
    world.pass(3_000);
    assert_eq!(world.counts()[1], 30);
    let written = world.node_writes - before;
    assert!(written <= 12, "{written} for 30 pods, 3 at a time");
}

#[test]
fn a_node_with_an_old_agent_gets_nothing() {
    let mut world = World::new();
    world.node("n0", &[]);
    world.upgrade("log:1", json!({}));
    world.pod(pod("a", "log:1"));
    world.pass(3_000);
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec![], "AgentTooOld"));
    world.node("n0", &["other/v1", "owners/v1"]);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "InProgress"));
}

#[rstest]
#[case::paused(json!({ "paused": true }), "Paused")]
#[case::not_update(json!({ "type": "NotUpdate" }), "NotUpdate")]
#[case::partition(json!({ "partition": "100%" }), "PartitionReached")]
#[case::selector(json!({ "selector": { "matchLabels": { "app": "db" } } }), "PartitionReached")]
fn nothing_is_asked(#[case] strategy: Value, #[case] reason: &str) {
    let mut world = upgraded(strategy);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec![], reason));
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["a"]);
}

/// The label by which an upgrade selects comes after the upgrade.
#[test]
fn a_pod_that_is_selected_later_is_upgraded() {
    let mut world = upgraded(json!({ "selector": { "matchLabels": { "canary": "true" } } }));
    assert_eq!(world.asked("n0"), [""; 0]);
    let mut canary = pod("b", "log:1");
    canary.labels.insert("canary".into(), "true".into());
    world.pod(canary);
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["b"]);
}

#[test]
fn more_than_images() {
    let mut world = upgraded(json!({ "paused": true }));
    let mut other = set("s", "log:3");
    other.annotations.insert("kruise.io/sidecarset-hash-without-image".into(), "another".into());
    world.set(other);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec![], "NotUpgradable"));
    let told: Vec<_> = world.notes.iter().map(|note| (note.reason, note.warning)).collect();
    assert_eq!(told, [("Paused", false), ("NotUpgradablePods", false)]);
    world.pass(60_000);
    assert_eq!(world.notes.len(), 2, "said once for a revision");
}

/// A set with hot upgrades to this image, and a pod with `log:1` in its first twin.
pub(super) fn hot(features: &[&str], annotation: Option<(&str, &str)>) -> World {
    let mut world = World::new();
    world.node("n0", features);
    let mut hot = spec("log:2", json!({}));
    hot["containers"][0]["upgradeStrategy"] =
        json!({ "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1" });
    world.pod(with(pod("a", "log:1"), |it| {
        it.images = [("log-1", "log:1"), ("log-2", "empty:1")]
            .map(|(name, image)| (name.into(), image.into()))
            .into();
        it.working = [("log".into(), "log-1".into())].into();
    }));
    let mut set = SidecarSetSeen { spec: Ok(serde_json::from_value(hot).unwrap()), ..set("s", "log:2") };
    set.annotations.extend(annotation.map(|(key, value)| (key.to_owned(), value.to_owned())));
    world.set(set);
    world.pass(3_000);
    world
}

#[test]
fn hot_upgrades_wait_for_an_agent_that_can_swap() {
    let mut world = hot(&["owners/v1"], None);
    assert_eq!((world.counts()[0], world.asked("n0")), (1, vec![]));
    assert_eq!(world.reason("UpToDate"), "AgentTooOld");
    world.node("n0", &["owners/v1", "swaps/v1"]);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "InProgress"));
}

#[test]
fn a_hot_upgrade_is_a_swap() {
    let mut world = hot(&["owners/v1", "swaps/v1"], Some(("berth.dev/migration-seconds", "7")));
    let entry = world.nodes["n0"].desired[0].clone();
    assert_eq!((entry.containers.len(), entry.swaps.len(), entry.service), (0, 1, PodService::Keep));
    let swap = &entry.swaps[0];
    assert_eq!((&*swap.name, &*swap.image, &*swap.empty_image), ("log", "log:2", "empty:1"));
    assert_eq!(swap.migration_seconds, Some(7));
    assert_eq!(world.counts()[1], 0);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()), (vec![], [1, 1, 1, 1, 0]));
    assert_eq!(world.reason("UpToDate"), "Updated");
}

/// As OpenKruise leaves a pod that was rolled back after a failed upgrade: the hash is the newest, and the
/// twin that failed is there.
#[test]
fn a_pod_in_the_middle_of_a_swap_is_swapped_to_the_end() {
    let mut world = hot(&["owners/v1", "swaps/v1"], None);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(world.asked("n0"), Vec::<&str>::new());
    let stuck = world.pods["a"].clone();
    world.pod(with(stuck, |it| drop(it.images.insert("log-1".into(), "log:bad".into()))));
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "InProgress"));
}

#[test]
fn a_time_that_is_none_is_said() {
    let world = hot(&["owners/v1", "swaps/v1"], Some(("berth.dev/migration-seconds", "soon")));
    assert_eq!((world.asked("n0"), world.reason("Accepted")), (vec![], "InvalidSpec"));
}

#[test]
fn a_failed_pod_stops_the_others_and_is_tried_again() {
    let mut world = upgraded(json!({}));
    world.agent("n0", UpdatePhase::Failed);
    world.pass(20_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "UpgradeFailed"));
    assert_eq!(world.nodes["n0"].desired[0].attempt, 0);
    world.pass(15_000);
    assert_eq!(world.nodes["n0"].desired[0].attempt, 1, "tried again after half a minute");
    assert_eq!(
        world.notes.iter().map(|note| note.reason).collect::<Vec<_>>(),
        ["InProgress", "UpgradeFailed"]
    );
    world.upgrade("log:3", json!({}));
    world.pass(3_000);
    let entry = &world.nodes["n0"].desired[0];
    assert_eq!((entry.attempt, &*entry.containers[0].image), (0, "log:3"), "a newer one at once");
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["b"]);
}

#[test]
fn an_evicted_pod_gives_its_place_to_the_next() {
    let mut world = upgraded(json!({}));
    let mut evicted = world.pods["a"].clone();
    evicted.stage = PodStage::Finished;
    world.pod(evicted);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()[0]), (vec!["b"], 2));
    world.no_pod("b");
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["c"]);
}

#[test]
fn the_next_leader_goes_on() {
    let mut world = upgraded(json!({}));
    let entry = world.nodes["n0"].desired.clone();
    let writes = world.node_writes;
    world.fail_over();
    world.pass(3_000);
    assert_eq!((&world.nodes["n0"].desired, world.node_writes), (&entry, writes), "it is the same entry");
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["b"]);
}

#[test]
fn entries_of_a_set_that_is_gone_are_taken_back() {
    let mut world = upgraded(json!({}));
    world.no_set("s");
    world.pass(3_000);
    assert_eq!(world.asked("n0"), Vec::<&str>::new());
    let mut world = upgraded(json!({}));
    world.sets.clear();
    world.fail_over();
    world.pass(3_000);
    assert_eq!(world.asked("n0"), Vec::<&str>::new(), "gone while nobody led");
}

#[test]
fn entries_of_others_stay() {
    let mut world = upgraded(json!({ "paused": true }));
    let mut other =
        berth_proto::crd::DesiredPod { uid: "uid-of-a".into(), name: "a".into(), ..Default::default() };
    other.revision = "workload".into();
    world.nodes.get_mut("n0").unwrap().desired.push(other.clone());
    world.node("n0", &["owners/v1"]);
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!((world.asked("n0"), &world.nodes["n0"].desired[0]), (vec!["a", "a"], &other));
}
