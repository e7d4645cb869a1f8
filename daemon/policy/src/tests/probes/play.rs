//! One conversation: facts go in, the steps that are owed come out as short lines. Pods are called by one
//! letter, their containers `main` and `side`, instances by container and attempt; a probe is an exec of its
//! own name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::tests::world::NowForTests;
use crate::{
    ConditionStatus, ContainerName, Instance, InstanceState, Markers, PodMarks, PodRef, PodReport, PodUid,
    Probe, ProbeAction, ProbeEvent, ProbeLimits, ProbeOutcome, ProbeResult, ProbeRun, ProbeState, ProbeStep,
    ProbeView, Probes, RunId, Shown, ShownCondition, WantedPod, WantedProbe,
};

pub(super) struct Play {
    pub(super) probes: Probes,
    pub(super) now: Instant,
    pub(super) start: Instant,
    /// Under way.
    pub(super) runs: BTreeMap<RunId, ProbeRun>,
    /// Steps whose answer is due.
    pub(super) looks: BTreeSet<PodUid>,
    pub(super) marks: BTreeMap<PodUid, PodMarks>,
    pub(super) report: Option<Vec<PodReport>>,
    /// Pods on the API server.
    pub(super) pods: BTreeMap<PodUid, Shown>,
    instances: BTreeMap<PodUid, BTreeMap<ContainerName, Instance>>,
}

impl Play {
    pub(super) fn new() -> Self {
        Self::limited(ProbeLimits::default())
    }

