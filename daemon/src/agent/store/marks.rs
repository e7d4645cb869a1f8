//! The marks of recreate: which instance is to be replaced, for which request, and how far that got.

use berth_policy::{MarkPhase, RecreateMark, RequestId};
use redb::TableDefinition;

use super::{Store, StoreError};

/// (request, name of the container) -> (container ID, phase).
pub(super) const MARKS: TableDefinition<'_, (&str, &str), (&str, u8)> = TableDefinition::new("marks");

impl Store {
    /// All marks.
    pub fn marks(&self) -> Result<Vec<RecreateMark>, StoreError> {
        self.all(MARKS, |(request, name), (container, phase)| RecreateMark {
            request: request.into(),
            name: name.into(),
            container: container.into(),
            phase: phase_of(phase),
        })
    }

    /// Writes marks, all or none; durable on return.
    pub fn mark(&self, marks: &[RecreateMark]) -> Result<(), StoreError> {
        self.change(MARKS, |table| {
            for mark in marks {
                let key = (mark.request.as_str(), mark.name.as_str());
                table.insert(key, (mark.container.as_str(), number(mark.phase)))?;
            }
            Ok(())
        })
    }

    /// Removes the marks of a request.
    pub fn unmark(&self, request: &RequestId) -> Result<(), StoreError> {
        let id = request.as_str();
        // They stand together: no name of a container is greater than the last character there is.
        self.change(MARKS, |table| Ok(table.retain_in((id, "")..=(id, "\u{10ffff}"), |_, _| false)?))
    }
}

fn number(phase: MarkPhase) -> u8 {
    match phase {
        MarkPhase::Armed => 0,
        MarkPhase::Shown => 1,
        MarkPhase::Hooked => 2,
        MarkPhase::Stopping => 3,
    }
}

/// Reads the phase of a number. A higher number, which a newer version may have written, is taken for the
/// last phase: nothing is begun again then.
fn phase_of(number: u8) -> MarkPhase {
    match number {
        0 => MarkPhase::Armed,
        1 => MarkPhase::Shown,
        2 => MarkPhase::Hooked,
        _ => MarkPhase::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(request: &str, name: &str, phase: MarkPhase) -> RecreateMark {
        RecreateMark {
            request: request.into(),
            name: name.into(),
            container: format!("{request}-{name}").as_str().into(),
            phase,
        }
    }

    #[test]
    fn marks_are_there_after_a_restart_and_go_with_their_request() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let all = [MarkPhase::Armed, MarkPhase::Shown, MarkPhase::Hooked, MarkPhase::Stopping];
        for (name, phase) in ["a", "b", "c", "d"].into_iter().zip(all) {
            store.mark(&[mark("r1", name, MarkPhase::Armed), mark("r", name, phase)]).unwrap();
            store.mark(&[mark("r1", name, phase)]).unwrap();
        }
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        store.unmark(&"r".into()).unwrap();
        store.unmark(&"unknown".into()).unwrap();
        let left: Vec<RecreateMark> =
            ["a", "b", "c", "d"].into_iter().zip(all).map(|(name, phase)| mark("r1", name, phase)).collect();
        assert_eq!(store.marks().unwrap(), left);
    }
}
