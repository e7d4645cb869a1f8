//! The table: what the agent has said before it is asked. It stays in force while the agent is away.
//!
//! One that the table does not know is of interest: its calls are asked about. A table that is told anew
//! comes in several messages; until the last of them the one before it is in force.

mod changes;
mod rows;
mod size;

use std::collections::HashMap;

use berth_policy::{
    ContainerId, ContainerName, CreateContainer, EnvValues, Foretold, PodUid, SandboxId, Showing,
};

pub(crate) use self::changes::{changes, fit};
use self::{
    rows::{Row, container_of, list_of_rows, pod_of, sandbox_of},
    size::{MAX_BYTES, MAX_ENV, MAX_ROWS, of_container, of_env, of_sandbox},
};
use super::{calls::Beyond, message::TableChange};

/// Answers that are known before anybody asks.
#[derive(Debug, Default)]
pub(crate) struct Table {
    sandboxes: HashMap<SandboxId, Row>,
    containers: HashMap<ContainerId, Foretold>,
    /// Bytes of sandboxes and containers.
    bytes: usize,
    env: HashMap<PodUid, HashMap<ContainerName, EnvValues>>,
    env_bytes: usize,
    nudges: bool,
    pulls_pass: bool,
    strangers_pass: bool,
    /// An agent has said all of it, once.
    whole: bool,
    /// The table that is being told anew. An agent that dies before all of it is told leaves what was known.
    next: Option<Box<Self>>,
    /// The version of the last change.
    pub(crate) version: u64,
}

// === impl Table ===

impl Table {
    /// Takes a change as a whole, or nothing of it.
    pub(crate) fn change(&mut self, change: TableChange) -> Result<(), Beyond> {
        let sandboxes = list_of_rows(&change.sandboxes, sandbox_of)?;
        let containers = list_of_rows(&change.containers, container_of)?;
        let pods = list_of_rows(&change.pods, pod_of)?;
        if change.reset {
            self.next = Some(Box::default());
        }
        let mut next = self.next.take();
        let told = next.as_deref_mut().unwrap_or(&mut *self);
        for (id, row) in sandboxes {
            let of = |id: &SandboxId, row: &Row| of_sandbox(id, row.names());
            put(&mut told.sandboxes, (&mut told.bytes, MAX_BYTES), id, row, of);
        }
        for (id, row) in containers {
            put(&mut told.containers, (&mut told.bytes, MAX_BYTES), id, row, |id, _| of_container(id));
        }
        for (pod, row) in pods {
            let row = (!row.is_empty()).then_some(row);
            put(&mut told.env, (&mut told.env_bytes, MAX_ENV), pod, row, |pod, row| of_env(pod, row));
        }
        told.nudges = change.nudges;
        told.pulls_pass = change.pulls_pass;
        told.strangers_pass = change.strangers_pass;
        told.version = change.version;
        if !change.complete {
            self.next = next;
            return Ok(());
        }
        if let Some(next) = next {
            *self = *next;
        }
        self.whole = true;
        Ok(())
    }

    /// The agent that tells it is gone: what it has told of a table anew is not.
    pub(crate) fn abandon(&mut self) {
        self.next = None;
    }

    /// All creations in this sandbox go on without a question: no order concerns them.
    pub(crate) fn creates_all(&self, sandbox: &SandboxId) -> bool {
        matches!(self.sandboxes.get(sandbox), Some(Row::All))
    }

    /// The creation of this container goes on while nobody is there to be asked.
    pub(crate) fn creates(&self, create: &CreateContainer) -> bool {
        match self.sandboxes.get(&create.sandbox) {
            Some(Row::All) => true,
            Some(Row::Of(open)) => open.contains(&create.container),
            None => false,
        }
    }

    /// The stop of this container goes on without a question.
    pub(crate) fn stops(&self, container: &ContainerId) -> bool {
        self.containers.get(container).is_some_and(|row| row.stop_passes)
    }

    /// Row of this container.
    pub(crate) fn container(&self, container: &ContainerId) -> Option<&Foretold> {
        self.containers.get(container)
    }

    /// An agent has said all that it knew: what is not there then was nothing to it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The values that this container is created with.
    pub(crate) fn env(&self, create: &CreateContainer) -> EnvValues {
        let pod = self.env.get(&create.pod.uid);
        pod.and_then(|pod| pod.get(&create.container)).cloned().unwrap_or_default()
    }

    /// A list of containers may have to carry a nudge.
    pub(crate) fn nudges(&self) -> bool {
        self.nudges
    }

    /// A pull goes on without a question: the agent has none that it could wait for.
    pub(crate) fn pulls_pass(&self) -> bool {
        self.pulls_pass
    }

    /// Tells whether the creation of this container goes on while nobody is there to be asked, as it is in a
    /// sandbox that is not the kubelet's: no order concerns it but that of a plan.
    pub(crate) fn creates_for_stranger(&self, create: &CreateContainer) -> bool {
        self.strangers_pass && create.declared.foreign && create.declared.plan.is_none()
    }

    /// Tells whether this container is shown as one that ended well.
    pub(crate) fn is_completed(&self, container: &ContainerId) -> bool {
        let status = self.containers.get(container).and_then(|row| row.status);
        status.is_some_and(|shown| shown.showing == Showing::Completed)
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Table {
    pub(super) fn check_bounds(&self) {
        assert!(self.sandboxes.len() <= MAX_ROWS && self.containers.len() <= MAX_ROWS);
        assert!(self.env.len() <= MAX_ROWS && self.env_bytes <= MAX_ENV && self.bytes <= MAX_BYTES);
        let sandboxes = self.sandboxes.iter().map(|(id, row)| of_sandbox(id, row.names()));
        let containers = self.containers.keys().map(of_container);
        assert_eq!(sandboxes.chain(containers).sum::<usize>(), self.bytes);
        assert_eq!(self.env.iter().map(|(pod, row)| of_env(pod, row)).sum::<usize>(), self.env_bytes);
        if let Some(next) = &self.next {
            assert!(next.next.is_none());
            next.check_bounds();
        }
    }

    pub(super) fn check_empty(&self) {
        assert!(self.sandboxes.is_empty() && self.containers.is_empty() && self.env.is_empty());
        assert!(self.bytes == 0 && self.env_bytes == 0 && self.next.is_none());
        assert!(!self.nudges && !self.pulls_pass && !self.strangers_pass);
    }
}

/// Puts a row in the place of the one before, if there is room for it: what is not known is asked about.
fn put<K: std::hash::Hash + Eq, V>(
    rows: &mut HashMap<K, V>,
    (bytes, most): (&mut usize, usize),
    key: K,
    row: Option<V>,
    of: impl Fn(&K, &V) -> usize,
) {
    if let Some(before) = rows.remove(&key) {
        *bytes = bytes.saturating_sub(of(&key, &before));
    }
    let Some(row) = row else { return };
    let more = of(&key, &row);
    if rows.len() < MAX_ROWS && bytes.saturating_add(more) <= most {
        *bytes += more;
        rows.insert(key, row);
    }
}

#[cfg(test)]
#[path = "../tests/remote_table.rs"]
mod tests;
