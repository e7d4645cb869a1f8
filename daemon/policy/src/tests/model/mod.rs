//! Random operations on one node, checked against what a kubelet and a runtime that keep no secrets know.
//!
//! The kubelet here runs SyncPods as the real one does: containers in spec order, each at most once, an error
//! goes on to the next one, a held call blocks the pod. What it may do between is random: relists, exits,
//! restarts, readiness, runs of the containers' probes, deletions, new sandboxes, removals of all containers,
//! lost, late and repeated events, an agent that is killed and comes back with its latches.

mod faults;
mod probes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use self::probes::{Becomes, Prober, becomes, result};
use super::world::{World, pod};
use crate::{
    Call, Config, Container, ContainerState, Declared, Event, HoldReason, Latch, Node, Pod, ProbeResult,
    Question, Readiness, Refusal, Request, Verdict, sandbox::FRESH,
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Op {
    /// The pod worker goes on with its SyncPod, or begins one.
    Attempt,
    Relist,
    Exit(usize),
    Ready(usize),
    ProbesBegin,
    ProbeEnds(usize, ProbeResult),
    Delete,
    Pass(u64),
    NewSandbox,
    Kill,
    CancelHeld,
    StopAll,
    RestartAll,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => Just(Op::Attempt),
        4 => Just(Op::Relist),
        2 => (0..4_usize).prop_map(Op::Exit),
        4 => (0..4_usize).prop_map(Op::Ready),
        6 => Just(Op::ProbesBegin),
        6 => (0..2_usize, result()).prop_map(|(index, result)| Op::ProbeEnds(index, result)),
        1 => Just(Op::Delete),
        3 => (0..3000_u64).prop_map(Op::Pass),
        1 => Just(Op::NewSandbox),
        1 => Just(Op::Kill),
        1 => Just(Op::CancelHeld),
        1 => Just(Op::StopAll),
        1 => Just(Op::RestartAll),
    ]
}

/// The truth, as only kubelet and runtime together know it.
struct Truth {
    world: World,
    pod: Pod,
    priorities: BTreeMap<&'static str, i32>,
    sandbox: String,
    sandboxes: u32,
    /// Position of the SyncPod in the spec; past the end = the next attempt begins a new one.
    position: usize,
    pass: u64,
    held: Option<Call>,
    attempts: BTreeMap<&'static str, u32>,
    /// Running instances of the current sandbox: the SyncPod that started each, and whether a relist saw it
    /// since.
    running: BTreeMap<&'static str, (u64, bool)>,
    /// Names that were ever created in this sandbox, and levels that were passed in it.
    created: BTreeSet<&'static str>,
    passed: BTreeSet<i32>,
    ready: BTreeSet<&'static str>,
    prober: Prober,
    /// Since when the agent knows that each container runs.
    since: BTreeMap<&'static str, Instant>,
    exited: BTreeMap<&'static str, Instant>,
    /// Started before the connection that is there now; a Ready of these may be doubted.
    of_old_kubelet: BTreeSet<&'static str>,
    latches: Vec<Latch>,
    deleted: bool,
}

impl Truth {
    fn new(priorities: &[i32], becomes: &[Becomes]) -> Self {
        let texts: Vec<String> = priorities.iter().map(ToString::to_string).collect();
        let containers: Vec<(&str, &str)> = NAMES.into_iter().zip(texts.iter().map(String::as_str)).collect();
        let mut pod = pod(&containers);
        for (name, becomes) in NAMES.into_iter().zip(becomes) {
            pod = becomes.declare(pod, name);
        }
        let mut world = World::with(Config::default());
        world.apply(Event::ViewFresh(true));
        world.apply(pod.seen());
        Self {
            world,
            pod,
            priorities: NAMES.into_iter().zip(priorities.iter().copied()).collect(),
            sandbox: "sandbox-0".to_owned(),
            sandboxes: 0,
            position: NAMES.len(),
            pass: 0,
            held: None,
            attempts: BTreeMap::new(),
            running: BTreeMap::new(),
            created: BTreeSet::new(),
            passed: BTreeSet::new(),
            ready: BTreeSet::new(),
            prober: Prober::default(),
            since: BTreeMap::new(),
            exited: BTreeMap::new(),
            of_old_kubelet: BTreeSet::new(),
            latches: Vec::new(),
            deleted: false,
        }
    }

    fn ordered(&self) -> bool {
        self.priorities.values().collect::<BTreeSet<_>>().len() > 1
    }

