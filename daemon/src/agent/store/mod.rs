//! Store on disk for what neither the runtime nor the API knows: the launch levels that are open, the marks
//! of recreate, and those of job sidecars.
//!
//! One small database; a transaction is durable when it returns. The runtime stays the source of truth: a
//! latch without its sandbox is removed, and a store that is lost costs at most a barrier that is judged a
//! second time.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod marks;
mod sidecars;
#[cfg(test)]
mod unopened;
#[cfg(test)]
mod waits;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

use berth_policy::{Latch, SandboxId};
use redb::{Builder, Database, Key, ReadableDatabase, ReadableTable, Table, TableDefinition, Value};
use tracing::{error, info};

use crate::{
    agent::fault::Point,
    base::{causes::chain, durable},
};

/// (sandbox ID, launch priority) -> nothing.
const LATCHES: TableDefinition<'_, (&str, i32), ()> = TableDefinition::new("latches");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Counted up when the tables change their meaning.
const SCHEMA: u64 = 1;
/// The whole store is some kilobytes; the default cache would be a gigabyte.
const CACHE: usize = 256 << 10;

/// The store.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    database: RwLock<State>,
}

#[derive(Debug)]
enum State {
    Open(Database),
    /// Something failed in it. A database does nothing any more after that, even when the disk has room
    /// again, so it is opened anew before it is used next.
    Failed,
    /// A successor has it.
    Closed,
}

/// The store did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its directory cannot be made.
    #[error("directory of the store {path:?}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("store {path:?}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the database.
        source: Box<redb::Error>,
    },
    /// Another berthd has it open.
    #[error(
        "store {path:?} is open in another berthd, and a node has one agent: where that is a service, label the node \
         (kubectl label node NODE berth.dev/install=systemd), and the DaemonSet's pod keeps away; else stop one of them"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A newer Berth wrote it.
    #[error(
        "store {path:?} has schema {found}, this version knows {SCHEMA}: it was written by a newer berthd"
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// It was given to a successor.
    #[error("the store belongs to another berthd now")]
    Closed,
    /// It could not be read.
    #[error("reading the store")]
    Read(#[source] Box<redb::Error>),
    /// It could not be written.
    #[error("writing the store")]
    Write(#[source] Box<redb::Error>),
}

impl Store {
    /// Opens the store in `directory`, making both if they are missing. A file that is damaged beyond repair
    /// is set aside under another name, loudly: it must not keep the node from working. Nor must a disk that
    /// is full, read-only or broken: then it is opened when it is used next.
    ///
    /// # Errors
    /// Another berthd has it, or a newer one wrote it.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let database = match opened(directory) {
            Ok(database) => State::Open(database),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                error!(
                    store = ?directory,
                    error = %chain(&error),
                    "Store not opened, going on without what it remembers; opened when it is used next"
                );
                State::Failed
            }
        };
        Ok(Self { directory: directory.to_owned(), database: RwLock::new(database) })
    }

    /// Gives it up, for whoever opens it next. Waits for what is under way; nothing is read or written
    /// afterwards.
    pub fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }

    /// All latches.
    pub fn latches(&self) -> Result<Vec<Latch>, StoreError> {
        self.all(LATCHES, |(sandbox, priority), ()| Latch { sandbox: sandbox.into(), priority })
    }

    /// Writes a latch; durable on return.
    pub fn latch(&self, latch: &Latch) -> Result<(), StoreError> {
        self.change(LATCHES, |table| {
            table.insert((latch.sandbox.as_str(), latch.priority), ())?;
            Ok(())
        })
    }

    /// Removes the latches of a sandbox.
    pub fn forget(&self, sandbox: &SandboxId) -> Result<(), StoreError> {
        let id = sandbox.as_str();
        self.change(LATCHES, |table| Ok(table.retain_in((id, i32::MIN)..=(id, i32::MAX), |_, ()| false)?))
    }

    /// Reads all rows of a table.
    fn all<K: Key, V: Value, T>(
        &self,
        table: TableDefinition<'_, K, V>,
        entry: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> T,
    ) -> Result<Vec<T>, StoreError> {
        self.use_it(StoreError::Read, |database| {
            let table = database.begin_read()?.open_table(table)?;
            let mut all = Vec::new();
            for found in table.iter()? {
                let (key, value) = found?;
                all.push(entry(key.value(), value.value()));
            }
            Ok(all)
        })
    }

    /// One change of a table, all or nothing; durable on return.
    fn change<K: Key, V: Value>(
        &self,
        table: TableDefinition<'_, K, V>,
        work: impl FnOnce(&mut Table<'_, K, V>) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        self.use_it(StoreError::Write, |database| {
            let transaction = database.begin_write()?;
            work(&mut transaction.open_table(table)?)?;
            Point::Committing.reached();
            transaction.commit()?;
            Point::Committed.reached();
            Ok(())
        })
    }

    fn use_it<T>(
        &self,
        failure: impl FnOnce(Box<redb::Error>) -> StoreError,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.open_anew()?;
        let state = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let State::Open(database) = &*state else { return Err(StoreError::Closed) };
        let done = caught(|| work(database));
        drop(state);
        done.map_err(|error| {
            let mut state = self.database.write().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, State::Open(_)) {
                let failed = std::mem::replace(&mut *state, State::Failed);
                // It may want to write once more, and fail with that as well.
                let _ = caught(|| {
                    drop(failed);
                    Ok(())
                });
            }
            failure(Box::new(error))
        })
    }

    /// Opens the database anew after a failure; does nothing otherwise.
    fn open_anew(&self) -> Result<(), StoreError> {
        if !matches!(*self.database.read().unwrap_or_else(PoisonError::into_inner), State::Failed) {
            return Ok(());
        }
        let mut state = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Failed) {
            *state = State::Open(opened(&self.directory)?);
            info!(store = ?self.directory, "Store opened anew after a failure");
        }
        Ok(())
    }
}

