//! How far wishes are, in words, and how much is remembered.

use super::{
    Images, ImagesSize,
    pulls::Pull,
    report::{WishPhase, WishReport},
    wanted::{State, Wanted},
    wish::WishId,
};

impl Images {
    /// Says where all wishes stand, in the order of their identities.
    pub fn reports(&self) -> Vec<WishReport> {
        self.wishes.values().map(|wanted| self.report_of(wanted)).collect()
    }

    /// Says where one stands; `None` when it is not wished.
    pub fn report(&self, id: &WishId) -> Option<WishReport> {
        self.wishes.get(id).map(|wanted| self.report_of(wanted))
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> ImagesSize {
        ImagesSize {
            wishes: self.wishes.len(),
            pulling: self.pulls.len(),
            pins: self.pins.len(),
            kubelet_pulls: self.kubelet.len(),
        }
    }

    /// Tells whether one is pulled by us, or may have to be: only then may a pull of the kubelet's wait for
    /// ours. That is known before a pull begins, so that a data path in another process is told in time.
    pub fn is_busy(&self) -> bool {
        self.wishes.values().any(Wanted::is_open) || self.pulls.values().any(Pull::is_running)
    }

    fn report_of(&self, wanted: &Wanted) -> WishReport {
        let (phase, message) = self.standing(wanted);
        let bytes = match wanted.state {
            State::Pulling(pull) => self.pulls.get(&pull).and_then(|pull| pull.bytes),
            State::Looking | State::Queued | State::Ended(_) => None,
        };
        let end = match &wanted.state {
            State::Ended(end) => Some(end),
            State::Looking | State::Queued | State::Pulling(_) => None,
        };
        WishReport {
            id: wanted.wish.id.clone(),
            image: wanted.wish.image.clone(),
            version: wanted.wish.version,
            phase,
            bytes,
            attempts: wanted.attempts,
            started: wanted.started,
            ended: end.and_then(|end| end.at),
            image_id: end.and_then(|end| end.image_id.clone()),
            message,
        }
    }

    fn standing(&self, wanted: &Wanted) -> (WishPhase, String) {
        let failure = || wanted.failure.clone();
        match &wanted.state {
            State::Looking => {
                let look = self.looks.get(wanted.given()).and_then(|look| look.failure.clone());
                (WishPhase::Waiting, look.or_else(failure).unwrap_or_default())
            }
            State::Queued if self.is_pulled_by_kubelet(wanted.record()) => {
                (WishPhase::Pulling, "the kubelet is pulling it".to_owned())
            }
            State::Queued => {
                (WishPhase::Waiting, failure().unwrap_or_else(|| "other pulls go first".to_owned()))
            }
            State::Pulling(_) => (WishPhase::Pulling, failure().unwrap_or_default()),
            State::Ended(end) if end.succeeded => (WishPhase::Succeeded, end.message.clone()),
            State::Ended(end) => (WishPhase::Failed, end.message.clone()),
        }
    }
}
