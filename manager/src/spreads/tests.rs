//! The index: what it asks for, what it writes and when.

use std::time::{Duration, Instant};

use berth_proto::crd::WorkloadSpreadStatus as Status;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Replicas, SpreadIndex, SpreadStep, SpreadWrite};
use crate::{
    effect::Effect,
    index::Set,
    store::{Kind, Now, Object, Owner, PodSeen, PodSpread, PodStage, Pods, SpreadSeen},
};

struct World {
    begin: (Instant, Timestamp),
    passed: Duration,
    pods: Pods,
    index: SpreadIndex,
    spec: Value,
    version: u64,
    status: Status,
    /// Replicas that the workload wants, and how often they were asked for.
    wants: i32,
    asked: usize,
    answers: Answers,
    /// Answers that wait for their turn.
    late: Vec<Replicas>,
    /// So many writes are still to be lost on their way.
    loses: u32,
}

/// Answers to questions about the replicas.
#[derive(Clone, Copy, Debug)]
enum Answers {
    AsItIs,
    NotRead,
    /// They wait for their turn.
    Late,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut world = Self {
            begin: (Instant::now(), Timestamp::from_second(1_800_000_000).unwrap()),
            passed: Duration::from_secs(60),
            pods: Pods::default(),
            index: SpreadIndex::default(),
            spec,
            version: 1,
            status: Status::default(),
            wants: 10,
            asked: 0,
            answers: Answers::AsItIs,
            late: Vec::new(),
            loses: 0,
        };
        let now = world.now();
        for kind in [Kind::Pod, Kind::Spread] {
            world.set().list_begins(kind, now);
            if kind == Kind::Spread {
                let seen = world.seen();
                world.set().apply(&seen, now);
            }
            world.set().list_ends(kind, now);
        }
        world.set().leads(now);
        world
    }

    fn now(&self) -> Now {
        Now { instant: self.begin.0 + self.passed, wall: self.begin.1 + self.passed }
    }

    fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.pods, indexes: [&mut self.index] }
    }

    fn seen(&self) -> Object {
        let spec = serde_json::from_value(self.spec.clone()).map_err(|error| error.to_string());
        Object::Spread(Box::new(SpreadSeen {
            uid: "u".to_owned(),
            resource_version: self.version.to_string(),
            status: Ok(self.status.clone()),
            ..SpreadSeen::of_test("shop", "ws", spec)
        }))
    }

    /// The author changes the spec.
    fn change(&mut self, spec: Value) {
        self.spec = spec;
        self.version += 1;
        let (seen, now) = (self.seen(), self.now());
        self.set().apply(&seen, now);
    }

    fn pod(&mut self, name: &str, subset: &str, owner: &str) {
        let pod = self.seen_pod(name, subset, owner);
        self.show(pod);
    }

    fn show(&mut self, pod: PodSeen) {
        let now = self.now();
        self.set().apply(&Object::Pod(pod), now);
    }

    fn seen_pod(&self, name: &str, subset: &str, owner: &str) -> PodSeen {
        PodSeen {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            version: 0,
            node: None,
            labels: Default::default(),
            stage: PodStage::Active,
            initialized: true,
            ip: None,
            containers: Vec::new(),
            created: Some(self.begin.1),
            mirror: false,
            sidecars: None,
            spread: Some(Box::new(PodSpread {
                name: "ws".to_owned(),
                subset: subset.to_owned(),
                entry: None,
                unschedulable: false,
            })),
            owner: Some(Owner {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: owner.to_owned(),
                uid: "r".to_owned(),
            }),
            available: true,
            ready: true,
        }
    }

    /// Time passes, and what is asked for is done; returns what was written.
    fn pass(&mut self, time: Duration) -> Vec<SpreadWrite> {
        let end = self.passed + time;
        let mut written = Vec::new();
        while self.passed < end {
            self.passed += Duration::from_millis(100);
            let now = self.now();
            for effect in self.set().time_passed(now) {
                match effect {
                    Effect::Spread(SpreadStep::Ask { key, uid, target }) => {
                        self.asked += 1;
                        let wants = match self.answers {
                            Answers::AsItIs => Ok(self.wants),
                            Answers::NotRead => Err("no answer".to_owned()),
                            Answers::Late => {
                                self.late.push(Replicas { key, uid, target, wants: Ok(self.wants) });
                                continue;
                            }
                        };
                        self.index.found(Replicas { key, uid, target, wants }, now.instant);
                    }
                    Effect::Spread(SpreadStep::Write(_)) if self.loses > 0 => self.loses -= 1,
                    Effect::Spread(SpreadStep::Write(order)) => {
                        assert_eq!(*order.resource_version, self.version.to_string());
                        self.status = (*order.status).clone();
                        self.version += 1;
                        written.push(*order);
                        let seen = self.seen();
                        self.set().apply(&seen, now);
                    }
                    Effect::Spread(SpreadStep::Tell { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        written
    }

    fn counted(&self) -> Vec<(i32, i32)> {
        self.status.subset_statuses.iter().map(|one| (one.replicas, one.missing_replicas)).collect()
    }
}

fn spec(subsets: Value) -> Value {
    json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "subsets": subsets})
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pods_are_counted_when_all_that_came_before_is_seen() {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}])));
    assert!(world.pass(SECOND).is_empty(), "the leader before may have seen more");
    world.pod("p0", "a", "web-1");
    assert_eq!(world.pass(SECOND * 2).len(), 1);
    assert_eq!(world.counted(), [(1, 1), (0, -1)]);
    // Not of its workload, whatever it says.
    world.pod("p1", "a", "db-1");
    assert!(world.pass(SECOND).is_empty());
    world.pod("p2", "b", "web-2");
    assert_eq!(world.pass(SECOND).len(), 1);
    assert_eq!(world.counted(), [(1, 1), (1, -1)]);
    let condition = &world.status.conditions[0];
    assert_eq!((&*condition.type_, &*condition.status), ("Accepted", "True"));
    assert!(world.pass(SECOND * 900).is_empty(), "at rest it rests");
    assert_eq!(world.asked, 0, "numbers need no replicas");
}

