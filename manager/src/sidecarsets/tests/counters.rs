//! Which pods count, and as what.

use rstest::rstest;
use serde_json::json;

use super::world::{SPACE, World, pod, set, spec, with};
use crate::store::{Kind, Object, PodSeen, PodStage, SidecarSetSeen};

/// One pod, and the set `s` with `log:1`: matched, updated, ready, both, not injected.
#[rstest]
#[case::as_it_was_made(pod("p", "log:1"), [1, 1, 1, 1, 0])]
#[case::older_sidecars(pod("p", "log:0"), [1, 0, 1, 0, 0])]
#[case::not_ready(with(pod("p", "log:1"), |it| it.ready = false), [1, 1, 0, 0, 0])]
#[case::not_settled(with(pod("p", "log:1"), |it| it.unsettled = vec!["log".into()]), [1, 1, 0, 0, 0])]
#[case::another_not_settled(with(pod("p", "log:1"), |it| it.unsettled = vec!["app".into()]), [1, 1, 1, 1, 0])]
#[case::no_hash(with(pod("p", "log:1"), |it| it.hashes.clear()), [1, 0, 1, 0, 0])]
#[case::hash_of_another_set(with(pod("p", "log:1"), |it| it.hashes = [("t".into(), "x".into())].into()), [1, 0, 1, 0, 0])]
#[case::set_not_listed(with(pod("p", "log:1"), |it| it.listed = vec!["t".into()]), [0, 0, 0, 0, 1])]
#[case::without_the_container(with(pod("p", "log:1"), |it| drop(it.images.remove("log"))), [0, 0, 0, 0, 0])]
#[case::never_injected(PodSeen { sidecars: None, ..pod("p", "") }, [0, 0, 0, 0, 1])]
#[case::older_than_the_set(PodSeen { sidecars: None, created: None, ..pod("p", "") }, [0, 0, 0, 0, 0])]
#[case::static_pod(PodSeen { sidecars: None, mirror: true, ..pod("p", "") }, [0, 0, 0, 0, 0])]
#[case::left_out_namespace(PodSeen { sidecars: None, namespace: "kube-system".into(), ..pod("p", "") }, [0, 0, 0, 0, 0])]
#[case::other_labels(PodSeen { labels: [("app".into(), "db".into())].into(), ..pod("p", "log:1") }, [0, 0, 0, 0, 0])]
#[case::goes(PodSeen { stage: PodStage::Terminating, ..pod("p", "log:1") }, [0, 0, 0, 0, 0])]
#[case::evicted(PodSeen { stage: PodStage::Finished, ..pod("p", "log:1") }, [0, 0, 0, 0, 0])]
#[case::no_node(PodSeen { node: None, ..pod("p", "log:1") }, [1, 1, 1, 1, 0])]
#[case::another_namespace(PodSeen { namespace: "other".into(), ..pod("p", "log:1") }, [1, 1, 1, 1, 0])]
fn one_pod(#[case] pod: PodSeen, #[case] counts: [i32; 5]) {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    world.pod(pod.clone());
    world.pass(2_000);
    assert_eq!(world.counts(), counts, "the set first");
    let mut world = World::new();
    world.pod(pod);
    world.set(set("s", "log:1"));
    world.pass(2_000);
    assert_eq!(world.counts(), counts, "the pod first");
    world.no_pod("p");
    world.pass(2_000);
    assert_eq!(world.counts(), [0; 5]);
}

/// Twins, and a set with hot upgrades.
#[rstest]
#[case::both_twins(&[("log-1", "log:1"), ("log-2", "empty:1")], Some("log-1"), [1, 1, 1, 1, 0])]
#[case::the_other_works(&[("log-1", "empty:1"), ("log-2", "log:1")], Some("log-2"), [1, 1, 1, 1, 0])]
#[case::both_are_real(&[("log-1", "log:0"), ("log-2", "log:1")], Some("log-2"), [1, 1, 0, 0, 0])]
#[case::one_twin(&[("log-1", "log:1")], Some("log-1"), [0, 0, 0, 0, 0])]
#[case::nobody_works(&[("log-1", "log:1"), ("log-2", "empty:1")], None, [0, 0, 0, 0, 0])]
#[case::no_twins(&[("log", "log:1")], Some("log-1"), [0, 0, 0, 0, 0])]
fn hot_pods(#[case] images: &[(&str, &str)], #[case] working: Option<&str>, #[case] counts: [i32; 5]) {
    let mut world = World::new();
    let upgrade = json!({ "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1" });
    let mut hot = spec("log:1", json!({}));
    hot["containers"][0]["upgradeStrategy"] = upgrade;
    world.set(SidecarSetSeen { spec: Ok(serde_json::from_value(hot).unwrap()), ..set("s", "log:1") });
    world.pod(with(pod("p", "log:1"), |it| {
        it.images = images.iter().map(|(name, image)| ((*name).into(), (*image).into())).collect();
        it.working = working.map(|twin| ("log".into(), twin.into())).into_iter().collect();
    }));
    world.pass(2_000);
    assert_eq!(world.counts(), counts);
}

