//! Preemption: a pull that has run for long goes back into the queue when another wish waits for its slot.
//!
//! An attempt may take as long as its wish says, and a registry can let it take for ever. So slots are shared
//! by time: who has had one for long makes way for who has had less. A turn is longer each time, for a pull
//! that begins at zero again would otherwise never end.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{
    ImageStep, Images,
    pulls::Pull,
    wanted::{State, Wanted},
    wish::PullId,
};
use crate::time::later;

/// Shortest time that a pull has its slot, whoever waits. Longer than an attempt takes where nothing is said
/// (600 s), so that those end by themselves, and count.
pub(super) const TURN: Duration = Duration::from_secs(15 * 60);
/// Longest turn of a pull that was put back again and again.
pub(super) const LONGEST_TURN: Duration = Duration::from_secs(60 * 60);

/// Turn of a pull whose wish was put back so often.
pub(super) fn turn(put_back: u32) -> Duration {
    TURN.saturating_mul(1_u32.checked_shl(put_back).unwrap_or(u32::MAX)).min(LONGEST_TURN)
}

impl Pull {
    /// Instant at which it makes way for a wish that has had slots for so long.
    fn makes_way(&self, held: Duration) -> Instant {
        let fair = held.saturating_add(TURN).saturating_sub(self.held);
        later(self.began, self.turn.max(fair))
    }

    /// Time for which it had a slot by now.
    pub(super) fn ran(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

impl Images {
    /// Puts pulls back that have run for long, where a wish waits that has had less.
    pub(super) fn put_back_due(&mut self, now: Instant) -> Vec<ImageStep> {
        let mut steps = Vec::new();
        // No turn is shorter: mostly nobody has to be looked for.
        if !self.pulls.values().any(|pull| pull.is_open() && pull.ran(now) >= TURN) {
            return steps;
        }
        for id in self.in_order(now) {
            let Some(waits) = self.wishes.get(&id).filter(|wanted| wanted.state == State::Queued) else {
                continue;
            };
            let in_way = self.in_way(&waits.wish);
            // A slot is about to be free.
            if in_way.iter().any(|(_, pull)| pull.cancelled) || self.is_pulled_by_kubelet(waits.record()) {
                continue;
            }
            let over = in_way.into_iter().filter(|(_, pull)| pull.makes_way(waits.held) <= now);
            let longest = over.max_by_key(|(_, pull)| pull.held.saturating_add(pull.ran(now)));
            if let Some(pull) = longest.map(|(pull, _)| pull) {
                self.put_back(pull, now);
                steps.push(ImageStep::Cancel(pull));
            }
        }
        steps
    }

    /// Instants at which pulls that run make way for wishes that wait.
    pub(super) fn turn_ends(&self) -> impl Iterator<Item = Instant> {
        let queued = self.wishes.values().filter(|wanted| wanted.state == State::Queued);
        let held: BTreeSet<Duration> = queued.map(|wanted| wanted.held).collect();
        let open = self.pulls.values().filter(|pull| pull.is_open());
        open.flat_map(move |pull| held.iter().map(|held| pull.makes_way(*held)).collect::<Vec<_>>())
    }

    fn put_back(&mut self, id: PullId, now: Instant) {
        let Some(pull) = self.pulls.get_mut(&id) else { return };
        pull.cancelled = true;
        let ran = pull.ran(now);
        self.wishes
            .values_mut()
            .filter(|wanted| wanted.state == State::Pulling(id))
            .for_each(|wanted| Wanted::put_back(wanted, ran));
    }
}
