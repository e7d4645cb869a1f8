//! Wishes of workloads against what the nodes' objects show.

mod pace;
mod random;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_base::entry_room::MOST_BYTES;
use berth_proto::crd::{UpdateContainer, UpdatePhase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{pace::NODE_EVERY, *};

/// Every pod is on one of two nodes, and its UID says on which.
fn node_of(uid: &str) -> &'static str {
    if uid.ends_with(['0', '2', '4']) { "even" } else { "odd" }
}

fn desired(uid: &str, revision: u32) -> DesiredPod {
    DesiredPod {
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: format!("name-of-{uid}"),
        revision: revision.to_string(),
        containers: vec![UpdateContainer {
            name: "a".to_owned(),
            image: format!("r.example.com/a:{revision}"),
        }],
        ..DesiredPod::default()
    }
}

/// The entry of a workload.
fn id(uid: &str) -> EntryId {
    EntryId { uid: uid.to_owned(), owner: String::new() }
}

fn now() -> Now {
    Now { instant: Instant::now(), wall: Timestamp::constant(0, 0) }
}

fn since(seconds: i64) -> Option<Time> {
    Some(Time(Timestamp::from_second(seconds).unwrap()))
}

/// NodePodUpdates as the API server has them, and an index that is shown them.
#[derive(Default)]
struct World {
    updates: PodUpdates,
    objects: BTreeMap<&'static str, NodePodUpdateSeen>,
}

impl World {
    /// One with the objects of both nodes, empty.
    fn new() -> Self {
        let mut world = Self::default();
        for node in ["even", "odd"] {
            let seen = NodePodUpdateSeen { name: node.to_owned(), uid: "u".to_owned(), ..Default::default() };
            world.objects.insert(node, seen);
            world.changed(node);
        }
        world
    }

    fn want(&mut self, uid: &str, revision: u32) {
        self.updates.want(desired(uid, revision), node_of(uid));
    }

    fn show(&mut self, node: &str) {
        self.updates.apply(&self.objects[node], now());
    }

    /// Somebody writes an object of the API server; it gets its next version, and is shown.
    fn changed(&mut self, node: &str) {
        let object = self.objects.get_mut(node).unwrap();
        let version: u32 = object.resource_version.parse().unwrap_or_default();
        object.resource_version = (version + 1).to_string();
        self.show(node);
    }

    /// The API server carries out an order, if it was not decided on old news. It is not shown yet.
    fn write(&mut self, order: &PodUpdateWrite) {
        let object = self.objects.get_mut(&*order.node).unwrap();
        if *object.resource_version != *order.resource_version || *object.uid != *order.uid {
            return;
        }
        object.desired = order.pods.iter().map(|pod| DesiredPod::clone(pod)).collect();
        let version: u32 = object.resource_version.parse().unwrap();
        object.resource_version = (version + 1).to_string();
    }

    /// Returns the orders for all nodes, however short ago they were written.
    fn owed(&mut self) -> Vec<PodUpdateWrite> {
        self.updates.owed(Instant::now() + 4 * NODE_EVERY).0
    }

    /// All that is owed is written and shown, until nothing is.
    fn settle(&mut self) {
        for _ in 0..10 {
            let orders = self.owed();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                self.write(&order);
                self.show(&order.node);
            }
        }
        panic!("it never settles");
    }

    /// The agent of a node says how far a pod is.
    fn answer(&mut self, uid: &str, revision: u32, phase: UpdatePhase) {
        let object = self.objects.get_mut(node_of(uid)).unwrap();
        object.pods.retain(|pod| pod.uid != uid);
        object.pods.push(UpdatedPod {
            uid: uid.to_owned(),
            owner: String::new(),
            owner_uid: String::new(),
            revision: revision.to_string(),
            attempt: 0,
            phase,
            reason: None,
            message: None,
            since: None,
            containers: Vec::new(),
            swaps: Vec::new(),
            previous: None,
        });
        self.changed(node_of(uid));
    }

    fn there(&self, node: &str) -> Vec<(&str, &str)> {
        self.objects[node].desired.iter().map(|pod| (&*pod.uid, &*pod.revision)).collect()
    }
}

/// Large annotations for all pods of a node: as many as fit, and the next ones as those are done.
#[test]
fn a_node_gets_no_more_than_its_object_holds() {
    let mut world = World::new();
    for number in 0..110 {
        let annotations = BTreeMap::from([("note".to_owned(), "x".repeat(15 << 10))]);
        world.updates.want(DesiredPod { annotations, ..desired(&format!("p{number:03}-0"), 1) }, "even");
    }
    let mut done = BTreeSet::new();
    while done.len() < 110 {
        world.settle();
        let desired = &world.objects["even"].desired;
        assert!(!desired.is_empty() && crate::size::bytes(desired) <= MOST_BYTES + 2);
        let uids: Vec<String> = desired.iter().map(|pod| pod.uid.clone()).collect();
        for uid in uids {
            world.updates.forget(&id(&uid));
            assert!(done.insert(uid), "once");
        }
    }
    world.settle();
    assert!(world.there("even").is_empty());
}

