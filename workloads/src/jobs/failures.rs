//! Failures of the writes of a plan that are each about one object alone: what is left out after them, and
//! which of them is told.

use berth_workloads_policy::jobs::{Action, Kind as Made};

use super::write::MOST_REFUSED;
use crate::{
    planner::{End, MOST_ERRORS},
    write::Failure,
};

/// Failures of a plan, each of which is about one object alone.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The one that is to be told.
    told: Option<End>,
    /// Others wait for what failed.
    pub(super) blocks: bool,
    /// Name of an object that was not made.
    refused: Option<String>,
    /// Deletions that were refused or held back.
    refusals: usize,
    /// Errors of the API server, or of a webhook that does not answer, on deletions.
    errors: usize,
}

impl Failures {
    /// Takes in an end. A failure is told rather than a pause: what is held back for long would otherwise
    /// hide what fails beside it, and the job would never count as one that fails.
    pub(super) fn take(&mut self, mut end: End) {
        if let End::Failed { refused, .. } | End::Held { refused, .. } = &mut end
            && let Some(name) = refused.take()
        {
            self.refused.get_or_insert(name);
        }
        let is_pause = |end: &End| matches!(end, End::Held { .. });
        if self.told.as_ref().is_none_or(|told| is_pause(told) && !is_pause(&end)) {
            self.told = Some(end);
        }
    }

    /// Returns the end that is to be told, with the name of what was not made.
    pub(super) fn end(self) -> Option<End> {
        let refused = self.refused;
        Some(match self.told? {
            End::Failed { text, .. } => End::Failed { text, refused },
            End::Held { text, .. } => End::Held { text, refused },
            end => end,
        })
    }

    /// Tells whether a write is left out, after those that have failed. Each pod of a BroadcastJob is for a
    /// node of its own: one that may not be deleted keeps no other node waiting.
    pub(super) const fn leave_out(&self, action: &Action) -> bool {
        match action {
            Action::Create(Made::Pod, _) => false,
            Action::Delete(Made::Pod, _) | Action::Forget(..) => self.are_many(),
            Action::Create(..) | Action::Delete(..) => self.blocks,
        }
    }

    /// Counts a deletion that has failed.
    pub(super) const fn count(&mut self, failure: &Failure) {
        match errors_of(failure) {
            0 => self.refusals = self.refusals.saturating_add(1),
            errors => self.errors = self.errors.saturating_add(errors),
        }
    }

    /// Tells whether no other deletion is tried: what refuses so many may refuse all, and an error may have
    /// taken half a minute.
    const fn are_many(&self) -> bool {
        self.refusals >= MOST_REFUSED || self.errors >= MOST_ERRORS
    }
}

/// Number of errors that a failure counts as. An API server that takes no request takes none of the others.
pub(super) const fn errors_of(failure: &Failure) -> usize {
    match failure {
        Failure::Busy(_) => MOST_ERRORS,
        failure if failure.is_error() => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: how a deletion failed, and how many of these are tried.
    #[test]
    fn failures_after_which_nothing_more_is_deleted() {
        type Fails = fn(String) -> Failure;
        let table: [(Fails, usize); 4] = [
            (Failure::Busy, 1),
            (Failure::ServerError, MOST_ERRORS),
            (Failure::Held, MOST_REFUSED),
            (Failure::Refused, MOST_REFUSED),
        ];
        for (fails, expected) in table {
            let mut failures = Failures::default();
            let tries = (1..).find(|_| {
                failures.count(&fails("why".to_owned()));
                failures.are_many()
            });
            assert_eq!(tries, Some(expected), "{}", fails("why".to_owned()).text());
        }
    }

    #[test]
    fn a_failure_is_told_rather_than_a_pause() {
        let (held, refused) =
            (|text: &str| End::held(text.to_owned()), |text: &str| End::failed(text.to_owned()));
        let table = [
            (vec![held("a"), held("b")], held("a")),
            (vec![held("a"), refused("b"), refused("c")], refused("b")),
            (vec![refused("a"), held("b")], refused("a")),
        ];
        for (ends, told) in table {
            let mut failed = Failures::default();
            ends.into_iter().for_each(|end| failed.take(end));
            assert_eq!(failed.told, Some(told));
        }
    }
}
