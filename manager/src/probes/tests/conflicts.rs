//! Two probes that name one condition, label or annotation of a pod.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::*;

/// With this policy and this condition.
fn marking(name: &str, condition: Option<&str>, policy: Value) -> Value {
    json!({ "name": name, "containerName": "game", "probe": { "exec": { "command": ["x"] } },
        "podConditionType": condition, "markerPolicy": policy })
}

/// Each marker's probe as it is on the node: its condition, and its policy.
fn granted(world: &World) -> Vec<(String, Option<String>, Value)> {
    let probes = world.desired("n0").iter().flat_map(|pod| &pod.probes);
    let granted = probes.map(|probe| {
        let policy = serde_json::to_value(&probe.marker_policy).unwrap();
        (probe.name.clone(), probe.pod_condition_type.clone(), policy)
    });
    granted.collect()
}

fn of(name: &str, condition: Option<&str>, policy: Value) -> (String, Option<String>, Value) {
    (name.to_owned(), condition.map(str::to_owned), policy)
}

#[test]
fn who_was_made_first_has_it_until_it_goes() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    // By name it would be the last.
    world.marker("z", spec(&[idle()]));
    world.pass(millis(2000));
    world.marker("b", spec(&[idle()]));
    world.pass(millis(2000));
    world.marker("a", spec(&[idle()]));
    world.pass(millis(2000));
    let idle = Some("game.io/idle");
    let expected =
        [of("z#idle", idle, json!([])), of("b#idle", None, json!([])), of("a#idle", None, json!([]))];
    assert_eq!(granted(&world), expected, "they run, and without the condition");
    assert_eq!(world.accepted("z").reason, "Accepted");
    for later in ["a", "b"] {
        let accepted = world.accepted(later);
        assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("True", "NotOnAllPods"));
        let says = "runs without condition game.io/idle on pod a: z#idle has it";
        assert!(accepted.message.contains(says), "{}", accepted.message);
    }
    world.no_marker("z");
    world.pass(millis(2000));
    assert_eq!(granted(&world), [of("b#idle", idle, json!([])), of("a#idle", None, json!([]))]);
    assert_eq!(world.accepted("b").reason, "Accepted");
    assert!(world.accepted("a").message.contains("b#idle has it"));
}

#[test]
fn of_two_made_in_the_same_second_the_first_by_name() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    world.marker("b", spec(&[idle()]));
    world.marker("a", spec(&[idle()]));
    world.pass(millis(2000));
    assert_eq!(granted(&world)[0], of("a#idle", Some("game.io/idle"), json!([])));
}

/// Checks that a policy loses only the keys that are another's, and the states without any.
#[test]
fn labels_and_annotations_one_by_one() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    let first = json!([{ "state": "Failed", "labels": { "x": "1" }, "annotations": { "y": "1" } }]);
    world.marker("first", spec(&[marking("p", None, first.clone())]));
    world.pass(millis(2000));
    let second = json!([
        { "state": "Failed", "labels": { "x": "2", "z": "2" }, "annotations": { "x": "2" } },
        { "state": "Succeeded", "labels": { "x": "3" }, "annotations": { "y": "3" } },
    ]);
    world.marker("second", spec(&[marking("p", Some("game.io/p"), second)]));
    world.pass(millis(2000));
    let left = json!([{ "state": "Failed", "labels": { "z": "2" }, "annotations": { "x": "2" } }]);
    assert_eq!(granted(&world), [of("first#p", None, first), of("second#p", Some("game.io/p"), left)]);
    let message = &world.accepted("second").message;
    assert!(
        message.contains("without label x on pod a") && message.contains("without annotation y"),
        "{message}"
    );
    assert!(!message.contains("annotation x") && !message.contains("label z"), "{message}");
}

/// In one marker the first probe in the list.
#[test]
fn two_probes_of_one_marker() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    let policy = json!([{ "state": "Succeeded", "labels": { "x": "1" } }]);
    let probes = [marking("b", None, policy.clone()), marking("a", None, policy.clone())];
    world.marker("m", spec(&probes));
    world.pass(millis(2000));
    assert_eq!(granted(&world), [of("m#b", None, policy), of("m#a", None, json!([]))]);
    assert!(world.accepted("m").message.contains("probe a runs without label x on pod a: m#b has it"));
}

/// Checks that a probe that does not run on a pod, or is not carried out at all, has nothing there.
#[rstest]
#[case::of_a_missing_container(json!({ "containerName": "other" }))]
#[case::of_a_missing_port(json!({ "probe": { "tcpSocket": { "port": "other" } } }))]
#[case::of_a_refused_marker(json!({ "probe": {} }))]
fn one_that_does_not_run_has_nothing(#[case] change: Value) {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    let mut first = idle();
    first.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    world.marker("first", spec(&[first]));
    world.pass(millis(2000));
    world.marker("second", spec(&[idle()]));
    world.pass(millis(2000));
    assert_eq!(granted(&world), [of("second#idle", Some("game.io/idle"), json!([]))]);
    assert_eq!(world.accepted("second").reason, "Accepted");
    assert_ne!(world.accepted("first").reason, "Accepted");
}

/// Markers whose pods are others do not meet.
#[test]
fn only_on_the_pods_of_both() {
    let mut world = World::with_nodes(1);
    world.pod(pod("both", "n0", &[("app", "game"), ("tier", "x")]));
    world.pod(pod("one", "n0", &[("tier", "x")]));
    world.marker("a", spec(&[idle()]));
    world.marker("b", json!({ "selector": { "matchLabels": { "tier": "x" } }, "probes": [idle()] }));
    world.pass(millis(2000));
    let conditions: Vec<_> =
        granted(&world).into_iter().map(|(name, condition, _)| (name, condition.is_some())).collect();
    let expected = [("a#idle", true), ("b#idle", false), ("b#idle", true)];
    assert_eq!(conditions, expected.map(|(name, has)| (name.to_owned(), has)));
    assert!(world.accepted("b").message.contains("on pod both"), "{}", world.accepted("b").message);
}

/// More than a reader can take in is told when the first are solved.
#[test]
fn many_problems() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    let probe = |number: i32| {
        let mut probe = idle();
        probe["name"] = format!("p{number:02}").into();
        probe["containerName"] = "missing".into();
        probe["podConditionType"] = format!("game.io/{number}").into();
        probe
    };
    world.marker("m", spec(&(0..20).map(probe).collect::<Vec<_>>()));
    world.pass(millis(1000));
    let message = &world.accepted("m").message;
    assert!(message.contains("probe p07") && !message.contains("probe p08"), "{message}");
    assert!(message.ends_with("and 12 more of the kind"), "{message}");
}
