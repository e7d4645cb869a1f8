//! Pods whose containers have probes the agent can run, and an executor for them.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    Config, ContainerName, Event, Pod, Probe, ProbeAction, ProbeResult, ProbeRun, Question, Readiness, Step,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn success() -> ProbeResult {
    ProbeResult::Success(String::new())
}

pub(super) fn failure() -> ProbeResult {
    ProbeResult::Failure(String::new())
}

/// Once a second, one success is enough, three failures are.
pub(super) fn probe(what: &str) -> Probe {
    Probe {
        action: ProbeAction::Exec { command: vec![what.to_owned()] },
        initial_delay: Duration::ZERO,
        timeout: SECOND,
        period: SECOND,
        success_threshold: 1,
        failure_threshold: 3,
    }
}

impl Pod {
    pub(super) fn probed(mut self, name: &str, startup: Option<Probe>, readiness: Option<Probe>) -> Self {
        let spec = self.containers.get_mut(&ContainerName::from(name)).unwrap();
        spec.readiness =
            if readiness.is_some() { Readiness::ReadinessProbe } else { Readiness::StartupProbe };
        (spec.startup_probe, spec.readiness_probe) = (startup, readiness);
        self
    }
}

/// Every container has a readiness probe.
pub(super) fn ready_by_probe(containers: &[(&str, &str)]) -> Pod {
    containers.iter().fold(pod(containers), |pod, (name, _)| pod.probed(name, None, Some(probe("ready"))))
}

impl World {
    pub(super) fn watching(pod: &Pod, config: Config) -> Self {
        let mut world = Self::with(config);
        world.apply(Event::ViewFresh(true));
        world.apply(pod.seen());
        world
    }

    pub(super) fn owed(&mut self) -> Vec<ProbeRun> {
        let steps = self.node.plan(self.now).into_iter();
        steps
            .filter_map(|step| if let Step::Question(Question::Probe(run)) = step { Some(run) } else { None })
            .collect()
    }

    /// Carries out the runs that are owed, all with this result; how many there were.
    pub(super) fn probe(&mut self, result: &ProbeResult) -> usize {
        let runs = self.owed();
        for run in &runs {
            self.apply(Event::ProbeBegan(run.clone()));
            self.apply(Event::ProbeEnded(run.clone(), result.clone()));
        }
        runs.len()
    }
}
