//! A question on its way: the next thing that happens to it, and how long it has been without an agent.

use std::time::Duration;

use berth_policy::HoldReason;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::RemoteGate;
use crate::remote::{
    away::{HOOK_PATIENCE, PATIENCE},
    message::{Answers, Told},
    questions::{Heard, locked},
};

/// A question that is withdrawn when this is dropped.
pub(super) struct Asked<'a> {
    gate: &'a RemoteGate,
    id: u64,
    heard: watch::Receiver<Heard>,
    presence: watch::Receiver<Presence>,
    bound: Bound,
    since: Instant,
    /// Time without an agent before it was asked.
    before: Duration,
    answered: bool,
}

/// End of the wait for an agent that is away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// After [`PATIENCE`] of its own without an agent, and at this moment at the latest.
    Call { until: Option<Instant> },
    /// [`PATIENCE`] and `grace` after the agent went: the kubelet looks at one container after the other, and
    /// where each waits anew it takes minutes for all of them.
    Look { grace: Duration },
}

/// Presence of an agent, and the time without any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presence {
    away_since: Option<Instant>,
    /// Time without an agent, but for that which goes on.
    over: Duration,
}

/// The next thing that happens to a question.
pub(super) enum Turn {
    Held(HoldReason),
    Answer(Answers),
    /// Time to look whether the call goes on by itself.
    Look,
}

impl Presence {
    /// Nobody is there, from now on.
    pub(super) fn away() -> Self {
        Self { away_since: Some(Instant::now()), over: Duration::ZERO }
    }

    pub(super) fn is_here(&self) -> bool {
        self.away_since.is_none()
    }

    /// An agent answers. Returns whether that is new.
    pub(super) fn comes(&mut self) -> bool {
        let was = self.away_since.take();
        self.over = self.over.saturating_add(was.map_or(Duration::ZERO, |since| since.elapsed()));
        was.is_some()
    }

    /// None does, since then. Returns whether that is new.
    pub(super) fn leaves(&mut self, since: Instant) -> bool {
        let leaves = self.is_here();
        self.away_since.get_or_insert(since);
        leaves
    }

    /// All the time without an agent.
    pub(super) fn alone(&self) -> Duration {
        self.over.saturating_add(self.away_since.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

impl<'a> Asked<'a> {
    /// Waits for the answer to the question of this number.
    pub(super) fn new(gate: &'a RemoteGate, id: u64, heard: watch::Receiver<Heard>, bound: Bound) -> Self {
        let presence = gate.presence.subscribe();
        let before = presence.borrow().alone();
        Self { gate, id, heard, presence, bound, since: Instant::now(), before, answered: false }
    }

    /// Time that it has waited without an agent, all such times together: one that comes again and again and
    /// dies each time must not keep a call waiting. `None` while there is one, and where one has answered
    /// before it went.
    pub(super) fn alone(&mut self) -> Option<Duration> {
        let presence = *self.presence.borrow_and_update();
        let answered = matches!(*self.heard.borrow(), Heard::Answer(_));
        (!answered && !presence.is_here()).then(|| self.waited(&presence))
    }

    fn waited(&self, presence: &Presence) -> Duration {
        // An agent that stands still is away since before that is known.
        let own = presence.alone().saturating_sub(self.before).min(self.since.elapsed());
        match self.bound {
            Bound::Call { .. } => own,
            Bound::Look { grace } => {
                let away = presence.away_since.map_or(Duration::ZERO, |since| since.elapsed());
                own.max(away.saturating_sub(grace))
            }
        }
    }

    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Turn {
        let presence = *self.presence.borrow();
        let left = (!presence.is_here()).then(|| {
            let waited = self.waited(&presence);
            let patience = match self.bound {
                // Some hooks wait no longer than that.
                Bound::Look { .. } if waited < HOOK_PATIENCE => HOOK_PATIENCE,
                Bound::Look { .. } | Bound::Call { .. } => PATIENCE,
            };
            let left = patience.saturating_sub(waited);
            match self.bound {
                Bound::Call { until: Some(until) } => {
                    left.min(until.saturating_duration_since(Instant::now()))
                }
                Bound::Call { until: None } | Bound::Look { .. } => left,
            }
        });
        let bound = async {
            match left {
                Some(left) => sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(()) = self.heard.changed() => match self.heard.borrow_and_update().clone() {
                Heard::Nothing => Turn::Look,
                Heard::Held(why) => Turn::Held(why),
                Heard::Answer(answer) => {
                    self.answered = true;
                    Turn::Answer(answer)
                }
            },
            Ok(()) = self.presence.changed() => Turn::Look,
            () = bound => Turn::Look,
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.gate.state);
        state.questions.withdraw(self.id);
        if !self.answered {
            self.gate.tell(&mut state, Told::Withdrawn(self.id));
        }
    }
}