    fn higher(&self, name: &str) -> Vec<&'static str> {
        let own = self.priorities[name];
        self.priorities.iter().filter(|(_, priority)| **priority > own).map(|(name, _)| *name).collect()
    }

    fn satisfied(&self, name: &str) -> bool {
        self.running.contains_key(name)
            && (self.pod.containers[&name.into()].readiness == Readiness::Running
                || self.ready.contains(name)
                || self.ready_by_own_probe(name))
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Attempt => self.attempt(),
            Op::Relist => {
                self.world.relist();
                self.running.values_mut().for_each(|(_, seen)| *seen = true);
            }
            Op::Exit(index) => {
                let name = NAMES[*index];
                if self.running.remove(name).is_some() {
                    self.ready.remove(name);
                    self.exited.insert(name, self.world.now);
                    let id = self.id(name);
                    self.world.exit(&id, 1);
                }
            }
            Op::Ready(index) => {
                let name = NAMES[*index];
                if self.running.contains_key(name) {
                    self.ready.insert(name);
                    self.pod = self.pod.clone().report(name, &self.id(name), true);
                    self.world.apply(self.pod.seen());
                }
            }
            Op::ProbesBegin => self.prober.begin(&mut self.world),
            Op::ProbeEnds(index, result) => self.prober.end(&mut self.world, *index, result),
            Op::Delete => {
                self.deleted = true;
                self.pod = self.pod.clone().deleting(30);
                self.world.apply(self.pod.seen());
            }
            Op::Pass(millis) => self.world.pass(Duration::from_millis(*millis)),
            Op::NewSandbox if self.held.is_none() => self.new_sandbox(),
            Op::NewSandbox => {}
            Op::Kill => self.kill_agent(),
            Op::CancelHeld => {
                if let Some(call) = self.held.take() {
                    self.world.end(&call);
                }
            }
            Op::StopAll => self.stop_all(),
            Op::RestartAll if self.held.is_none() => self.restart_all(),
            Op::RestartAll => {}
        }
        self.ask_again();
        self.check_bounds();
    }

    fn id(&self, name: &str) -> String {
        // Of equal attempts the one with the greater identity counts as the newer: here they are all equal.
        format!("{name}-{}-{:04}", self.sandbox, self.attempts.get(name).copied().unwrap_or(0))
    }

    fn attempt(&mut self) {
        if self.held.is_some() {
            return;
        }
        if self.position >= NAMES.len() {
            self.position = 0;
            self.pass += 1;
        }
        let name = NAMES[self.position];
        self.position += 1;
        if self.running.contains_key(name) || (self.deleted && self.position == 1) {
            return;
        }
        let pod = self.pod.clone();
        let sandbox = self.sandbox.clone();
        let (call, verdict) = self.world.create_in(&pod, &sandbox, name, Declared::default());
        self.judge(name, &call, verdict);
    }

    fn ask_again(&mut self) {
        self.world.inspect();
        if let Some(call) = self.held.take() {
            let name = name_of(&call);
            let verdict = self.world.node.admit(&call, self.world.now);
            self.judge(name, &call, verdict);
        }
    }

    fn judge(&mut self, name: &'static str, call: &Call, verdict: Verdict) {
        match verdict {
            Verdict::Forward => self.start(name, call),
            Verdict::Latch(latch) => {
                self.latches.push(latch);
                self.start(name, call);
            }
            Verdict::Hold { until, why } => {
                assert!(until > self.world.now, "a hold that is over");
                assert!(until <= call.arrived + Duration::from_secs(50), "a hold without a near end");
                assert!(
                    self.world.node.next_deadline().is_some_and(|next| next <= until),
                    "nobody would ask again"
                );
                assert!(!self.created.contains(name), "a restart was held");
                if let HoldReason::NotReady(names) = why {
                    for higher in names {
                        let Some(&(pass, seen)) = self.running.get(higher.as_str()) else {
                            let unseen = self.world.now - self.exited[higher.as_str()];
                            assert!(
                                unseen < Duration::from_millis(200),
                                "held for {higher:?}, which is dead"
                            );
                            continue;
                        };
                        let early = self.may_become_ready_early(higher.as_str());
                        assert!(early || pass < self.pass, "held in the SyncPod that started {higher:?}");
                        assert!(early || seen, "held before a relist saw {higher:?}");
                    }
                }
                self.held = Some(call.clone());
            }
            Verdict::Refuse(refusal) => {
                assert!(!self.created.contains(name), "a restart was refused");
                assert!(self.ordered(), "refused without an order");
                match refusal {
                    Refusal::Waiting(names) => {
                        assert!(!self.passed.contains(&self.priorities[name]), "refused at an open barrier");
                        for higher in names {
                            let higher = higher.as_str();
                            let doubted = self.of_old_kubelet.contains(higher);
                            assert!(!self.satisfied(higher) || doubted, "refused for nothing");
                            assert!(!self.ready_by_own_probe(higher), "refused for nothing");
                        }
                    }
                    Refusal::Terminating => assert!(self.deleted),
                    other => panic!("unexpected refusal {other:?}"),
                }
                self.world.end(call);
            }
            Verdict::Amend(_) => panic!("a create is never amended"),
        }
    }

    fn start(&mut self, name: &'static str, call: &Call) {
        let first = !self.created.contains(name) && !self.passed.contains(&self.priorities[name]);
        if first {
            for higher in self.higher(name) {
                // An exit that nobody told the agent of may be as young as its last answer from the runtime.
                let just_died =
                    self.exited.get(higher).is_some_and(|exited| self.world.now <= *exited + FRESH);
                assert!(self.satisfied(higher) || just_died, "{name} started before {higher}");
            }
        }
        self.created.insert(name);
        if !self.higher(name).is_empty() {
            self.passed.insert(self.priorities[name]);
        }
        *self.attempts.entry(name).or_default() += 1;
        let id = self.id(name);
        self.world.start(call, &id);
        self.running.insert(name, (self.pass, false));
        self.since.insert(name, self.world.now);
        self.of_old_kubelet.remove(name);
        self.ready.remove(name);
    }

    fn check_bounds(&mut self) {
        let size = self.world.node.size();
        assert!(
            size.pods <= 1 && size.sandboxes <= 1 && size.calls <= 1 && size.connections <= 1,
            "{size:?}"
        );
        assert!(size.containers <= self.world.runtime.len(), "{size:?}");
        assert!(size.latches <= NAMES.len(), "{size:?}");
        let steps = self.world.node.plan(self.world.now);
        assert!(!steps.contains(&Question::PollKubelet.into()), "the view is fresh");
        self.check_probes();
    }
}

