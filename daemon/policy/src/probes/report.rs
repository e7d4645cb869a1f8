//! Content of `NodePodProbe.status.podProbeStatuses`.
//!
//! The whole list, when a state in it changes or who is in it: at most once a second. When words alone
//! change: at most every 10 s. That a probe ran again with the same result is no reason to write, however
//! long ago it was written: `lastProbeTime` is that of the run after which something changed. A probe that
//! has had nothing to say yet is not in it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ProbeStep, Probes,
    event::ProbeOutcome,
    watch::{ProbeState, Watch},
    writes::WRITES,
};
use crate::{backoff::Retry, model::PodRef, time::later};

const BETWEEN: Duration = Duration::from_secs(1);
const BETWEEN_WORDS: Duration = Duration::from_secs(10);

/// Results of the probes of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReport {
    /// The pod.
    pub pod: PodRef,
    /// By name.
    pub probes: Vec<ProbeReport>,
}

/// Result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// `<PodProbeMarker>#<its probe>`.
    pub name: Arc<str>,
    /// Its state.
    pub state: ProbeState,
    /// The end of the last run.
    pub last_probe: Option<Instant>,
    /// When the state last changed.
    pub last_transition: Option<Instant>,
    /// Message of the last run; empty while it has not run in this instance of its container.
    pub message: Arc<str>,
}

/// Reports that were written, and reports that are on their way.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    /// Reports that the object shows, as far as is known.
    reported: Vec<PodReport>,
    writing: Option<Vec<PodReport>>,
    /// There may be something new.
    unsettled: bool,
    /// The list of what is wanted has come: before that the list of findings is empty for want of knowledge.
    pub(super) wanted_known: bool,
    retry: Retry,
    last: Option<Instant>,
}

/// In what two lists differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Nothing,
    Words,
    States,
}

impl Reporting {
    pub(super) fn unsettle(&mut self) {
        self.unsettled = true;
    }

    pub(super) fn ended(&mut self, outcome: ProbeOutcome, now: Instant) {
        let Some(written) = self.writing.take() else { return };
        match outcome {
            ProbeOutcome::Done => {
                self.reported = written;
                self.retry = Retry::default();
            }
            ProbeOutcome::Failed => self.retry.failed(now, |failures| WRITES.pause(failures)),
            // Without the object nothing is wanted either, before long.
            ProbeOutcome::Gone | ProbeOutcome::Refused => self.retry.rest(later(now, WRITES.longest)),
        }
    }
}

impl Probes {
    /// An earlier process reported these.
    pub(super) fn reported(&mut self, reports: Vec<PodReport>) {
        self.memory.clear();
        for report in &reports {
            for probe in &report.probes {
                self.memory.insert((report.pod.uid.clone(), probe.name.clone()), probe.clone());
                let pod = self.pods.get_mut(&report.pod.uid);
                if let Some(watch) = pod.and_then(|pod| pod.probes.get_mut(&probe.name)) {
                    watch.remember(probe.clone());
                }
            }
        }
        self.reporting.reported = reports;
        self.reporting.unsettle();
    }

    pub(super) fn report_due(&mut self, now: Instant) -> Option<ProbeStep> {
        // Before it is known what is wanted, what an earlier process reported stands.
        let known = self.reporting.wanted_known;
        if !known || !self.reporting.unsettled || self.reporting.writing.is_some() {
            return None;
        }
        let reports = self.reports();
        let pause = match difference(&self.reporting.reported, &reports) {
            Difference::Nothing => {
                self.reporting.unsettled = false;
                return None;
            }
            Difference::Words => BETWEEN_WORDS,
            Difference::States => BETWEEN,
        };
        let after_last = self.reporting.last.map(|last| later(last, pause));
        if let Some(not_before) = after_last.max(self.reporting.retry.next).filter(|then| *then > now) {
            self.wake.at(not_before);
            return None;
        }
        self.reporting.last = Some(now);
        self.reporting.writing = Some(reports.clone());
        Some(ProbeStep::Report(reports))
    }

    fn reports(&self) -> Vec<PodReport> {
        let pods = self.pods.values().map(|pod| {
            let spoken = pod.probes.iter().filter(|(_, watch)| watch.spoken);
            let probes = spoken.map(|(name, watch)| ProbeReport::of(name, watch)).collect();
            PodReport { pod: pod.pod.clone(), probes }
        });
        pods.filter(|report| !report.probes.is_empty()).collect()
    }
}

impl ProbeReport {
    fn of(name: &Arc<str>, watch: &Watch) -> Self {
        Self {
            name: name.clone(),
            state: watch.state,
            last_probe: watch.ended,
            last_transition: Some(watch.since),
            message: watch.message.clone(),
        }
    }
}

/// Whichever order the old one has.
fn difference(old: &[PodReport], new: &[PodReport]) -> Difference {
    let count = |reports: &[PodReport]| reports.iter().map(|report| report.probes.len()).sum::<usize>();
    if old.len() != new.len() || count(old) != count(new) {
        return Difference::States;
    }
    let mut difference = Difference::Nothing;
    for report in new {
        let Some(before) = old.iter().find(|before| before.pod == report.pod) else {
            return Difference::States;
        };
        for probe in &report.probes {
            let before = before.probes.iter().find(|before| before.name == probe.name);
            difference = difference.max(match before {
                Some(before) if before.state != probe.state => Difference::States,
                Some(before) if before.message != probe.message => Difference::Words,
                Some(_) => Difference::Nothing,
                None => Difference::States,
            });
        }
    }
    difference
}
