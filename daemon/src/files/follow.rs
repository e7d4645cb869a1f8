//! Follows directories: what came, changed and went, each file once, when its author is done with it.
//!
//! ```text
//!   inotify ─┐
//!   30 s ────┼─ wait ─> look: list, compare, read ─> Look { there, gone, orphans } ─> its owner
//!   100 ms ──┘          a file counts when two looks see the same, and is gone when two miss it
//! ```
//!
//! A look begins at once when something changes, and is made every 30 s in any case; nothing is done in
//! between.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

use super::{
    FileError, blocking,
    directory::{self, Fingerprint, Listing},
    notify::Notify,
};
use crate::base::{causes::chain, deadline::later};

/// Longest pause between two looks: the kernel does not tell everything, such as a mount over the directory.
const RESCAN: Duration = Duration::from_secs(30);
/// Pause between two looks while something is to be tried again, or where the kernel tells of no changes.
const RETRY: Duration = Duration::from_secs(1);
/// How soon again when something may be half written, or half way through being replaced; and the least
/// between two looks.
const SOON: Duration = Duration::from_millis(100);

/// Directories, and the files in them that belong to one owner.
#[derive(Debug)]
pub(crate) struct Follower {
    directories: Vec<PathBuf>,
    /// Whether a file of this content belongs to the owner.
    belongs: fn(&io::Result<String>) -> bool,
    notify: Option<Notify>,
    files: BTreeMap<PathBuf, Seen>,
    /// Status files without a request at the last look.
    orphans: BTreeSet<PathBuf>,
    /// Where links among the files lead.
    links: BTreeSet<PathBuf>,
    /// Directories that could not be read, with what was logged of them.
    unread: BTreeMap<PathBuf, String>,
    /// Files that the owner could not do with as it should.
    again: BTreeSet<PathBuf>,
    /// Something may change within a moment.
    soon: bool,
    looked: Option<Instant>,
}

/// A file at the last look.
#[derive(Debug)]
struct Seen {
    fingerprint: Fingerprint,
    /// It belongs to the owner.
    is_ours: bool,
    /// Its author is done with it.
    settled: bool,
    /// It was not there any more: an editor may be replacing it.
    missing: bool,
}

/// Findings of one look.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Files of the owner that there are, each with its content if that is new and complete.
    pub(crate) there: BTreeMap<PathBuf, Option<io::Result<String>>>,
    /// Files of the owner that are there no more.
    pub(crate) gone: Vec<PathBuf>,
    /// Files that are not there although their status is.
    pub(crate) orphans: Vec<PathBuf>,
}

impl Follower {
    /// The files of these directories that belong to one owner; nothing is looked at yet.
    pub(crate) fn new(directories: Vec<PathBuf>, belongs: fn(&io::Result<String>) -> bool) -> Self {
        Self {
            directories,
            belongs,
            notify: None,
            files: BTreeMap::new(),
            orphans: BTreeSet::new(),
            links: BTreeSet::new(),
            unread: BTreeMap::new(),
            again: BTreeSet::new(),
            soon: false,
            looked: None,
        }
    }

    /// Tells whether every directory could be read the last time.
    pub(crate) fn is_complete(&self) -> bool {
        self.looked.is_some() && self.unread.is_empty()
    }

    /// Has this file shown again with the next look, in a second.
    pub(crate) fn again(&mut self, path: &Path) {
        self.again.insert(path.to_owned());
    }

    /// Waits until it is time to look. `retry`: in a second in any case. Cancel-safe: what was told is told
    /// again.
    pub(crate) async fn wait(&mut self, retry: bool) {
        let Some(looked) = self.looked else { return };
        let Some(notify) = &self.notify else { return };
        // However fast somebody writes.
        sleep_until(later(looked, SOON)).await;
        if self.soon {
            return;
        }
        let retry = retry || !self.again.is_empty() || !self.unread.is_empty() || !notify.is_armed();
        let due = later(looked, if retry { RETRY } else { RESCAN });
        // An error is that it is time.
        let _ = timeout_at(due, notify.changed()).await;
    }