impl StoreError {
    /// Tells whether it lasts, and must not be gone past: the store is somebody else's.
    fn is_final(&self) -> bool {
        match self {
            Self::InUse { .. } | Self::Schema { .. } | Self::Closed => true,
            Self::Open { .. } | Self::Directory { .. } | Self::Read(_) | Self::Write(_) => false,
        }
    }
}

/// Opens what is in `directory`, or something new.
fn opened(directory: &Path) -> Result<Database, StoreError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| StoreError::Directory { path: directory.to_owned(), source })?;
    let path = directory.join("store.redb");
    let failed = |source: redb::Error| match source {
        redb::Error::DatabaseAlreadyOpen => StoreError::InUse { path: path.clone() },
        source => StoreError::Open { path: path.clone(), source: Box::new(source) },
    };
    let (database, schema) = match sound(&path) {
        Ok(sound) => sound,
        Err(damage) if is_damage(&damage) => {
            let aside = directory.join("store.redb.damaged");
            error!(store = ?path, moved_to = ?aside, error = %damage, "Store damaged, starting with an empty one");
            let moved = std::fs::rename(&path, &aside).and_then(|()| durable::sync_directory(directory));
            moved.map_err(|error| failed(redb::Error::Io(error)))?;
            sound(&path).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    if schema != SCHEMA {
        return Err(StoreError::Schema { path, found: schema });
    }
    Ok(database)
}

/// A database of which every page in use is as it was written, and its schema. A few milliseconds for a few
/// kilobytes.
fn sound(path: &Path) -> Result<(Database, u64), redb::Error> {
    caught(|| {
        let mut database = Builder::new().set_cache_size(CACHE).create(path)?;
        // Whatever it could repair is repaired.
        database.check_integrity()?;
        let schema = prepare(&database)?;
        Ok((database, schema))
    })
}

/// The database is written for files as it has left them, and panics about some others. That must not be the
/// end of the agent.
fn caught<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    // What is left half-done is the database's own, and checked or set aside before it is used again.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason is given");
        Err(redb::Error::Corrupted(format!("the database panicked: {text}")))
    })
}

/// The content is wrong, as opposed to a disk that is full or a file that may not be read.
fn is_damage(error: &redb::Error) -> bool {
    match error {
        // No version of ours has written a format that would need the second one.
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(error) => {
            [std::io::ErrorKind::InvalidData, std::io::ErrorKind::UnexpectedEof].contains(&error.kind())
        }
        _ => false,
    }
}

/// Gives the schema, and makes the tables where it is ours: another one may have other types of them.
fn prepare(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let schema = {
        let mut meta = transaction.open_table(META)?;
        let found = meta.get("schema")?.map(|value| value.value());
        match found {
            Some(schema) => schema,
            None => {
                meta.insert("schema", SCHEMA)?;
                SCHEMA
            }
        }
    };
    if schema == SCHEMA {
        transaction.open_table(LATCHES)?;
        transaction.open_table(marks::MARKS)?;
        transaction.open_table(sidecars::SIDECARS)?;
    }
    transaction.commit()?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latch(sandbox: &str, priority: i32) -> Latch {
        Latch { sandbox: sandbox.into(), priority }
    }

    #[test]
    fn latches_are_there_after_a_restart_and_go_with_their_sandbox() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        for (sandbox, priority) in [("a", 1), ("a", -5), ("a", 1), ("ab", i32::MIN), ("b", i32::MAX)] {
            store.latch(&latch(sandbox, priority)).unwrap();
        }
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        store.forget(&"a".into()).unwrap();
        assert_eq!(store.latches().unwrap(), [latch("ab", i32::MIN), latch("b", i32::MAX)]);
    }

    #[test]
    fn a_second_process_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let _first = Store::open(directory.path()).unwrap();
        let error = Store::open(directory.path()).err().unwrap();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        assert!(error.to_string().contains("kubectl label node NODE berth.dev/install=systemd"), "{error}");
    }

    #[test]
    fn what_was_given_up_is_another_ones() {
        let directory = tempfile::tempdir().unwrap();
        let first = Store::open(directory.path()).unwrap();
        first.latch(&latch("a", 1)).unwrap();
        first.close();
        assert!(matches!(first.latch(&latch("b", 1)), Err(StoreError::Closed)));
        assert!(matches!(first.latches(), Err(StoreError::Closed)));
        let second = Store::open(directory.path()).unwrap();
        assert_eq!(second.latches().unwrap(), [latch("a", 1)]);
    }

    #[test]
    fn a_store_of_a_newer_version_is_not_touched() {
        // Its tables have other types.
        const OF_ANOTHER_TYPE: TableDefinition<'_, &str, u64> = TableDefinition::new("latches");
        let directory = tempfile::tempdir().unwrap();
        let database = Builder::new().create(directory.path().join("store.redb")).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("schema", SCHEMA + 1).unwrap();
        drop(meta);
        drop(transaction.open_table(OF_ANOTHER_TYPE).unwrap());
        transaction.commit().unwrap();
        drop(database);
        let error = Store::open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::Schema { found: 2, .. }), "{error}");
    }

    #[test]
    fn a_damaged_store_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        drop(Store::open(directory.path()).unwrap());
        let path = directory.path().join("store.redb");
        let size = std::fs::metadata(&path).unwrap().len();
        std::fs::write(&path, vec![0xff; usize::try_from(size).unwrap()]).unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert!(store.latches().unwrap().is_empty());
        assert!(directory.path().join("store.redb.damaged").exists());
    }
}
