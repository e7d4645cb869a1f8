//! One file: what it says, what is written down of it, and keeping the two on the disk.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use berth_policy::RequestId;
use berth_proto::crd::ContainerRecreateRequest;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tracing::warn;

use super::{
    manifest,
    record::{self, Accepted, Record},
};
use crate::files::{
    FileError, blocking,
    directory::{self, Fingerprint},
};

/// A file of a request.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where it is.
    pub(super) path: PathBuf,
    /// State under a lock: only its holder reads the file, writes its status, or tells the policy of it.
    pub(super) state: Mutex<State>,
}

/// State of a file.
#[derive(Debug)]
pub(super) struct State {
    /// Record as it is written down.
    pub(super) record: Record,
    /// Request in the file, while that can be changed.
    pub(super) wanted: Option<ContainerRecreateRequest>,
    /// The file as it was read the last time.
    read: Option<Fingerprint>,
    /// Its status file is there and cannot be understood: whether it was assigned, nobody knows, so it is left alone.
    pub(super) damaged: Option<String>,
    /// It was removed; whatever still has it in hand does nothing with it.
    pub(super) gone: bool,
    /// The last failure that was logged, so that each is logged once.
    pub(super) trouble: Option<String>,
    /// The same of what is wrong with the file, or missing on the node.
    told: Option<String>,
}

impl Entry {
    /// Takes up a file with what an earlier process wrote down of it.
    pub(super) async fn open(path: PathBuf) -> Self {
        let status = directory::status_of(&path);
        let read = blocking(move || directory::read_if_there(&status)).await;
        let text = read.map_err(|error| error.to_string());
        let parsed = text.and_then(|text| {
            text.map(|text| Record::parse(&text)).transpose().map_err(|error| error.to_string())
        });
        let (record, damaged) = match parsed {
            Ok(Some(record)) => (record, None),
            Ok(None) => (Record::new(Timestamp::now()), None),
            Err(why) => (Record::new(Timestamp::now()), Some(why)),
        };
        Self::new(path, record, damaged)
    }

    /// A file with what is to be written down of it.
    pub(super) fn new(path: PathBuf, record: Record, damaged: Option<String>) -> Self {
        let state =
            State { record, wanted: None, read: None, damaged, gone: false, trouble: None, told: None };
        Self { path, state: Mutex::new(state) }
    }

    /// Its identity to the policy.
    pub(super) fn id(&self) -> RequestId {
        record::id(&self.path)
    }

    /// The name of a request that gives none.
    pub(super) fn stem(&self) -> &str {
        self.path.file_stem().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Reads the file if it is another one than the last time. `Err` is what its status could not be told.
    pub(super) async fn read(&self, state: &mut State, fingerprint: Fingerprint) -> Result<(), FileError> {
        if state.read == Some(fingerprint) {
            return Ok(());
        }
        let path = self.path.clone();
        let read = match blocking(move || directory::read_if_there(&path)).await {
            Ok(Some(text)) => manifest::read(&text).map_err(|error| (error.to_string(), true)),
            // The next look finds it gone.
            Ok(None) => return Ok(()),
            Err(error) => Err((format!("cannot be read: {error}"), false)),
        };
        let now = Timestamp::now();
        let mut record = state.record.clone();
        let mut final_word = true;
        match read {
            Ok(request) if record.is_accepted() => {
                let changed = record.compare(&Accepted::of(&request, self.stem()), now);
                if changed && state.is_news(record::IMMUTABLE) {
                    warn!(file = ?self.path, why = record::IMMUTABLE, "Change of a request not followed");
                }
            }
            Ok(request) => state.wanted = Some(request),
            Err((error, is_about_content)) => {
                final_word = is_about_content;
                state.wanted = None;
                record.refuse(&error, now);
                if state.is_news(&error) {
                    warn!(file = ?self.path, error, "File is no request");
                }
            }
        }
        self.save(state, record).await?;
        state.read = final_word.then_some(fingerprint);
        Ok(())
    }

    /// Writes the record down if it is another one, and only then takes it for true.
    pub(super) async fn save(&self, state: &mut State, record: Record) -> Result<(), FileError> {
        if record == state.record {
            return Ok(());
        }
        let path = directory::status_of(&self.path);
        let failed = |source| FileError::Write { path: path.clone(), source };
        let text = record.text().map_err(|error| failed(std::io::Error::other(error)))?;
        let to = path.clone();
        blocking(move || directory::write(&to, &text)).await.map_err(failed)?;
        state.record = record;
        Ok(())
    }

    /// Removes the file, if it is to go too, and after it what was written down of it.
    pub(super) async fn remove(&self, with_file: bool) -> Result<bool, FileError> {
        let mut there = false;
        let status = directory::status_of(&self.path);
        for path in with_file.then(|| self.path.clone()).into_iter().chain([status]) {
            there |= remove(&path).await?;
        }
        Ok(there)
    }
}

impl State {
    /// Whether this was not said before, of the file as it is.
    pub(super) fn is_news(&mut self, what: &str) -> bool {
        let news = self.told.as_deref() != Some(what);
        self.told = Some(what.to_owned());
        news
    }
}

/// Removes a file; whether it was there.
pub(super) async fn remove(path: &Path) -> Result<bool, FileError> {
    let from = path.to_owned();
    let removed = blocking(move || directory::remove(&from)).await;
    removed.map_err(|source| FileError::Remove { path: path.to_owned(), source })
}
