//! Tells what came, changed and went among the files.

use std::{io, path::Path, sync::Arc, sync::atomic::Ordering};

use berth_policy::{Event, Origin};
use berth_shim::Gate;
use futures::StreamExt;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Files, Unassigned,
    entry::{Entry, State},
    record::Accepted,
};
use crate::{
    base::causes::chain,
    files::{FileError, Follower, Look, node_image, status_of, store},
};

/// How many files are read and written at the same time.
const ABREAST: usize = 16;

/// The one who looks.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Files,
    follower: Follower,
    /// A request waits for its pod, or could not be followed.
    retry: bool,
}

/// Work that is left to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing.
    Nothing,
    /// To try again what is wanted.
    Retry,
    /// To read it again.
    Again,
}

impl Files {
    /// Looks for the first time, and tells the policy all requests that were accepted before: to be done
    /// before the policy acts on what it finds in the store.
    pub(crate) async fn watch(&self) -> Watch {
        let directories = vec![self.0.desired.clone(), self.0.submitted.clone()];
        store::tidy(directories.clone()).await;
        // One that cannot be read is told as one that should be a request.
        let belongs =
            |content: &io::Result<String>| !content.as_ref().is_ok_and(|text| node_image::is_one(text));
        let follower = Follower::new(directories, belongs);
        let mut watch = Watch { files: self.clone(), follower, retry: false };
        watch.turn().await;
        watch
    }
}

impl Watch {
    /// Looks whenever something may have changed, until the shutdown.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        // Cancel-safe: only the pause is cut short, never a look.
        while shutdown.run_until_cancelled(self.follower.wait(self.retry)).await.is_some() {
            self.turn().await;
        }
    }

    /// One look; the first one at which everything could be read is the list.
    pub(super) async fn turn(&mut self) {
        let look = self.follower.look().await;
        self.take(look).await;
        if self.follower.is_complete() && !self.files.is_listed() {
            let mut requests = Vec::new();
            for entry in self.files.0.entries.all() {
                let state = entry.state.lock().await;
                let request = state.record.request(&entry.path, &self.files.clock());
                requests.extend(request.and_then(Result::ok));
            }
            info!(requests = requests.len(), directory = ?self.files.0.desired, "Requests of files listed");
            // No await in between: from here on each is told by itself.
            self.files.0.agent.observe(Event::RecreatesListed(Origin::File, requests));
            self.files.0.listed.store(true, Ordering::Release);
        }
    }

    async fn take(&mut self, look: Look) {
        let files = self.files.clone();
        for path in &look.gone {
            if let Some(entry) = files.0.entries.at(path) {
                files.gone(&entry).await;
            }
        }
        for path in look.orphans.iter().filter(|path| files.0.entries.at(path).is_none()) {
            let status = status_of(path);
            match store::remove(&status).await {
                Ok(_) => info!(file = ?status, "Status removed, its request is gone"),
                Err(error) => warn!(error = %chain(&error), "Status without a request not removed"),
            }
        }
        let mut visits = Vec::new();
        for (path, content) in look.there {
            let entry = match files.0.entries.at(&path) {
                Some(entry) => entry,
                None => files.take_up(&path).await,
            };
            visits.push((entry, content));
        }
        let left: Vec<_> = futures::stream::iter(visits)
            .map(|(entry, content)| {
                let files = &files;
                async move { (files.visit(&entry, content).await, entry) }
            })
            .buffer_unordered(ABREAST)
            .collect()
            .await;
        self.retry = left.iter().any(|(left, _)| *left != Left::Nothing);
        for (_, entry) in left.iter().filter(|(left, _)| *left == Left::Again) {
            self.follower.again(&entry.path);
        }
    }
}

impl Files {
    /// A file that was not known before.
    async fn take_up(&self, path: &Path) -> Arc<Entry> {
        let entry = Entry::open(path.to_owned()).await;
        {
            let mut state = entry.state.lock().await;
            self.claim_accepted(&entry, &state);
            if let Some(why) = &state.damaged {
                let remedy = "remove it to have the request carried out anew, or remove the request";
                warn!(file = ?status_of(path), error = why, remedy, "Status not understood, its request is left alone");
            }
            if let Err(error) = self.sound(&entry, &mut state).await {
                warn!(error = %chain(&error), "Request that makes no sense not ended");
            }
        }
        self.0.entries.insert(entry)
    }

