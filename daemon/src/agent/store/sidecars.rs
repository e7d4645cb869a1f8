//! The marks of job sidecars: which instances the agent ends, or has ended.

use berth_policy::{ContainerId, SidecarMark};
use redb::TableDefinition;

use super::{Store, StoreError};

/// container ID -> (UID of the pod, name of the container, its hook may have begun).
pub(super) const SIDECARS: TableDefinition<'_, &str, (&str, &str, bool)> = TableDefinition::new("sidecars");

impl Store {
    /// All marks of job sidecars.
    pub fn sidecars(&self) -> Result<Vec<SidecarMark>, StoreError> {
        self.all(SIDECARS, |container, (pod, name, hooked)| SidecarMark {
            pod: pod.into(),
            name: name.into(),
            container: container.into(),
            hooked,
        })
    }

    /// Writes marks, all or none; durable on return.
    pub fn mark_sidecars(&self, marks: &[SidecarMark]) -> Result<(), StoreError> {
        self.change(SIDECARS, |table| {
            for mark in marks {
                table
                    .insert(mark.container.as_str(), (mark.pod.as_str(), mark.name.as_str(), mark.hooked))?;
            }
            Ok(())
        })
    }

    /// Removes the marks of these containers.
    pub fn unmark_sidecars(&self, containers: &[ContainerId]) -> Result<(), StoreError> {
        self.change(SIDECARS, |table| {
            for container in containers {
                table.remove(container.as_str())?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_there_after_a_restart_and_go_with_their_container() {
        let directory = tempfile::tempdir().unwrap();
        let mark = |container: &str, hooked| SidecarMark {
            pod: "u".into(),
            name: "proxy".into(),
            container: container.into(),
            hooked,
        };
        let store = Store::open(directory.path()).unwrap();
        store.mark_sidecars(&[mark("a", false), mark("b", false), mark("c", false)]).unwrap();
        store.mark_sidecars(&[mark("b", true)]).unwrap();
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        store.unmark_sidecars(&["a".into(), "unknown".into()]).unwrap();
        assert_eq!(store.sidecars().unwrap(), [mark("b", true), mark("c", false)]);
    }
}
