//! `NodeImage`s that are files of the desired-state directory, for nodes without an API server.
//!
//! A file's `spec.images` is what it asks for; its status is written beside it, as that of a request is. It
//! has no node's name to match: a file is about the node it is on. What has ended stays so in the status
//! file, so a restart pulls nothing twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use berth_policy::{ImageEvent, WishReport, WishSource};
use berth_proto::crd::{NodeImage, NodeImageStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::Resource;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    SharedImages,
    status::{self, Told},
    wishes::{self, Asked},
};
use crate::{
    base::{causes::chain, clock::Clock, deadline::later, status::whole_second},
    files::{
        FileError, blocking,
        directory::{self, Fingerprint},
        node_image,
    },
};

/// How often the directory is looked at, and a status is written while a pull goes on.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause after a change, in which further ones are collected and told together.
const TOGETHER: Duration = Duration::from_millis(50);

/// The files.
#[derive(Debug)]
pub(crate) struct ImageFiles {
    keeper: Arc<SharedImages>,
    directory: PathBuf,
    pin: Option<Duration>,
    known: BTreeMap<PathBuf, File>,
    /// Known files that were missing at the last look: an editor may be replacing them.
    missing: BTreeSet<PathBuf>,
    clock: Clock,
    /// Trouble that was logged of the directory, or of a file, and is not logged again.
    trouble: BTreeMap<PathBuf, String>,
}

/// A file that says it is a `NodeImage`, or any other that was looked at.
#[derive(Debug)]
struct File {
    fingerprint: Fingerprint,
    /// `None`: it is something else.
    content: Option<Content>,
}

/// Part of a status file that is read.
#[derive(Deserialize)]
struct Written {
    status: NodeImageStatus,
}

#[derive(Debug)]
struct Content {
    asked: Asked,
    /// Status that was written for it, and when by this process.
    status: NodeImageStatus,
    written: Option<Instant>,
    /// The last write failed for this reason.
    trouble: Option<String>,
}

impl ImageFiles {
    /// The files of this directory; it is not looked at yet.
    pub(crate) fn new(keeper: Arc<SharedImages>, directory: PathBuf, pin: Option<Duration>) -> Self {
        let clock = Clock::read();
        Self {
            keeper,
            directory,
            pin,
            known: BTreeMap::new(),
            missing: BTreeSet::new(),
            clock,
            trouble: BTreeMap::new(),
        }
    }

