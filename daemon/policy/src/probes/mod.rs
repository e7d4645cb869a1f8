//! Probes of one's own, and the container's: when each runs, and what follows.
//!
//! ```text
//!   NodePodProbe ─ Wanted, Reported ─┐                    ┌─▶ Run ──────▶ the runtime, the pod's network
//!   the runtime ── Instances ────────┤                    ├─▶ Look, Mark ▶ the pod
//!   the executor ─ RunEnded ─────────┼─▶ Probes ── plan ──┼─▶ Report ───▶ NodePodProbe.status.podProbeStatuses
//!   the pod ────── Shown ────────────┘                    └─▶ Tell ─────▶ Events
//!
//!   one probe of one container
//!
//!              it runs, delay over, a turn           threshold reached
//!   (blank) ──────────────────────────▶ running ──────────────────────▶ Succeeded | Failed | Unknown, with words
//!      ▲                                   ▲  │                                      │
//!      │ another instance                  └──┴── every period ──────────────────────┘
//!      └───────────────────────────────── not running: Failed at once ◀──────────────┘
//! ```
//!
//! `Unknown` has two causes: nothing is known yet of this instance (*blank*, without words), or the probe
//! cannot be carried out (with the runtime's words; when those count is in `refusal`). What that means for a
//! pod's marks is in `marks`; when they are written, in `writes`.
//!
//! Invariants, each tried by the model test:
//! - never two runs of one probe in one container at once, never more than the limits allow, and none but of
//!   a probe that is wanted, in an instance that runs, after its initial delay, and not sooner than a period
//!   after the one before, but for one that is asked for something else now;
//! - whatever is due runs as soon as there is room, pods taking turns: none starves;
//! - a state changes only after as many equal results in a row as its threshold says, or with the container;
//! - a refusal of the runtime counts only of an instance that has not ended within a second after it;
//! - one write a pod at a time, and none while the pod shows what it should: with every step carried out and
//!   the pods shown, nothing is due until a state or a message changes;
//! - what is remembered is bounded by the probes that are wanted, the containers that exist, and the steps
//!   under way.

mod backlog;
mod bucket;
mod event;
mod explain;
mod limits;
mod marks;
mod message;
mod model;
mod pod_events;
mod refusal;
mod report;
mod scheduler;
mod step;
mod wanted;
mod watch;
mod writes;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

pub use self::{
    backlog::Backlog,
    event::{Instance, InstanceState, ProbeEvent, ProbeOutcome, Shown, ShownCondition},
    explain::{ProbeView, ProbesSize},
    limits::ProbeLimits,
    marks::AskedMarks,
    model::{Probe, ProbeAction, ProbeResult, ProbeRun},
    report::{PodReport, ProbeReport},
    step::{ConditionMark, ConditionStatus, PodMarks, ProbeEventText, ProbeReason, ProbeStep, RunId},
    wanted::{Markers, WantedPod, WantedProbe},
    watch::ProbeState,
};
use self::{
    backlog::BacklogReport,
    bucket::Bucket,
    report::Reporting,
    scheduler::{Kind, Running},
    watch::{Presence, Watch},
    writes::Marking,
};
use crate::{
    model::{ContainerName, PodRef, PodUid},
    set_aside::SetAside,
};

/// State of the probes of this node, as far as it is known.
#[derive(Debug)]
pub struct Probes {
    limits: ProbeLimits,
    /// When this process began.
    began: Instant,
    /// Pods whose probes are wanted, and pods on which marks are left that nobody asks for any more.
    pods: BTreeMap<PodUid, ProbedPod>,
    /// Instances of all pods of the node: a probe may be wanted later than its container starts.
    instances: BTreeMap<PodUid, BTreeMap<ContainerName, Instance>>,
    /// Findings of an earlier process, until the next list of what is wanted.
    memory: BTreeMap<(PodUid, Arc<str>), ProbeReport>,
    /// Under way, those whose result nobody wants any more included.
    runs: BTreeMap<RunId, Running>,
    last_run: u64,
    /// Runs whose end never came.
    lost: u64,
    /// Runs begun: pods take turns.
    turns: u64,
    exec_rate: Bucket,
    write_rate: Bucket,
    /// Events have as much as writes have, and take nothing from them.
    event_rate: Bucket,
    reporting: Reporting,
    backlog: BacklogReport,
    /// Pods whose evaluation panicked.
    set_aside: SetAside<PodUid>,
    wake: Wake,
}

/// A pod with probes.
#[derive(Debug)]
struct ProbedPod {
    pod: PodRef,
    /// By name.
    probes: BTreeMap<Arc<str>, Watch>,
    marking: Marking,
    /// The turns when it was last served, by kind.
    served: BTreeMap<Kind, u64>,
}

/// When to plan again. Collected while a plan is made.
#[derive(Debug)]
struct Wake {
    planned: Instant,
    next: Option<Instant>,
}

