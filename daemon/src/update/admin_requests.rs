//! The requests of `berthctl update`: whole objects, each in a file of the agent's state directory until its
//! time is over.
//!
//! ```text
//!   prepare --> keep --> <stateDir>/updates/web-x7k2p.json --> updates
//!                           ^                                   |
//!                           '-------------- report <------------'
//! ```
//!
//! A request that counts is in its file: an agent that is killed loses none. A file that cannot be read
//! is told once and left alone.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{Failure, UpdateReport, UpdateRequest, UpdateSource},
};
use berth_proto::{
    crd::{ContainerUpdateRequest, ContainerUpdateRequestStatus},
    quoting::unquoted,
};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::{
    convert::{self, Flaw, Named},
    report,
    shared::{SharedUpdates, StoredRequest},
};
use crate::{
    base::{causes::chain, clock::Clock},
    cluster::pause,
    files::{FileError, store},
};

/// The end of the names of the files. JSON keeps every text as it is.
const SUFFIX: &str = ".json";
/// How long the updates wait for a disk that cannot be read.
const DISK_TIMEOUT: Duration = Duration::from_secs(60);
/// More than any file has: the annotations that are asked for and those that were there, each character as
/// six at most.
const LONGEST: u64 = 4 << 20;

/// Where they are kept.
#[derive(Debug)]
pub(super) struct AdminRequests {
    directory: PathBuf,
    /// As their files are. Nothing awaits while the lock is held.
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    clock: Clock,
    /// Version of the entries that were told; grows with every change.
    version: u64,
    objects: HashMap<RequestId, Object>,
}

/// A request that can be kept, and where.
#[derive(Clone, Debug)]
pub(super) struct Object {
    id: RequestId,
    namespace: String,
    name: String,
    created: Timestamp,
    path: PathBuf,
    request: ContainerUpdateRequest,
}

/// Why a request cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// Its values cannot be.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// It has no name, namespace, UID or time.
    #[error("metadata is not that of a request")]
    Nameless,
}

impl AdminRequests {
    pub(super) fn new(state_dir: &Path) -> Self {
        let kept = Kept { clock: Clock::read(), version: 0, objects: HashMap::new() };
        Self { directory: state_dir.join("updates"), kept: Mutex::new(kept) }
    }

    /// Tells the updates of those that an earlier process kept. Without them it would look as if nobody
    /// wanted anything of their pods, so a disk that cannot be read is read again; but not for so long that
    /// nothing else is done.
    pub(super) async fn load(&self, updates: &SharedUpdates) {
        store::tidy(vec![self.directory.clone()]).await;
        let (began, mut attempt, mut waits) = (Instant::now(), 0, true);
        let found = loop {
            let error = match store::read_all(&self.directory, SUFFIX, LONGEST).await {
                Ok(found) => break found,
                Err(error) => chain(&error),
            };
            warn!(error, "Updates of berthctl not read, trying again");
            if waits && began.elapsed() >= DISK_TIMEOUT {
                error!("Updates of berthctl are left out until they can be read");
                self.list(updates);
                waits = false;
            }
            sleep(pause::after(attempt)).await;
            attempt += 1;
        };
        self.keep_all(found);
        self.list(updates);
    }

    fn keep_all(&self, found: Vec<(PathBuf, io::Result<String>)>) {
        let mut kept = self.kept();
        for (path, text) in found {
            let read = text.and_then(|text| serde_json::from_str(&text).map_err(io::Error::from));
            let object = read.map_err(|error| unquoted(&error.to_string())).and_then(|request| {
                Object::of(path.clone(), request).ok_or_else(|| Unfit::Nameless.to_string())
            });
            match object {
                Ok(object) => {
                    // One that came meanwhile is newer than its file was.
                    kept.objects.entry(object.id.clone()).or_insert(object);
                }
                Err(error) => warn!(file = ?path, error, "File is no update of berthctl, it is left alone"),
            }
        }
    }

    fn list(&self, updates: &SharedUpdates) {
        let kept = self.kept();
        let entries = kept.objects.values().map(|object| object.entry(&kept.clock, kept.version)).collect();
        drop(kept);
        updates.listed(UpdateSource::Admin, entries);
    }

