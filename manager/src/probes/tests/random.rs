//! Random histories: pods, markers and nodes come, change and go, writes are late, lost or refused, managers
//! are replaced. After all has settled every node has what follows from the objects, worked out anew here in
//! the plainest way; and then nothing is written any more. (That no write changes nothing, and none comes too
//! soon, is checked with each: `world`.)

use berth_proto::crd::{ContainerProbe, PodProbe, PodProbeMarkerSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::*;
use crate::{
    store::{PodSeen, PodStage},
    write::Target,
};

const PODS: u8 = 5;
const MARKERS: u8 = 3;
const NODES: u8 = 2;
const SPECS: u8 = 6;

#[derive(Clone, Debug)]
enum Deed {
    /// A pod is there and so, whatever it was before.
    Pod {
        pod: u8,
        node: u8,
        game: bool,
        stage: u8,
        ip: u8,
        ports: bool,
        again: bool,
    },
    NoPod {
        pod: u8,
    },
    /// A marker is there with this spec.
    Marker {
        marker: u8,
        spec: u8,
    },
    NoMarker {
        marker: u8,
    },
    Join {
        node: u8,
    },
    Leave {
        node: u8,
    },
    /// The agent writes something, so that an order for the version before is refused.
    Disturb {
        node: u8,
    },
    /// The API server does an order.
    Write,
    /// An order finds no room.
    Lose,
    /// A moment passes.
    Pass {
        millis: u16,
    },
    /// Another manager.
    FailOver,
    /// The lease is lost and won back.
    Lease,
    /// The lists come anew.
    List,
}

fn deed() -> impl Strategy<Value = Deed> {
    let pod = (0..PODS, 0..NODES, any::<bool>(), 0..6u8, 0..3u8, any::<bool>(), any::<bool>());
    prop_oneof![
        10 => pod.prop_map(|(pod, node, game, stage, ip, ports, again)| {
            Deed::Pod { pod, node, game, stage, ip, ports, again }
        }),
        2 => (0..PODS).prop_map(|pod| Deed::NoPod { pod }),
        5 => (0..MARKERS, 0..SPECS).prop_map(|(marker, spec)| Deed::Marker { marker, spec }),
        2 => (0..MARKERS).prop_map(|marker| Deed::NoMarker { marker }),
        3 => (0..NODES).prop_map(|node| Deed::Join { node }),
        1 => (0..NODES).prop_map(|node| Deed::Leave { node }),
        3 => (0..NODES).prop_map(|node| Deed::Disturb { node }),
        12 => Just(Deed::Write),
        1 => Just(Deed::Lose),
        5 => (0..700u16).prop_map(|millis| Deed::Pass { millis }),
        1 => Just(Deed::FailOver),
        1 => Just(Deed::Lease),
        1 => Just(Deed::List),
    ]
}

fn a_spec(number: u8) -> Value {
    let mark =
        |key: &str| json!([{ "state": "Failed", "labels": { key: "x" }, "annotations": { "a": "x" } }]);
    let http = json!({ "name": "http", "containerName": "game", "probe": { "httpGet": { "port": "http" } },
        "podConditionType": "game.io/http", "markerPolicy": mark("l") });
    let side = json!({ "name": "side", "containerName": "side", "probe": { "exec": { "command": ["x"] } },
        "podConditionType": "game.io/idle", "markerPolicy": mark("m") });
    match number {
        0 => spec(&[idle()]),
        1 => spec(&[http, idle()]),
        2 => spec(&[side, http]),
        3 => json!({ "selector": { "matchLabels": { "tier": "x" } }, "probes": [idle(), http] }),
        4 => json!({ "selector": {}, "probes": [idle()] }),
        _ => spec(&[json!({ "name": "none", "containerName": "game", "probe": {} })]),
    }
}

fn act(world: &mut World, deed: &Deed) {
    let node = |node: &u8| format!("n{node}");
    match deed {
        Deed::Pod { pod: number, node: at, game, stage, ip, ports, again } => {
            let tier: &[(&str, &str)] =
                if *game { &[("app", "game"), ("tier", "x")] } else { &[("tier", "x")] };
            let mut seen = pod(&format!("p{number}"), &node(at), tier);
            seen.uid = format!("{}-{again}-{at}", seen.uid);
            match stage {
                0 => seen.initialized = false,
                1 => seen.stage = PodStage::Terminating,
                2 => seen.stage = PodStage::Finished,
                _ => {}
            }
            seen.ip = (*ip > 0).then(|| [10, 0, 0, *ip].into());
            if *ports {
                seen.containers = vec![container("side", &[]), container("game", &[])];
            }
            world.pod(seen);
        }
        Deed::NoPod { pod } => world.no_pod(&format!("p{pod}")),
        Deed::Marker { marker, spec } => world.marker(&format!("m{marker}"), a_spec(*spec)),
        Deed::NoMarker { marker } => world.no_marker(&format!("m{marker}")),
        Deed::Join { node: number } => world.join(&node(number)),
        Deed::Leave { node: number } => world.leave(&node(number)),
        Deed::Disturb { node: number } => world.disturb(&node(number)),
        Deed::Write => drop(world.write_one()),
        Deed::Lose => world.lose_one(),
        Deed::Pass { millis: time } => world.pass(millis((*time).into())),
        Deed::FailOver => world.fail_over(),
        Deed::Lease => {
            world.rest();
            world.lead();
        }
        Deed::List => world.list_all(),
    }
}

fn counts(pod: &PodSeen) -> bool {
    pod.initialized && pod.stage == PodStage::Active
}

/// The markers that select a pod, the first made first. The two that cannot be carried out select none.
fn selecting<'a>(world: &'a World, pod: &PodSeen) -> Vec<(&'a str, &'a PodProbeMarkerSpec)> {
    let mut markers: Vec<_> = world.markers.values().collect();
    markers.sort_by_key(|marker| (marker.created, marker.name.clone()));
    let selects = |spec: &PodProbeMarkerSpec| {
        let labels = spec.selector.match_labels.as_ref();
        let good = spec.probes.iter().all(|probe| probe.name != "none");
        good && labels
            .is_some_and(|labels| labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value)))
    };
    let specs = markers.into_iter().map(|marker| (marker.name.as_str(), marker.spec.as_ref().unwrap()));
    specs.filter(|(_, spec)| counts(pod) && selects(spec)).collect()
}

