//! Pulls of ours that were handed out: whom they are for, how they end, and when they are told to.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ImageStep, Images,
    event::{Bytes, PullFailure, PulledImage},
    wanted::{State, Wanted},
    wish::{CredentialKey, Credentials, ImageReference, PullId, Wish},
};

/// A pull that was handed out. It stays until its end is known, and longer while somebody who joined it asks
/// about it.
#[derive(Debug)]
pub(super) struct Pull {
    pub(super) image: ImageReference,
    pub(super) credentials: Credentials,
    pub(super) began: Instant,
    /// Time for which its wish had had slots before.
    pub(super) held: Duration,
    /// Time for which it has its slot, whoever waits for it.
    pub(super) turn: Duration,
    /// Somebody waited for it when it began.
    pub(super) hurried: bool,
    /// Credential with which the runtime is asked at present.
    pub(super) asked: Option<CredentialKey>,
    pub(super) bytes: Option<Bytes>,
    /// It was told to end: nobody needs it, or it makes way for another one.
    pub(super) cancelled: bool,
    /// `PullImageResponse.image_ref`, once it has succeeded. One that failed is forgotten at once.
    pub(super) done: Option<String>,
}

impl Pull {
    /// A pull of what this wish asks for.
    pub(super) fn new(wish: &Wish, now: Instant) -> Self {
        Self {
            image: wish.image.clone(),
            credentials: wish.credentials.clone(),
            began: now,
            held: Duration::ZERO,
            turn: Duration::ZERO,
            hurried: false,
            asked: None,
            bytes: None,
            cancelled: false,
            done: None,
        }
    }

    /// Tells whether it has its slot.
    pub(super) fn is_running(&self) -> bool {
        self.done.is_none()
    }

    /// The runtime has yet to be asked. One that was asked before a wish came may bring an older image than
    /// the wish means.
    pub(super) fn is_fresh(&self) -> bool {
        self.asked.is_none()
    }

    /// Tells whether it runs, and will go on as long as somebody needs it.
    pub(super) fn is_open(&self) -> bool {
        self.is_running() && !self.cancelled
    }
}

impl Images {
    pub(super) fn pull_progressed(&mut self, id: PullId, bytes: Bytes) {
        if let Some(pull) = self.pulls.get_mut(&id) {
            pull.bytes = Some(bytes);
        }
    }

    pub(super) fn pull_ended(&mut self, id: PullId, result: Result<PulledImage, PullFailure>, now: Instant) {
        let Some(pull) = self.pulls.get_mut(&id).filter(|pull| pull.is_running()) else { return };
        match result {
            Ok(found) => {
                pull.done = Some(found.image_ref.clone());
                let (image, credentials) = (pull.image.clone(), pull.credentials.clone());
                self.attempted.remove(&image.given);
                self.pins.rewritten(&image.record, now);
                self.succeed(
                    |wanted| {
                        let served = wanted.state == State::Pulling(id);
                        served || !wanted.wish.always && wanted.shares(&image.given, &credentials)
                    },
                    &found,
                    now,
                );
                self.look_again(&image.record);
            }
            Err(failure) => {
                let ran = pull.ran(now);
                self.pulls.remove(&id);
                for wanted in self.wishes.values_mut().filter(|wanted| wanted.state == State::Pulling(id)) {
                    wanted.held = wanted.held.saturating_add(ran);
                    wanted.attempt_failed(&failure, self.limits.seed, now);
                }
            }
        }
        self.forget_joined();
    }

    /// Ends what nobody needs any more. Its slot is free once it has ended.
    pub(super) fn cancels_due(&mut self) -> Vec<ImageStep> {
        let unneeded = self.pulls.iter().filter(|(id, pull)| pull.is_open() && !self.is_needed(**id));
        let unneeded: Vec<PullId> = unneeded.map(|(id, _)| *id).collect();
        for id in &unneeded {
            if let Some(pull) = self.pulls.get_mut(id) {
                pull.cancelled = true;
            }
        }
        unneeded.into_iter().map(ImageStep::Cancel).collect()
    }

    /// Ends what is kept for attempts that nobody will make.
    pub(super) fn let_go_due(&mut self) -> Vec<ImageStep> {
        let wished = self.wishes.values().filter(|wanted| wanted.is_open()).map(Wanted::given);
        // One that was told to end writes until it has ended.
        let pulled = self.pulls.values().filter(|pull| pull.is_running()).map(|pull| &pull.image.given);
        let needed: BTreeSet<&Arc<str>> = wished.chain(pulled).collect();
        let mut steps = Vec::new();
        self.attempted.retain(|given, image| {
            let stays = needed.contains(given);
            if !stays {
                steps.push(ImageStep::LetGo(image.clone()));
            }
            stays
        });
        steps
    }

    fn is_needed(&self, id: PullId) -> bool {
        self.wishes.values().any(|wanted| wanted.state == State::Pulling(id)) || self.is_joined(id)
    }
}
