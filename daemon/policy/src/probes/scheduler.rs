//! Scheduler of the probes: which one runs next.
//!
//! What is due and has no room waits. Pods take turns: of those with a probe that is due and room for another
//! run of theirs, the one that has waited longest for its turn begins one, and of its probes the one that is
//! due longest. So a pod with a hundred probes does not hold back a pod with one, and every probe that is due
//! gets its turn. Exec probes and all others have budgets of their own.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ProbeStep, Probes,
    model::{Probe, ProbeAction, ProbeResult, ProbeRun},
    step::RunId,
    watch::{Presence, Watch, timeout},
};
use crate::{
    model::{ContainerId, PodUid},
    time::later,
};

/// How long after its timeout the end of a run is waited for.
const GRACE: Duration = Duration::from_secs(10);

/// Which budget a probe draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Exec,
    Other,
}

/// A run that was given out and has not ended, whether or not its result is wanted any more.
#[derive(Debug)]
pub(super) struct Running {
    pod: PodUid,
    name: Arc<str>,
    container: ContainerId,
    kind: Kind,
    /// Its end is not waited for any longer.
    until: Instant,
}

/// A probe that waits for its turn.
struct Waiting {
    pod: PodUid,
    name: Arc<str>,
    kind: Kind,
    due: Instant,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Exec, Self::Other];

    fn of(probe: &Probe) -> Self {
        match probe.action {
            ProbeAction::Exec { .. } => Self::Exec,
            ProbeAction::Http { .. } | ProbeAction::Tcp { .. } | ProbeAction::Grpc { .. } => Self::Other,
        }
    }
}

impl Probes {
    pub(super) fn runs_due(&mut self, now: Instant) -> Vec<ProbeStep> {
        let mut waiting = self.waiting(now);
        let mut steps = Vec::new();
        for kind in Kind::ALL {
            self.take_turns(kind, &mut waiting, &mut steps, now);
        }
        steps
    }

    pub(super) fn run_ended(&mut self, id: RunId, result: ProbeResult, now: Instant) {
        let Some(run) = self.runs.remove(&id) else { return };
        let watch = self.pods.get_mut(&run.pod).and_then(|pod| pod.probes.get_mut(&run.name));
        // Another instance, another question or nobody's: it says nothing about what is wanted now.
        if let Some(watch) = watch.filter(|watch| watch.run == Some(id)) {
            watch.end(&result, now);
        }
    }

    /// Runs whose end should have come long ago are not waited for.
    pub(super) fn give_up(&mut self, now: Instant) {
        let lost = self.runs.iter().filter(|(_, run)| run.until <= now).map(|(id, _)| *id);
        for id in lost.collect::<Vec<_>>() {
            self.lost += 1;
            let words = "it is not known how the probe ended".to_owned();
            self.run_ended(id, ProbeResult::Unknown(words), now);
        }
        for run in self.runs.values() {
            self.wake.at(run.until);
        }
    }

    /// Gives the probes that are due. For the others it notes when they are.
    fn waiting(&mut self, now: Instant) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for (uid, pod) in &self.pods {
            for (name, watch) in &pod.probes {
                let (Some(due), Some(probe), None) = (watch.due, watch.probe(), watch.run) else { continue };
                if due > now {
                    self.wake.at(due);
                } else if !self.is_busy(uid, name, watch) {
                    waiting.push(Waiting {
                        pod: uid.clone(),
                        name: name.clone(),
                        kind: Kind::of(probe),
                        due,
                    });
                }
            }
        }
        waiting
    }

    /// An earlier run of it goes on, whose result is not wanted any more.
    fn is_busy(&self, uid: &PodUid, name: &Arc<str>, watch: &Watch) -> bool {
        let Presence::Up { container, .. } = &watch.place else { return false };
        self.runs.values().any(|run| run.pod == *uid && run.name == *name && run.container == *container)
    }

    fn take_turns(
        &mut self,
        kind: Kind,
        waiting: &mut Vec<Waiting>,
        steps: &mut Vec<ProbeStep>,
        now: Instant,
    ) {
        let (limit, limit_of_pod) = match kind {
            Kind::Exec => (self.limits.exec_concurrent, self.limits.exec_concurrent_per_pod),
            Kind::Other => (self.limits.other_concurrent, self.limits.other_concurrent_per_pod),
        };
        let mut of_pods: BTreeMap<PodUid, usize> = BTreeMap::new();
        for run in self.runs.values().filter(|run| run.kind == kind) {
            *of_pods.entry(run.pod.clone()).or_default() += 1;
        }
        let mut running: usize = of_pods.values().sum();
        while running < limit.max(1) {
            let has_room = |pod| of_pods.get(pod).is_none_or(|running| *running < limit_of_pod.max(1));
            let may_run =
                waiting.iter().enumerate().filter(|(_, one)| one.kind == kind && has_room(&one.pod));
            let served = |pod| self.pods.get(pod).and_then(|pod| pod.served.get(&kind));
            let Some((next, _)) = may_run.min_by_key(|(_, one)| (served(&one.pod), one.due)) else { return };
            if kind == Kind::Exec && !self.exec_rate.take(now) {
                self.exec_rate.free_at().into_iter().for_each(|free| self.wake.at(free));
                return;
            }
            let next = waiting.remove(next);
            *of_pods.entry(next.pod.clone()).or_default() += 1;
            running += 1;
            steps.extend(self.begin(next, now));
        }
    }

    fn begin(&mut self, next: Waiting, now: Instant) -> Option<ProbeStep> {
        let pod = self.pods.get_mut(&next.pod)?;
        let watch = pod.probes.get_mut(&next.name)?;
        let Presence::Up { container, sandbox, .. } = watch.place.clone() else { return None };
        let probe = watch.probe()?;
        let run = ProbeRun {
            pod: pod.pod.clone(),
            sandbox,
            container: container.clone(),
            action: probe.action.clone(),
            timeout: timeout(probe, self.limits.longest_run),
        };
        self.turns += 1;
        pod.served.insert(next.kind, self.turns);
        self.last_run += 1;
        let id = RunId(self.last_run);
        watch.begin(id, now);
        let until = later(now, run.timeout.saturating_add(GRACE));
        self.wake.at(until);
        watch.due.into_iter().for_each(|due| self.wake.at(due));
        let Waiting { pod, name, kind, .. } = next;
        self.runs.insert(id, Running { pod, name, container, kind, until });
        Some(ProbeStep::Run(id, run))
    }
}