    pub(super) fn limited(limits: ProbeLimits) -> Self {
        let start = Instant::now_for_tests() + secs(100_000);
        Self {
            probes: Probes::new(limits, start),
            now: start,
            start,
            runs: BTreeMap::new(),
            looks: BTreeSet::new(),
            marks: BTreeMap::new(),
            report: None,
            pods: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    /// A pod with one running container that is probed, all of it just now.
    pub(super) fn with(probes: Vec<WantedProbe>) -> Self {
        let mut play = Self::new();
        play.want(&[("p", probes)]);
        play.runs("p", "main", 0);
        play
    }

    pub(super) fn apply(&mut self, event: ProbeEvent) {
        self.probes.apply(event, self.now);
    }

    pub(super) fn want(&mut self, pods: &[(&str, Vec<WantedProbe>)]) {
        let pods = pods.iter().map(|(name, probes)| WantedPod { pod: pod(name), probes: probes.clone() });
        self.apply(ProbeEvent::Wanted(pods.collect()));
    }

    /// This instance runs since now.
    pub(super) fn runs(&mut self, pod: &str, container: &str, attempt: u32) {
        self.has(pod, container, attempt, InstanceState::Running { since: self.now });
    }

    pub(super) fn runs_since(&mut self, pod: &str, container: &str, ago: Duration) {
        self.has(pod, container, 0, InstanceState::Running { since: self.now - ago });
    }

    pub(super) fn stops(&mut self, pod: &str, container: &str, attempt: u32) {
        self.has(pod, container, attempt, InstanceState::NotRunning);
    }

    pub(super) fn has(&mut self, pod: &str, container: &str, attempt: u32, state: InstanceState) {
        let id = format!("{pod}-{container}-{attempt}").into();
        let sandbox = format!("{pod}-sandbox").into();
        let containers = self.instances.entry(pod.into()).or_default();
        containers.insert(container.into(), Instance { id, sandbox, state });
        let containers = containers.clone();
        self.apply(ProbeEvent::Instances(pod.into(), containers));
    }

    pub(super) fn has_none(&mut self, pod: &str) {
        self.instances.remove(&pod.into());
        self.apply(ProbeEvent::Instances(pod.into(), BTreeMap::new()));
    }

    pub(super) fn gone(&mut self, pod: &str) {
        self.instances.remove(&pod.into());
        self.apply(ProbeEvent::PodGone(pod.into()));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Goes on to the next instant at which something may be owed.
    pub(super) fn wait(&mut self) -> Duration {
        let next = self.probes.next_deadline().expect("something is waited for");
        let waited = next - self.now;
        self.now = next;
        waited
    }

    /// Returns the owed steps, one line for each. Nothing is answered.
    pub(super) fn plan(&mut self) -> Vec<String> {
        let steps = self.probes.plan(self.now);
        assert_eq!(self.probes.plan(self.now), [], "a step is given out once");
        if let Some(next) = self.probes.next_deadline() {
            assert!(next > self.now, "it would be asked again at once");
        }
        steps.into_iter().map(|step| self.take(step)).collect()
    }

    /// Returns the owed steps; all that is not a run is carried out until nothing more is owed now.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..100 {
            let more = self.plan();
            if more.is_empty() {
                return lines;
            }
            lines.extend(more);
            self.answer(ProbeOutcome::Done);
        }
        panic!("it does not come to rest: {lines:?}");
    }

    /// Returns those of the owed steps that begin with one of these words.
    pub(super) fn settle_only(&mut self, words: &[&str]) -> Vec<String> {
        let mut lines = self.settle();
        lines.retain(|line| words.iter().any(|word| line.starts_with(word)));
        lines
    }

    /// Answers everything but runs.
    pub(super) fn answer(&mut self, outcome: ProbeOutcome) {
        for pod in std::mem::take(&mut self.looks) {
            if outcome == ProbeOutcome::Done {
                self.show(pod.as_str());
            }
            self.apply(ProbeEvent::LookEnded(pod, outcome));
        }
        for (pod, marks) in std::mem::take(&mut self.marks) {
            if outcome == ProbeOutcome::Done {
                self.patch(&marks);
                self.show(pod.as_str());
            }
            self.apply(ProbeEvent::MarkEnded(pod, outcome));
        }
        if self.report.take().is_some() {
            self.apply(ProbeEvent::ReportEnded(outcome));
        }
    }

    /// As the API server does.
    pub(super) fn patch(&mut self, marks: &PodMarks) {
        let shown = self.shown(marks.pod.uid.as_str());
        shown.version += 1;
        for (kind, mark) in &marks.conditions {
            let condition = ShownCondition { status: mark.status, message: mark.message.clone() };
            shown.conditions.insert(kind.clone(), condition);
        }
        for (changes, to) in
            [(&marks.labels, &mut shown.labels), (&marks.annotations, &mut shown.annotations)]
        {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(to.insert(key.clone(), value.clone())),
                    None => drop(to.remove(key)),
                }
            }
        }
    }

    pub(super) fn shown(&mut self, pod: &str) -> &mut Shown {
        self.pods.entry(pod.into()).or_insert_with(|| blank(pod))
    }

    /// The agent sees the pod as it is.
    pub(super) fn show(&mut self, pod: &str) {
        let shown = self.shown(pod).clone();
        self.apply(ProbeEvent::Shown(shown));
    }

    /// Somebody else writes a label.
    pub(super) fn label(&mut self, pod: &str, key: &str, value: Option<&str>) {
        let shown = self.shown(pod);
        shown.version += 1;
        match value {
            Some(value) => drop(shown.labels.insert(key.into(), value.into())),
            None => drop(shown.labels.remove(key)),
        }
        self.show(pod);
    }

    /// Ends the only run of this probe.
    pub(super) fn ends(&mut self, probe: &str, result: ProbeResult) {
        let is_it = |run: &ProbeRun| name_of(&run.action) == probe;
        let run = *self.runs.iter().find(|(_, run)| is_it(run)).expect("it runs").0;
        self.end(run, result);
    }

    pub(super) fn end(&mut self, run: RunId, result: ProbeResult) {
        self.runs.remove(&run);
        self.apply(ProbeEvent::RunEnded(run, result));
    }

    /// Runs the probe of this name once, when it is due, and lets all follow from it.
    pub(super) fn round(&mut self, probe: &str, result: ProbeResult) -> Vec<String> {
        for _ in 0..100 {
            if self.runs.values().any(|run| name_of(&run.action) == probe) {
                self.ends(probe, result);
                return self.settle();
            }
            if self.settle().is_empty() {
                self.wait();
            }
        }
        panic!("{probe} does not run");
    }

    pub(super) fn view(&self, name: &str) -> ProbeView {
        self.probes.explain().into_iter().find(|view| &*view.name == name).expect("it is wanted")
    }

    /// State and words.
    pub(super) fn stands(&self, name: &str) -> (ProbeState, String) {
        let view = self.view(name);
        (view.state, view.message.to_string())
    }

    pub(super) fn take(&mut self, step: ProbeStep) -> String {
        match step {
            ProbeStep::Run(id, run) => {
                let line = format!("run {} in {}", name_of(&run.action), run.container);
                self.runs.insert(id, run);
                line
            }
            ProbeStep::Look(pod) => {
                self.looks.insert(pod.uid.clone());
                format!("look {}", pod.uid)
            }
            ProbeStep::Mark(marks) => {
                let line = mark_line(&marks);
                self.marks.insert(marks.pod.uid.clone(), marks);
                line
            }
            ProbeStep::Report(report) => {
                let line = report_line(&report);
                self.report = Some(report);
                line
            }
            ProbeStep::EmitEvent(event) => {
                format!("tell {} {} {}", event.pod.uid, event.reason.name(), event.message)
            }
        }
    }
}