#[test]
fn one_write_has_the_whole_list_of_a_node() {
    let mut world = World::new();
    for uid in ["p4", "p1", "p0"] {
        world.want(uid, 1);
    }
    let orders = world.owed();
    let lists: Vec<(&str, &str, Vec<&str>)> = orders
        .iter()
        .map(|it| (&*it.node, &*it.resource_version, it.pods.iter().map(|pod| &*pod.uid).collect()))
        .collect();
    assert_eq!(lists, [("even", "1", vec!["p0", "p4"]), ("odd", "1", vec!["p1"])]);
    world.want("p4", 1);
    assert!(world.owed().is_empty(), "asked for already");
    world.changed("even");
    let again = world.owed();
    assert_eq!(
        (again.len(), &*again[0].resource_version),
        (1, "2"),
        "somebody has changed it: the first write fails"
    );
    world.write(&again[0]);
    world.show("even");
    assert!(world.owed().is_empty(), "what is shown is owed no more");
}

#[test]
fn a_node_without_its_object_is_written_when_it_comes() {
    let mut world = World::default();
    world.want("p0", 1);
    assert!(world.owed().is_empty());
    let object = NodePodUpdateSeen { name: "even".into(), ..Default::default() };
    world.updates.apply(&NodePodUpdateSeen { deleting: true, ..object.clone() }, now());
    assert!(world.owed().is_empty(), "it is on its way out");
    world.updates.delete("even");
    world.updates.apply(&object, now());
    assert_eq!(world.owed().len(), 1);
}

#[test]
fn an_entry_is_given_by_its_write() {
    let mut world = World::new();
    let given = |world: &World| world.updates.is_given(&id("p0"));
    world.want("p0", 1);
    assert!(!given(&world), "it is only wanted");
    let first = world.owed().remove(0);
    assert!(given(&world), "it may be there");
    world.changed("even");
    assert!(!given(&world), "the write was decided on old news");
    let second = world.owed().remove(0);
    [first, second].iter().for_each(|order| world.write(order));
    world.show("even");
    assert!(given(&world), "it is there");
    world.want("p0", 2);
    assert!(!given(&world), "that is another revision");
    world.updates.want(DesiredPod { attempt: 1, ..desired("p0", 1) }, "even");
    assert!(!given(&world), "and that another try");
    // The next leader finds it in the object.
    world.updates = PodUpdates::default();
    world.show("even");
    world.want("p0", 1);
    assert!(given(&world));
    world.updates.forget(&id("p0"));
    assert!(!given(&world));
}

#[test]
fn progress_is_about_the_revision_that_is_wanted() {
    let mut world = World::new();
    assert!(world.updates.progress(&id("p0")).is_none());
    world.want("p0", 1);
    world.settle();
    assert!(world.updates.progress(&id("p0")).is_none());
    world.answer("p0", 1, UpdatePhase::Succeeded);
    assert_eq!(world.updates.progress(&id("p0")).unwrap().phase, UpdatePhase::Succeeded);
    world.want("p0", 2);
    world.settle();
    assert!(world.updates.progress(&id("p0")).is_none(), "that was the revision before");
    world.answer("p0", 2, UpdatePhase::RollingBack);
    assert_eq!(world.updates.progress(&id("p0")).unwrap().phase, UpdatePhase::RollingBack);
    world.updates.forget(&id("p0"));
    assert!(world.updates.progress(&id("p0")).is_none());
}

/// Its deadline counts from there, whoever leads.
#[test]
fn a_revision_keeps_the_time_at_which_it_was_asked_for() {
    let mut world = World::new();
    let at = |revision, seconds| DesiredPod { since: since(seconds), ..desired("p0", revision) };
    world.updates.want(at(1, 100), "even");
    world.settle();
    world.updates.want(at(1, 200), "even");
    assert!(world.owed().is_empty());
    world.updates = PodUpdates::default();
    world.show("even");
    world.updates.want(at(1, 300), "even");
    assert!(world.owed().is_empty(), "the same revision, said by another manager");
    world.updates.want(at(2, 400), "even");
    world.settle();
    assert_eq!(world.objects["even"].desired[0].since, since(400));
}

