//! Facts about images, from the sources of wishes, the executors, and the kubelet's own pulls.

use std::{sync::Arc, time::Instant};

use super::wish::{CredentialKey, ImageReference, PullId, Wish, WishId, WishSource};
use crate::model::CallId;

/// A fact. See [`crate::Images::apply`].
#[derive(Clone, Debug)]
pub enum ImageEvent {
    /// A source shows this wish, new or changed.
    WishSeen(Box<Wish>),
    /// The source does not show this wish any more.
    WishGone(WishId),
    /// A source was listed anew: these and no others of its kind.
    WishesListed(WishSource, Vec<Wish>),

    /// The answer to [`crate::ImageStep::Look`]. `None`: not on this node.
    Looked {
        /// Image that was looked for.
        image: ImageReference,
        /// Image that is on the node.
        found: Option<PulledImage>,
    },
    /// The runtime gave no answer to it.
    LookFailed {
        /// Image that was looked for.
        image: ImageReference,
        /// Why, for people.
        message: String,
    },
    /// The executor asks the runtime for it now, with these credentials. Said again with each of several it
    /// tries.
    PullAsked {
        /// Which pull.
        pull: PullId,
        /// With what.
        credential: CredentialKey,
    },
    /// How far a pull is; only where the runtime tells.
    PullProgressed {
        /// Which pull.
        pull: PullId,
        /// Where it is.
        bytes: Bytes,
    },
    /// A pull is over, cancelled ones included.
    PullEnded {
        /// Which pull.
        pull: PullId,
        /// How.
        result: Result<PulledImage, PullFailure>,
    },

    /// The kubelet's call to pull an image was passed on to the runtime.
    KubeletPullBegan {
        /// The call.
        call: CallId,
        /// The record of what it asks for, see [`ImageReference::record`].
        image: Arc<str>,
        /// With what.
        credential: CredentialKey,
    },
    /// It is over, well or not; a cancelled one, too.
    KubeletPullEnded {
        /// The call.
        call: CallId,
    },
    /// A call of the kubelet waits for this pull of ours.
    Joined {
        /// The call.
        call: CallId,
        /// Which pull.
        pull: PullId,
    },
    /// It does not wait any more.
    Left {
        /// The call.
        call: CallId,
    },
    /// A container was made of this image (record or `Image.id`).
    ImageUsed(Arc<str>),

    /// The pins the runtime shows at start, by their records, with their ends.
    PinsListed(Vec<(Arc<str>, Instant)>),
    /// A pin was set or taken away, as asked; or there is nothing there to pin.
    PinDone(Arc<str>),
    /// It was not; it is tried again.
    PinFailed(Arc<str>),
}

/// An image that is on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledImage {
    /// `Image.id` of the CRI.
    pub id: String,
    /// `PullImageResponse.image_ref`, or the first of `Image.repo_digests`, or the identity.
    pub image_ref: String,
}

/// How far a pull is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// On the node, what was there before included.
    pub done: u64,
    /// All of it, as its manifest says.
    pub total: u64,
}

/// Why a pull failed. `Display` is what users read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullFailure {
    /// The runtime or the registry said no.
    #[error("{0}")]
    Refused(String),
    /// It cannot succeed, however often it is tried.
    #[error("{0}")]
    Impossible(String),
    /// It took longer than one attempt may.
    #[error("no image within {} s", .0.as_secs())]
    TimedOut(std::time::Duration),
    /// There is no room for it. The kubelet's image collection may make some.
    #[error("{0}")]
    NoRoom(String),
    /// The runtime went away, and the pull with it. That says nothing about the image: it counts for nobody.
    #[error("{0}")]
    Away(String),
    /// It was told to end.
    #[error("cancelled")]
    Cancelled,
}
