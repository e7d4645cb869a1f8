//! Plans of jobs: what a BroadcastJob and an AdvancedCronJob ask for, as values.

use std::time::Duration;

use serde_json::Value;

use crate::action::{Note, Target};

/// Kind of an object that a job makes or deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A batch/v1 Job.
    Job,
    /// A BroadcastJob.
    BroadcastJob,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes an object, under a name that follows from what it is for: one that is there already is it.
    Create(Kind, Value),
    /// Deletes an object, and in the background what it owns.
    Delete(Kind, Target),
    /// Deletes an object of the past in the same way. Nothing waits for it, whatever becomes of it.
    Forget(Kind, Target),
}

/// Writes that are due.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S> {
    /// Writes, in their order.
    pub actions: Vec<Action>,
    /// Status, when it differs from the one on file.
    pub status: Option<S>,
    /// The status is a decision: it does not wait for its turn, and is on file before the first of the
    /// writes.
    pub status_first: bool,
    /// Time after which something else may be due, though nothing changes.
    pub again: Option<Duration>,
    /// Things to tell.
    pub notes: Vec<Note>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { actions: Vec::new(), status: None, status_first: false, again: None, notes: Vec::new() }
    }
}

impl Kind {
    /// Group and version.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Pod => "v1",
            Self::Job => "batch/v1",
            Self::BroadcastJob => "apps.kruise.io/v1alpha1",
        }
    }

    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::BroadcastJob => "BroadcastJob",
        }
    }
}
