//! Markers that cannot be carried out: each is refused with its field, its name and a remedy, and asks
//! nothing of anybody. The policy `berth-probe-markers` is held to the same cases.

use berth_proto::crd::PodProbeMarkerSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use super::world::*;
use crate::{probes::spec::parse, store::Key};

/// Also what the policy is tried with, on an API server.
const CASES: &str = include_str!("../../../../proto/tests/markers.json");

#[derive(Deserialize)]
struct Cases {
    refused: Vec<Refused>,
    accepted: Vec<Accepted>,
}

#[derive(Deserialize)]
struct Refused {
    case: String,
    /// Below `spec`.
    field: String,
    /// Part of the remedy.
    says: String,
    spec: Value,
}

#[derive(Deserialize)]
struct Accepted {
    case: String,
    spec: Value,
}

fn cases() -> Cases {
    serde_json::from_str(CASES).unwrap()
}

fn judged(spec: &Value) -> Result<(), String> {
    let spec: PodProbeMarkerSpec = serde_json::from_value(spec.clone()).unwrap();
    parse(&Key { namespace: "shop".into(), name: "m".into() }, &spec).map(drop)
}

#[test]
fn what_is_refused() {
    for Refused { case, field, says, spec } in cases().refused {
        let said = judged(&spec).expect_err(&case);
        assert!(said.starts_with(&format!("spec.{field} of PodProbeMarker shop/m ")), "{case}: {said}");
        assert!(said.contains(&says), "{case}: {said}");

        let mut world = World::with_nodes(1);
        world.pod(pod("a", "n0", GAME));
        world.marker("m", spec);
        world.pass(millis(2000));
        let accepted = world.accepted("m");
        assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("False", "InvalidSpec"), "{case}");
        assert_eq!(accepted.message, said, "{case}");
        assert_eq!((world.matched("m"), world.node_writes), (0, 0), "{case}");
        assert_eq!(world.index.size().refused, 1, "{case}");
    }
}

#[test]
fn what_is_accepted() {
    for Accepted { case, spec } in cases().accepted {
        assert_eq!(judged(&spec), Ok(()), "{case}");
    }
}

/// A CRD of another version has let it in.
#[test]
fn one_that_cannot_be_read() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    world.marker("m", json!({ "selector": { "matchLabels": { "app": "game" } }, "probes": "all" }));
    world.pass(millis(1000));
    let message = &world.accepted("m").message;
    assert!(message.starts_with("spec of PodProbeMarker shop/m cannot be read"), "{message}");
    assert!(world.desired("n0").is_empty());
}

/// One that was carried out until now is not any more, and the condition changes its time.
#[test]
fn one_that_becomes_bad_and_good_again() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    world.marker("m", spec(&[idle()]));
    world.pass(millis(2000));
    let accepted = world.accepted("m").clone();
    world.marker("m", spec(&[json!({ "name": "idle", "containerName": "game", "probe": {} })]));
    world.pass(millis(2000));
    assert!(world.desired("n0").is_empty());
    assert_eq!(world.markers["m"].status.as_ref().unwrap().observed_generation, Some(2));
    assert!(world.accepted("m").last_transition_time.0 > accepted.last_transition_time.0);
    world.marker("m", spec(&[idle()]));
    world.pass(millis(2000));
    assert_eq!((world.told("n0").len(), world.accepted("m").status.as_str()), (1, "True"));
}
