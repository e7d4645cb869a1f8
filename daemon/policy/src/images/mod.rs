//! Images the node should have: which pull is owed now, which wish is fulfilled by which pull, and what is kept.
//!
//! ```text
//!   NodeImage, files, berthctl ──ImageEvent──▶ Images ──plan──▶ Look, Pull, Cancel, Pin, Unpin ──▶ executors
//!   the kubelet's own pulls ────────────────▶        ──reports──▶ NodeImage.status, berthctl
//! ```

mod event;
mod report;
mod step;
mod wish;

use std::time::Instant;

pub use self::{
    event::{Bytes, ImageEvent, PullFailure, PulledImage},
    report::{WishPhase, WishReport},
    step::{ImageStep, PullOrder},
    wish::{CredentialKey, Credentials, ImageReference, PullId, Settled, Wish, WishId, WishSource},
};

/// How many pulls at once.
#[derive(Clone, Copy, Debug)]
pub struct ImageLimits {
    /// On the whole node.
    pub parallel: usize,
    /// Of one registry.
    pub per_registry: usize,
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

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagesSize {
    /// Wishes.
    pub wishes: usize,
    /// Pulls of the agent that go on.
    pub pulling: usize,
    /// Images that are kept.
    pub pins: usize,
    /// Pulls of the kubelet that go on.
    pub kubelet_pulls: usize,
}

/// What is known of the images of this node.
#[derive(Debug)]
pub struct Images {
    limits: ImageLimits,
}

impl Images {
    /// Knows nothing yet.
    pub fn new(limits: ImageLimits) -> Self {
        Self { limits }
    }

    /// Takes a fact. Total and idempotent.
    pub fn apply(&mut self, event: ImageEvent, now: Instant) {
        let _ = (event, now, self.limits);
    }

    /// What is owed now; each step is given out once.
    pub fn plan(&mut self, now: Instant) -> Vec<ImageStep> {
        let _ = now;
        Vec::new()
    }

    /// When to ask [`Images::plan`] again, even if nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// The running pull that a pull of the kubelet with these credentials would repeat.
    pub fn joinable(&self, image: &str, credential: CredentialKey) -> Option<PullId> {
        let _ = (image, credential);
        None
    }

    /// How a pull stands that was joined.
    pub fn joined(&self, pull: PullId) -> JoinedPull {
        let _ = pull;
        JoinedPull::Failed
    }

    /// Where all wishes stand, in the order of their identities.
    pub fn reports(&self) -> Vec<WishReport> {
        Vec::new()
    }

    /// How much is remembered.
    pub fn size(&self) -> ImagesSize {
        ImagesSize::default()
    }

    /// Where one stands; `None` when it is not wished.
    pub fn report(&self, id: &WishId) -> Option<WishReport> {
        let _ = id;
        None
    }
}
