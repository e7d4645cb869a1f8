//! Agents that give no sign of life any more.

use berth_proto::crd::UpdatePhase;
use serde_json::json;

use super::world::{World, pod};
use crate::store::{Kind, PodSeen};

const MINUTE: u64 = 60_000;

/// Pod `a` on a node whose agent gave a sign and is not heard again, `b` on one whose agent lives; both are
/// to get `log:2`, one after the other, and `a` is asked for first.
fn upgraded() -> World {
    let mut world = World::new();
    for node in ["n0", "n1"] {
        world.node(node, &["owners/v1"]);
        world.renew(node);
    }
    world.upgrade("log:1", json!({}));
    world.pod(pod("a", "log:1"));
    world.pod(PodSeen { node: Some("n1".to_owned()), ..pod("b", "log:1") });
    world.pass(3_000);
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!(asked(&world), (vec!["a"], vec![]));
    world
}

fn asked(world: &World) -> (Vec<&str>, Vec<&str>) {
    (world.asked("n0"), world.asked("n1"))
}

/// Minutes pass in which the agent of `n1` alone is heard.
fn minutes(world: &mut World, number: u64) {
    for _ in 0..number {
        world.renew("n1");
        world.pass(MINUTE);
    }
}

#[test]
fn a_silent_agent_holds_no_place() {
    let mut world = upgraded();
    minutes(&mut world, 9);
    assert_eq!(asked(&world), (vec!["a"], vec![]), "it may still come");
    minutes(&mut world, 2);
    assert_eq!(asked(&world), (vec![], vec!["b"]));
    world.agent("n1", UpdatePhase::Succeeded);
    minutes(&mut world, 1);
    assert_eq!((asked(&world), world.counts()[1]), ((vec![], vec![]), 1));
    assert_eq!(world.reason("UpToDate"), "AgentSilent");
    // At rest nothing is written, however long it lasts.
    let writes = (world.set_writes, world.node_writes);
    minutes(&mut world, 30);
    assert_eq!((world.set_writes, world.node_writes), writes);
    // It is back.
    world.renew("n0");
    world.pass(3_000);
    assert_eq!(asked(&world), (vec!["a"], vec![]));
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((asked(&world), world.reason("UpToDate")), ((vec![], vec![]), "Updated"));
}

#[test]
fn what_a_silent_agent_has_begun_stays_with_it() {
    let mut world = upgraded();
    world.agent("n0", UpdatePhase::Updating);
    minutes(&mut world, 11);
    assert_eq!(asked(&world), (vec!["a"], vec!["b"]));
    world.agent("n1", UpdatePhase::Succeeded);
    world.renew("n0");
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((asked(&world), world.reason("UpToDate")), ((vec![], vec![]), "Updated"));
}

/// One that leads from now on, and one whose watch was broken, have to have listened for as long.
#[test]
fn silence_is_what_was_listened_to() {
    let mut world = upgraded();
    minutes(&mut world, 9);
    world.fail_over();
    minutes(&mut world, 9);
    assert_eq!(asked(&world), (vec!["a"], vec![]), "another one leads");
    let now = world.now();
    world.index.view_broke(Kind::NodePodUpdate, now);
    minutes(&mut world, 9);
    assert_eq!(asked(&world), (vec!["a"], vec![]), "the watch was broken");
    minutes(&mut world, 2);
    assert_eq!(asked(&world), (vec![], vec!["b"]));
}

/// Thousands of agents give signs: no set is looked at for one, whatever entries and answers its node has.
#[test]
fn a_sign_of_life_costs_nothing() {
    let mut world = upgraded();
    world.agent("n0", UpdatePhase::Updating);
    world.pass(3_000);
    let before = (world.index.planned, world.set_writes, world.node_writes);
    for _ in 0..100 {
        world.pass(1_000);
        world.renew("n0");
        world.renew("n1");
    }
    assert_eq!((world.index.planned, world.set_writes, world.node_writes), before);
}
