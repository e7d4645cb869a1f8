//! How plans end.

/// End of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// All was read that there is.
    Read,
    /// Something has changed since; decided anew at once.
    Changed,
    /// A revision's name is taken by another one.
    NameTaken,
    /// A pod or claim could not be made or deleted.
    ScaleFailed(String),
    /// An ImagePullJob could not be made or deleted; the rest goes on without.
    PullFailed(String),
    /// Anything else could not be written.
    UpdateFailed(String),
    /// Somebody holds it back for a while; what could not be done.
    Held(Box<Self>),
}

impl End {
    /// Words for a failure; empty for another end.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::ScaleFailed(text) | Self::PullFailed(text) | Self::UpdateFailed(text) => text,
            Self::Held(what) => what.text(),
            Self::Done | Self::Read | Self::Changed | Self::NameTaken => "",
        }
    }

    /// Tells whether the plan could not be carried out, so that its object is to say it.
    pub(crate) const fn is_failure(&self) -> bool {
        matches!(self, Self::ScaleFailed(_) | Self::PullFailed(_) | Self::UpdateFailed(_) | Self::Held(_))
    }
}