    /// Looks at all of it.
    pub(crate) async fn look(&mut self) -> Look {
        // Watched before it is listed: what changes in between is told.
        self.arm();
        let is_first = self.looked.is_none();
        let (found, statuses) = self.list().await;
        self.soon = self.arm();
        let mut look = Look::default();
        self.forget(&found, &mut look);
        for (path, fingerprint) in found {
            self.see(path, fingerprint, &mut look).await;
        }
        // What a file left that went while nobody looked.
        let before = std::mem::take(&mut self.orphans);
        self.orphans = statuses.into_iter().filter(|path| !self.files.contains_key(path)).collect();
        for path in &self.orphans {
            if is_first || before.contains(path) {
                look.orphans.push(path.clone());
            } else {
                self.soon = true;
            }
        }
        self.again.retain(|path| self.files.contains_key(path));
        self.looked = Some(Instant::now());
        look
    }

    fn arm(&mut self) -> bool {
        self.notify.get_or_insert_with(Notify::new).arm(&self.directories, &self.links)
    }

    /// Lists the directories; of one that cannot be read everything stays.
    async fn list(&mut self) -> (BTreeMap<PathBuf, Fingerprint>, BTreeSet<PathBuf>) {
        let directories = self.directories.clone();
        let list = move || Ok(directories.iter().map(|path| directory::list(path)).collect::<Vec<_>>());
        let all = blocking(list).await;
        let all = all.unwrap_or_else(|error| vec![Err(error)]);
        let (mut found, mut statuses) = (BTreeMap::new(), BTreeSet::new());
        self.links.clear();
        for (path, listing) in self.directories.iter().zip(all) {
            match listing {
                Ok(Listing { requests, statuses: of_these, links }) => {
                    self.unread.remove(path);
                    found.extend(requests);
                    statuses.extend(of_these);
                    self.links.extend(links);
                }
                Err(source) => {
                    let why = chain(&FileError::Read { path: path.clone(), source });
                    if self.unread.insert(path.clone(), why.clone()).as_ref() != Some(&why) {
                        warn!(error = why, "Directory not read, trying every second");
                    }
                    let known = self.files.iter().filter(|(file, _)| file.parent() == Some(path.as_path()));
                    found.extend(known.map(|(file, seen)| (file.clone(), seen.fingerprint)));
                }
            }
        }
        (found, statuses)
    }

    /// Forgets what two looks have missed.
    fn forget(&mut self, found: &BTreeMap<PathBuf, Fingerprint>, look: &mut Look) {
        let soon = &mut self.soon;
        self.files.retain(|path, seen| {
            if found.contains_key(path) {
                seen.missing = false;
            } else if std::mem::replace(&mut seen.missing, true) {
                if seen.is_ours {
                    look.gone.push(path.clone());
                }
                return false;
            } else {
                *soon = true;
            }
            true
        });
    }

    async fn see(&mut self, path: PathBuf, fingerprint: Fingerprint, look: &mut Look) {
        let before = self.files.get(&path);
        let was_ours = before.is_some_and(|seen| seen.is_ours);
        let is_same = before.is_some_and(|seen| seen.fingerprint == fingerprint);
        if is_same && before.is_some_and(|seen| seen.settled) && !self.again.remove(&path) {
            if was_ours {
                look.there.insert(path, None);
            }
            return;
        }
        let settled = is_same || fingerprint.is_settled();
        self.soon |= !settled;
        let from = path.clone();
        let content = match blocking(move || directory::read(&from)).await {
            // It is missing with the next look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            content => content,
        };
        let is_ours = (self.belongs)(&content) || was_ours && content.is_err();
        self.files.insert(path.clone(), Seen { fingerprint, is_ours, settled, missing: false });
        match (is_ours, was_ours) {
            (true, _) => drop(look.there.insert(path, settled.then_some(content))),
            (false, true) => look.gone.push(path),
            (false, false) => {}
        }
    }
}