#[test]
fn namespaces_by_name_and_by_labels() {
    let mut world = World::new();
    let of = |namespaces: serde_json::Value| {
        let mut it = spec("log:1", json!({}));
        it.as_object_mut().unwrap().extend(namespaces.as_object().unwrap().clone());
        SidecarSetSeen { spec: Ok(serde_json::from_value(it).unwrap()), ..set("s", "log:1") }
    };
    world.pod(pod("p", "log:1"));
    world.pod(PodSeen { namespace: "other".into(), uid: "q".into(), ..pod("q", "log:1") });
    let matched = |world: &mut World, namespaces| {
        world.set(of(namespaces));
        world.pass(2_000);
        world.counts()[0]
    };
    assert_eq!(matched(&mut world, json!({})), 2);
    assert_eq!(matched(&mut world, json!({ "namespace": "other" })), 1);
    assert_eq!(matched(&mut world, json!({ "namespace": "none" })), 0);
    let labelled = json!({ "namespaceSelector": { "matchLabels": { "team": "a" } } });
    assert_eq!(matched(&mut world, labelled), 0);
    world.space(SPACE, &[("team", "a")]);
    world.pass(2_000);
    assert_eq!(world.counts()[0], 1, "the namespace has got the label");
    world.space(SPACE, &[]);
    world.pass(2_000);
    assert_eq!(world.counts()[0], 0);
    assert_eq!(matched(&mut world, json!({})), 2);
}

/// Pods that were made before the set asked for them were not missed; later ones are.
#[rstest]
#[case::never_noted(None, 1)]
#[case::noted_before(Some("2023-11-14T22:13:25Z"), 1)]
#[case::noted_since(Some("2023-11-14T22:13:35Z"), 0)]
#[case::no_time(Some("soon"), 1)]
fn a_set_that_asks_for_other_pods(#[case] since: Option<&str>, #[case] missing: i32) {
    let mut world = World::new();
    // Made ten seconds after 22:13:20.
    world.pod(PodSeen { sidecars: None, ..pod("p", "") });
    let mut changed = set("s", "log:1");
    changed.annotations.extend(since.map(|time| (berth_sidecarset::INJECTED_SINCE.into(), time.into())));
    world.set(changed);
    world.pass(2_000);
    assert_eq!(world.counts()[4], missing);
    world.fail_over();
    world.pass(2_000);
    assert_eq!(world.counts()[4], missing, "the next leader knows it too");
}

#[test]
fn nothing_is_injected_beside_a_control_plane() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    world.pod(PodSeen { sidecars: None, ..pod("p", "") });
    let mut missing = |labels: &[(&str, &str)]| {
        world.space(SPACE, labels);
        world.pass(2_000);
        world.counts()[4]
    };
    assert_eq!(missing(&[("control-plane", "")]), 0);
    assert_eq!(missing(&[("other", "")]), 1);
    assert_eq!(missing(&[("control-plane", "x")]), 0);
}

#[test]
fn a_set_that_stands_in_for_another() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    world.pod(with(pod("p", "log:1"), |it| it.listed = vec!["t".into()]));
    world.pass(2_000);
    assert_eq!(world.counts()[4], 1);
    let mut canary = set("t", "log:2");
    for (key, value) in
        [("apps.kruise.io/sidecarset-canary", "true"), ("apps.kruise.io/sidecarset-base", "s")]
    {
        canary.annotations.insert(key.into(), value.into());
    }
    world.set(canary);
    world.pass(2_000);
    assert_eq!(world.counts()[4], 0, "the pod has the other one instead");
    world.no_set("t");
    world.pass(2_000);
    assert_eq!(world.counts()[4], 1);
}

