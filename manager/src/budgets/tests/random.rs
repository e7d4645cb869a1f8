//! Random histories, and a few told ones: never are more pods unavailable than the budget lets, whoever asks,
//! however late the leader sees it, and whoever leads; and no permit is lost.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::world::{World, of_web, owner};
use crate::{
    budgets::{
        lookup::{Fact, Lookup, What},
        permit::Answer,
        spec::{Operation, Workload},
    },
    store::{Owner, PodStage},
};

#[derive(Clone, Debug)]
enum Deed {
    /// Somebody asks; what it was answered is carried out later.
    Ask {
        pod: u8,
        operation: u8,
    },
    /// Somebody who was answered writes the permit, or finds that others were faster.
    Write {
        which: u8,
    },
    /// An operation that was let through happens.
    Happen {
        which: u8,
    },
    /// A pod goes on: it is gone, it comes back under its name, it is ready.
    Advance {
        pod: u8,
    },
    See {
        of_pods: bool,
    },
    Pass {
        millis: u16,
    },
    FailOver,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..10_u8, 0..3_u8).prop_map(|(pod, operation)| Deed::Ask { pod, operation }),
        8 => any::<u8>().prop_map(|which| Deed::Write { which }),
        6 => any::<u8>().prop_map(|which| Deed::Happen { which }),
        6 => (0..10_u8).prop_map(|pod| Deed::Advance { pod }),
        6 => any::<bool>().prop_map(|of_pods| Deed::See { of_pods }),
        6 => (0..2_500_u16).prop_map(|millis| Deed::Pass { millis }),
        1 => Just(Deed::FailOver),
    ]
}

/// Somebody between question and answer, or between answer and deed.
#[derive(Clone, Debug)]
struct Going {
    pod: String,
    uid: String,
    operation: Operation,
    /// Permit that is to be written, on which version; none once it is.
    permit: Option<(Box<berth_proto::crd::PodUnavailableBudgetStatus>, u64)>,
    asked: Duration,
}

#[derive(Default)]
struct Clients {
    going: Vec<Going>,
}

impl Clients {
    fn ask(&mut self, world: &World, pod: &str, operation: Operation) {
        let Some(of_pod) = world.pods.get(pod).filter(|pod| pod.stage == PodStage::Active) else { return };
        let (answer, version) = world.ask(pod, operation);
        let permit = match answer {
            Answer::Free => None,
            Answer::Permit(status) => Some((status, version)),
            Answer::Refused(_) => return,
        };
        let going =
            Going { pod: pod.to_owned(), uid: of_pod.uid.clone(), operation, permit, asked: world.passed };
        self.going.push(going);
    }

    fn write(&mut self, world: &mut World, which: u8) {
        let waiting: Vec<usize> =
            (0..self.going.len()).filter(|at| self.going[*at].permit.is_some()).collect();
        if waiting.is_empty() {
            return;
        }
        let at = waiting[usize::from(which) % waiting.len()];
        let Some((status, version)) = self.going[at].permit.take() else { return };
        if !world.write(version, *status) {
            // It asks again, by the newest version.
            let Going { pod, operation, .. } = self.going.swap_remove(at);
            self.ask(world, &pod, operation);
        }
    }

    /// An operation happens to the pod that was asked about, and no other of its name.
    fn happen(&mut self, world: &mut World, at: usize) {
        let Going { pod, uid, operation, .. } = self.going.swap_remove(at);
        let Some(mut of_pod) = world.pods.get(&pod).filter(|known| known.uid == uid).cloned() else { return };
        if of_pod.stage != PodStage::Active {
            return;
        }
        match operation {
            Operation::Update => of_pod.ready = false,
            Operation::Delete | Operation::Evict => of_pod.stage = PodStage::Terminating,
        }
        world.change(&pod, Some(of_pod));
    }

    fn let_through(&self) -> Vec<usize> {
        (0..self.going.len()).filter(|at| self.going[*at].permit.is_none()).collect()
    }

    /// Nobody who was let through takes longer than this.
    fn hurry(&mut self, world: &mut World) {
        let late = |going: &Going| world.passed.saturating_sub(going.asked) >= Duration::from_secs(3);
        while let Some(at) = (0..self.going.len()).find(|at| late(&self.going[*at])) {
            if self.going[at].permit.is_some() {
                self.going.swap_remove(at);
            } else {
                self.happen(world, at);
                assert!(world.available() >= 8);
                return self.hurry(world);
            }
        }
    }
}

