//! A question on its way: the next thing that happens to it, and how long it has been without an agent.

use std::time::Duration;

use berth_policy::HoldReason;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{Presence, RemoteGate};
use crate::remote::{
    asked::{Heard, locked},
    away::PATIENCE,
    message::{Answers, Told},
};

/// A question that is withdrawn when this is dropped.
pub(super) struct Asked<'a> {
    pub(super) gate: &'a RemoteGate,
    pub(super) id: u64,
    pub(super) heard: watch::Receiver<Heard>,
    pub(super) presence: watch::Receiver<Presence>,
    pub(super) since: Instant,
    pub(super) answered: bool,
}

/// The next thing that happens to a question.
pub(super) enum Turn {
    Held(HoldReason),
    Answer(Answers),
    /// Time to look whether the call goes on by itself.
    Look,
}

impl Asked<'_> {
    /// How long it has waited without an agent; `None` while there is one.
    pub(super) fn alone(&mut self) -> Option<Duration> {
        match *self.presence.borrow_and_update() {
            Presence::Here => None,
            Presence::AwaySince(since) => Some(since.max(self.since).elapsed()),
        }
    }

    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Turn {
        let presence = *self.presence.borrow();
        let bound = async {
            match presence {
                Presence::AwaySince(since) => {
                    let since = since.max(self.since);
                    sleep_until(since.checked_add(PATIENCE).unwrap_or(since)).await;
                }
                Presence::Here => std::future::pending().await,
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