    /// Looks whether a request can be taken at all.
    pub(super) fn prepare(&self, request: ContainerUpdateRequest) -> Result<Object, Unfit> {
        let name = request.metadata.name.clone().unwrap_or_default();
        let path = self.directory.join(format!("{name}{SUFFIX}"));
        let object = Object::of(path, request).ok_or(Unfit::Nameless)?;
        object.asked(&self.kept().clock).1?;
        Ok(object)
    }

    /// Takes a request. On return it survives the agent, and counts.
    pub(super) async fn keep(&self, object: Object, updates: &SharedUpdates) -> Result<(), FileError> {
        // Values of annotations are nobody's business but root's.
        store::make(&self.directory, 0o700).await?;
        object.write().await?;
        info!(request = format!("{}/{}", object.namespace, object.name), file = ?object.path, "Update taken");
        self.show(object, updates);
        Ok(())
    }

    /// Writes what the status of a request is to say, unless it says so.
    pub(super) async fn report(
        &self,
        id: &RequestId,
        report: &UpdateReport,
        updates: &SharedUpdates,
    ) -> StepOutcome {
        let Some(mut object) = self.object(id) else { return StepOutcome::Gone };
        let old = object.request.status.take().unwrap_or_default();
        let status = ContainerUpdateRequestStatus {
            node_name: old.node_name.clone(),
            pod_uid: old.pod_uid.clone(),
            ..report::status(report, &old, Timestamp::now())
        };
        if status == old {
            return StepOutcome::Done;
        }
        object.request.status = Some(status);
        match object.write().await {
            Ok(()) => {
                self.show(object, updates);
                StepOutcome::Done
            }
            Err(error) => {
                warn!(error = %chain(&error), "Update of berthctl not reported, trying again");
                StepOutcome::Failed
            }
        }
    }

    /// Removes a request that ended long enough ago.
    pub(super) async fn delete(&self, id: &RequestId, updates: &SharedUpdates) -> StepOutcome {
        let Some(object) = self.object(id) else { return StepOutcome::Gone };
        if let Err(error) = store::remove(&object.path).await {
            warn!(error = %chain(&error), "Update of berthctl not deleted, trying again");
            return StepOutcome::Failed;
        }
        self.kept().objects.remove(id);
        updates.gone(id);
        info!(file = ?object.path, "Update of berthctl deleted, it ended long enough ago");
        StepOutcome::Done
    }

    /// Tells the updates of the object: from now on it counts as it is in the file.
    fn show(&self, object: Object, updates: &SharedUpdates) {
        let mut kept = self.kept();
        kept.version += 1;
        kept.clock = kept.clock.kept(Clock::read());
        let entry = object.entry(&kept.clock, kept.version);
        kept.objects.insert(object.id.clone(), object);
        drop(kept);
        updates.seen(entry);
    }

    fn object(&self, id: &RequestId) -> Option<Object> {
        self.kept().objects.get(id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object {
    /// `None` for one without a name, which nobody has submitted.
    fn of(path: PathBuf, request: ContainerUpdateRequest) -> Option<Self> {
        let metadata = &request.metadata;
        Some(Self {
            id: metadata.uid.as_deref()?.into(),
            namespace: metadata.namespace.clone()?,
            name: metadata.name.clone()?,
            created: metadata.creation_timestamp.as_ref()?.0,
            path,
            request,
        })
    }

    fn asked(&self, clock: &Clock) -> (UpdateRequest, Result<(), Flaw>) {
        let named = Named {
            id: self.id.clone(),
            source: UpdateSource::Admin,
            namespace: &self.namespace,
            name: &self.name,
            created: clock.instant(self.created),
        };
        let status = self.request.status.clone().unwrap_or_default();
        convert::request(named, Ok(&self.request.spec), &status, clock)
    }

    fn entry(&self, clock: &Clock, version: u64) -> StoredRequest {
        let (request, sound) = self.asked(clock);
        StoredRequest { request, flaw: sound.err().map(Failure::from), version }
    }

    fn text(&self) -> String {
        // Texts, numbers and times: nothing of it can fail.
        serde_json::to_string_pretty(&self.request).unwrap_or_default() + "\n"
    }

    async fn write(&self) -> Result<(), FileError> {
        store::write(&self.path, self.text()).await
    }
}

#[cfg(test)]
mod tests;