/// Computes the probes that a pod is to have, from nothing but the objects.
fn expected(world: &World, pod: &PodSeen) -> Vec<ContainerProbe> {
    let mut taken: Vec<String> = Vec::new();
    let mut probes = Vec::new();
    for (marker, spec) in selecting(world, pod) {
        for wanted in &spec.probes {
            let Some(container) = pod.containers.iter().find(|one| one.name == wanted.container_name) else {
                continue;
            };
            let mut probe = wanted.probe.clone();
            if let Some(http) = &mut probe.http_get {
                let Some((_, number)) = container.ports.iter().find(|(name, _)| name == "http") else {
                    continue;
                };
                http.port = IntOrString::Int((*number).into());
            }
            let mut names: Vec<String> =
                wanted.pod_condition_type.iter().map(|kind| format!("c {kind}")).collect();
            for policy in &wanted.marker_policy {
                names.extend(policy.labels.keys().map(|key| format!("l {key}")));
                names.extend(policy.annotations.keys().map(|key| format!("a {key}")));
            }
            names.retain(|name| !taken.contains(name));
            let has = |kind: &str, key: &str| names.contains(&format!("{kind} {key}"));
            let mut marker_policy = wanted.marker_policy.clone();
            for policy in &mut marker_policy {
                policy.labels.retain(|key, _| has("l", key));
                policy.annotations.retain(|key, _| has("a", key));
            }
            marker_policy.retain(|policy| policy.labels.len() + policy.annotations.len() > 0);
            probes.push(ContainerProbe {
                name: format!("{marker}#{}", wanted.name),
                container_name: wanted.container_name.clone(),
                probe,
                pod_condition_type: wanted.pod_condition_type.clone().filter(|kind| has("c", kind)),
                marker_policy,
            });
            taken.extend(names);
        }
    }
    probes
}

fn check(world: &World) -> Result<(), TestCaseError> {
    for name in world.nodes.keys() {
        let on = world.pods.values().filter(|pod| pod.node.as_ref() == Some(name));
        let entries = on.map(|pod| PodProbe {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            ip: pod.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            probes: expected(world, pod),
        });
        let mut entries: Vec<_> = entries.filter(|entry| !entry.probes.is_empty()).collect();
        entries.sort_by(|one, other| one.uid.cmp(&other.uid));
        prop_assert_eq!(world.desired(name), &entries, "{}", name);
    }
    for (name, marker) in &world.markers {
        let selects = |pod: &&PodSeen| selecting(world, pod).iter().any(|(one, _)| one == name);
        let matched = world.pods.values().filter(selects).count();
        prop_assert_eq!(world.matched(name), matched as i64, "{}", name);
        prop_assert_eq!(marker.status.as_ref().unwrap().observed_generation, marker.generation);
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_node_has_what_follows_from_the_objects(deeds in proptest::collection::vec(deed(), 1..120)) {
        let mut world = World::with_nodes(NODES.into());
        world.waits = true;
        for deed in &deeds {
            act(&mut world, deed);
            let mut targets: Vec<Target> = world.orders.iter().map(crate::write::Write::target).collect();
            targets.sort();
            prop_assert!(targets.is_sorted_by(|one, other| one < other), "two at once: {targets:?}");
        }
        // From here on everything that is asked for is done.
        world.waits = false;
        world.carry_out(Vec::new());
        world.pass(millis(10_000));
        check(&world)?;
        let settled = (world.node_writes, world.marker_writes);
        world.pass(millis(100_000));
        world.list_all();
        world.pass(millis(1000));
        world.fail_over();
        world.pass(millis(100_000));
        prop_assert_eq!((world.node_writes, world.marker_writes), settled, "a settled world owes nothing");
        check(&world)?;
    }
}
