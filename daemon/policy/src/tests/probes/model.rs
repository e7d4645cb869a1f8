//! Random operations on the probes of one node: what is wanted changes, containers come, end and go, runs end
//! in every way or never, writes succeed, fail, or succeed and say they failed, somebody else writes on the
//! pods, time passes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::{
    play::{http, labelled, like, no, probe, refused, secs, told, unable, yes},
    truth::{Truth, instance},
};
use crate::{
    ContainerName, Instance, InstanceState, PodUid, ProbeEvent, ProbeLimits, ProbeOutcome, ProbeResult,
    ProbesSize, RunId, WantedProbe,
};

pub(super) const PODS: [&str; 3] = ["p", "q", "r"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const CONTAINERS: [&str; 2] = ["main", "side"];
const KEYS: [&str; 3] = ["x", "y", "z"];

/// Each container's attempt, and whether it runs (since so long ago) or not.
type Containers = BTreeMap<&'static str, (u32, Option<u64>)>;

#[derive(Clone, Debug)]
enum Op {
    Want(Vec<(&'static str, Vec<WantedProbe>)>),
    Place(&'static str, Option<Containers>),
    EndRun(usize, ProbeResult),
    Look(usize, ProbeOutcome),
    /// How it ends, whether it was written, and whether the answer shows the pod.
    Mark(usize, ProbeOutcome, bool, bool),
    Report(ProbeOutcome),
    Meddle(&'static str, &'static str, Option<&'static str>),
    Show(&'static str),
    Pass(Duration),
    /// Until something may be owed.
    Wait,
}

fn one_of<T: Copy + std::fmt::Debug>(all: &'static [T]) -> impl Strategy<Value = T> {
    (0..all.len()).prop_map(move |which| all[which])
}

fn a_probe() -> impl Strategy<Value = WantedProbe> {
    let numbers = (1..5_u64, 0..3_u64, 1..3_u32, 1..3_u32);
    let markers = || proptest::collection::btree_map(one_of(&KEYS), one_of(&["1", "0"]), 0..3);
    let condition = proptest::option::weighted(0.7, one_of(&["A", "B"]));
    let odds = (proptest::bool::weighted(0.3), proptest::bool::weighted(0.15));
    let which = (one_of(&NAMES), one_of(&CONTAINERS), odds);
    (which, numbers, condition, markers(), markers()).prop_map(
        |(
            (name, container, (web, paused)),
            (period, delay, success, failure),
            condition,
            succeeded,
            failed,
        )| {
            let wanted = like(probe(name), |probe| {
                (probe.period, probe.initial_delay) = (secs(period), secs(delay));
                (probe.success_threshold, probe.failure_threshold) = (success, failure);
            });
            let wanted = if web { http(wanted) } else { wanted };
            let wanted = condition.into_iter().fold(wanted, told);
            let pairs = |markers: BTreeMap<_, _>| markers.into_iter().collect::<Vec<_>>();
            let wanted = labelled(wanted, &pairs(succeeded), &pairs(failed));
            WantedProbe { container: container.into(), paused, ..wanted }
        },
    )
}

fn outcome() -> impl Strategy<Value = ProbeOutcome> {
    prop_oneof![
        6 => Just(ProbeOutcome::Done),
        2 => Just(ProbeOutcome::Failed),
        1 => Just(ProbeOutcome::Refused),
        1 => Just(ProbeOutcome::Gone),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let probes = proptest::collection::vec(a_probe(), 0..4);
    let pods = proptest::collection::btree_map(one_of(&PODS), probes, 0..4);
    let runs = proptest::option::weighted(0.8, 0..20_u64);
    let containers = proptest::collection::btree_map(one_of(&CONTAINERS), (0..3_u32, runs), 0..3);
    let result = prop_oneof![
        4 => one_of(&["", "fine"]).prop_map(yes),
        3 => Just(no("bad")),
        2 => one_of(&["no file", ""]).prop_map(unable),
        2 => one_of(&["no container", ""]).prop_map(refused),
    ];
    prop_oneof![
        3 => pods.prop_map(|pods| Op::Want(pods.into_iter().collect())),
        5 => (one_of(&PODS), proptest::option::weighted(0.85, containers))
            .prop_map(|(pod, containers)| Op::Place(pod, containers)),
        14 => (any::<usize>(), result).prop_map(|(which, result)| Op::EndRun(which, result)),
        4 => (any::<usize>(), outcome()).prop_map(|(which, outcome)| Op::Look(which, outcome)),
        7 => (any::<usize>(), outcome(), any::<bool>(), proptest::bool::weighted(0.8))
            .prop_map(|(which, outcome, written, shows)| Op::Mark(which, outcome, written, shows)),
        3 => outcome().prop_map(Op::Report),
        2 => (one_of(&PODS), one_of(&KEYS), one_of(&[None, Some("1"), Some("mine")]))
            .prop_map(|(pod, key, value)| Op::Meddle(pod, key, value)),
        2 => one_of(&PODS).prop_map(Op::Show),
        6 => (0..4000_u64).prop_map(|time| Op::Pass(Duration::from_millis(time))),
        8 => Just(Op::Wait),
    ]
}

fn pick<T: Clone>(all: impl ExactSizeIterator<Item = T>, which: usize) -> Option<T> {
    let mut all = all;
    let len = all.len();
    all.nth(which % len.max(1))
}

impl Truth {
    fn run(&mut self, op: &Op) -> Vec<String> {
        match op {
            Op::Want(pods) => {
                self.want(pods.iter().map(|(pod, probes)| ((*pod).into(), probes.clone())).collect());
            }
            Op::Place(pod, containers) => {
                let uid = PodUid::from(*pod);
                let containers = containers.as_ref().map(|containers| self.instances_of(&uid, containers));
                self.place(&uid, containers);
            }
            Op::EndRun(which, result) => {
                if let Some(run) = pick(self.runs.keys().copied(), *which) {
                    self.end_run(run, result.clone());
                }
            }
            Op::Look(which, outcome) => {
                let Some(pod) = pick(self.play.looks.iter().cloned(), *which) else { return Vec::new() };
                self.play.looks.remove(&pod);
                match outcome {
                    ProbeOutcome::Done => self.play.show(pod.as_str()),
                    ProbeOutcome::Gone => self.let_go(&pod),
                    ProbeOutcome::Failed | ProbeOutcome::Refused => {}
                }
                self.apply(&ProbeEvent::LookEnded(pod, *outcome));
            }
            Op::Mark(which, outcome, written, shows) => {
                let Some(pod) = pick(self.play.marks.keys().cloned(), *which) else { return Vec::new() };
                self.end_mark(&pod, *outcome, *written, *shows);
            }
            Op::Report(outcome) => {
                if self.play.report.take().is_some() {
                    self.apply(&ProbeEvent::ReportEnded(*outcome));
                }
            }
            Op::Meddle(pod, key, value) => self.meddled(pod, key, *value),
            Op::Show(pod) => {
                let shown = self.play.shown(pod).clone();
                self.apply(&ProbeEvent::Shown(shown));
            }
            Op::Pass(time) => self.play.pass(*time),
            Op::Wait => {
                if let Some(next) = self.play.probes.next_deadline() {
                    self.play.now = self.play.now.max(next);
                }
            }
        }
        self.plan()
    }

    fn instances_of(&self, uid: &PodUid, containers: &Containers) -> BTreeMap<ContainerName, Instance> {
        let all = containers.iter().map(|(name, (attempt, runs))| {
            let state = match runs {
                Some(ago) => InstanceState::Running { since: self.play.now - secs(*ago) },
                None => InstanceState::NotRunning,
            };
            ((*name).into(), instance(uid, name, *attempt, state))
        });
        all.collect()
    }

    fn end_mark(&mut self, pod: &PodUid, outcome: ProbeOutcome, written: bool, shows: bool) {
        let marks = self.play.marks.remove(pod).unwrap();
        let written = outcome == ProbeOutcome::Done || outcome == ProbeOutcome::Failed && written;
        self.wrote(&marks, written);
        if written {
            self.play.patch(&marks);
        }
        if outcome == ProbeOutcome::Done && shows {
            self.play.show(pod.as_str());
        }
        if outcome == ProbeOutcome::Gone {
            self.let_go(pod);
        }
        self.apply(&ProbeEvent::MarkEnded(pod.clone(), outcome));
    }

    /// Everything goes well from now on, for so long. What was given out, but for runs.
    fn goes_well(&mut self, time: Duration) -> Vec<String> {
        let end = self.play.now + time;
        let mut lines = Vec::new();
        loop {
            let op = if !self.runs.is_empty() {
                Op::EndRun(0, yes("fine"))
            } else if !self.play.looks.is_empty() {
                Op::Look(0, ProbeOutcome::Done)
            } else if !self.play.marks.is_empty() {
                Op::Mark(0, ProbeOutcome::Done, true, true)
            } else if self.play.report.is_some() {
                Op::Report(ProbeOutcome::Done)
            } else if self.play.probes.next_deadline().is_some_and(|next| next < end) {
                Op::Wait
            } else {
                self.play.now = end;
                return lines;
            };
            lines.extend(self.run(&op).into_iter().filter(|line| !line.starts_with("run")));
        }
    }

    /// Everything is as it should be when all goes well, nothing is done then that need not be, and nothing
    /// is left when all have gone.
    fn comes_to_rest(mut self) {
        self.goes_well = true;
        PODS.iter().for_each(|pod| drop(self.run(&Op::Show(pod))));
        self.goes_well(secs(150));
        self.check_marks();
        self.check_turns();
        assert_eq!(self.goes_well(secs(60)), [""; 0], "it writes although nothing changes");
        self.check_turns();
        self.run(&Op::Want(Vec::new()));
        self.goes_well(secs(300));
        self.check_marks();
        assert_eq!(self.play.probes.next_deadline(), None);
        for pod in PODS {
            self.run(&Op::Place(pod, None));
        }
        let lost = self.play.probes.size().lost;
        assert_eq!(self.play.probes.size(), ProbesSize { lost, ..ProbesSize::default() });
        assert_eq!(self.runs.keys().collect::<BTreeSet<&RunId>>(), BTreeSet::new());
    }
}

fn limits() -> impl Strategy<Value = ProbeLimits> {
    (1..4_usize, 1..3_usize, 1..3_u32, 1..3_usize).prop_map(|(all, of_pod, burst, other)| ProbeLimits {
        exec_concurrent: all,
        exec_concurrent_per_pod: of_pod,
        exec_every: Duration::from_millis(50),
        exec_burst: burst,
        other_concurrent: other,
        other_concurrent_per_pod: 1,
        write_every: Duration::from_millis(300),
        write_burst: burst,
        ..ProbeLimits::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_keep_the_invariants(
        limits in limits(),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut truth = Truth::new(limits);
        for op in &ops {
            truth.run(op);
        }
        truth.comes_to_rest();
    }
}

/// A truth with a container that runs and two probes of it.
fn two_probes(allowed: usize) -> (Truth, Op) {
    let mut truth = Truth::new(ProbeLimits { exec_concurrent: 2, ..ProbeLimits::default() });
    truth.limit_execs(allowed);
    truth.run(&Op::Place("p", Some([("main", (0, Some(0)))].into())));
    (truth, Op::Want(vec![("p", vec![probe("a"), probe("b")])]))
}

#[test]
fn the_model_takes_what_is_allowed() {
    let (mut truth, want) = two_probes(2);
    assert_eq!(truth.run(&want).len(), 2);
}

/// The model can fail.
#[test]
#[should_panic(expected = "too many at once")]
fn the_model_catches_a_run_too_many() {
    let (mut truth, want) = two_probes(1);
    truth.run(&want);
}

#[test]
#[should_panic(expected = "left: p x=1")]
fn the_model_catches_a_mark_that_is_left() {
    let (mut truth, _) = two_probes(2);
    truth.run(&Op::Want(vec![("p", vec![labelled(probe("a"), &[("x", "1")], &[])])]));
    truth.goes_well(secs(1));
    truth.check_marks();
    truth.run(&Op::Want(Vec::new()));
    truth.goes_well(secs(1));
    truth.check_marks();
    truth.play.label("p", "x", Some("1"));
    truth.check_marks();
}