/// The write that put the entry there was on its way when it was forgotten.
#[test]
fn an_entry_that_is_forgotten_while_it_is_written_is_taken_back() {
    let mut world = World::new();
    world.want("p0", 1);
    let first = world.owed().remove(0);
    world.updates.forget(&id("p0"));
    let second = world.owed().remove(0);
    assert!(second.pods.is_empty());
    world.write(&first);
    world.write(&second);
    world.show("even");
    assert_eq!(world.there("even"), [("p0", "1")], "the second was decided on old news");
    world.settle();
    assert!(world.there("even").is_empty());
}

/// The first of three writes is still on its way, and the last one asked for was without the entry.
#[test]
fn an_entry_of_any_write_on_its_way_is_taken_back() {
    let mut world = World::new();
    world.want("p0", 1);
    let first = world.owed().remove(0);
    world.updates.forget(&id("p0"));
    assert_eq!(world.owed().len(), 1);
    world.want("p0", 1);
    world.updates.gone(&id("p0"), "even");
    world.write(&first);
    world.show("even");
    world.settle();
    assert!(world.there("even").is_empty());
}

#[test]
fn entries_of_pods_that_are_gone_are_dropped_and_those_of_nobody_else() {
    let mut world = World::new();
    for uid in ["p0", "p2", "p4"] {
        world.want(uid, 1);
    }
    world.settle();
    // A manager that comes new: workloads have said nothing yet, and p0 went while nobody watched.
    world.updates = PodUpdates::default();
    world.show("even");
    world.show("odd");
    world.settle();
    assert_eq!(world.there("even").len(), 3, "their workload has not spoken yet");
    world.updates.pods_listed(|pod| pod.uid != "p0");
    world.settle();
    assert_eq!(world.there("even"), [("p2", "1"), ("p4", "1")]);
    world.updates.gone(&id("p2"), "even");
    world.updates.gone(&id("p3"), "odd");
    world.settle();
    assert_eq!(world.there("even"), [("p4", "1")]);
    assert!(world.updates.nodes["odd"].let_go.is_empty(), "pods nobody wants anything of cost nothing");
}

#[test]
fn a_new_leader_owes_everything_and_what_was_lost_is_owed_again() {
    let mut world = World::new();
    world.want("p0", 1);
    let first = world.owed();
    world.updates.leads();
    assert_eq!(world.owed(), first);
    world.updates.lost("even");
    assert_eq!(world.owed(), first);
    assert!(world.owed().is_empty());
}

/// A newer manager has written it. Whoever wants something else of the pod, or nothing, is heard.
#[test]
fn an_entry_that_cannot_be_read_is_written_as_it_stands() {
    let mut world = World::new();
    let stands =
        json!({ "uid": "p0", "namespace": "shop", "name": "name-of-p0", "revision": "1", "pull": "Never" });
    let identity = DesiredPod::identity(&stands).unwrap();
    world.objects.get_mut("even").unwrap().unreadable = vec![(identity, stands.clone())];
    world.changed("even");
    assert!(world.owed().is_empty());
    world.want("p0", 1);
    assert!(world.owed().is_empty(), "the same try is there");
    world.want("p2", 1);
    let orders = world.owed();
    let uids: Vec<_> = orders[0].pods.iter().map(|pod| &*pod.uid).collect();
    assert_eq!(uids, ["p0", "p2"], "nobody has taken it away");
    assert_eq!(orders[0].unreadable, BTreeMap::from([(id("p0"), Arc::new(stands))]));
    world.want("p0", 2);
    let orders = world.owed();
    assert_eq!(&*orders[0].pods[0].revision, "2");
    assert!(orders[0].pods.len() == 2 && orders[0].unreadable.is_empty(), "something else is wanted");
    world.updates.forget(&id("p0"));
    let orders = world.owed();
    assert!(orders[0].pods.len() == 1 && orders[0].unreadable.is_empty(), "nothing is wanted");
}

/// Entry of which little is known, and much is written.
#[test]
fn an_entry_that_cannot_be_read_takes_the_room_that_it_has() {
    for (bytes, owed) in [(0, 1), (MOST_BYTES, 0)] {
        let mut world = World::new();
        let stands = json!({
            "uid": "p0", "namespace": "shop", "name": "name-of-p0", "revision": "1", "pull": "Never",
            "annotations": { "note": "x".repeat(bytes) },
        });
        let identity = DesiredPod::identity(&stands).unwrap();
        world.objects.get_mut("even").unwrap().unreadable = vec![(identity, stands)];
        world.changed("even");
        world.want("p2", 1);
        assert_eq!(world.owed().len(), owed, "{bytes}");
    }
}
