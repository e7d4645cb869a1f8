//! What came of the jobs, and how long to wait after one that did not work.

use std::{collections::BTreeMap, time::Instant};

use berth_policy::{PodUid, RequestId, StepOutcome, time::later};
use tracing::warn;

use super::{
    drive::Driver,
    jobs::{Act, Done},
};
use crate::{agent::now, base::causes::chain, cluster::pause, pods::api::Onlooker};

/// A refusal that comes so often is meant: an API server that comes up refuses what it will allow in a moment.
const MEANT: usize = 6;

/// After something did not work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until: Instant,
    pub(super) failures: usize,
}

impl Driver {
    /// Takes what came of a job.
    pub(super) fn take(&mut self, done: Done) {
        let now = now();
        match done {
            Done::Fetched(pod, found) => {
                self.looking.remove(&pod.uid);
                match found {
                    Ok(Some(found)) => self.parts.pods.looked(&found),
                    Ok(None) => self.parts.pods.gone(&pod.uid),
                    Err(error) => self.pause(pod.uid, &chain(&error), now),
                }
            }
            Done::Looked(pod, found) => {
                self.looking.remove(&pod);
                match found {
                    Ok(found) => self.facts.extend(found),
                    Err(error) => self.pause(pod, &chain(&error), now),
                }
            }
            Done::Cleared(pod, failed, moment) => {
                self.stepping.remove(&pod.uid);
                self.removed(pod.uid, failed, moment);
            }
            Done::Stepped(pod, act, written) => {
                self.stepping.remove(&pod.uid);
                if !self.parts.desk.wants(&pod.uid) {
                    self.parts.agent.set_env(&pod.uid, BTreeMap::new());
                }
                let failures = self.pauses.get(&pod.uid).map_or(0, |pause| pause.failures);
                let refusal = written.as_ref().err().and_then(|error| error.refusal(failures >= MEANT));
                let refusal = refusal.map(str::to_owned);
                match (written, act) {
                    (Ok(()), act) => {
                        self.pauses.remove(&pod.uid);
                        match act {
                            Act::Close => drop(self.closed.insert(pod.uid, now)),
                            Act::Open => drop(self.closed.remove(&pod.uid)),
                            Act::Patch(_) => {}
                        }
                    }
                    // Somebody else was faster: the next step is decided on what there is now.
                    (Err(error), _) if error.is_conflict() || error.is_gone() => {
                        self.looking.insert(pod.uid.clone());
                        self.jobs.spawn(self.parts.clone().fetch(pod));
                    }
                    (Err(error), act) => {
                        if let (Act::Patch(patch), Some(why)) = (act, refusal) {
                            self.refused.insert(pod.uid.clone(), (patch.record.revision, why));
                        }
                        self.pause(pod.uid, &chain(&error), now);
                    }
                }
            }
            Done::Reported(id, report, outcome) => {
                self.writing.remove(&id);
                match outcome {
                    StepOutcome::Done => {
                        self.unwritten.remove(&id);
                        self.parts.desk.reported(&id, &report, now);
                    }
                    StepOutcome::Gone => self.parts.desk.gone(&id),
                    StepOutcome::Failed => self.unwritten(id, now),
                }
            }
            Done::Deleted(id, outcome) => {
                self.writing.remove(&id);
                match outcome {
                    StepOutcome::Done | StepOutcome::Gone => self.parts.desk.gone(&id),
                    StepOutcome::Failed => self.unwritten(id, now),
                }
            }
        }
    }

    pub(super) fn is_paused(&self, pod: &PodUid, now: Instant) -> Option<Instant> {
        self.pauses.get(pod).map(|pause| pause.until).filter(|until| *until > now)
    }

    fn pause(&mut self, pod: PodUid, error: &str, now: Instant) {
        warn!(pod.uid = %pod, error, "Step of an update not taken, trying again");
        let failures = self.pauses.get(&pod).map_or(0, |pause| pause.failures);
        self.pauses.insert(pod, Pause::after(failures, now));
    }

    fn unwritten(&mut self, id: RequestId, now: Instant) {
        let failures = self.unwritten.get(&id).map_or(0, |pause| pause.failures);
        self.unwritten.insert(id, Pause::after(failures, now));
    }
}

impl Pause {
    fn after(failures: usize, now: Instant) -> Self {
        Self { until: later(now, pause::after(failures)), failures: failures.saturating_add(1) }
    }
}
