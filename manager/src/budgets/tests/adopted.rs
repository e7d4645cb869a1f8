//! ReplicaSets whose controller changes while they keep their UID: one that is left behind by its Deployment,
//! and is adopted by the next one of that name. No event of a pod says so.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{SPACE, World, owner};
use crate::{
    budgets::{
        lookup::{Fact, Lookup, What},
        spec::Workload,
    },
    store::Owner,
};

fn parent() -> Lookup {
    let what = What::Parent { name: "web-1".into(), uid: "uid-of-web-1".into() };
    Lookup { namespace: SPACE.into(), what }
}

fn scale(of: &Owner) -> Lookup {
    Lookup { namespace: SPACE.into(), what: What::Scale(Workload::from(of)) }
}

/// Three pods of the ReplicaSet `web-1`, which belongs to this one.
fn world(cover: &Value, parent_is: Option<Owner>) -> World {
    let mut spec = json!({ "maxUnavailable": 1 });
    spec.as_object_mut().unwrap().extend(cover.as_object().cloned().unwrap());
    let mut world = World::new(0, spec, json!({}));
    world.replicas = 3;
    world.facts.insert(parent(), Fact::Parent(parent_is));
    for name in ["a", "b", "c"] {
        world.make(name, true, Some(owner("ReplicaSet", "web-1")));
    }
    world.pass(Duration::from_secs(5));
    world
}

fn by_name() -> Value {
    json!({ "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } })
}

fn by_labels() -> Value {
    json!({ "selector": { "matchLabels": { "app": "web" } } })
}

fn counted(world: &World) -> (i32, i32) {
    (world.status.total_replicas, world.status.current_available)
}

/// The Deployment is deleted with its ReplicaSets left behind, and made again.
#[rstest]
#[case::at_an_event(by_name(), 60, true, 5)]
#[case::soon_after_it_was_looked_up(by_name(), 0, true, 40)]
#[case::at_no_event(by_name(), 0, false, 370)]
#[case::selected(by_labels(), 60, true, 5)]
fn the_next_one_of_its_name_adopts_it(
    #[case] cover: Value,
    #[case] before: u64,
    #[case] event: bool,
    #[case] after: u64,
) {
    let mut world = world(&cover, Some(owner("Deployment", "web")));
    assert_eq!(counted(&world), (3, 3));
    world.pass(Duration::from_secs(before));
    let next = Owner { uid: "second".to_owned(), ..owner("Deployment", "web") };
    world.facts.insert(scale(&next), Fact::Wants { uid: next.uid.clone(), replicas: 3 });
    world.facts.insert(parent(), Fact::Parent(Some(next)));
    if event {
        world.make("d", false, Some(owner("ReplicaSet", "web-1")));
    }
    world.pass(Duration::from_secs(after));
    assert_eq!(counted(&world), (3, 3));
    let (looked, status) = (world.looked.len(), world.status.clone());
    world.pass(Duration::from_secs(200));
    assert_eq!((world.looked.len(), &world.status), (looked, &status), "nothing is asked for any more");
}

/// It was looked up while it belonged to nobody.
#[rstest]
#[case::by_name(by_name(), (0, 0))]
#[case::by_labels(by_labels(), (0, 0))]
fn one_of_nobody_is_adopted(#[case] cover: Value, #[case] left_behind: (i32, i32)) {
    let mut world = world(&cover, None);
    world.facts.insert(scale(&owner("Deployment", "web")), Fact::Gone);
    world.make("d", false, Some(owner("ReplicaSet", "web-1")));
    world.pass(Duration::from_secs(5));
    assert_eq!(counted(&world), left_behind);
    world.looked.clear();
    world.pass(Duration::from_secs(300));
    let asked = world.looked.iter().filter(|lookup| **lookup == parent()).count();
    assert!((9..=11).contains(&asked), "once in a while: {asked}");
    let next = Owner { uid: "second".to_owned(), ..owner("Deployment", "web") };
    world.facts.insert(scale(&next), Fact::Wants { uid: next.uid.clone(), replicas: 3 });
    world.facts.insert(parent(), Fact::Parent(Some(next)));
    world.pass(Duration::from_secs(40));
    assert_eq!(counted(&world), (3, 3));
}
