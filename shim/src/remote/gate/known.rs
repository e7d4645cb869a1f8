//! Answers that the table has, and how long those wait that it has not.

use std::time::Duration;

use berth_policy::{ContainerId, HookTurn, Showing};
use tokio::time::timeout;

use super::RemoteGate;
use crate::{
    gate::Answer,
    remote::{
        away::PATIENCE,
        questions::{Question, locked},
    },
};

/// Questions about containers in the middle of a change wait so much longer, all together.
const CHANGES: Duration = Duration::from_secs(10);

impl RemoteGate {
    /// Time for which questions about containers wait all together beyond the patience of one. Of a few the
    /// table says that they are in the middle of a change: theirs are the answers that matter, and what it
    /// has may be old. Before an agent has said all that it knows, any of them may be: this process may have
    /// a predecessor. A hook has no such time then, because its wait comes out of the grace of its pod.
    pub(super) fn grace(&self, question: &Question) -> Duration {
        let state = locked(&self.state);
        let row = |container| state.table.container(container);
        let undecided = match question {
            Question::Status { container, .. } => {
                row(container).map_or(!state.table.is_whole(), |row| row.changing || row.status.is_none())
            }
            Question::Hook { container, .. } => row(container).is_some_and(|row| row.hook.is_none()),
            Question::Call(..) | Question::Relist(_) | Question::Pull { .. } => false,
        };
        if undecided { CHANGES } else { Duration::ZERO }
    }

    /// Waits until an agent has said all that it knows, once: as long as the looks of [`RemoteGate::grace`]
    /// do, and all together with them.
    pub(super) async fn first_table(&self) {
        let mut presence = self.presence.subscribe();
        let alone = presence.borrow().alone();
        let told = async {
            loop {
                if locked(&self.state).table.is_whole() {
                    return;
                }
                if presence.changed().await.is_err() {
                    return; // nobody will come
                }
            }
        };
        let left = PATIENCE.saturating_add(CHANGES).saturating_sub(alone).min(PATIENCE);
        // After the time what is shown is the runtime's.
        let _ = timeout(left, told).await;
    }

    /// State that a container is shown in which is not in the middle of a change.
    pub(super) fn status_known(&self, container: &ContainerId) -> Option<Answer> {
        let state = locked(&self.state);
        let row = state.table.container(container).filter(|row| !row.changing)?;
        let shown = row.status.filter(|shown| shown.only_to.is_none())?;
        matches!(shown.showing, Showing::Truth | Showing::Completed).then_some(Answer::Shown(shown.showing))
    }

    /// Tells whether its hooks run, whatever the agent does now.
    pub(super) fn is_plain(&self, container: &ContainerId) -> bool {
        let state = locked(&self.state);
        let row = state.table.container(container);
        row.is_some_and(|row| !row.changing && row.hook == Some(HookTurn::Run))
    }
}
