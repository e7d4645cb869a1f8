//! Requests without an API server: files in the desired-state directory, and those that `berthctl recreate`
//! makes.
//!
//! ```text
//!   /etc/berth/desired/web.yaml                       one ContainerRecreateRequest a file
//!   /etc/berth/desired/web.yaml.status.yaml           its status, written beside it
//!   <stateDir>/requests/web-x7k2p.yaml[.status.yaml]  the same, of those that came over the admin socket
//!
//!   file --watch--> read, check --assign--> status file, durable --> Event::RecreateSeen --> policy
//!                                                 ^                                            |
//!                                                 '----------- change(Effect::Request) <--------'
//! ```
//!
//! - A file waits until its pod is on this node; a request of the admin socket fails at once.
//! - What a request is about is written down before the policy hears of it, and never changes afterwards: a
//!   restart assigns nothing anew, and what has ended is not run again. An edit after that is told in the
//!   status, and does nothing.
//! - A file that goes takes its status with it.
//!
//! A file that is a `NodeImage` is left to [`crate::images::node_image`].
//!
//! Nothing here decides about containers; that is the policy's.

mod assign;
mod entries;
mod entry;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod list;
mod manifest;
mod record;
mod submit;
mod watch;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use berth_policy::{Event, RecreateReport, RecreateRequest, RequestEffect, RequestId, StepOutcome};
use berth_shim::Gate;
use jiff::Timestamp;
use tracing::{info, warn};

pub(crate) use self::{assign::Unassigned, submit::SubmitError};
use self::{
    entries::Entries,
    entry::{Entry, State},
};
use crate::{
    agent::Agent,
    base::{causes::chain, clock::Clock},
    cri::Runtime,
    files::FileError,
    recreate::codec,
};

/// The requests that are files. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    agent: Arc<Agent>,
    runtime: Runtime,
    /// Where people put files.
    desired: PathBuf,
    /// Where the requests of the admin socket are kept.
    submitted: PathBuf,
    entries: Entries,
    /// The policy has got the list of all requests that there were at the start.
    listed: AtomicBool,
    /// The same timestamp is always the same instant.
    clock: Mutex<Clock>,
}

impl Files {
    /// The files of `desired` and of `<state_dir>/requests`; neither is looked at yet.
    pub(crate) fn new(agent: Arc<Agent>, runtime: Runtime, desired: PathBuf, state_dir: &Path) -> Self {
        Self(Arc::new(Inner {
            agent,
            runtime,
            desired,
            submitted: state_dir.join("requests"),
            entries: Entries::default(),
            listed: AtomicBool::new(false),
            clock: Mutex::new(Clock::read()),
        }))
    }

    /// Changes a request that is a file: its status, or it is deleted.
    pub(crate) async fn change(&self, id: &RequestId, effect: &RequestEffect) -> StepOutcome {
        let done = match effect {
            RequestEffect::Report(report) => self.report(id, report).await,
            RequestEffect::Delete => self.delete(id).await,
        };
        done.unwrap_or_else(|error| {
            // The policy tries again, with pauses that grow.
            warn!(error = %chain(&error), "Step about a file not carried out");
            StepOutcome::Failed
        })
    }

    async fn report(&self, id: &RequestId, report: &RecreateReport) -> Result<StepOutcome, FileError> {
        let Some(entry) = self.find(id) else { return Ok(StepOutcome::Gone) };
        let mut state = entry.state.lock().await;
        if state.gone {
            return Ok(StepOutcome::Gone);
        }
        let mut record = state.record.clone();
        let ended = record.has_ended();
        record.report(report, Timestamp::now());
        entry.save(&mut state, record).await?;
        if let Some(outcome) = codec::outcome(&state.record.status).filter(|_| !ended) {
            info!(file = ?entry.path, ?outcome, message = report.message, "Request ended");
        }
        Ok(StepOutcome::Done)
    }

    async fn delete(&self, id: &RequestId) -> Result<StepOutcome, FileError> {
        let Some(entry) = self.find(id) else { return Ok(StepOutcome::Gone) };
        let mut state = entry.state.lock().await;
        if state.gone || !entry.remove(true).await? {
            return Ok(StepOutcome::Gone);
        }
        info!(file = ?entry.path, "Request deleted, it ended long enough ago");
        self.forget(&entry, &mut state);
        Ok(StepOutcome::Done)
    }

    fn find(&self, id: &RequestId) -> Option<Arc<Entry>> {
        self.0.entries.at(Path::new(id.as_str().strip_prefix("file:")?))
    }

    /// The request is no more.
    fn forget(&self, entry: &Entry, state: &mut State) {
        state.gone = true;
        self.0.entries.remove(&entry.path);
        self.0.agent.observe(Event::RecreateGone(entry.id()));
    }

    /// Tells the policy of a request that was accepted. Before all are listed it hears of them together.
    async fn give(&self, entry: &Entry, state: &mut State) -> Result<(), FileError> {
        if let Some(request) = self.sound(entry, state).await?
            && self.is_listed()
        {
            self.0.agent.observe(Event::RecreateSeen(Box::new(request)));
        }
        Ok(())
    }

    /// The request for the policy. One that was accepted and makes no sense, as after a change of its status
    /// by hand, is ended.
    async fn sound(&self, entry: &Entry, state: &mut State) -> Result<Option<RecreateRequest>, FileError> {
        let refused = match state.record.request(&entry.path, &self.clock()) {
            None => return Ok(None),
            Some(Ok(request)) => return Ok(Some(request)),
            Some(Err(refused)) => refused.report(),
        };
        warn!(file = ?entry.path, reason = refused.message, "Request refused");
        let mut record = state.record.clone();
        record.report(&refused, Timestamp::now());
        entry.save(state, record).await?;
        Ok(state.record.request(&entry.path, &self.clock()).and_then(Result::ok))
    }

    fn is_listed(&self) -> bool {
        self.0.listed.load(Ordering::Acquire)
    }

    fn clock(&self) -> Clock {
        let mut clock = self.0.clock.lock().unwrap_or_else(PoisonError::into_inner);
        *clock = clock.kept(Clock::read());
        *clock
    }
}
