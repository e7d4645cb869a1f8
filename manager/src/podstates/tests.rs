//! The index: what it asks for, what it writes and when.

mod aside;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_proto::crd::{PersistentPodStateStatus as Status, PodState};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Annotated, PodStateIndex, PodStateStep};
use crate::{
    effect::Effect,
    index::{Index, Set},
    store::{Kind, NodeSeen, Now, Object, Owner, PodSeen, PodStage, PodStateSeen, Pods, SetSeen},
};

struct World {
    begin: (Instant, Timestamp),
    passed: Duration,
    pods: Pods,
    index: PodStateIndex,
    spec: Value,
    version: u64,
    generation: i64,
    status: Status,
    /// Names of pods whose annotations were asked for.
    asked: Vec<String>,
    /// Questions wait for their turn.
    late: bool,
    /// Pods whose annotations cannot be read.
    unreadable: bool,
    writes: usize,
}

const GROUP: &str = "apps.kruise.io/v1beta1";

fn spec() -> Value {
    json!({
        "targetRef": { "apiVersion": GROUP, "kind": "StatefulSet", "name": "web" },
        "requiredPersistentTopology": { "nodeTopologyKeys": ["zone"] },
    })
}

impl World {
    /// A state, a StatefulSet of three and two nodes; with the kinds that are listed, and the lease.
    fn new(spec: Value, listed: &[Kind]) -> Self {
        let mut world = Self {
            begin: (Instant::now(), Timestamp::from_second(1_800_000_000).unwrap()),
            passed: Duration::from_secs(60),
            pods: Pods::default(),
            index: PodStateIndex::default(),
            spec,
            version: 1,
            generation: 1,
            status: Status::default(),
            asked: Vec::new(),
            late: false,
            unreadable: false,
            writes: 0,
        };
        let now = world.now();
        for kind in listed {
            world.set().list_begins(*kind, now);
            let objects = match kind {
                Kind::PodState => vec![world.seen()],
                Kind::AdvancedSet => vec![sts(3, false)],
                Kind::Node => vec![node("n1", "z1"), node("n2", "z2")],
                _ => Vec::new(),
            };
            for object in objects {
                world.set().apply(&object, now);
            }
            world.set().list_ends(*kind, now);
        }
        world.set().leads(now);
        world
    }

    fn all(spec: Value) -> Self {
        Self::new(spec, &[Kind::Pod, Kind::Node, Kind::PodState, Kind::AdvancedSet])
    }

    fn now(&self) -> Now {
        Now { instant: self.begin.0 + self.passed, wall: self.begin.1 + self.passed }
    }

    fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.pods, indexes: [&mut self.index] }
    }

    fn seen(&self) -> Object {
        let spec = serde_json::from_value(self.spec.clone()).map_err(|error| error.to_string());
        Object::PodState(Box::new(PodStateSeen {
            uid: "u".to_owned(),
            resource_version: self.version.to_string(),
            generation: Some(self.generation),
            status: Ok(self.status.clone()),
            ..PodStateSeen::of_test("shop", "pps", spec)
        }))
    }

    fn tell(&mut self, object: &Object) {
        let now = self.now();
        self.set().apply(object, now);
    }

    fn pod(&mut self, name: &str, node: Option<&str>, owner: &str) {
        let now = self.now();
        self.tell(&Object::Pod(PodSeen {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            version: 0,
            node: node.map(str::to_owned),
            labels: Default::default(),
            stage: PodStage::Active,
            initialized: true,
            ip: None,
            containers: Vec::new(),
            created: Some(now.wall),
            mirror: false,
            sidecars: None,
            spread: None,
            owner: Some(Owner {
                api_version: GROUP.to_owned(),
                kind: "StatefulSet".to_owned(),
                name: "web".to_owned(),
                uid: owner.to_owned(),
            }),
            available: false,
            ready: node.is_some(),
        }));
    }

    /// The spec changes.
    fn edit(&mut self, spec: Value) {
        self.spec = spec;
        self.generation += 1;
        self.version += 1;
        let seen = self.seen();
        self.tell(&seen);
    }

    /// Time passes, and what is asked for is done; returns the records.
    fn pass(&mut self, time: Duration) -> BTreeMap<String, PodState> {
        let end = self.passed + time;
        while self.passed < end {
            self.passed += Duration::from_millis(100);
            let now = self.now();
            for effect in self.set().time_passed(now) {
                match effect {
                    Effect::PodState(PodStateStep::Read { key, uid, generation, pods, keys }) => {
                        self.asked.extend(pods.iter().map(|(name, _)| name.clone()));
                        if self.late {
                            continue;
                        }
                        let read = |uid: String| {
                            let values = keys.iter().map(|key| (key.clone(), format!("of {uid}")));
                            if self.unreadable {
                                Err("no answer".to_owned())
                            } else {
                                Ok(Some((uid.clone(), values.collect())))
                            }
                        };
                        let pods = pods.into_iter().map(|(name, uid)| (name, read(uid))).collect();
                        self.index.found(Annotated { key, uid, generation, pods }, now.instant);
                    }
                    Effect::PodState(PodStateStep::Write(write)) => {
                        assert_eq!(*write.resource_version, *self.version.to_string());
                        self.status = *write.status;
                        self.version += 1;
                        self.writes += 1;
                        let seen = self.seen();
                        self.set().apply(&seen, now);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        self.status.pod_states.clone()
    }
}

fn sts(replicas: i32, deleting: bool) -> Object {
    Object::StatefulSet(SetSeen {
        advanced: true,
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "set".to_owned(),
        deleting,
        replicas,
        ..SetSeen::default()
    })
}

fn node(name: &str, zone: &str) -> Object {
    Object::Node(NodeSeen {
        name: name.to_owned(),
        uid: name.to_owned(),
        created: None,
        labels: [("zone", zone), ("else", "x")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    })
}

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any pause.
const LONG: Duration = Duration::from_secs(10);

fn zones(states: &BTreeMap<String, PodState>) -> Vec<(&str, &str)> {
    states.iter().map(|(name, state)| (name.as_str(), state.node_topology_labels["zone"].as_str())).collect()
}

#[test]
fn pods_that_are_ready_are_recorded_until_their_numbers_go() {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    world.pod("web-1", None, "set");
    world.pod("web-2", Some("n2"), "set");
    world.pod("web-5", Some("n2"), "of another set");
    assert_eq!(zones(&world.pass(SECOND)), [("web-0", "z1"), ("web-2", "z2")]);
    assert_eq!(
        (world.status.observed_generation, world.status.conditions[0].status.as_str()),
        (Some(1), "True")
    );
    let writes = world.writes;
    world.pass(LONG);
    assert_eq!(world.writes, writes, "at rest nothing is written");
    // The last one goes, and comes back elsewhere.
    let now = world.now();
    world.set().delete(Kind::Pod, "shop", "web-2", now);
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1"), ("web-2", "z2")]);
    world.pod("web-2", Some("n1"), "set");
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1"), ("web-2", "z1")]);
    world.tell(&sts(1, false));
    assert_eq!(world.pass(LONG).len(), 2, "its pod is still there");
    let now = world.now();
    world.set().delete(Kind::Pod, "shop", "web-2", now);
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1")]);
}

/// A defect of OpenKruise: a set that went without its deletion being seen kept its records.
#[rstest]
#[case::its_deletion_has_begun(true)]
#[case::gone(false)]
fn without_its_set_nothing_is_recorded(#[case] begun: bool) {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    assert_eq!(world.pass(SECOND).len(), 1);
    let now = world.now();
    if begun {
        world.tell(&sts(3, true));
    } else {
        world.set().delete(Kind::AdvancedSet, "shop", "web", now);
    }
    assert!(world.pass(LONG).is_empty());
}

/// A set that is not seen yet is none that is gone.
#[rstest]
#[case::sets(Kind::AdvancedSet)]
#[case::pods(Kind::Pod)]
#[case::nodes(Kind::Node)]
fn nothing_is_decided_before_all_is_listed(#[case] last: Kind) {
    let kinds = [Kind::Pod, Kind::Node, Kind::PodState, Kind::AdvancedSet];
    let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| *kind != last).collect();
    let mut world = World::new(spec(), &kinds);
    world.pass(LONG);
    assert_eq!(world.writes, 0);
    let now = world.now();
    world.set().list_begins(last, now);
    for object in [sts(3, false), node("n1", "z1"), node("n2", "z2")] {
        if object.kind() == last {
            world.set().apply(&object, now);
        }
    }
    world.set().list_ends(last, now);
    world.pod("web-0", Some("n1"), "set");
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z1")]);
}

/// A defect of OpenKruise: other keys alone changed nothing.
#[test]
fn other_keys_and_labels_are_followed() {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    world.pass(SECOND);
    let mut more = spec();
    more["requiredPersistentTopology"]["nodeTopologyKeys"] = json!(["zone", "else"]);
    world.edit(more);
    assert_eq!(world.pass(LONG)["web-0"].node_topology_labels.len(), 2);
    assert_eq!(world.status.observed_generation, Some(2));
    world.tell(&node("n1", "z9"));
    assert_eq!(zones(&world.pass(LONG)), [("web-0", "z9")]);
}

/// Nodes come and change all the time, and each state looks at all pods of its namespace.
#[test]
fn a_node_without_a_pod_of_the_set_is_nothing_to_it() {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    world.pass(LONG);
    for other in [node("n2", "z9"), node("n3", "z3")] {
        world.tell(&other);
        assert_eq!(world.index.next_deadline(), None);
    }
    world.tell(&node("n1", "z9"));
    assert_eq!(world.index.next_deadline(), Some(world.now().instant));
}

#[test]
fn a_question_that_waits_for_its_turn_is_not_asked_once_more() {
    let mut with = spec();
    with["persistentPodAnnotations"] = json!([{ "key": "address" }]);
    let mut world = World::all(with);
    world.late = true;
    world.pod("web-0", Some("n1"), "set");
    world.pass(SECOND * 290);
    assert_eq!(world.asked, ["web-0"]);
    world.late = false;
    assert_eq!(world.pass(SECOND * 20).len(), 1, "its answer was lost");
}

#[test]
fn annotations_are_read_once() {
    let mut with = spec();
    with["persistentPodAnnotations"] = json!([{ "key": "address" }]);
    let mut world = World::all(with.clone());
    world.unreadable = true;
    world.pod("web-0", Some("n1"), "set");
    assert!(world.pass(SECOND).is_empty() && world.asked == ["web-0"], "{:?}", world.asked);
    world.pass(LONG);
    assert!((2..=4).contains(&world.asked.len()), "it waits between two tries: {:?}", world.asked);
    world.unreadable = false;
    let states = world.pass(LONG);
    assert_eq!(states["web-0"].annotations["address"], "of uid-web-0");
    let asked = world.asked.len();
    world.pod("web-1", Some("n2"), "set");
    world.pass(LONG);
    assert_eq!(world.asked[asked..], ["web-1"], "one that is recorded is not asked for again");
    // Other keys are another question.
    with["persistentPodAnnotations"] = json!([{ "key": "address" }, { "key": "mac" }]);
    world.edit(with);
    let states = world.pass(LONG);
    assert_eq!(states["web-1"].annotations.len(), 2);
    assert_eq!((world.asked.len(), world.status.observed_generation), (asked + 3, Some(2)));
}

#[test]
fn one_that_makes_no_sense_says_so_and_keeps_its_records() {
    let mut world = World::all(spec());
    world.pod("web-0", Some("n1"), "set");
    world.pass(SECOND);
    let mut wrong = spec();
    wrong["requiredPersistentTopology"]["nodeTopologyKeys"] = json!([""]);
    world.edit(wrong);
    assert_eq!(world.pass(LONG).len(), 1);
    let condition = &world.status.conditions[0];
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("nodeTopologyKeys[0] is empty"), "{}", condition.message);
}

/// One write a second, however fast pods come.
#[test]
fn a_rollout_is_few_writes() {
    let mut world = World::all(spec());
    world.tell(&sts(100, false));
    world.pass(SECOND);
    let before = world.writes;
    for number in 0..50 {
        world.pod(&format!("web-{number}"), Some("n1"), "set");
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.pass(LONG).len(), 50);
    assert!(world.writes - before <= 7, "{}", world.writes - before);
}

#[test]
fn one_that_does_not_lead_writes_nothing() {
    let mut world = World::all(spec());
    let now = world.now();
    world.set().rests(now);
    world.pod("web-0", Some("n1"), "set");
    assert!(world.pass(LONG).is_empty() && world.writes == 0);
}
