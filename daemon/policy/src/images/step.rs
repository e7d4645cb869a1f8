//! Steps that are due about images. Each is given out once, and answered by the event it names, if it names
//! one.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::wish::{Credentials, ImageReference, PullId};

/// Effect that is wanted of the images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageStep {
    /// Is it on the node? Answered by `Looked` or `LookFailed`.
    Look(ImageReference),
    /// Pull it. Answered by `PullEnded`.
    Pull(Box<PullOrder>),
    /// End this pull; it is still answered by `PullEnded`.
    Cancel(PullId),
    /// Nobody wants this any more and no pull of it goes on: what is kept of attempts that did not get there
    /// may go. Once after such attempts, when the last wish for it has failed, was fulfilled in another way,
    /// has gone or wants another image. Not after a pull that succeeded. No answer.
    LetGo(ImageReference),
    /// Keep the image with this record, until then at the latest. Answered by `PinDone` or `PinFailed`.
    Pin(Arc<str>, Instant),
    /// Keep it no longer. Answered in the same way.
    Unpin(Arc<str>),
}

/// A pull to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOrder {
    /// Which one.
    pub pull: PullId,
    /// Image to pull.
    pub image: ImageReference,
    /// With what.
    pub credentials: Credentials,
    /// How long it may take.
    pub timeout: Duration,
    /// Labels of the sandbox config.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the sandbox config.
    pub annotations: BTreeMap<String, String>,
}
