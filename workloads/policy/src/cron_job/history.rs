//! History of an AdvancedCronJob: how many jobs that are over are kept.

use super::{ChildState, ChildView, Pass};
use crate::jobs::Action;

impl Pass<'_> {
    /// Deletes jobs that are over, but for the newest ones. One that nobody may delete holds up no run.
    pub(super) fn shorten_history(&mut self) {
        let of = |state: ChildState, kept: usize| {
            let over = self.input.children.iter().filter(|child| child.state == state && !child.terminating);
            let mut over: Vec<&ChildView> = over.copied().collect();
            over.sort_by(|one, other| (other.started, &other.name).cmp(&(one.started, &one.name)));
            over.into_iter().skip(kept).map(|child| Action::Forget(child.kind, child.target()))
        };
        let mut old: Vec<Action> = of(ChildState::Failed, self.rules.keep_failed).collect();
        old.extend(of(ChildState::Succeeded, self.rules.keep_succeeded));
        self.plan.actions.extend(old);
    }
}