#[test]
fn one_write_a_second() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    let before = world.set_writes;
    for number in 0..100 {
        world.pod(pod(&format!("p{number}"), "log:1"));
        world.pass(50);
    }
    let written = world.set_writes - before;
    assert!((4..=6).contains(&written), "{written} in 5 s");
    world.pass(2_000);
    assert_eq!(world.counts(), [100, 100, 100, 100, 0]);
    let quiet = world.set_writes;
    world.pass(60_000);
    assert_eq!(world.set_writes, quiet, "nothing has changed");
}

/// Clients that wait for an edit look for its revision then.
#[test]
fn an_edit_is_answered_at_once() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    world.pass(10_000);
    world.pod(pod("p", "log:1"));
    let before = world.set_writes;
    for image in ["log:2", "log:3"] {
        world.pass(100);
        world.upgrade(image, json!({}));
        assert_eq!(world.status().observed_generation, world.sets["s"].generation, "{image}");
    }
    // Not faster than that, however fast edits come.
    for number in 0..50 {
        world.upgrade(&format!("log:{number}"), json!({ "paused": true }));
        world.pass(10);
    }
    let written = world.set_writes - before;
    assert!((6..=10).contains(&written), "{written} in 0.7 s");
    world.pass(100);
    assert_eq!(world.status().observed_generation, world.sets["s"].generation);
}

/// Costs of an event do not grow with the sets that the pod does not have.
#[test]
fn an_event_looks_at_the_sets_of_its_pod() {
    let mut world = World::new();
    world.set(set("s", "log:1"));
    (0..50).for_each(|number| world.set(set(&format!("t{number}"), "other:1")));
    world.pod(pod("p", "log:1"));
    let before = world.index.judged;
    world.pod(with(pod("p", "log:1"), |it| it.ready = false));
    assert_eq!(world.index.judged - before, 1);
}

#[test]
fn revisions_stand_in_the_status() {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    world.pass(2_000);
    let first = world.status().latest_revision.clone().unwrap();
    assert!(first.starts_with("s-"), "{first}");
    assert_eq!(world.status().observed_generation, Some(1));
    world.upgrade("log:2", json!({}));
    world.pass(2_000);
    let status = world.status().clone();
    assert_eq!(status.observed_generation, Some(2));
    let numbers: Vec<_> = status.revisions.iter().map(|record| record.revision).collect();
    assert_eq!(numbers, [1, 2]);
    assert_ne!(status.latest_revision.as_ref(), Some(&first));
    world.upgrade("log:1", json!({}));
    world.pass(2_000);
    assert_eq!(world.status().latest_revision.as_ref(), Some(&first), "it is the newest again");
    let numbers: Vec<_> = world.status().revisions.iter().map(|record| record.revision).collect();
    assert_eq!(numbers, [2, 3]);
    let before = world.status().clone();
    world.fail_over();
    world.pass(5_000);
    assert_eq!(world.status(), &before, "the next leader files nothing else");
    world.no_set("s");
    assert_eq!(world.index.vanished(Kind::SidecarSet), []);
}

#[test]
fn a_spec_that_makes_no_sense() {
    let mut world = World::new();
    world.pod(pod("p", "log:1"));
    world.set(SidecarSetSeen { spec: Err("spec.containers is no list".into()), ..set("s", "log:1") });
    world.pass(2_000);
    assert_eq!(world.reason("Accepted"), "InvalidSpec");
    world.upgrade("log:1", json!({ "maxUnavailable": "many" }));
    world.pass(2_000);
    assert_eq!(world.reason("Accepted"), "InvalidSpec");
    world.upgrade("log:1", json!({}));
    world.pass(2_000);
    assert_eq!((world.reason("Accepted"), world.counts()), ("Accepted", [1, 1, 1, 1, 0]));
}

/// There is no room for it: nothing is written to it, and it comes back as any other.
#[test]
fn one_that_is_set_aside_is_left_alone() {
    let mut world = World::new();
    world.pod(pod("p", "log:1"));
    world.upgrade("log:1", json!({}));
    world.pass(2_000);
    let (before, written) = (world.status().clone(), world.set_writes);
    let absent = Object::absent(Kind::SidecarSet, "", "s", "uid-of-s").unwrap();
    assert_eq!(world.index.apply(&absent, world.now()).len(), 0);
    world.pass(60_000);
    assert_eq!((world.status(), world.set_writes), (&before, written));
    world.upgrade("log:1", json!({}));
    world.pass(2_000);
    assert_eq!((world.reason("Accepted"), world.counts()), ("Accepted", [1, 1, 1, 1, 0]));
}
