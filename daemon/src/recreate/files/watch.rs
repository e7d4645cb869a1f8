//! Looks at the directories once a second, and tells what came, changed and went.
//!
//! A look is a list of names, times and sizes, which costs next to nothing; inotify would cost a watch that breaks when the
//! directory is moved, mounted over or made later.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use berth_policy::{Event, Origin};
use berth_shim::Gate;
use futures::StreamExt;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Files, Unassigned,
    entry::{self, Entry, State},
    record::Accepted,
};
use crate::{
    base::causes::chain,
    files::{
        FileError, blocking,
        directory::{self, Fingerprint, Listing},
        node_image,
    },
};

/// How often the directories are looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// How soon again when something may be half written, or half way through being replaced.
const SOON: Duration = Duration::from_millis(100);
/// How many files are read and written at the same time.
const ABREAST: usize = 16;

/// The one who looks.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Files,
    /// Files that were there at the last look.
    last: BTreeMap<PathBuf, Fingerprint>,
    /// Known files that were missing at the last look: an editor may be replacing them.
    missing: BTreeSet<PathBuf>,
    /// Files that are no requests and say so, as they were when they were looked at.
    others: BTreeMap<PathBuf, Fingerprint>,
    /// Directories that could not be read, with what was logged of them.
    unread: BTreeMap<PathBuf, String>,
    /// Something may change within a moment.
    soon: bool,
}

impl Files {
    /// Looks for the first time, and tells the policy all requests that were accepted before: to be done before the policy
    /// acts on what it finds in the store.
    pub(crate) async fn watch(&self) -> Watch {
        let (desired, submitted) = (self.0.desired.clone(), self.0.submitted.clone());
        let tidied = blocking(move || {
            [desired, submitted].iter().for_each(|directory| directory::tidy(directory));
            Ok(())
        });
        // There is nothing in it that could fail.
        let _ = tidied.await;
        let mut watch = Watch {
            files: self.clone(),
            last: BTreeMap::new(),
            missing: BTreeSet::new(),
            others: BTreeMap::new(),
            unread: BTreeMap::new(),
            soon: false,
        };
        watch.turn().await;
        watch
    }
}

impl Watch {
    /// Looks until the shutdown.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let pause = |soon| if soon { SOON } else { PERIOD };
        // Cancel-safe: only the pause is cut short, never a look.
        while shutdown.run_until_cancelled(tokio::time::sleep(pause(self.soon))).await.is_some() {
            self.turn().await;
        }
    }

    /// One look; the first one at which everything could be read is the list.
    pub(super) async fn turn(&mut self) {
        self.look().await;
        if self.unread.is_empty() && !self.files.is_listed() {
            let mut requests = Vec::new();
            for entry in self.files.0.known.all() {
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

    async fn look(&mut self) {
        self.soon = false;
        let files = self.files.clone();
        let before = files.0.known.all();
        let mut found = Listing::default();
        for directory in [&files.0.desired, &files.0.submitted] {
            if let Some(listing) = self.list(directory).await {
                found.requests.extend(listing.requests);
                found.statuses.extend(listing.statuses);
            }
        }
        self.leave_others(&mut found).await;
        for entry in before {
            let unread = entry.path.parent().is_some_and(|directory| self.unread.contains_key(directory));
            if found.requests.contains_key(&entry.path) || unread {
                self.missing.remove(&entry.path);
            } else if self.missing.insert(entry.path.clone()) {
                self.soon = true;
            } else {
                self.missing.remove(&entry.path);
                files.gone(&entry).await;
            }
        }
        for path in found.statuses {
            // What a request left that went while no agent was there.
            if !found.requests.contains_key(&path) && files.0.known.at(&path).is_none() {
                let status = directory::status_of(&path);
                match entry::remove(&status).await {
                    Ok(_) => info!(file = ?status, "Status removed, its request is gone"),
                    Err(error) => warn!(error = %chain(&error), "Status without a request not removed"),
                }
            }
        }
        let mut visits = Vec::new();
        for (path, fingerprint) in &found.requests {
            let entry = match files.0.known.at(path) {
                Some(entry) => entry,
                None => files.take_up(path).await,
            };
            let settled = self.last.get(path) == Some(fingerprint) || fingerprint.is_settled();
            self.soon |= !settled;
            visits.push((entry, settled.then_some(*fingerprint)));
        }
        futures::stream::iter(visits)
            .for_each_concurrent(ABREAST, |(entry, fingerprint)| {
                let files = &files;
                async move { files.visit(&entry, fingerprint).await }
            })
            .await;
        self.last = found.requests;
    }

    /// Takes out what is somebody else's.
    async fn leave_others(&mut self, found: &mut Listing) {
        self.others.retain(|path, _| found.requests.contains_key(path));
        for (path, fingerprint) in std::mem::take(&mut found.requests) {
            let is_known = self.last.get(&path) == Some(&fingerprint);
            if self.others.get(&path) == Some(&fingerprint) {
                // The status beside it is not a request's.
                found.statuses.remove(&path);
            } else if !is_known && is_other(&path).await {
                found.statuses.remove(&path);
                self.others.insert(path, fingerprint);
            } else {
                self.others.remove(&path);
                found.requests.insert(path, fingerprint);
            }
        }
    }

    /// Lists a directory; `None` when it cannot be read.
    async fn list(&mut self, directory: &Path) -> Option<Listing> {
        let path = directory.to_owned();
        match blocking(move || directory::list(&path)).await {
            Ok(listing) => {
                self.unread.remove(directory);
                Some(listing)
            }
            Err(source) => {
                let error = FileError::Read { path: directory.to_owned(), source };
                let why = chain(&error);
                if self.unread.insert(directory.to_owned(), why.clone()).as_ref() != Some(&why) {
                    warn!(error = why, "Directory of requests not read, trying every second");
                }
                None
            }
        }
    }
}

/// Whether a file says that it is no request. One that cannot be read is told as one that should be.
async fn is_other(path: &Path) -> bool {
    let path = path.to_owned();
    let text = blocking(move || directory::read_if_there(&path)).await;
    text.is_ok_and(|text| text.is_some_and(|text| node_image::is_one(&text)))
}

impl Files {
    /// A file that was not known before.
    async fn take_up(&self, path: &Path) -> Arc<Entry> {
        let entry = Entry::open(path.to_owned()).await;
        {
            let mut state = entry.state.lock().await;
            if let Some(accepted) = &state.record.accepted {
                // It was given its name when it was accepted.
                let _ = self.0.known.claim(&accepted.key(), path);
            }
            if let Some(why) = &state.damaged {
                let remedy = "remove it to have the request carried out anew, or remove the request";
                warn!(file = ?directory::status_of(path), error = why, remedy, "Status not understood, its request is left alone");
            }
            if let Err(error) = self.sound(&entry, &mut state).await {
                warn!(error = %chain(&error), "Request that makes no sense not ended");
            }
        }
        self.0.known.insert(entry)
    }

    /// Reads a file if it may have changed, and assigns it if it is not.
    async fn visit(&self, entry: &Entry, fingerprint: Option<Fingerprint>) {
        let mut state = entry.state.lock().await;
        if state.gone || state.damaged.is_some() {
            return;
        }
        let mut done = Ok(());
        if let Some(fingerprint) = fingerprint {
            done = entry.read(&mut state, fingerprint).await;
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
        state.trouble = trouble;
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
        self.0.known.claim(key, &entry.path).map_err(|holder| {
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
        if let Err(error) = entry.remove(false).await {
            warn!(error = %chain(&error), "Status of a removed request not removed");
        }
        self.forget(entry, &mut state);
    }
}
