//! Whole stories: three subsets, one for each zone, and nodes of a simulated cluster, from the first pod to
//! the last one that is scaled in. Everything that the manager and `berth-workloads` decide is decided by
//! this crate; the scheduler and the controller of the workload are played.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_proto::crd::WorkloadSpreadStatus as Status;
use rstest::rstest;
use serde_json::{Value, json};

use super::{at, parsed, target};
use crate::{
    Ages, Choice, Facts, MATCHED, Matched, Member, Move, PodSeen, Question, Spread, choose, count, inject,
    plan, release,
};

/// A pod that is there.
struct Made {
    zone: Option<String>,
    matched: Matched,
    cost: Option<String>,
    created: i64,
}

struct Cluster {
    spread: Spread,
    status: Status,
    ages: Ages,
    /// Pods that the nodes of a zone take.
    room: BTreeMap<&'static str, usize>,
    pods: BTreeMap<String, Made>,
    replicas: i32,
    begin: Instant,
    seconds: i64,
    names: usize,
}

/// Subsets `a` and `b` with limits, and `c` without one, each in the zone of its name.
fn subsets(limits: [Value; 2]) -> Value {
    let of = |name: &str| {
        json!({ "name": name, "requiredNodeSelectorTerm": { "matchExpressions": [
            { "key": "zone", "operator": "In", "values": [name] }] } })
    };
    let [mut a, mut b] = [of("a"), of("b")];
    let [of_a, of_b] = limits;
    (a["maxReplicas"], b["maxReplicas"]) = (of_a, of_b);
    json!([a, b, of("c")])
}

impl Cluster {
    fn new(kind: &str, limits: [Value; 2], reschedule: Option<i64>) -> Self {
        let mut spec = json!({ "targetRef": target(kind), "subsets": subsets(limits) });
        if let Some(seconds) = reschedule {
            spec["scheduleStrategy"] =
                json!({ "type": "Adaptive", "adaptive": { "rescheduleCriticalSeconds": seconds } });
        }
        Self {
            spread: parsed(spec).unwrap(),
            status: Status::default(),
            ages: Ages::default(),
            room: [("a", 100), ("b", 100), ("c", 100)].into(),
            pods: BTreeMap::new(),
            replicas: 0,
            begin: Instant::now(),
            seconds: 0,
            names: 0,
        }
    }

    /// The controller of the workload makes a pod, and the scheduler finds it a node, or does not.
    fn make(&mut self) {
        let ordered = self.spread.target.is_ordered();
        let number = if ordered {
            (0..).find(|number| !self.pods.contains_key(&format!("web-{number}"))).unwrap()
        } else {
            self.names
        };
        self.names += 1;
        let name = format!("web-{number}");
        let ordinal = ordered.then(|| i64::try_from(number).unwrap());
        let question = Question { pod: &name, ordinal, replicas: self.replicas, now: at(self.seconds) };
        let subset = match choose(&self.spread, &self.status, &question) {
            Choice::Take(at) => at,
            Choice::Enter(at, next) => {
                self.status = *next;
                at
            }
            other => panic!("{other:?}"),
        };
        let mut pod = json!({ "metadata": { "name": name }, "spec": { "containers": [] } });
        let subset = &self.spread.subsets[subset];
        let matched = Matched { name: "ws".to_owned(), subset: subset.name.clone(), uid: None };
        inject(&mut pod, subset, &matched).unwrap();
        let annotation = pod["metadata"]["annotations"][MATCHED].as_str().unwrap();
        let matched = Matched::read(annotation).unwrap();
        let zone = self.zone_for(&pod);
        self.pods.insert(name, Made { zone, matched, cost: None, created: at(self.seconds).as_second() });
    }

    /// A zone that the rules of the pod let it to, and that has room.
    fn zone_for(&self, pod: &Value) -> Option<String> {
        let at =
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let terms = pod.pointer(at).and_then(Value::as_array).unwrap();
        let lets = |zone: &str| {
            terms.iter().any(|term| {
                term["matchExpressions"].as_array().unwrap().iter().all(|one| {
                    assert_eq!((one["key"].as_str(), one["operator"].as_str()), (Some("zone"), Some("In")));
                    one["values"].as_array().unwrap().contains(&zone.into())
                })
            })
        };
        let used = |zone: &str| self.pods.values().filter(|pod| pod.zone.as_deref() == Some(zone)).count();
        let mut free = self.room.iter().filter(|(zone, room)| used(zone) < **room);
        free.find(|(zone, _)| lets(zone)).map(|(zone, _)| (*zone).to_owned())
    }

    fn scale_to(&mut self, replicas: i32) {
        self.replicas = replicas;
        while self.pods.len() < usize::try_from(replicas).unwrap() {
            self.make();
        }
        self.count();
    }

    /// The manager counts, and `berth-workloads` carries out what it owes.
    fn count(&mut self) {
        let members: Vec<Member<'_>> = self.pods.iter().map(|(name, pod)| member(name, pod)).collect();
        let facts = Facts { generation: Some(1), replicas: self.replicas, pods: &members };
        let now = self.begin + Duration::from_secs(u64::try_from(self.seconds).unwrap());
        let counted = count(&self.spread, &self.status, &mut self.ages, &facts, (now, at(self.seconds)));
        self.status = counted.status;
        let names: Vec<String> = self.pods.keys().cloned().collect();
        let seen: Vec<PodSeen> = self.pods.iter().map(|(name, pod)| seen(name, pod)).collect();
        let planned = plan("ws", &self.spread, &self.status, &seen, Some(self.replicas), at(self.seconds));
        for one in planned.moves {
            match one {
                Move::Cost(at, cost) => self.pods.get_mut(&names[at]).unwrap().cost = Some(cost.to_string()),
                Move::Delete(at) => self.delete(&names[at].clone()),
            }
        }
    }

