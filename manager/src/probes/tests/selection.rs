//! Which pods, which probes, and what becomes of an entry whenever something changes.

use rstest::rstest;
use serde_json::json;

use super::world::*;
use crate::store::{Kind, PodSeen, PodStage, Role};

/// A world with one marker, `server`, and the pod as given on `n0`; after all has settled.
fn with(pod: PodSeen) -> World {
    let mut world = World::with_nodes(2);
    world.marker("server", spec(&[idle()]));
    world.pod(pod);
    world.pass(millis(1000));
    world
}

#[test]
fn an_entry_has_all_that_the_agent_needs() {
    let mut world = World::with_nodes(1);
    let policy = json!([
        { "state": "Succeeded", "labels": { "idle": "true" },
            "annotations": { "controller.kubernetes.io/pod-deletion-cost": "-10" } },
        { "state": "Failed", "labels": { "idle": "false" } },
    ]);
    let http = json!({ "name": "answers", "containerName": "game", "markerPolicy": policy,
        "probe": { "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 7, "failureThreshold": 3 } });
    world.marker("server", spec(&[idle(), http]));
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(1000));
    let expected = json!([{
        "name": "a", "namespace": "shop", "uid": "uid-of-a", "IP": "10.0.0.7",
        "probes": [
            { "name": "server#idle", "containerName": "game", "probe": { "exec": { "command": ["/idle.sh"] } },
                "podConditionType": "game.io/idle" },
            { "name": "server#answers", "containerName": "game", "markerPolicy": policy,
                "probe": { "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 7, "failureThreshold": 3 } },
        ],
    }]);
    assert_eq!(serde_json::to_value(world.desired("n0")).unwrap(), expected);
    assert_eq!(world.matched("server"), 1);
    let accepted = world.accepted("server");
    assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("True", "Accepted"));
    assert_eq!(world.markers["server"].status.as_ref().unwrap().observed_generation, Some(1));
}

#[rstest]
#[case::counts(pod("a", "n0", GAME), 1)]
#[case::other_labels(pod("a", "n0", &[("app", "web")]), 0)]
#[case::not_scheduled(PodSeen { node: None, ..pod("a", "n0", GAME) }, 0)]
#[case::scheduled_to_nothing(pod("a", "", GAME), 0)]
#[case::not_initialized(PodSeen { initialized: false, ..pod("a", "n0", GAME) }, 0)]
#[case::terminating(PodSeen { stage: PodStage::Terminating, ..pod("a", "n0", GAME) }, 0)]
#[case::finished(PodSeen { stage: PodStage::Finished, ..pod("a", "n0", GAME) }, 0)]
#[case::no_address_yet(PodSeen { ip: None, ..pod("a", "n0", GAME) }, 1)]
#[case::another_namespace(PodSeen { namespace: "other".into(), ..pod("a", "n0", GAME) }, 0)]
fn pods_that_count(#[case] seen: PodSeen, #[case] entries: usize) {
    let world = with(seen);
    assert_eq!((world.desired("n0").len(), world.matched("server")), (entries, entries as i64));
}

/// Each change alone, after everything had settled: at once, and by a single write.
#[rstest]
#[case::relabelled(PodSeen { labels: labels(&[("app", "web")]), ..pod("a", "n0", GAME) }, 0)]
#[case::another_address(PodSeen { ip: Some([10, 0, 0, 8].into()), ..pod("a", "n0", GAME) }, 1)]
#[case::deletion_begins(PodSeen { stage: PodStage::Terminating, ..pod("a", "n0", GAME) }, 0)]
#[case::ended(PodSeen { stage: PodStage::Finished, ..pod("a", "n0", GAME) }, 0)]
#[case::another_pod_of_that_name(PodSeen { uid: "another".into(), ..pod("a", "n0", GAME) }, 1)]
fn a_pod_that_changes(#[case] changed: PodSeen, #[case] entries: usize) {
    let mut world = with(pod("a", "n0", GAME));
    let (before, writes) = (world.desired("n0").to_vec(), world.node_writes);
    world.pod(changed.clone());
    assert_eq!((world.desired("n0").len(), world.node_writes), (entries, writes + 1));
    assert_ne!(world.desired("n0"), before);
    if let Some(entry) = world.desired("n0").first() {
        assert_eq!((entry.uid.as_str(), entry.ip.parse().ok()), (changed.uid.as_str(), changed.ip));
    }
    // And back again.
    world.pass(millis(1000));
    world.pod(pod("a", "n0", GAME));
    assert_eq!(world.desired("n0"), before);
}

#[rstest]
#[case::initialized(PodSeen { initialized: false, ..pod("a", "n0", GAME) })]
#[case::scheduled(PodSeen { node: None, ..pod("a", "n0", GAME) })]
#[case::relabelled(pod("a", "n0", &[]))]
#[case::elsewhere(PodSeen { uid: "before".into(), ..pod("a", "n1", GAME) })]
fn a_pod_that_comes_to_count(#[case] before: PodSeen) {
    let mut world = with(before);
    assert!(world.desired("n0").is_empty());
    world.pod(pod("a", "n0", GAME));
    assert_eq!(world.told("n0"), ["a: server#idle"]);
    assert!(world.desired("n1").is_empty());
}

#[test]
fn a_pod_that_is_gone_and_one_that_a_list_does_not_show() {
    let mut world = with(pod("a", "n0", GAME));
    world.pod(pod("b", "n1", GAME));
    world.no_pod("a");
    assert!(world.desired("n0").is_empty());
    world.pass(millis(1000));
    world.pods.clear();
    world.list(Kind::Pod);
    assert!(world.desired("n1").is_empty());
    world.pass(millis(1000));
    assert_eq!(world.matched("server"), 0);
}

/// A new node: its pod was there before its NodePodProbe.
#[test]
fn a_node_that_comes_late_or_again() {
    let mut world = with(pod("a", "late", GAME));
    assert_eq!(world.matched("server"), 1);
    world.join("late");
    assert_eq!(world.told("late"), ["a: server#idle"]);
    world.leave("late");
    world.join("late");
    assert_eq!(world.told("late"), ["a: server#idle"], "another object of that name is written to at once");
}

#[test]
fn nothing_is_asked_of_an_object_that_is_being_deleted() {
    let mut world = with(pod("b", "n1", GAME));
    world.nodes.get_mut("n0").unwrap().deleting = true;
    world.show_node("n0");
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(1000));
    assert!(world.desired("n0").is_empty() && world.orders.is_empty());
}

#[test]
fn a_marker_that_changes() {
    let mut world = with(pod("a", "n0", GAME));
    let listens = json!({ "name": "listens", "containerName": "game", "podConditionType": "game.io/listens",
        "probe": { "tcpSocket": { "port": "http" } } });
    world.marker("server", spec(&[idle(), listens.clone()]));
    assert_eq!(world.told("n0"), ["a: server#idle server#listens"]);
    world.pass(millis(500));
    assert_eq!(world.markers["server"].status.as_ref().unwrap().observed_generation, Some(2));

    let mut slower = idle();
    slower["probe"]["periodSeconds"] = 60.into();
    world.marker("server", spec(&[slower, listens.clone()]));
    assert_eq!(world.desired("n0")[0].probes[0].probe.period_seconds, Some(60));
    world.pass(millis(500));

    world.marker("server", spec(&[listens]));
    assert_eq!(world.told("n0"), ["a: server#listens"], "a probe that is not there any more is taken back");
    world.pass(millis(500));
    world.marker("ab", spec(&[idle()]));
    world.pass(millis(500));
    world.no_marker("server");
    assert_eq!(world.told("n0"), ["a: ab#idle"]);
    world.pass(millis(500));
    world.no_marker("ab");
    assert!(world.desired("n0").is_empty());
    let settled = (world.node_writes, world.marker_writes);
    world.pass(millis(10_000));
    assert_eq!((world.node_writes, world.marker_writes), settled);
}

#[test]
fn a_marker_that_is_being_deleted_asks_for_nothing() {
    let mut world = with(pod("a", "n0", GAME));
    let writes = world.marker_writes;
    let marker = world.markers.get_mut("server").unwrap();
    (marker.deleting, marker.resource_version) = (true, "deleting".to_owned());
    world.show_marker("server");
    world.pass(millis(1000));
    assert!(world.desired("n0").is_empty());
    assert_eq!(world.marker_writes, writes, "nor is it written to");
}

#[test]
fn one_made_anew_under_the_same_name() {
    let mut world = with(pod("a", "n0", GAME));
    // The watch has missed its deletion.
    world.markers.remove("server");
    world.pass(millis(1000));
    world.marker("server", spec(&[idle()]));
    world.pass(millis(1000));
    assert_eq!((world.told("n0"), world.matched("server")), (vec!["a: server#idle".to_owned()], 1));
    world.no_pod("a");
    world.pass(millis(1000));
    assert_eq!(world.matched("server"), 0);
}

#[test]
fn what_a_pod_does_not_have_is_left_out_and_said() {
    let mut world = World::with_nodes(1);
    let other = json!({ "name": "side", "containerName": "side", "probe": { "exec": { "command": ["x"] } },
        "podConditionType": "game.io/side" });
    let port = json!({ "name": "port", "containerName": "game", "probe": { "tcpSocket": { "port": "grpc" } },
        "podConditionType": "game.io/port" });
    world.marker("server", spec(&[other, port, idle()]));
    let mut sidecar = container("side", &[]);
    sidecar.role = Role::Sidecar;
    let mut full = pod("full", "n0", GAME);
    full.containers = vec![sidecar, container("game", &[("grpc", 9)])];
    world.pod(full.clone());
    world.pod(pod("b", "n0", GAME));
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(1000));
    assert_eq!(
        world.told("n0"),
        ["a: server#idle", "b: server#idle", "full: server#side server#port server#idle"]
    );
    assert_eq!(world.matched("server"), 3);
    let accepted = world.accepted("server");
    assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("True", "NotOnAllPods"));
    for says in ["probe side does not run on 2 pods, one of them a", "container side", "port named grpc"] {
        assert!(accepted.message.contains(says), "{}", accepted.message);
    }
    for name in ["a", "b"] {
        world.pod(PodSeen { name: name.into(), uid: name.into(), ..full.clone() });
        world.pass(millis(1000));
    }
    assert_eq!(world.accepted("server").reason, "Accepted");
}