fn mark_line(marks: &PodMarks) -> String {
    let mut line = format!("mark {}", marks.pod.uid);
    for (kind, mark) in &marks.conditions {
        line += &format!(" {kind}={}({})", mark.status.name(), mark.message);
    }
    for (key, value) in marks.labels.iter().chain(&marks.annotations) {
        line += &value.as_ref().map_or_else(|| format!(" -{key}"), |value| format!(" {key}={value}"));
    }
    line
}

fn report_line(report: &[PodReport]) -> String {
    let mut line = "report".to_owned();
    for PodReport { pod, probes } in report {
        for probe in probes {
            line += &format!(" {}:{}={}({})", pod.uid, probe.name, probe.state.name(), probe.message);
        }
    }
    line
}

pub(super) fn blank(pod: &str) -> Shown {
    let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
    Shown { pod: pod.into(), version: 1, labels, annotations, conditions: BTreeMap::new() }
}

pub(super) fn name_of(action: &ProbeAction) -> &str {
    match action {
        ProbeAction::Exec { command } => &command[0],
        ProbeAction::Http { path, .. } => path,
        ProbeAction::Tcp { .. } | ProbeAction::Grpc { .. } => panic!("no probe of these tests"),
    }
}

pub(super) fn pod(name: &str) -> PodRef {
    PodRef { uid: name.into(), namespace: "space".to_owned(), name: format!("pod-{name}") }
}

/// Every 10 s, and one result is enough; of the container `main`.
pub(super) fn probe(name: &str) -> WantedProbe {
    let probe = Probe {
        action: ProbeAction::Exec { command: vec![name.to_owned()] },
        initial_delay: Duration::ZERO,
        timeout: secs(1),
        period: secs(10),
        success_threshold: 1,
        failure_threshold: 1,
    };
    WantedProbe {
        name: name.into(),
        container: "main".into(),
        probe: Ok(probe),
        condition_type: None,
        succeeded: Markers::default(),
        failed: Markers::default(),
        paused: false,
    }
}

/// The same, in another way.
pub(super) fn like(mut wanted: WantedProbe, change: impl FnOnce(&mut Probe)) -> WantedProbe {
    change(wanted.probe.as_mut().unwrap());
    wanted
}

pub(super) fn http(wanted: WantedProbe) -> WantedProbe {
    like(wanted, |probe| {
        let path = name_of(&probe.action).to_owned();
        probe.action = ProbeAction::Http { port: 80, path, https: false, headers: Vec::new() };
    })
}

/// With a condition of this type.
pub(super) fn told(wanted: WantedProbe, condition: &str) -> WantedProbe {
    WantedProbe { condition_type: Some(condition.into()), ..wanted }
}

/// With these labels while it succeeds, and those while it fails.
pub(super) fn labelled(
    wanted: WantedProbe,
    succeeded: &[(&str, &str)],
    failed: &[(&str, &str)],
) -> WantedProbe {
    WantedProbe { succeeded: labels(succeeded), failed: labels(failed), ..wanted }
}

fn labels(labels: &[(&str, &str)]) -> Markers {
    let labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
    Markers { labels, annotations: BTreeMap::new() }
}

pub(super) fn condition(status: ConditionStatus, message: &str) -> ShownCondition {
    ShownCondition { status, message: message.into() }
}

pub(super) fn yes(text: &str) -> ProbeResult {
    ProbeResult::Success(text.to_owned())
}

pub(super) fn no(text: &str) -> ProbeResult {
    ProbeResult::Failure(text.to_owned())
}

pub(super) fn unable(text: &str) -> ProbeResult {
    ProbeResult::Unknown(text.to_owned())
}

pub(super) fn refused(text: &str) -> ProbeResult {
    ProbeResult::Refused(text.to_owned())
}

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
