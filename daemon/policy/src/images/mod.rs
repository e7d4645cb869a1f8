//! Images the node should have: which pull is due now, which wish is fulfilled by which pull, and what is
//! kept.
//!
//! ```text
//!   NodeImage, files, berthctl ──ImageEvent──▶ Images ──plan──▶ Look, Pull, Cancel, LetGo, Pin, Unpin ──▶ executors
//!   the kubelet's own pulls ────────────────▶        ──reports──▶ NodeImage.status, berthctl
//!
//!   one wish
//!
//!                     not there          a slot is free                 the image is there
//!   Looking ─────────────────────▶ Queued ─────────────▶ Pulling(pull) ─────────────────────▶ Ended
//!      ▲  │ there                    │  ▲                  │    │                               ▲
//!      │  └──────────────────────────┼──┼──────────────────┼────┼───────────────────────────────┤
//!      │  a pull of it by others ended  │ failed: back-off │    │ failed for good, past its deadline
//!      └─────────────────────────────┘  └──────────────────┘    └───────────────────────────────┘
//! ```
//!
//! Wishes with one reference and one set of credentials share a pull; a pull nobody needs any more is
//! cancelled. What the kubelet pulls by itself is never delayed and never counted, only waited for.

mod backoff;
mod event;
mod joining;
mod looks;
mod pins;
mod preemption;
mod pulls;
mod report;
mod slots;
mod step;
mod view;
mod wanted;
mod wish;
mod wishes;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

pub use self::{
    event::{Bytes, ImageEvent, PullFailure, PulledImage},
    report::{WishPhase, WishReport},
    step::{ImageStep, PullOrder},
    wish::{CredentialKey, Credentials, ImageReference, PullId, Settled, Wish, WishId, WishSource},
};
use self::{
    joining::Joiner,
    looks::Look,
    pins::Pins,
    pulls::Pull,
    wanted::{State, Wanted},
};
use crate::{model::CallId, set_aside::SetAside};

/// How many pulls at once, and how pauses are spread. One more may run for somebody who waits.
#[derive(Clone, Copy, Debug)]
pub struct ImageLimits {
    /// On the whole node.
    pub parallel: usize,
    /// Number of parallel pulls from one registry.
    pub per_registry: usize,
    /// Seed of this node for the pauses; so that nodes that failed together do not come back together.
    pub seed: u64,
}

/// How a pull that the kubelet waited for ended, for the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinedPull {
    /// Not yet.
    Running,
    /// The image is there; this is `PullImageResponse.image_ref`.
    Done(String),
    /// It did not come; the kubelet's own call goes on.
    Failed,
}

/// How much is remembered of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagesSize {
    /// Wishes, ended ones included.
    pub wishes: usize,
    /// Pulls of ours that have not ended, and those whose outcome a call of the kubelet has yet to ask for.
    pub pulling: usize,
    /// Images that are kept from the kubelet's image collection, are to be, or whose pin is yet to be taken
    /// away.
    pub pins: usize,
    /// Pulls the kubelet has the runtime do. Those of its calls that wait for a pull of ours are not among
    /// them.
    pub kubelet_pulls: usize,
}

/// State of everything known about the images of this node.
#[derive(Debug)]
pub struct Images {
    limits: ImageLimits,
    wishes: BTreeMap<WishId, Wanted>,
    /// Wishes ever seen.
    arrivals: u64,
    /// By the references that were given.
    looks: BTreeMap<Arc<str>, Look>,
    pulls: BTreeMap<PullId, Pull>,
    last_pull: u64,
    /// Images that were given out to be pulled and that no such pull has brought, by the references that were
    /// given.
    attempted: BTreeMap<Arc<str>, ImageReference>,
    joiners: BTreeMap<CallId, Joiner>,
    /// The records of what the kubelet has the runtime pull.
    kubelet: BTreeMap<CallId, Arc<str>>,
    pins: Pins,
    /// Wishes whose evaluation panicked.
    set_aside: SetAside<WishId>,
    /// When the last plan was made: what was due by then was dealt with.
    planned: Option<Instant>,
}