fn advance(world: &mut World, name: &str) {
    match world.pods.get(name).cloned() {
        None => world.make(name, false, Some(owner("CloneSet", "web"))),
        Some(pod) if pod.stage != PodStage::Active => world.change(name, None),
        Some(mut pod) => {
            if !pod.ready {
                pod.ready = true;
                world.change(name, Some(pod));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn never_more_than_two_by_our_permission(deeds in prop::collection::vec(deed(), 1..150)) {
        let mut world = World::new(10, of_web(json!({"maxUnavailable": 2})), json!({}));
        let mut clients = Clients::default();
        prop_assert_eq!((world.status.current_available, world.status.unavailable_allowed), (10, 2));
        for deed in deeds {
            match deed {
                Deed::Ask { pod, operation } => {
                    let operation = [Operation::Update, Operation::Delete, Operation::Evict][usize::from(operation)];
                    clients.ask(&world, &format!("p{pod}"), operation);
                }
                Deed::Write { which } => clients.write(&mut world, which),
                Deed::Happen { which } => {
                    let through = clients.let_through();
                    if !through.is_empty() {
                        clients.happen(&mut world, through[usize::from(which) % through.len()]);
                    }
                }
                Deed::Advance { pod } => advance(&mut world, &format!("p{pod}")),
                Deed::See { of_pods } => world.see(of_pods),
                Deed::Pass { millis } => {
                    for _ in 0..millis / 100 {
                        world.pass(Duration::from_millis(100));
                        clients.hurry(&mut world);
                    }
                }
                Deed::FailOver => world.lead_anew(),
            }
            prop_assert!(world.available() >= 8, "{} of 10, {:?}", world.available(), world.status);
        }
        // Nobody asks any more, everything comes back: so do all permits.
        clients.going.clear();
        for _ in 0..5 {
            for pod in 0..10 {
                advance(&mut world, &format!("p{pod}"));
            }
            world.pass(Duration::from_secs(3));
        }
        world.pass(Duration::from_secs(45));
        prop_assert_eq!((world.status.current_available, world.status.unavailable_allowed), (10, 2));
        prop_assert!(world.status.disrupted_pods.is_empty() && world.status.unavailable_pods.is_empty());
    }
}

fn web(limit: serde_json::Value) -> World {
    World::new(5, of_web(limit), json!({}))
}

#[test]
fn a_workload_that_is_gone_holds_nothing() {
    let mut world = web(json!({"minAvailable": 5}));
    assert!(matches!(world.ask("p0", Operation::Delete).0, Answer::Refused(_)));
    world.replicas = 0;
    assert_eq!(world.ask("p0", Operation::Delete).0, Answer::Free, "before anybody has counted");
    // An event of its pods, and it is counted.
    world.change("p0", None);
    world.pass(Duration::from_secs(5));
    assert_eq!((world.status.total_replicas, world.status.desired_available), (0, 0));
    assert_eq!(world.status.conditions[0].status, "True");
}

#[test]
fn a_deployment_is_found_by_its_replica_sets() {
    let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxUnavailable": 1});
    let mut world = World::new(0, spec, json!({}));
    world.replicas = 3;
    let parent = |name: &str| Lookup {
        namespace: super::world::SPACE.into(),
        what: What::Parent { name: name.into(), uid: format!("uid-of-{name}").into() },
    };
    let deployment = |name: &str| Fact::Parent(Some(owner("Deployment", name)));
    world.facts.insert(parent("web-1"), deployment("web"));
    world.facts.insert(parent("web-2-3"), deployment("web-2"));
    for (name, set) in [("a", "web-1"), ("b", "web-1"), ("c", "web-1"), ("d", "web-2-3"), ("e", "other-1")] {
        world.make(name, true, Some(owner("ReplicaSet", set)));
    }
    world.pass(Duration::from_secs(5));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (3, 1, 3), "its own, and none that is only called so");
    assert!(!world.looked.contains(&parent("other-1")), "no ReplicaSet of its name");
    let asked = world.looked.iter().filter(|lookup| **lookup == parent("web-1")).count();
    assert_eq!(asked, 1, "once for all pods and all rounds");
}

#[test]
fn a_selector_counts_each_workload_once() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let mut world = World::new(3, spec.clone(), json!({}));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (3, 1, 3));
    // Pods of nobody count as available, and are no more wanted for it.
    world.make("bare", true, None);
    world.make("orphan", true, Some(owner("StatefulSet", "gone")));
    world.pass(Duration::from_secs(5));
    assert_eq!(Status::of(&world).available, 4, "one whose workload is gone does not count");
    // Its author says how many, where nobody else does.
    let stated = json!({"pub.kruise.io/protect-total-replicas": "7"});
    let mut world = World::new(0, spec, stated);
    world.make("bare", true, None);
    world.pass(Duration::from_secs(5));
    assert_eq!(Status::of(&world).total, 7);
}

