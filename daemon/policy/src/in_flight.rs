//! Steps in flight: one at a time about each subject, and a pause for the one that failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    backoff::{Pace, Retry},
    event::StepOutcome,
    model::{ContainerId, PodUid, RequestId},
    step::Step,
    time::later,
};

/// After a step that failed.
const PACE: Pace = Pace { first: Duration::from_millis(100), longest: Duration::from_secs(2) };

/// Subject of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepKey {
    Remove(ContainerId),
    Write(RequestId),
    Forget(RequestId),
    Stop(ContainerId),
    Report(RequestId),
    Unready(PodUid, String),
    Delete(RequestId),
    MarkSidecars(PodUid),
    ForgetSidecars,
    Tell(PodUid, String),
}

/// Subjects of the steps in flight, and of those that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepsInFlight {
    busy: BTreeSet<StepKey>,
    paused: BTreeMap<StepKey, Retry>,
}

impl StepsInFlight {
    pub(crate) fn began(&mut self, step: &Step) {
        self.busy.extend(StepKey::of(step));
    }

    /// Whether what it was about is over: it did not fail.
    pub(crate) fn ended(&mut self, step: &Step, outcome: StepOutcome, now: Instant) -> bool {
        let Some(key) = StepKey::of(step) else { return false };
        self.busy.remove(&key);
        if outcome == StepOutcome::Failed {
            self.paused.entry(key).or_default().failed(now, |failures| PACE.pause(failures));
            return false;
        }
        self.paused.remove(&key);
        true
    }

    /// It is not due again for a while: what it did may not be seen before.
    pub(crate) fn rest(&mut self, step: &Step, now: Instant) {
        if let Some(key) = StepKey::of(step) {
            self.paused.entry(key).or_default().rest(later(now, PACE.longest));
        }
    }

    /// Whether this step may begin: it is not under way, and has not failed a moment ago.
    pub(crate) fn may_begin(&self, step: &Step, now: Instant) -> bool {
        StepKey::of(step).is_none_or(|key| {
            !self.busy.contains(&key) && self.paused.get(&key).is_none_or(|retry| retry.is_due(now))
        })
    }

    /// When those that failed may be tried again.
    pub(crate) fn retries(&self) -> impl Iterator<Item = Instant> {
        self.paused.values().filter_map(|retry| retry.next)
    }

    /// How many requests are being written, or deleted.
    pub(crate) fn writes_about_requests(&self) -> usize {
        self.busy.iter().filter(|key| matches!(key, StepKey::Report(_) | StepKey::Delete(_))).count()
    }

    /// Something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }
}

impl StepKey {
    fn of(step: &Step) -> Option<Self> {
        Some(match step {
            Step::RemoveContainers(containers) => Self::Remove(containers.first()?.clone()),
            Step::WriteMarks(marks) => Self::Write(marks.first()?.request.clone()),
            Step::ForgetMarks(request) => Self::Forget(request.clone()),
            Step::StopContainer(stop) => Self::Stop(stop.container.clone()),
            Step::Report(_, request, _) => Self::Report(request.clone()),
            Step::HoldUnready(pod, key) | Step::ReleaseUnready(pod, key) => {
                Self::Unready(pod.uid.clone(), key.clone())
            }
            Step::OpenGate(pod) => Self::Unready(pod.uid.clone(), String::new()),
            Step::DeleteRequest(_, request) => Self::Delete(request.clone()),
            Step::MarkSidecars(marks) => Self::MarkSidecars(marks.first()?.pod.clone()),
            Step::ForgetSidecars(_) => Self::ForgetSidecars,
            Step::Tell(pod, notice) => Self::Tell(pod.uid.clone(), notice.note.clone()),
            Step::InspectSandbox(_) | Step::PollKubelet | Step::ForgetLatches(_) | Step::Probe(_) => {
                return None;
            }
        })
    }
}