/// A pod that is not seen would leave its place to another one.
#[test]
fn nothing_is_counted_while_pods_may_be_missing() {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": 2}])));
    world.pass(SECOND * 3);
    world.pod("p0", "a", "web-1");
    let now = world.now();
    world.set().view_broke(Kind::Pod, now);
    assert!(world.pass(SECOND * 9).is_empty());
    assert_eq!(world.pass(SECOND * 2).len(), 1);
}

#[test]
fn shares_are_of_what_the_workload_wants() {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": "30%"}, {"name": "b"}])));
    world.pass(SECOND * 3);
    assert_eq!((world.counted(), world.status.observed_replicas), (vec![(0, 3), (0, -1)], Some(10)));
    world.wants = 20;
    world.pass(SECOND * 361);
    assert_eq!(world.counted(), [(0, 6), (0, -1)], "looked at again, though no pod changed");
    assert!(world.asked <= 4, "{}", world.asked);
}

#[test]
fn one_that_cannot_be_carried_out_says_why() {
    let mut world = World::new(spec(json!([{"name": "a"}, {"name": "a"}])));
    assert_eq!(world.pass(SECOND * 3).len(), 1);
    let condition = &world.status.conditions[0];
    assert!(
        condition.status == "False" && condition.message.contains("spec.subsets[1].name"),
        "{condition:?}"
    );
    assert!(world.pass(SECOND * 3).is_empty() && world.index.size().refused == 1);
}

/// A write that is lost is made again though nothing happens, of a spread that is carried out and of one that
/// is not.
#[rstest]
#[case::carried_out(json!([{"name": "a", "maxReplicas": 2}]))]
#[case::refused(json!([{"name": "a"}, {"name": "a"}]))]
fn a_write_that_is_lost_is_made_again(#[case] subsets: Value) {
    let mut world = World::new(spec(subsets));
    world.loses = 2;
    assert!(world.pass(SECOND * 4).is_empty());
    assert_eq!(world.pass(SECOND * 6).len(), 1);
    assert!(world.loses == 0 && world.pass(SECOND * 900).is_empty());
}

#[test]
fn who_does_not_lead_writes_nothing() {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": 2}])));
    let now = world.now();
    world.set().rests(now);
    world.pod("p0", "a", "web-1");
    assert!(world.pass(SECOND * 10).is_empty());
    let now = world.now();
    world.set().leads(now);
    assert_eq!(world.pass(SECOND * 3).len(), 1);
}