    /// Looks until the shutdown.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut changes = self.keeper.news();
        // Cancel-safe at both awaits: what is written is written whole.
        let turns = async {
            let mut next = Instant::now();
            loop {
                if Instant::now() >= next {
                    self.look().await;
                    next = later(Instant::now(), PERIOD);
                }
                changes.mark_unchanged();
                self.tell().await;
                // A change is told soon, and the directory looked at once a second in any case.
                if timeout_at(next, changes.changed()).await.is_ok() {
                    tokio::time::sleep(TOGETHER).await;
                }
            }
        };
        shutdown.run_until_cancelled(turns).await;
    }

    async fn look(&mut self) {
        let path = self.directory.clone();
        let listing = match blocking(move || directory::list(&path)).await {
            Ok(listing) => listing,
            Err(source) => {
                let path = self.directory.clone();
                self.told(path.clone(), &FileError::Read { path, source });
                return;
            }
        };
        self.trouble.retain(|path, _| listing.requests.contains_key(path));
        let missing: BTreeSet<PathBuf> =
            self.known.keys().filter(|path| !listing.requests.contains_key(*path)).cloned().collect();
        let mut changed = false;
        for path in missing.intersection(&self.missing) {
            changed |= Self::gone(path, self.known.remove(path)).await;
        }
        self.missing = missing;
        for (path, fingerprint) in listing.requests {
            let known = self.known.get(&path).is_some_and(|file| file.fingerprint == fingerprint);
            // What somebody is writing is half of what is meant.
            if known || !fingerprint.is_settled() {
                continue;
            }
            match self.read(&path).await {
                Ok(content) => {
                    self.trouble.remove(&path);
                    changed |= content.is_some();
                    let before = self.known.insert(path, File { fingerprint, content });
                    changed |= before.is_some_and(|before| before.content.is_some());
                }
                Err(error) => self.told(path, &error),
            }
        }
        if changed {
            let asked = self.known.values().filter_map(|file| file.content.as_ref());
            let wishes = asked.flat_map(|content| content.asked.wishes.clone()).collect();
            self.keeper.apply(ImageEvent::WishesListed(WishSource::File, wishes));
        }
    }

    /// Logs a failure that was not logged before.
    fn told(&mut self, path: PathBuf, error: &FileError) {
        let why = chain(error);
        if self.trouble.get(&path) != Some(&why) {
            warn!(error = why, "NodeImages not read, trying every second");
            self.trouble.insert(path, why);
        }
    }

    /// Removes the status of a file that went; whether it asked for anything.
    async fn gone(path: &Path, file: Option<File>) -> bool {
        let Some(File { content: Some(_), .. }) = file else { return false };
        info!(file = ?path, "NodeImage removed");
        let status = directory::status_of(path);
        if let Err(error) = blocking(move || directory::remove(&status)).await {
            warn!(file = ?path, %error, "Status of a removed NodeImage not removed");
        }
        true
    }

    async fn read(&self, path: &Path) -> Result<Option<Content>, FileError> {
        let (file, status) = (path.to_owned(), directory::status_of(path));
        let read = blocking(move || Ok((directory::read(&file)?, directory::read_if_there(&status)?))).await;
        let (text, status) = read.map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let Some(object) = node_image::read(&text) else { return Ok(None) };
        // One that cannot be read is written anew: what it said can be found out again from the runtime.
        let written = status.and_then(|text| serde_saphyr::from_str::<Written>(&text).ok());
        let status = written.map(|written| written.status).unwrap_or_default();
        let asked = match object {
            Ok(mut object) => {
                object.status = Some(NodeImageStatus { desired_images: Vec::new(), ..status.clone() });
                wishes::asked(&object, WishSource::File, &prefix(path), self.pin)
            }
            Err(fault) => Asked { wishes: Vec::new(), faults: vec![fault] },
        };
        info!(file = ?path, images = asked.wishes.len(), faults = ?asked.faults, "NodeImage read");
        Ok(Some(Content { asked, status, written: None, trouble: None }))
    }

    async fn tell(&mut self) {
        let reports = self.keeper.reports();
        self.clock = self.clock.kept(Clock::read());
        for (path, file) in &mut self.known {
            let Some(content) = &mut file.content else { continue };
            let status = content.owed(path, &reports, &self.clock);
            let only_progress =
                status::without_progress(&status) == status::without_progress(&content.status);
            let lately = content.written.is_some_and(|written| written.elapsed() < PERIOD);
            if status == content.status || only_progress && lately {
                continue;
            }
            content.written = Some(Instant::now());
            match write(path, &status).await {
                Ok(()) => (content.status, content.trouble) = (status, None),
                Err(error) => {
                    let error = chain(&error);
                    if content.trouble.as_ref() != Some(&error) {
                        warn!(error, "Status of a NodeImage not written, trying every second");
                    }
                    content.trouble = Some(error);
                }
            }
        }
    }
}

impl Content {
    fn owed(&self, path: &Path, reports: &[WishReport], clock: &Clock) -> NodeImageStatus {
        let prefix = prefix(path);
        let own = reports.iter().filter(|report| {
            report.id.source == WishSource::File && report.id.key.starts_with(prefix.as_str())
        });
        let own: Vec<WishReport> = own.cloned().collect();
        let told = Told { reports: &own, prefix: &prefix, faults: &self.asked.faults, sealing_key: None };
        status::status(&told, &self.status, clock, Time(whole_second(Timestamp::now(), false)))
    }
}

/// Makes the prefix by which the wishes of a file are told apart. No file name has the character in it.
fn prefix(path: &Path) -> String {
    format!("{}\0", path.display())
}

async fn write(path: &Path, status: &NodeImageStatus) -> Result<(), FileError> {
    let to = directory::status_of(path);
    let failed = |source| FileError::Write { path: to.clone(), source };
    let object = json!({
        "apiVersion": NodeImage::api_version(&()),
        "kind": NodeImage::kind(&()),
        "status": status,
    });
    let text = serde_saphyr::to_string(&object).map_err(|error| failed(std::io::Error::other(error)))?;
    let target = to.clone();
    blocking(move || directory::write(&target, &text)).await.map_err(failed)
}
