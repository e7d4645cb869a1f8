//! Answers about a pod: versions of it, whether it is gone, and what became of a write.

use std::time::Instant;

use super::{
    Fetched, PodView, Updates, WriteOutcome,
    pod::{Doubt, Step},
    retries::Attempts,
    settled::SeenPod,
};
use crate::model::PodUid;

impl Updates {
    pub(super) fn shown(&mut self, view: Box<PodView>, settled: Instant, now: Instant) {
        let uid = self.followed_as(&view.uids).cloned();
        if let Some(pod) = uid.and_then(|uid| self.pods.get_mut(&uid)) {
            pod.is_unheard &= pod.seen.view().is_some_and(|known| known.version >= view.version);
            pod.seen.take(view, settled, now);
        }
    }

    pub(super) fn gone(&mut self, uid: &PodUid) {
        if let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.followed) {
            pod.seen = SeenPod::Gone;
        }
    }

    pub(super) fn fetched(&mut self, uid: &PodUid, found: Fetched, now: Instant) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.asking = false;
        match found {
            // Whoever watches has it, too.
            Fetched::Found(view) => {
                pod.is_unheard = false;
                if pod.doubt == Doubt::Asked {
                    pod.doubt = Doubt::None;
                }
                self.shown(view, self.watch.settles(self.path, now), now);
            }
            Fetched::Gone => self.gone(uid),
            Fetched::Failed => {
                if pod.doubt == Doubt::Asked {
                    pod.doubt = Doubt::Unasked;
                }
                pod.attempts.failed(now);
            }
        }
    }

    pub(super) fn written(&mut self, uid: &PodUid, outcome: WriteOutcome, now: Instant) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let step = pod.step.take();
        if let (Some(Step::Patch(_)), WriteOutcome::Outdated | WriteOutcome::Failed) = (&step, &outcome) {
            pod.is_unheard = true;
        }
        pod.held = None;
        match outcome {
            WriteOutcome::Done(view) => {
                pod.attempts = Attempts::default();
                match step {
                    Some(Step::Close) => (pod.closed, pod.shown) = (Some(now), None),
                    Some(Step::Open(shown)) => (pod.closed, pod.shown) = (None, shown),
                    Some(Step::Patch(patched)) => self.notices.extend(patched.written()),
                    Some(Step::Clear | Step::Stop) | None => {}
                }
                // The watch will show it.
                self.shown(view, self.watch.settles_after_write(self.path, now), now);
            }
            // The next step is decided on what there is now.
            WriteOutcome::Outdated => pod.doubt = Doubt::Unasked,
            WriteOutcome::Refused { why, for_good } => {
                if let Some(Step::Patch(patched)) = step
                    && (for_good || pod.attempts.refusal_is_meant())
                {
                    self.notices.extend(patched.refused(&why));
                    pod.refused = Some((patched.revision, why));
                }
                pod.attempts.failed(now);
            }
            WriteOutcome::Held { why } => {
                pod.held = Some(why);
                pod.attempts.failed(now);
            }
            // Whether it was written nobody knows.
            WriteOutcome::Failed => {
                pod.doubt = Doubt::Unasked;
                pod.attempts.failed(now);
            }
        }
    }
}
