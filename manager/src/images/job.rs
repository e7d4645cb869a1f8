//! An ImagePullJob, as far as it is more than its nodes.

use std::{sync::Arc, time::Instant};

use berth_proto::crd::ImagePullJobStatus;
use jiff::Timestamp;

use super::{rollout::Rank, spec::Spec, write::JobAct};
use crate::store::Key;

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: Key,
    pub(super) created: Option<Timestamp>,
    pub(super) resource_version: Box<str>,
    /// When this manager saw it for the first time.
    pub(super) seen: Instant,
    pub(super) spec: Result<Spec, String>,
    /// Its status as shown.
    pub(super) shown: ImagePullJobStatus,
    pub(super) stage: Stage,
    /// It was over once, whatever its status says now.
    pub(super) ended: bool,
    pub(super) secrets: Secrets,
    /// Secrets that it goes on without, or waits for, and since when they are missing.
    pub(super) lacks: Option<(Arc<str>, Instant)>,
    pub(super) start: Option<Timestamp>,
    /// Its last status, once decided.
    pub(super) end: Option<Box<ImagePullJobStatus>>,
    /// Write that was asked for last. The next event of the object shows its result.
    pub(super) sent: Option<Sent>,
    /// When that was.
    pub(super) sent_at: Option<Instant>,
    /// `Rollout::changes` up to which its status is known to be written.
    pub(super) written: Option<u64>,
    /// The `endedNodes` that has been taken over.
    pub(super) absorbed: Option<String>,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is carried out, or will be.
    Open,
    /// Its status is none that this manager could have written: it is left alone.
    Unreadable,
    /// It ended then.
    Over(Timestamp),
}

/// A write that was asked for.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) resource_version: Box<str>,
    pub(super) changes: u64,
    pub(super) act: JobAct,
}

/// Its Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Not asked for, or it needs none.
    Unknown,
    /// Being read for the first time, or after a failure.
    Awaited,
    /// There; read again then.
    Ready(Instant),
    /// Being read again, and there.
    Refreshed,
    /// Not there; read again then.
    Missing(Arc<str>, Instant),
}

impl Secrets {
    pub(super) fn are_there(&self) -> bool {
        matches!(self, Self::Ready(_) | Self::Refreshed)
    }
}

impl Job {
    /// Its place among the jobs of its namespace.
    pub(super) fn rank(&self) -> Rank {
        (self.created.unwrap_or(Timestamp::MAX), self.key.name.clone())
    }

    /// The write that was asked for may show: then up to here the job is known to be written.
    pub(super) fn confirm(&mut self) {
        if let Some(sent) = &self.sent
            && let JobAct::Status(status) = &sent.act
            && self.shows(status)
        {
            self.written = Some(sent.changes);
        }
    }

    /// Tells whether all of a status is in what is shown. Conditions of others may be there too.
    pub(super) fn shows(&self, status: &ImagePullJobStatus) -> bool {
        let shown = &self.shown;
        status.conditions.iter().all(|condition| shown.conditions.contains(condition))
            && *status == ImagePullJobStatus { conditions: status.conditions.clone(), ..shown.clone() }
    }
}