/// With nothing going on nothing is asked and nothing written.
#[test]
fn at_rest_it_rests() {
    let mut world = web(json!({"maxUnavailable": 1}));
    let (looked, version) = (world.looked.len(), world.version);
    world.pass(Duration::from_secs(250));
    assert_eq!((world.looked.len(), world.version), (looked, version));
}

#[test]
fn a_scale_that_nobody_may_read_is_said() {
    let mut world = web(json!({"maxUnavailable": 1}));
    let scale = world.looked[0].clone();
    world.facts.insert(scale, Fact::Forbidden("let it: kubectl create clusterrole x".to_owned()));
    world.change("p0", None);
    world.pass(Duration::from_secs(5));
    let condition = &world.status.conditions[0];
    assert_eq!((&*condition.status, &*condition.message), ("False", "let it: kubectl create clusterrole x"));
    assert_eq!(Status::of(&world).total, 0);
}

#[test]
fn a_custom_kind_without_a_scale_is_said() {
    for (kind, held, says) in [
        ("DaemonSet", "False", "has no scale"),
        ("BroadcastJob", "False", "has no scale"),
        ("UnitedDeployment", "False", "belong to the workloads that it makes; give a selector"),
        ("AdvancedCronJob", "False", "belong to the workloads that it makes; give a selector"),
        ("CloneSet", "True", "its limit is kept"),
    ] {
        let target = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "other"});
        // As the API server answers of either: it is not there.
        let world = World::new(0, json!({"targetRef": target, "maxUnavailable": 1}), json!({}));
        let condition = &world.status.conditions[0];
        assert!(condition.status == held && condition.message.contains(says), "{kind}: {condition:?}");
    }
}

/// A selector covers pods of a kind whose scale nobody may read: the others keep their limit.
#[test]
fn a_scale_that_nobody_may_read_switches_no_selector_off() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let told = |world: &World| {
        let condition = &world.status.conditions[0];
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let told_is = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };
    let kept = told_is("True", "Kept", "its pods are counted, and its limit is kept");
    let scale_of = |owner: &Owner| Lookup {
        namespace: super::world::SPACE.into(),
        what: What::Scale(Workload::from(owner)),
    };
    let mut world = World::new(3, spec.clone(), json!({}));
    // The past of a Job: its scale is not even asked for.
    let past = owner("Job", "past");
    world.facts.insert(scale_of(&past), Fact::Forbidden("let it read jobs".to_owned()));
    world.make("done", true, Some(past.clone()));
    let mut done = world.pods["done"].clone();
    done.stage = PodStage::Finished;
    world.change("done", Some(done));
    world.looked.clear();
    world.pass(Duration::from_secs(5));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (3, 1, 3));
    assert_eq!(told(&world), kept);
    assert!(world.looked.contains(&scale_of(&owner("CloneSet", "web"))), "counted anew");
    let other = owner("Train", "t");
    world.facts.insert(scale_of(&other), Fact::Forbidden("let it read trains".to_owned()));
    world.make("t-0", true, Some(other.clone()));
    world.pass(Duration::from_secs(5));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (3, 1, 3), "left out");
    let in_part = "its limit is kept but for these pods: let it read trains";
    assert_eq!(told(&world), told_is("True", "KeptInPart", in_part));
    let version = world.version;
    world.pass(Duration::from_secs(310));
    assert_eq!(world.version, version, "said once");
    // The right has come.
    world.facts.insert(scale_of(&other), Fact::Wants { uid: other.uid.clone(), replicas: 2 });
    world.make("t-1", true, Some(other.clone()));
    world.pass(Duration::from_secs(5));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (5, 1, 5));
    assert_eq!(told(&world), kept);
    // Where the author says how many there are, nobody has to read it.
    let mut world = World::new(0, spec, json!({"pub.kruise.io/protect-total-replicas": "2"}));
    world.facts.insert(scale_of(&other), Fact::Forbidden("let it read trains".to_owned()));
    for name in ["t-0", "t-1"] {
        world.make(name, true, Some(other.clone()));
    }
    world.pass(Duration::from_secs(5));
    let Status { available, allowed, total } = Status::of(&world);
    assert_eq!((available, allowed, total), (2, 1, 2));
    assert_eq!(told(&world), kept);
}

struct Status {
    available: i32,
    allowed: i32,
    total: i32,
}

impl Status {
    fn of(world: &World) -> Self {
        let status = &world.status;
        Self {
            available: status.current_available,
            allowed: status.unavailable_allowed,
            total: status.total_replicas,
        }
    }
}
