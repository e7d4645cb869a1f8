//! Results of the agent's own runs of a container's startup and readiness probe, and when the next run is
//! due.
//!
//! It counts as the kubelet's prober does (`prober/worker.go`). The startup probe comes first, and once it
//! succeeded never again. Then comes the readiness probe: its state changes when as many runs in a row agree
//! as its threshold says. A run that could not be carried out counts for nothing. One of these belongs to one
//! instance, so a restart begins anew.

use std::time::{Duration, Instant};

use crate::{
    model::{ContainerSpec, Readiness},
    probes::{Probe, ProbeResult},
};

/// The runs of one container instance so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnProbes {
    startup: Tally,
    readiness: Tally,
}

/// Which of a container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Startup,
    Readiness,
}

/// The runs of one probe.
#[derive(Clone, Debug, Default)]
struct Tally {
    succeeded: bool,
    /// Result of the last run, and the number of runs in a row with the same result.
    last: Option<bool>,
    in_a_row: u32,
    /// When the last run began.
    began: Option<Instant>,
    /// The last run could not be carried out.
    blind: bool,
}

/// The agent can run every probe this container has, and it has one.
pub(crate) fn runnable(spec: &ContainerSpec) -> bool {
    match spec.readiness {
        Readiness::ReadinessProbe => spec.readiness_probe.is_some(),
        Readiness::StartupProbe => spec.startup_probe.is_some(),
        Readiness::Running | Readiness::PostStart => false,
    }
}

/// The probe of that stage, where there is one.
pub(crate) fn probe(spec: &ContainerSpec, stage: Stage) -> Option<&Probe> {
    match stage {
        Stage::Startup => spec.startup_probe.as_ref(),
        Stage::Readiness => spec.readiness_probe.as_ref(),
    }
}

impl OwnProbes {
    /// Every probe the container has succeeded, and the last one has not failed since.
    pub(crate) fn succeeded(&self, spec: &ContainerSpec) -> bool {
        runnable(spec)
            && (spec.startup_probe.is_none() || self.startup.succeeded)
            && (spec.readiness_probe.is_none() || self.readiness.succeeded)
    }

    /// The probe to be run next; `None` when nothing is left to learn.
    pub(crate) fn stage<'a>(&self, spec: &'a ContainerSpec) -> Option<(Stage, &'a Probe)> {
        let stages = [Stage::Startup, Stage::Readiness];
        let mut open = stages.into_iter().filter_map(|stage| Some((stage, probe(spec, stage)?)));
        open.find(|(stage, _)| *stage == Stage::Readiness || !self.startup.succeeded)
    }

    /// Returns when that run is due, in a container that has run since `since`.
    pub(crate) fn due(&self, spec: &ContainerSpec, since: Instant) -> Option<Instant> {
        let (stage, probe) = self.stage(spec)?;
        match self.tally(stage).began {
            Some(began) => began.checked_add(probe.period),
            None => since.checked_add(probe.initial_delay),
        }
    }

    /// Returns when all probes may have succeeded at the earliest, if every run from now on does; the next
    /// one counts from `next`.
    pub(crate) fn earliest_success(
        &self,
        spec: &ContainerSpec,
        since: Instant,
        next: Instant,
    ) -> Option<Instant> {
        let (stage, probe) = self.stage(spec)?;
        let tally = self.tally(stage);
        let done = if tally.last == Some(true) { tally.in_a_row } else { 0 };
        let first = after(next, probe, probe.success_threshold.saturating_sub(done))?;
        match (stage, &spec.readiness_probe) {
            (Stage::Startup, Some(readiness)) => {
                let begins = since.checked_add(readiness.initial_delay)?.max(first);
                after(begins, readiness, readiness.success_threshold)
            }
            (Stage::Startup | Stage::Readiness, _) => Some(first),
        }
    }

    /// The last run could not be carried out: there is nothing to wait for.
    pub(crate) fn is_blind(&self, stage: Stage) -> bool {
        self.tally(stage).blind
    }

    /// Returns when the last run of this probe began.
    pub(crate) fn began(&self, stage: Stage) -> Option<Instant> {
        self.tally(stage).began
    }

    /// A run began.
    pub(crate) fn begin(&mut self, stage: Stage, now: Instant) {
        self.tally_mut(stage).began = Some(now);
    }

    /// Takes in how a run ended.
    pub(crate) fn count(&mut self, stage: Stage, probe: &Probe, result: &ProbeResult) {
        let success = match result {
            ProbeResult::Success(_) => true,
            ProbeResult::Failure(_) => false,
            ProbeResult::Unknown(_) | ProbeResult::Refused(_) => {
                self.tally_mut(stage).blind = true;
                return;
            }
        };
        let tally = self.tally_mut(stage);
        tally.blind = false;
        tally.in_a_row = if tally.last == Some(success) { tally.in_a_row.saturating_add(1) } else { 1 };
        tally.last = Some(success);
        let threshold = if success { probe.success_threshold } else { probe.failure_threshold };
        if tally.in_a_row >= threshold {
            tally.succeeded = success;
        }
    }

    fn tally(&self, stage: Stage) -> &Tally {
        match stage {
            Stage::Startup => &self.startup,
            Stage::Readiness => &self.readiness,
        }
    }

    fn tally_mut(&mut self, stage: Stage) -> &mut Tally {
        match stage {
            Stage::Startup => &mut self.startup,
            Stage::Readiness => &mut self.readiness,
        }
    }
}

/// The time of the last of `runs` runs, the first of which is at `first`.
fn after(first: Instant, probe: &Probe, runs: u32) -> Option<Instant> {
    let rest: Duration = probe.period.saturating_mul(runs.saturating_sub(1));
    first.checked_add(rest)
}