/// Where no probe of it can run, a pod is counted and the node is not bothered; an init container that runs
/// once has ended.
#[test]
fn a_pod_on_which_nothing_can_run() {
    let mut seen = pod("a", "n0", GAME);
    seen.containers[0].role = Role::Init;
    let world = with(seen);
    assert_eq!((world.desired("n0").len(), world.matched("server")), (0, 1));
    assert!(world.accepted("server").message.contains("pod a"), "{}", world.accepted("server").message);
}

#[rstest]
#[case::name(json!("http"), Some(8080))]
#[case::number(json!(70), Some(70))]
#[case::number_as_text(json!("70"), Some(70))]
#[case::another_name(json!("https"), None)]
#[case::of_another_container(json!("side"), None)]
#[case::no_port(json!("70000"), None)]
#[case::zero(json!("0"), None)]
fn ports(#[case] port: serde_json::Value, #[case] expected: Option<i32>) {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let mut world = World::with_nodes(1);
    let probe = |probe| json!({ "name": "p", "containerName": "game", "podConditionType": "game.io/x", "probe": probe });
    let mut seen = pod("a", "n0", GAME);
    seen.containers.push(container("side", &[("side", 1)]));
    world.pod(seen);
    for (name, probe) in [
        ("http", probe(json!({ "httpGet": { "port": port } }))),
        ("tcp", probe(json!({ "tcpSocket": { "port": port } }))),
    ] {
        world.marker(name, spec(&[probe]));
        world.pass(millis(1000));
        let resolved = world.desired("n0").first().map(|pod| pod.probes[0].probe.clone()).map(|probe| {
            let http = probe.http_get.map(|http| http.port);
            http.or(probe.tcp_socket.map(|tcp| tcp.port)).unwrap()
        });
        assert_eq!(resolved, expected.map(IntOrString::Int), "{name}");
        world.no_marker(name);
        world.pass(millis(1000));
    }
}

#[rstest]
#[case::operators(json!([{ "key": "app", "operator": "In", "values": ["game", "web"] }]), true)]
#[case::not_in(json!([{ "key": "app", "operator": "NotIn", "values": ["game"] }]), false)]
#[case::exists(json!([{ "key": "app", "operator": "Exists" }]), true)]
#[case::not_exists(json!([{ "key": "app", "operator": "DoesNotExist" }]), false)]
fn by_expressions(#[case] expressions: serde_json::Value, #[case] selected: bool) {
    let mut world = World::with_nodes(1);
    world.marker("m", json!({ "selector": { "matchExpressions": expressions }, "probes": [idle()] }));
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(1000));
    assert_eq!((world.desired("n0").len() == 1, world.matched("m") == 1), (selected, selected));
}
