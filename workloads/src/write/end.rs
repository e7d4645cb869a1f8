//! Ends of plans: by these the controller decides when the next one of the workload begins.

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

    /// The one to be told of two ends: the first that is a failure, and a failure rather than a pause. What
    /// is held back for long would otherwise hide what fails beside it, and its object would never count as
    /// one that fails.
    pub(super) fn or(self, next: Self) -> Self {
        let is_pause = matches!(self, Self::Held(_)) && !matches!(next, Self::Held(_));
        if next.is_failure() && (is_pause || !self.is_failure()) { next } else { self }
    }

    /// Tells whether the plan could not be carried out, so that its object is to say it.
    pub(crate) const fn is_failure(&self) -> bool {
        matches!(self, Self::ScaleFailed(_) | Self::PullFailed(_) | Self::UpdateFailed(_) | Self::Held(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_rather_than_a_pause() {
        let scale = || End::ScaleFailed("s".to_owned());
        let update = || End::UpdateFailed("u".to_owned());
        let held = || End::Held(Box::new(scale()));
        let table = [
            (End::Done, End::Done, End::Done),
            (End::Done, held(), held()),
            (End::Done, update(), update()),
            (scale(), update(), scale()),
            (scale(), held(), scale()),
            (held(), update(), update()),
            (held(), End::Held(Box::new(update())), held()),
            (held(), End::Done, held()),
            // One that says why counts more than one that is to be tried again.
            (End::Changed, update(), update()),
            (End::Changed, held(), held()),
            (update(), End::Changed, update()),
        ];
        for (first, next, told) in table {
            assert_eq!(first.clone().or(next.clone()), told, "{first:?} {next:?}");
        }
    }
}
