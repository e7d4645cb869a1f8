//! How far wishes are, for those who tell it on.

use std::time::Instant;

use super::{
    event::Bytes,
    wish::{ImageReference, WishId},
};

/// Where a wish stands. Equal values need not be told twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WishReport {
    /// Which wish.
    pub id: WishId,
    /// Image that is wanted.
    pub image: ImageReference,
    /// The version this answers.
    pub version: i64,
    /// How far it is.
    pub phase: WishPhase,
    /// Bytes of the pull that goes on; `None` where the runtime does not tell, or nothing goes on.
    pub bytes: Option<Bytes>,
    /// Attempts so far.
    pub attempts: u32,
    /// When the first attempt began; `None` before, and for what was settled before this process.
    pub started: Option<Instant>,
    /// When it ended.
    pub ended: Option<Instant>,
    /// `Image.id`, once it is there.
    pub image_id: Option<String>,
    /// Cause of the wait or of the failure; the last failure while it is tried again.
    pub message: String,
}

/// Phases of a wish; the words of `NodeImage.status.imageStatuses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WishPhase {
    /// Not begun, or between two attempts.
    Waiting,
    /// Being pulled, by us or by the kubelet.
    Pulling,
    /// On the node.
    Succeeded,
    /// Given up.
    Failed,
}

impl WishPhase {
    /// Name that users read, in a status as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Pulling => "Pulling",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl WishReport {
    /// 0 to 100; 100 only for what is there.
    pub fn percent(&self) -> u8 {
        match (self.phase, self.bytes) {
            (WishPhase::Succeeded, _) => 100,
            (WishPhase::Pulling, Some(bytes)) if bytes.total > 0 => {
                let percent = u128::from(bytes.done) * 100 / u128::from(bytes.total);
                u8::try_from(percent.min(99)).unwrap_or(99)
            }
            _ => 0,
        }
    }
}
