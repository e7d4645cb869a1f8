//! The part of the model that runs probes: an executor that is as slow and forgetful as can be, and a count
//! of its own.

use std::{collections::BTreeMap, time::Instant};

use proptest::prelude::*;

use super::{
    super::{
        probing::{SECOND, probe},
        world::World,
    },
    NAMES, Truth,
};
use crate::{
    Config, ContainerId, ContainerName, Event, Pod, Probe, ProbeAction, ProbeResult, ProbeRun, Readiness,
};

/// How a container becomes Ready, and what of that the agent can run.
#[derive(Clone, Debug)]
pub(super) struct Becomes {
    readiness: Readiness,
    startup_probe: Option<Probe>,
    readiness_probe: Option<Probe>,
}

impl Becomes {
    pub(super) fn ready_by(readiness: Readiness) -> Self {
        Self { readiness, startup_probe: None, readiness_probe: None }
    }

    pub(super) fn ready_by_own_probe() -> Self {
        Self { readiness_probe: Some(probe("ready")), ..Self::ready_by(Readiness::ReadinessProbe) }
    }

    pub(super) fn declare(&self, mut pod: Pod, name: &str) -> Pod {
        let spec = pod.containers.get_mut(&ContainerName::from(name)).unwrap();
        spec.readiness = self.readiness;
        spec.startup_probe.clone_from(&self.startup_probe);
        spec.readiness_probe.clone_from(&self.readiness_probe);
        pod
    }
}

pub(super) fn becomes() -> impl Strategy<Value = Becomes> {
    let bare = |readiness| Just(Becomes::ready_by(readiness));
    let probes = (any::<bool>(), any::<bool>(), 1..3_u32, 1..3_u32, 0..3_u32);
    let own = probes.prop_map(|(starts, both, success_threshold, failure_threshold, delay)| {
        let initial_delay = delay * SECOND;
        let ready = Probe { success_threshold, failure_threshold, initial_delay, ..probe("ready") };
        let startup_probe = (starts || both).then(|| probe("start"));
        let readiness_probe = (!starts || both).then_some(ready);
        let readiness =
            if readiness_probe.is_some() { Readiness::ReadinessProbe } else { Readiness::StartupProbe };
        Becomes { readiness, startup_probe, readiness_probe }
    });
    prop_oneof![
        1 => bare(Readiness::Running),
        1 => bare(Readiness::PostStart),
        1 => bare(Readiness::StartupProbe),
        1 => bare(Readiness::ReadinessProbe),
        4 => own,
    ]
}

pub(super) fn result() -> impl Strategy<Value = ProbeResult> {
    prop_oneof![
        3 => Just(ProbeResult::Success(String::new())),
        2 => Just(ProbeResult::Failure(String::new())),
        1 => Just(ProbeResult::Unknown(String::new())),
    ]
}

/// Probe runs in progress, and all their results.
#[derive(Default)]
pub(super) struct Prober {
    in_flight: BTreeMap<ContainerId, (ProbeRun, Instant)>,
    said: BTreeMap<(ContainerId, ProbeAction), Vec<bool>>,
}

impl Prober {
    /// Begins what is owed; most of it ends later, some of it never.
    pub(super) fn begin(&mut self, world: &mut World) {
        for run in world.owed() {
            world.apply(Event::ProbeBegan(run.clone()));
            self.in_flight.insert(run.container.clone(), (run, world.now));
        }
    }

    /// One of the runs in flight ends.
    pub(super) fn end(&mut self, world: &mut World, index: usize, result: &ProbeResult) {
        let Some(container) = self.in_flight.keys().nth(index).cloned() else { return };
        let Some((run, began)) = self.in_flight.remove(&container) else { return };
        let lost = began + run.timeout + 10 * SECOND <= world.now;
        match result {
            ProbeResult::Success(_) | ProbeResult::Failure(_) if !lost => {
                let said = self.said.entry((container, run.action.clone())).or_default();
                said.push(matches!(result, ProbeResult::Success(_)));
            }
            _ => {}
        }
        world.apply(Event::ProbeEnded(run, result.clone()));
    }

    /// No run is owed of a container in which one is in flight.
    pub(super) fn check_owed(&self, runs: &[ProbeRun], now: Instant) {
        for run in runs {
            if let Some((begun, began)) = self.in_flight.get(&run.container) {
                assert!(now >= *began + begun.timeout + 10 * SECOND, "{run:?} runs already");
            }
        }
    }

    /// The runs of this instance say that it is Ready.
    pub(super) fn ready(&self, pod: &Pod, name: &str, id: &str) -> bool {
        let spec = &pod.containers[&name.into()];
        let said = |probe: &Probe| {
            self.said.get(&(id.into(), probe.action.clone())).map(Vec::as_slice).unwrap_or_default()
        };
        let started = spec.startup_probe.as_ref().map(|probe| said(probe).contains(&true));
        let ready = spec.readiness_probe.as_ref().map(|probe| state(probe, said(probe)));
        (started.is_some() || ready.is_some()) && started.unwrap_or(true) && ready.unwrap_or(true)
    }
}

impl Truth {
    pub(super) fn ready_by_own_probe(&self, name: &str) -> bool {
        self.running.contains_key(name) && self.prober.ready(&self.pod, name, &self.id(name))
    }

    /// The agent can run a probe of it and may hold a call for that.
    pub(super) fn may_become_ready_early(&self, name: &str) -> bool {
        let spec = &self.pod.containers[&name.into()];
        let runnable = spec.startup_probe.is_some() || spec.readiness_probe.is_some();
        runnable && self.world.now < self.since[name] + Config::default().early_hold
    }

    /// Probes are run for somebody who may have to wait, and one at a time.
    pub(super) fn check_probes(&mut self) {
        let runs = self.world.owed();
        self.prober.check_owed(&runs, self.world.now);
        for run in runs {
            assert!(!self.deleted, "{run:?} in a pod that goes");
            let name = NAMES.into_iter().find(|name| self.id(name) == run.container.as_str());
            let name = name.expect("not the newest instance");
            let waits = |lower: &&str| {
                self.higher(lower).contains(&name)
                    && !self.created.contains(lower)
                    && !self.passed.contains(&self.priorities[*lower])
            };
            assert!(NAMES.iter().any(waits), "{run:?} for nobody");
        }
    }
}

/// The last time as many runs in a row as the threshold agreed, this is what they said.
fn state(probe: &Probe, said: &[bool]) -> bool {
    let agree = |end: usize, count: u32, what: bool| {
        let begin = end.checked_sub(count as usize);
        begin.is_some_and(|begin| said[begin..end].iter().all(|one| *one == what))
    };
    (1..=said.len())
        .rev()
        .find_map(|end| {
            let succeeded = agree(end, probe.success_threshold, true);
            (succeeded || agree(end, probe.failure_threshold, false)).then_some(succeeded)
        })
        .unwrap_or(false)
}
