//! One file: what it says, what is written down of it, and keeping the two on the disk.

use std::{
    ffi::OsStr,
    io,
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
use crate::{
    base::causes::chain,
    files::{FileError, status_of, store},
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
    /// Its status file is there and cannot be understood: whether it was assigned, nobody knows, so it is
    /// left alone.
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
        match written(&path).await {
            Ok(record) => Self::new(path, record, None),
            Err(why) => Self::new(path, Record::new(Timestamp::now()), Some(why)),
        }
    }

    /// Reads a status again that could not be understood. False: it still cannot.
    pub(super) async fn reopen(&self, state: &mut State) -> bool {
        match written(&self.path).await {
            Ok(record) => {
                (state.record, state.damaged) = (record, None);
                true
            }
            Err(why) => {
                state.damaged = Some(why);
                false
            }
        }
    }

    /// A file with what is to be written down of it.
    pub(super) fn new(path: PathBuf, record: Record, damaged: Option<String>) -> Self {
        let state = State { record, wanted: None, damaged, gone: false, trouble: None, told: None };
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

    /// Takes what the file says now. `Err` is what its status could not be told.
    pub(super) async fn read(&self, state: &mut State, content: io::Result<String>) -> Result<(), FileError> {
        let read = match content {
            Ok(text) => manifest::read(&text).map_err(|error| error.to_string()),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        let now = Timestamp::now();
        let mut record = state.record.clone();
        match read {
            Ok(request) if record.is_accepted() => {
                let changed = record.compare(&Accepted::of(&request, self.stem()), now);
                if changed && state.is_news(record::IMMUTABLE) {
                    warn!(file = ?self.path, why = record::IMMUTABLE, "Change of a request not followed");
                }
            }
            Ok(request) => state.wanted = Some(request),
            Err(error) => {
                state.wanted = None;
                record.refuse(&error, now);
                if state.is_news(&error) {
                    warn!(file = ?self.path, error, "File is no request");
                }
            }
        }
        self.save(state, record).await
    }

    /// Writes the record down if it is another one, and only then takes it for true.
    pub(super) async fn save(&self, state: &mut State, record: Record) -> Result<(), FileError> {
        if record == state.record {
            return Ok(());
        }
        let path = status_of(&self.path);
        let failed = |error| FileError::Write { path: path.clone(), source: io::Error::other(error) };
        store::write(&path, record.text().map_err(failed)?).await?;
        state.record = record;
        Ok(())
    }

    /// Removes the file, if it is to go too, and after it what was written down of it.
    pub(super) async fn remove(&self, with_file: bool) -> Result<bool, FileError> {
        let mut there = false;
        if with_file {
            there |= store::remove(&self.path).await?;
        }
        there |= store::remove(&status_of(&self.path)).await?;
        Ok(there)
    }
}

/// Reads what is written down of a file; nothing yet, where it has no status.
async fn written(path: &Path) -> Result<Record, String> {
    let text = store::read(&status_of(path)).await.map_err(|error| chain(&error))?;
    match text {
        Some(text) => Record::parse(&text).map_err(|error| error.to_string()),
        None => Ok(Record::new(Timestamp::now())),
    }
}

impl State {
    /// Tells whether this was not said before, of the file as it is.
    pub(super) fn is_news(&mut self, what: &str) -> bool {
        let news = self.told.as_deref() != Some(what);
        self.told = Some(what.to_owned());
        news
    }
}
