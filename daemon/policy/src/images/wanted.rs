//! One wish and how far it is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    backoff::{longest_pause, pause},
    event::{PullFailure, PulledImage},
    wish::{Credentials, PullId, Settled, Wish},
};
use crate::time::later;

/// Message that users read when `deadline` has passed.
const PAST_DEADLINE: &str = "pulling exceeds the activeDeadlineSeconds";

/// A wish, in its current version.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) wish: Wish,
    /// Its place among all wishes ever seen: who came first is served first.
    pub(super) arrival: u64,
    pub(super) state: State,
    /// The one that goes on included.
    pub(super) attempts: u32,
    /// The first attempt's begin.
    pub(super) started: Option<Instant>,
    /// Failures in a row that did not count as attempts.
    uncounted: u32,
    /// Time for which pulls that did not bring it had a slot for it.
    pub(super) held: Duration,
    /// Number of times that its pull made way for another one.
    pub(super) put_back: u32,
    /// No further attempt before then.
    pub(super) not_before: Option<Instant>,
    /// How the last attempt went wrong, for people.
    pub(super) failure: Option<String>,
}

/// Where a wish stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is not known whether the image is on the node.
    Looking,
    /// It is to be pulled.
    Queued,
    /// This pull is for it.
    Pulling(PullId),
    /// There is nothing more to be done.
    Ended(End),
}

/// How a wish ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) succeeded: bool,
    /// `None`: before this process.
    pub(super) at: Option<Instant>,
    pub(super) image_id: Option<String>,
    pub(super) message: String,
}

/// How a wish differs from what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// In nothing that changes what is done.
    Nothing,
    /// How often and how long it may be tried.
    Limits,
    /// The wanted image, or another part of the wish that is no limit.
    What,
}

impl Wanted {
    pub(super) fn new(wish: Wish, arrival: u64) -> Self {
        let state = match wish.settled.clone() {
            Some(Settled { succeeded, image_id, message }) => {
                State::Ended(End { succeeded, at: None, image_id, message })
            }
            None if wish.always => State::Queued,
            None => State::Looking,
        };
        Self {
            wish,
            arrival,
            state,
            attempts: 0,
            started: None,
            uncounted: 0,
            held: Duration::ZERO,
            put_back: 0,
            not_before: None,
            failure: None,
        }
    }

    /// Returns the difference between this wish and its new version. How it ended is no news: its source
    /// repeats what it was told.
    pub(super) fn change(&self, new: &Wish) -> Change {
        let alike = Wish {
            timeout: new.timeout,
            retries: new.retries,
            deadline: new.deadline,
            pin: new.pin,
            settled: new.settled.clone(),
            ..self.wish.clone()
        };
        let limits = |wish: &Wish| (wish.timeout, wish.retries, wish.deadline);
        match alike == *new {
            false => Change::What,
            true if limits(&self.wish) != limits(new) => Change::Limits,
            true => Change::Nothing,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_))
    }

    pub(super) fn given(&self) -> &Arc<str> {
        &self.wish.image.given
    }

    pub(super) fn record(&self) -> &Arc<str> {
        &self.wish.image.record
    }

    /// One pull of this with these credentials is also for this wish.
    pub(super) fn shares(&self, given: &Arc<str>, credentials: &Credentials) -> bool {
        self.given() == given && self.wish.credentials == *credentials
    }

    /// Returns when it fails, whatever goes on.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.started
            .filter(|_| self.is_open())
            .zip(self.wish.deadline)
            .map(|(start, limit)| later(start, limit))
    }

    pub(super) fn begin(&mut self, pull: PullId, now: Instant) {
        self.state = State::Pulling(pull);
        self.attempts = self.attempts.saturating_add(1);
        self.started.get_or_insert(now);
    }

    pub(super) fn succeed(&mut self, found: &PulledImage, now: Instant) {
        self.started.get_or_insert(now);
        self.state = State::Ended(End {
            succeeded: true,
            at: Some(now),
            image_id: Some(found.id.clone()),
            message: String::new(),
        });
    }

    pub(super) fn attempt_failed(&mut self, failure: &PullFailure, seed: u64, now: Instant) {
        match failure {
            PullFailure::Cancelled => {
                self.attempts = self.attempts.saturating_sub(1);
                if self.attempts == 0 && self.uncounted == 0 {
                    self.started = None;
                }
                self.failure = Some("the pull was cancelled".to_owned());
                self.state = State::Queued;
                self.not_before = Some(later(now, pause(seed, &self.wish.id, self.attempts)));
            }
            PullFailure::Impossible(_) => self.fail(failure.to_string(), now),
            // It was shared with a wish that allows less: that one's limit is used up, not this one's.
            PullFailure::TimedOut(limit) if *limit < self.wish.timeout => {
                self.not_counted(failure, seed, now);
            }
            PullFailure::Away(_) => {
                self.not_counted(failure, seed, now);
                // Perhaps it came all the same, and in any case the looks find out when the runtime is back.
                if self.is_open() && !self.wish.always {
                    self.state = State::Looking;
                }
            }
            PullFailure::Refused(_) | PullFailure::TimedOut(_) => {
                self.counted(failure, pause(seed, &self.wish.id, self.attempts), now);
            }
            PullFailure::NoRoom(_) => {
                self.counted(failure, longest_pause(seed, &self.wish.id, self.attempts), now);
            }
        }
    }

    /// Its pull has run for so long and makes way for another one. That is no failure.
    pub(super) fn put_back(&mut self, ran: Duration) {
        self.attempts = self.attempts.saturating_sub(1);
        self.held = self.held.saturating_add(ran);
        self.put_back = self.put_back.saturating_add(1);
        self.failure = Some(format!("made way for other pulls after {} s", ran.as_secs()));
        self.state = State::Queued;
        self.not_before = None;
    }

    fn counted(&mut self, failure: &PullFailure, pause: Duration, now: Instant) {
        self.expire(now);
        if !self.is_open() {
            return;
        }
        if self.attempts > self.wish.retries {
            return self.fail(failure.to_string(), now);
        }
        let all = self.wish.retries.saturating_add(1);
        self.failure = Some(format!("attempt {} of {all} failed: {failure}", self.attempts));
        self.uncounted = 0;
        self.state = State::Queued;
        self.not_before = Some(later(now, pause));
    }

    /// Takes in a failure that says nothing about what this wish allows. Its deadline goes on.
    fn not_counted(&mut self, failure: &PullFailure, seed: u64, now: Instant) {
        self.expire(now);
        if !self.is_open() {
            return;
        }
        self.attempts = self.attempts.saturating_sub(1);
        self.uncounted = self.uncounted.saturating_add(1);
        self.failure = Some(failure.to_string());
        self.state = State::Queued;
        self.not_before = Some(later(now, pause(seed, &self.wish.id, self.uncounted)));
    }

    /// Fails it when its time is up.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.fail(PAST_DEADLINE.to_owned(), now);
        }
    }

    fn fail(&mut self, message: String, now: Instant) {
        self.state = State::Ended(End { succeeded: false, at: Some(now), image_id: None, message });
    }
}