impl Probes {
    /// Knows nothing yet. `now` is when the agent began: what ran before it is probed spread over time.
    pub fn new(limits: ProbeLimits, now: Instant) -> Self {
        Self {
            began: now,
            pods: BTreeMap::new(),
            instances: BTreeMap::new(),
            memory: BTreeMap::new(),
            runs: BTreeMap::new(),
            last_run: 0,
            lost: 0,
            turns: 0,
            exec_rate: Bucket::new(limits.exec_every, limits.exec_burst),
            write_rate: Bucket::new(limits.write_every, limits.write_burst),
            event_rate: Bucket::new(limits.write_every, limits.write_burst),
            reporting: Reporting::default(),
            backlog: BacklogReport::default(),
            set_aside: SetAside::default(),
            wake: Wake { planned: now, next: None },
            limits,
        }
    }

    /// Takes a fact. Total and idempotent. Ask [`Probes::plan`] afterwards.
    pub fn apply(&mut self, event: ProbeEvent, now: Instant) {
        match event {
            ProbeEvent::Wanted(pods) => self.wanted_listed(pods, now),
            ProbeEvent::Instances(pod, containers) => {
                self.instances.insert(pod.clone(), containers);
                self.place(&pod, now);
            }
            ProbeEvent::PodGone(pod) => {
                self.instances.remove(&pod);
                self.place(&pod, now);
            }
            ProbeEvent::Reported(reports) => self.reported(reports),
            ProbeEvent::RunEnded(run, result) => self.run_ended(run, result, now),
            ProbeEvent::Shown(shown) => {
                if let Some(pod) = self.pods.get_mut(&shown.pod) {
                    pod.marking.shown(shown);
                }
            }
            ProbeEvent::LookEnded(pod, outcome) => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.marking.look_ended(outcome, now);
                }
            }
            ProbeEvent::MarkEnded(pod, outcome) => {
                if let Some(pod) = self.pods.get_mut(&pod) {
                    pod.marking.mark_ended(outcome, now);
                }
            }
            ProbeEvent::ReportEnded(outcome) => self.reporting.ended(outcome, now),
        }
        self.forget_pods();
    }

    /// Returns the steps that are due now; each step is given out once.
    pub fn plan(&mut self, now: Instant) -> Vec<ProbeStep> {
        self.wake = Wake { planned: now, next: None };
        let pods = &self.pods;
        self.set_aside.keep(|pod| pods.contains_key(pod));
        self.set_aside.next(now).into_iter().for_each(|next| self.wake.at(next));
        self.give_up(now);
        self.settle_refusals(now);
        let mut steps = self.runs_due(now);
        self.measure_backlog(now);
        self.take_news();
        steps.extend(self.looks_due(now));
        steps.extend(self.marks_due(now));
        steps.extend(self.report_due(now));
        steps.extend(self.events_due(now));
        self.forget_pods();
        steps
    }

    /// Returns when to ask [`Probes::plan`] again, even if nothing happens. Of the last plan: a fact asks for
    /// one of its own.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.wake.next
    }

    /// Tells whether probes run later than they should, because the node allows no more.
    pub fn backlog(&self) -> Option<Backlog> {
        self.backlog.told()
    }

    /// The pods that are left alone because their evaluation panicked, with the time when each is tried
    /// again.
    pub fn set_aside(&self, now: Instant) -> Vec<(PodRef, Instant)> {
        let all = self.set_aside.all(now).into_iter();
        all.filter_map(|(uid, again)| Some((self.pods.get(&uid)?.pod.clone(), again))).collect()
    }

    /// Returns how often the evaluation of a pod panicked.
    pub fn panics(&self) -> u64 {
        self.set_aside.panics()
    }

    /// Tells the probes of a pod which instances there are.
    fn place(&mut self, uid: &PodUid, now: Instant) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let containers = self.instances.get(uid);
        if containers.is_none() {
            pod.marking.let_go();
        }
        pod.marking.unsettle();
        for watch in pod.probes.values_mut() {
            watch.place(Presence::of(containers, watch.container()), self.began, now);
        }
    }

    /// Marks the new results of probes to be written.
    fn take_news(&mut self) {
        for pod in self.pods.values_mut() {
            for watch in pod.probes.values_mut() {
                if watch.take_news() {
                    pod.marking.unsettle();
                    self.reporting.unsettle();
                }
            }
        }
    }

    /// Pods that nobody asks about are forgotten once nothing is left on them and no answer is due.
    fn forget_pods(&mut self) {
        self.pods.retain(|_, pod| !pod.probes.is_empty() || pod.marking.is_busy() || pod.marking.has_left());
    }
}

impl Wake {
    /// Notes that something may be due then.
    fn at(&mut self, then: Instant) {
        if then > self.planned && self.next.is_none_or(|next| then < next) {
            self.next = Some(then);
        }
    }
}
