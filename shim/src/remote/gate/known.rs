//! Answers that the table has, and how long those wait that it has not.

use std::time::Duration;

use berth_policy::{ContainerId, HookTurn, Showing};

use super::RemoteGate;
use crate::{
    gate::Answer,
    remote::asked::{Question, locked},
};

/// Questions about containers in the middle of a change wait so much longer, all together.
const CHANGES: Duration = Duration::from_secs(10);

impl RemoteGate {
    /// Time for which questions about containers wait all together beyond the patience of one. Of a few the
    /// table says that they are in the middle of a change: theirs are the answers that matter, and what it
    /// has may be old. Before an agent has said all that it knows, any of them may be: this process may have
    /// a predecessor.
    pub(super) fn grace(&self, question: &Question) -> Duration {
        let state = locked(&self.state);
        let undecided = |container| {
            state.table.container(container).map_or(!state.table.is_whole(), |row| match question {
                Question::Hook { .. } => row.hook.is_none(),
                _ => row.changing || row.status.is_none(),
            })
        };
        match question {
            Question::Status { container, .. } | Question::Hook { container, .. } if undecided(container) => {
                CHANGES
            }
            _ => Duration::ZERO,
        }
    }

    /// State that a container is shown in which is not in the middle of a change.
    pub(super) fn status_known(&self, container: &ContainerId) -> Option<Answer> {
        let state = locked(&self.state);
        let row = state.table.container(container).filter(|row| !row.changing)?;
        let shown = row.status.filter(|shown| shown.only_to.is_none())?;
        matches!(shown.showing, Showing::Truth | Showing::Completed).then_some(Answer::Shown(shown.showing))
    }

    /// Whether its hooks run, whatever the agent does now.
    pub(super) fn is_plain(&self, container: &ContainerId) -> bool {
        let state = locked(&self.state);
        let row = state.table.container(container);
        row.is_some_and(|row| !row.changing && row.hook == Some(HookTurn::Run))
    }
}
