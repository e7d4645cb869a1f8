//! Subjects of effects, so that there is one effect at a time of each, and a pause for the one that failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    backoff::{Pace, Retry},
    event::StepOutcome,
    model::{ContainerId, PodUid, RequestId},
    step::{Effect, PodEffect, RequestEffect, RuntimeEffect, Step, StoreEffect},
    time::later,
};

/// Pauses after an effect that failed.
const PACE: Pace = Pace { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
/// Time after the end of a pause from which the next failure counts as the first one.
const UNUSED: Duration = Duration::from_secs(4);

/// Subject of an effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EffectKey {
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
pub(crate) struct EffectsInFlight {
    busy: BTreeSet<EffectKey>,
    /// Reports among them of requests that were looked at when they began, with the pod of each.
    in_hand: BTreeMap<RequestId, PodUid>,
    paused: BTreeMap<EffectKey, Retry>,
}

impl EffectsInFlight {
    pub(crate) fn began(&mut self, effect: &Effect) {
        self.busy.extend(EffectKey::of(effect));
    }

    /// The report that began is one of a request that is looked at.
    pub(crate) fn report_in_hand_began(&mut self, request: RequestId, pod: PodUid) {
        self.in_hand.insert(request, pod);
    }

    /// Tells whether what it was about is over: it did not fail.
    pub(crate) fn ended(&mut self, effect: &Effect, outcome: StepOutcome, now: Instant) -> bool {
        let Some(key) = EffectKey::of(effect) else { return false };
        self.busy.remove(&key);
        if let EffectKey::Report(request) = &key {
            self.in_hand.remove(request);
        }
        if outcome == StepOutcome::Failed {
            self.paused.entry(key).or_default().failed(now, |failures| PACE.pause(failures));
            return false;
        }
        self.paused.remove(&key);
        true
    }

    /// Lets it rest for a while: what it did may not be seen before.
    pub(crate) fn rest(&mut self, effect: &Effect, now: Instant) {
        if let Some(key) = EffectKey::of(effect) {
            self.paused.entry(key).or_default().rest(later(now, PACE.longest));
        }
    }

    /// Tells whether this step may begin: it is not under way, and has not failed a moment ago.
    pub(crate) fn may_begin(&self, step: &Step, now: Instant) -> bool {
        // Those that find something out have a time of their own.
        let Step::Effect(effect) = step else { return true };
        EffectKey::of(effect).is_none_or(|key| {
            !self.busy.contains(&key) && self.paused.get(&key).is_none_or(|retry| retry.is_due(now))
        })
    }

    /// Forgets the pauses that are over and were not used: what they were about is not due any more. One that
    /// comes back later begins its pauses anew.
    pub(crate) fn forget_unused(&mut self, now: Instant) {
        let busy = &self.busy;
        let is_used = |retry: &Retry| retry.next.is_some_and(|next| now < later(next, UNUSED));
        self.paused.retain(|key, retry| busy.contains(key) || is_used(retry));
    }

    /// Returns when those that failed may be tried again.
    pub(crate) fn retries(&self) -> impl Iterator<Item = Instant> {
        self.paused.values().filter_map(|retry| retry.next)
    }

    /// Returns how many requests are being written, or deleted, that were not looked at when that began.
    pub(crate) fn writes_about_the_rest(&self) -> usize {
        let of_the_rest = |key: &&EffectKey| match key {
            EffectKey::Report(request) => !self.in_hand.contains_key(request),
            key => matches!(key, EffectKey::Delete(_)),
        };
        self.busy.iter().filter(of_the_rest).count()
    }

    /// Returns how many requests are being written that were looked at when that began, by pod.
    pub(crate) fn reports_in_hand(&self) -> BTreeMap<&PodUid, usize> {
        let mut of_pods = BTreeMap::new();
        for pod in self.in_hand.values() {
            *of_pods.entry(pod).or_default() += 1;
        }
        of_pods
    }

    /// Number of pauses that are kept.
    #[cfg(test)]
    pub(crate) fn pauses(&self) -> usize {
        self.paused.len()
    }

    /// Tells whether something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }
}

impl EffectKey {
    /// `None` where nothing is to be changed.
    fn of(effect: &Effect) -> Option<Self> {
        Some(match effect {
            Effect::Store(effect) => match effect {
                StoreEffect::WriteMarks(marks) => Self::Write(marks.first()?.request.clone()),
                StoreEffect::ForgetMarks(request) => Self::Forget(request.clone()),
                StoreEffect::MarkSidecars(marks) => Self::MarkSidecars(marks.first()?.pod.clone()),
                StoreEffect::ForgetSidecars(_) => Self::ForgetSidecars,
            },
            Effect::Runtime(effect) => match effect {
                RuntimeEffect::RemoveContainers(containers) => Self::Remove(containers.first()?.clone()),
                RuntimeEffect::StopContainer(stop) => Self::Stop(stop.container.clone()),
            },
            Effect::Request(_, request, effect) => match effect {
                RequestEffect::Report(_) => Self::Report(request.clone()),
                RequestEffect::Delete => Self::Delete(request.clone()),
            },
            Effect::Pod(pod, effect) => {
                let uid = pod.uid.clone();
                match effect {
                    PodEffect::HoldUnready(key) | PodEffect::ReleaseUnready(key) => {
                        Self::Unready(uid, key.clone())
                    }
                    PodEffect::OpenGate => Self::Unready(uid, String::new()),
                    PodEffect::Tell(notice) => Self::Tell(uid, notice.note.clone()),
                }
            }
        })
    }
}