/// Most events of a pod say how its containers are: they cost no look at the pods of the namespace.
#[rstest]
#[case::again(|_: &mut PodSeen| {}, false)]
#[case::another_version(|pod: &mut PodSeen| pod.version = 7, false)]
#[case::not_ready(|pod: &mut PodSeen| (pod.ready, pod.available) = (false, false), false)]
#[case::an_address(|pod: &mut PodSeen| pod.ip = "10.0.0.1".parse().ok(), false)]
#[case::a_label(|pod: &mut PodSeen| drop(pod.labels.insert("a".to_owned(), "b".to_owned())), false)]
#[case::goes(|pod: &mut PodSeen| pod.stage = PodStage::Terminating, true)]
#[case::another_one(|pod: &mut PodSeen| pod.uid = "other".to_owned(), true)]
#[case::has_a_node(|pod: &mut PodSeen| pod.node = Some("n".to_owned()), true)]
#[case::finds_no_node(|pod: &mut PodSeen| pod.spread.as_mut().unwrap().unschedulable = true, true)]
#[case::another_subset(|pod: &mut PodSeen| pod.spread.as_mut().unwrap().subset = "b".to_owned(), true)]
#[case::another_owner(|pod: &mut PodSeen| pod.owner.as_mut().unwrap().name = "web-2".to_owned(), true)]
fn an_event_that_cannot_matter_is_not_counted(#[case] change: fn(&mut PodSeen), #[case] counted: bool) {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}])));
    world.pod("p", "a", "web-1");
    world.pass(Duration::from_secs(5));
    let last = |world: &World| world.index.spreads.values().map(|known| known.counted).collect::<Vec<_>>();
    let before = last(&world);
    let mut pod = world.seen_pod("p", "a", "web-1");
    change(&mut pod);
    world.show(pod);
    world.pass(Duration::from_secs(5));
    assert_eq!(last(&world) != before, counted);
}

/// The index keeps of a spread what it counts by, and not what its subsets put into pods.
#[test]
fn what_subsets_put_into_pods_is_not_kept() {
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let world = World::new(json!({
        "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "subsets": [{
            "name": "a", "maxReplicas": 3, "patch": { "metadata": { "labels": { "a": "b" } } },
            "requiredNodeSelectorTerm": term, "tolerations": [{ "key": "a", "operator": "Exists" }],
            "preferredNodeSelectorTerms": [{ "weight": 1, "preference": term }],
        }],
    }));
    let kept = world.index.spreads.values().next().unwrap().spread.as_ref().unwrap();
    let [subset] = &*kept.subsets else { panic!("{kept:?}") };
    assert_eq!((&*subset.name, subset.limit.is_some()), ("a", true));
    assert!(subset.patch.is_none() && subset.required.is_none());
    assert!(subset.preferred.is_empty() && subset.tolerations.is_empty());
}

/// A question that waits for its turn is not asked once more; one that fails is, less and less often.
#[rstest]
#[case::late(Answers::Late, 1)]
#[case::not_read(Answers::NotRead, 11)]
fn replicas_are_asked_for_when_the_answer_is_there(#[case] answers: Answers, #[case] asked: usize) {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}])));
    world.answers = answers;
    assert!(world.pass(SECOND * 290).is_empty());
    assert_eq!(world.asked, asked);
    world.answers = Answers::AsItIs;
    world.pass(SECOND * 60);
    assert_eq!(world.counted().len(), 2);
}

/// Rows: how the author changes a spread whose workload could not be read for minutes, and whether the
/// replicas are asked for at once then.
#[rstest]
#[case::another_workload(json!({"targetRef": {"kind": "Deployment", "name": "api"}}), true)]
#[case::another_kind(json!({"targetRef": {"kind": "ReplicaSet", "name": "web"}}), true)]
#[case::another_share(json!({"subsets": [{"name": "a", "maxReplicas": "30%"}, {"name": "b"}]}), false)]
#[case::nothing(json!({}), false)]
fn a_workload_that_is_named_anew_is_asked_for_at_once(#[case] change: Value, #[case] at_once: bool) {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}])));
    world.answers = Answers::NotRead;
    world.pass(SECOND * 290);
    let before = world.asked;
    let mut changed = world.spec.clone();
    if let Some(target) = change["targetRef"].as_object() {
        changed["targetRef"].as_object_mut().unwrap().extend(target.clone());
    }
    if change["subsets"].is_array() {
        changed["subsets"] = change["subsets"].clone();
    }
    world.answers = Answers::AsItIs;
    world.change(changed);
    world.pass(SECOND);
    assert_eq!(world.asked > before, at_once, "{} of {before}", world.asked);
    assert_eq!(world.status.observed_replicas.is_some(), at_once);
}

/// An answer about the workload of before says nothing of the one that is named now.
#[test]
fn an_answer_about_another_workload_does_not_count() {
    let mut world = World::new(spec(json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b"}])));
    world.answers = Answers::Late;
    world.pass(SECOND * 3);
    let mut changed = world.spec.clone();
    changed["targetRef"]["name"] = json!("api");
    world.change(changed);
    world.wants = 4;
    world.pass(SECOND);
    let [of_web, of_api] = <[Replicas; 2]>::try_from(std::mem::take(&mut world.late)).unwrap();
    let now = world.now().instant;
    world.index.found(of_web, now);
    assert!(world.pass(SECOND).is_empty(), "it waits for the other one");
    let now = world.now().instant;
    world.index.found(of_api, now);
    assert_eq!(world.pass(SECOND).len(), 1);
    assert_eq!((world.counted(), world.status.observed_replicas), (vec![(0, 2), (0, -1)], Some(4)));
}