impl Images {
    /// Knows nothing yet.
    pub fn new(limits: ImageLimits) -> Self {
        Self {
            limits,
            wishes: BTreeMap::new(),
            arrivals: 0,
            looks: BTreeMap::new(),
            pulls: BTreeMap::new(),
            last_pull: 0,
            attempted: BTreeMap::new(),
            joiners: BTreeMap::new(),
            kubelet: BTreeMap::new(),
            pins: Pins::default(),
            set_aside: SetAside::default(),
            planned: None,
        }
    }

    /// Takes a fact. Total and idempotent.
    pub fn apply(&mut self, event: ImageEvent, now: Instant) {
        match event {
            ImageEvent::WishSeen(wish) => self.wish_seen(*wish, now),
            ImageEvent::WishGone(id) => {
                self.wishes.remove(&id);
            }
            ImageEvent::WishesListed(source, wishes) => self.wishes_listed(source, wishes, now),
            ImageEvent::Looked { image, found } => self.looked(&image.given, found, now),
            ImageEvent::LookFailed { image, message } => self.look_failed(&image.given, message, now),
            ImageEvent::PullAsked { pull, credential } => self.pull_asked(pull, credential),
            ImageEvent::PullProgressed { pull, bytes } => self.pull_progressed(pull, bytes),
            ImageEvent::PullEnded { pull, result } => self.pull_ended(pull, result, now),
            // With whichever credentials: they decide who may have the image, not whether it comes.
            ImageEvent::KubeletPullBegan { call, image, credential: _ } => {
                self.kubelet.insert(call, image);
            }
            ImageEvent::KubeletPullEnded { call } => {
                if let Some(record) = self.kubelet.remove(&call) {
                    self.pins.rewritten(&record, now);
                    self.look_again(&record);
                }
            }
            ImageEvent::Joined { call, pull } => self.join(call, pull),
            ImageEvent::Left { call } => self.leave(call),
            ImageEvent::ImageUsed(image) => self.image_used(&image),
            ImageEvent::PinsListed(pins) => self.pins.listed(pins),
            ImageEvent::PinDone(record) => self.pins.done(&record, now),
            ImageEvent::PinFailed(record) => self.pins.failed(&record, self.limits.seed, now),
        }
    }

    /// Returns the steps that are due now; each step is given out once.
    pub fn plan(&mut self, now: Instant) -> Vec<ImageStep> {
        self.planned = Some(now);
        let wishes = &self.wishes;
        self.set_aside.keep(|id| wishes.contains_key(id));
        for (id, wanted) in &mut self.wishes {
            self.set_aside.evaluate(|| id.clone(), now, || wanted.expire(now));
        }
        let mut steps = self.looks_due(now);
        // First of all who needs what goes on: it is not cancelled then, and not pulled twice.
        self.share_pulls(now);
        steps.extend(self.cancels_due());
        steps.extend(self.pulls_due(now));
        steps.extend(self.put_back_due(now));
        steps.extend(self.let_go_due());
        steps.extend(self.pins.due(now));
        steps
    }

    /// Returns when to ask [`Images::plan`] again, even if nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        let ends = self.wishes.values().filter_map(Wanted::deadline);
        let queued = self.wishes.values().filter(|wanted| wanted.state == State::Queued);
        let attempts = queued.filter_map(|wanted| wanted.not_before);
        let all = ends.chain(attempts).chain(self.look_deadlines()).chain(self.pins.deadlines());
        let all = all.chain(self.turn_ends());
        let all = all.chain(self.planned.and_then(|planned| self.set_aside.next(planned)));
        all.filter(|deadline| self.planned.is_none_or(|planned| *deadline > planned)).min()
    }

    /// The wishes that are left alone because their evaluation panicked, with the time when each is tried
    /// again.
    pub fn set_aside(&self, now: Instant) -> Vec<(WishId, Instant)> {
        self.set_aside.all(now)
    }

    /// Returns how often the evaluation of a wish panicked.
    pub fn panics(&self) -> u64 {
        self.set_aside.panics()
    }

    fn image_used(&mut self, image: &str) {
        let wishes = &self.wishes;
        // A pin of an earlier process has no identity of its own, but the wish that set it remembers one.
        let has_id = |record: &str| {
            wishes.values().any(|wanted| match &wanted.state {
                State::Ended(end) => **wanted.record() == *record && end.image_id.as_deref() == Some(image),
                State::Looking | State::Queued | State::Pulling(_) => false,
            })
        };
        self.pins.used(image, has_id);
    }
}