fn name_of(call: &Call) -> &'static str {
    let Request::CreateContainer(request) = &call.request else { panic!("not a create") };
    NAMES.into_iter().find(|name| *name == request.container.as_str()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_keep_the_invariants(
        priorities in proptest::collection::vec(0..3_i32, NAMES.len()),
        becomes in proptest::collection::vec(becomes(), NAMES.len()),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut truth = Truth::new(&priorities, &becomes);
        for op in &ops {
            truth.run(op);
        }
    }
}

/// The model can fail: a node that lets everything through is caught.
#[test]
#[should_panic(expected = "started before")]
fn the_model_catches_a_node_without_a_gate() {
    let mut truth = Truth::new(&[0, 1, 2, 3], &vec![Becomes::ready_by(Readiness::Running); 4]);
    truth.world.node = Node::new(Config { launch_order: false, ..Config::default() });
    truth.run(&Op::Attempt);
}

/// It knows what the probes said, too.
#[test]
#[should_panic(expected = "started before")]
fn the_model_catches_a_success_that_nobody_had() {
    let mut truth = Truth::new(&[1, 0, 0, 0], &vec![Becomes::ready_by_own_probe(); 4]);
    truth.run(&Op::Attempt);
    truth.world.probe(&ProbeResult::Success(String::new()));
    truth.run(&Op::Attempt);
}

/// Left alone, an ordered pod always comes up: every SyncPod that follows a relist starts at least one level.
#[test]
fn an_undisturbed_pod_comes_up_in_as_many_passes_as_levels() {
    let mut truth = Truth::new(&[0, 1, 2, 3], &vec![Becomes::ready_by(Readiness::Running); 4]);
    for _ in 0..NAMES.len() {
        for _ in 0..NAMES.len() {
            truth.run(&Op::Attempt);
        }
        truth.run(&Op::Relist);
    }
    assert_eq!(truth.running.len(), NAMES.len());
    let states: BTreeSet<_> =
        truth.world.runtime.values().map(|(_, Container { state, .. })| *state).collect();
    assert_eq!(states.into_iter().collect::<Vec<_>>(), [ContainerState::Running]);
}