    fn delete(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        if let Some(next) = release(&self.spread, &self.status, (&pod.matched.subset, name), at(self.seconds))
        {
            self.status = next;
        }
    }

    /// The controller scales in by one: the pod of the lowest cost, or that of the highest number. Gives its
    /// zone.
    fn scale_in(&mut self) -> String {
        let number = |name: &str| name.rsplit_once('-').unwrap().1.parse::<i64>().unwrap();
        let cost = |pod: &Made| pod.cost.as_ref().map_or(0, |cost| cost.parse::<i64>().unwrap());
        let ordered = self.spread.target.is_ordered();
        let rank = |(name, pod): &(&String, &Made)| if ordered { -number(name) } else { cost(pod) };
        let name = self.pods.iter().min_by_key(rank).unwrap().0.clone();
        let zone = self.pods[&name].zone.clone().unwrap();
        self.replicas -= 1;
        self.delete(&name);
        self.count();
        zone
    }

    /// How many pods are in each zone, and how many wait for a node.
    fn zones(&self) -> [usize; 4] {
        let of = |zone: Option<&str>| self.pods.values().filter(|pod| pod.zone.as_deref() == zone).count();
        [of(Some("a")), of(Some("b")), of(Some("c")), of(None)]
    }
}

fn member<'a>(name: &'a str, pod: &'a Made) -> Member<'a> {
    let (subset, unschedulable) = (pod.matched.subset.as_str(), pod.zone.is_none());
    Member { name, entry: name, subset, active: true, unschedulable, created: pod.created }
}

fn seen(name: &str, pod: &Made) -> PodSeen {
    let runs = pod.zone.is_some();
    PodSeen {
        uid: name.to_owned(),
        matched: Some(pod.matched.clone()),
        active: true,
        assigned: runs,
        phase: if runs { 2 } else { 0 },
        ready: runs,
        ready_since: runs.then_some(pod.created),
        created: pod.created,
        unschedulable: !runs,
        cost: pod.cost.clone(),
        ..PodSeen::default()
    }
}

/// The pods come zone by zone, and go in the contrary order.
#[rstest]
#[case::clone_set("CloneSet")]
#[case::deployment("Deployment")]
#[case::stateful_set("StatefulSet")]
fn zones_are_filled_and_emptied_in_order(#[case] kind: &str) {
    let mut cluster = Cluster::new(kind, [json!(2), json!(3)], None);
    cluster.scale_to(4);
    assert_eq!(cluster.zones(), [2, 2, 0, 0]);
    cluster.scale_to(7);
    assert_eq!(cluster.zones(), [2, 3, 2, 0]);
    let missing: Vec<i32> = cluster.status.subset_statuses.iter().map(|one| one.missing_replicas).collect();
    // Those of a StatefulSet are counted alike.
    assert_eq!(missing, [0, 0, -1]);
    let gone: String = (0..7).map(|_| cluster.scale_in()).collect();
    assert_eq!(gone, "ccbbbaa");
}

/// Shares follow the number of replicas: on the way down the last zone is emptied first, and then go those
/// that are too many by their share of that moment.
#[rstest]
#[case::clone_set("CloneSet")]
#[case::deployment("Deployment")]
fn shares_of_zones(#[case] kind: &str) {
    let mut cluster = Cluster::new(kind, [json!("30%"), json!("40%")], None);
    cluster.scale_to(10);
    assert_eq!(cluster.zones(), [3, 4, 3, 0]);
    for _ in 0..5 {
        cluster.scale_in();
    }
    assert_eq!(cluster.zones(), [2, 3, 0, 0]);
}

/// A pod that goes by itself is replaced where it was.
#[rstest]
#[case::clone_set("CloneSet")]
#[case::deployment("Deployment")]
#[case::stateful_set("StatefulSet")]
fn a_pod_that_is_lost_comes_back_to_its_zone(#[case] kind: &str) {
    let mut cluster = Cluster::new(kind, [json!(2), json!(3)], None);
    cluster.scale_to(7);
    let lost = cluster.pods.iter().find(|(_, pod)| pod.zone.as_deref() == Some("a")).unwrap().0.clone();
    cluster.delete(&lost);
    cluster.scale_to(7);
    assert_eq!(cluster.zones(), [2, 3, 2, 0]);
}

/// Zone `a` has room for one of its three: the others wait for 30 s, and go to `b`. Rows: the kind, and where
/// the pods are when one more comes later, which of a StatefulSet goes where its number says.
#[rstest]
#[case::clone_set("CloneSet", [2, 2, 1, 0])]
#[case::deployment("Deployment", [2, 2, 1, 0])]
#[case::stateful_set("StatefulSet", [1, 3, 1, 0])]
fn pods_that_find_no_node_move_on(#[case] kind: &str, #[case] at_last: [usize; 4]) {
    let mut cluster = Cluster::new(kind, [json!(3), json!(2)], Some(30));
    cluster.room.insert("a", 1);
    cluster.scale_to(4);
    assert_eq!(cluster.zones(), [1, 1, 0, 2]);
    cluster.seconds = 29;
    cluster.count();
    assert_eq!(cluster.pods.len(), 4, "not before its time");
    cluster.seconds = 30;
    cluster.count();
    assert_eq!(cluster.pods.len(), 2, "those that wait are deleted");
    cluster.scale_to(4);
    assert_eq!(cluster.zones(), [1, 2, 1, 0], "and made anew where there is room");
    // The zone is tried again after five minutes.
    cluster.room.insert("a", 3);
    cluster.seconds = 400;
    cluster.count();
    cluster.scale_to(5);
    assert_eq!(cluster.zones(), at_last);
}