    /// Claims the name of a request that was accepted before: it was given it then.
    fn claim_accepted(&self, entry: &Entry, state: &State) {
        if let Some(accepted) = &state.record.accepted {
            let _ = self.0.entries.claim(&accepted.key(), &entry.path);
        }
    }

    /// Reads a status again that could not be understood. False: it still cannot.
    async fn reopen(&self, entry: &Entry, state: &mut State) -> bool {
        if !entry.reopen(state).await {
            return false;
        }
        info!(file = ?entry.path, "Status of a request is removed or understood now, the request is followed");
        self.claim_accepted(entry, state);
        if let Err(error) = self.give(entry, state).await {
            warn!(error = %chain(&error), "Request that makes no sense not ended");
        }
        true
    }

    /// Takes the content of a file if there is a new one, and assigns it if it is not.
    async fn visit(&self, entry: &Entry, content: Option<io::Result<String>>) -> Left {
        let mut state = entry.state.lock().await;
        if state.gone {
            return Left::Nothing;
        }
        if state.damaged.is_some() && !self.reopen(entry, &mut state).await {
            return Left::Again;
        }
        let mut left = Left::Nothing;
        let mut done = Ok(());
        if let Some(content) = content {
            // What is wrong with the disk may pass; what is wrong with the content stays.
            let is_read = content.is_ok();
            done = entry.read(&mut state, content).await;
            if !is_read || done.is_err() {
                left = Left::Again;
            }
        }
        if done.is_ok() && state.wanted.is_some() && !state.record.is_accepted() {
            done = self.accept(entry, &mut state).await;
        }
        let trouble = done.err().map(|error| chain(&error));
        if let Some(error) = &trouble
            && state.trouble != trouble
        {
            warn!(file = ?entry.path, error, "Request not followed, trying every second");
        }
        let waits = trouble.is_some() || state.wanted.is_some() && !state.record.is_accepted();
        state.trouble = trouble;
        if left == Left::Nothing && waits { Left::Retry } else { left }
    }

    /// Assigns a request, or says why that cannot be yet.
    async fn accept(&self, entry: &Entry, state: &mut State) -> Result<(), FileError> {
        let Some(wanted) = state.wanted.clone() else { return Ok(()) };
        let accepted = Accepted::of(&wanted, entry.stem());
        let (key, pod) = (accepted.key(), accepted.pod());
        let now = Timestamp::now();
        let mut record = state.record.clone();
        if record.is_late(&accepted.spec, now) {
            info!(file = ?entry.path, request = key, "Request ended, its deadline passed before it could begin");
            record.expire(accepted, now);
        } else {
            match self.claim_and_assign(entry, &key, &pod, &accepted).await {
                Ok((assigned, contexts)) => {
                    info!(file = ?entry.path, request = key, pod, "Request accepted");
                    record.accept(accepted, &assigned, contexts, now);
                }
                Err(why) => {
                    if state.is_news(&why) {
                        info!(file = ?entry.path, request = key, why, "Request waits");
                    }
                    record.wait(&why, now);
                    return entry.save(state, record).await;
                }
            }
        }
        entry.save(state, record).await?;
        state.wanted = None;
        self.give(entry, state).await
    }

    async fn claim_and_assign(
        &self,
        entry: &Entry,
        key: &str,
        pod: &str,
        accepted: &Accepted,
    ) -> Result<(berth_policy::Assigned, Vec<berth_proto::crd::StatusContext>), String> {
        let assigned = self.assign(pod, &accepted.spec).await.map_err(|why: Unassigned| chain(&why))?;
        self.0.entries.claim(key, &entry.path).map_err(|holder| {
            format!(
                "{key} is also the request in {}: give one of them another metadata.name",
                holder.display()
            )
        })?;
        Ok(assigned)
    }

    /// A file that is there no more.
    async fn gone(&self, entry: &Entry) {
        let mut state = entry.state.lock().await;
        if state.gone {
            return;
        }
        info!(file = ?entry.path, "Request removed");
        // One that is not a request's is somebody else's.
        if state.damaged.is_none()
            && let Err(error) = entry.remove(false).await
        {
            warn!(error = %chain(&error), "Status of a removed request not removed");
        }
        self.forget(entry, &mut state);
    }
}
