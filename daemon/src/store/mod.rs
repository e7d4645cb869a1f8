//! What neither the runtime nor the API knows, kept on disk: the launch levels that are open, and the marks of recreate.
//!
//! One small database; a transaction is durable when it returns. The runtime stays the source of truth: a latch without
//! its sandbox is removed, and a store that is lost costs at most a barrier that is judged a second time.

mod marks;

use std::path::{Path, PathBuf};

use berth_policy::{Latch, SandboxId};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use tracing::error;

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
    database: Database,
}

/// The store did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its directory cannot be made.
    #[error("directory of the store {path:?}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("store {path:?}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the database says.
        source: Box<redb::Error>,
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
    /// It could not be read.
    #[error("reading the store")]
    Read(#[source] Box<redb::Error>),
    /// It could not be written.
    #[error("writing the store")]
    Write(#[source] Box<redb::Error>),
}

impl Store {
    /// Opens the store in `directory`, making both if they are missing. A file that is damaged beyond repair is set
    /// aside under another name, loudly: it must not keep the node from working.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| StoreError::Directory { path: directory.to_owned(), source })?;
        let path = directory.join("store.redb");
        let failed = |source: redb::Error| StoreError::Open { path: path.clone(), source: Box::new(source) };
        let database = match create(&path) {
            Ok(database) => database,
            Err(DatabaseError::Storage(damage)) if is_damage(&damage) => {
                let aside = directory.join("store.redb.damaged");
                error!(store = ?path, moved_to = ?aside, error = %damage, "Store damaged, starting with an empty one");
                std::fs::rename(&path, &aside).map_err(|error| failed(redb::Error::Io(error)))?;
                create(&path).map_err(|error| failed(error.into()))?
            }
            Err(error) => return Err(failed(error.into())),
        };
        let schema = prepare(&database).map_err(failed)?;
        if schema != SCHEMA {
            return Err(StoreError::Schema { path, found: schema });
        }
        Ok(Self { database })
    }

    /// All latches.
    pub fn latches(&self) -> Result<Vec<Latch>, StoreError> {
        let read = || -> Result<Vec<Latch>, redb::Error> {
            let table = self.database.begin_read()?.open_table(LATCHES)?;
            table
                .iter()?
                .map(|entry| {
                    let (key, _) = entry?;
                    let (sandbox, priority) = key.value();
                    Ok(Latch { sandbox: sandbox.into(), priority })
                })
                .collect()
        };
        read().map_err(|error| StoreError::Read(Box::new(error)))
    }

    /// Writes a latch; durable on return.
    pub fn latch(&self, latch: &Latch) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(LATCHES)?.insert((latch.sandbox.as_str(), latch.priority), ())?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| StoreError::Write(Box::new(error)))
    }

    /// Removes the latches of a sandbox.
    pub fn forget(&self, sandbox: &SandboxId) -> Result<(), StoreError> {
        let id = sandbox.as_str();
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(LATCHES)?.retain_in((id, i32::MIN)..=(id, i32::MAX), |_, ()| false)?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| StoreError::Write(Box::new(error)))
    }
}

fn create(path: &Path) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE).create(path)
}

/// The content is wrong, as opposed to a disk that is full or a file that may not be read.
fn is_damage(error: &redb::StorageError) -> bool {
    match error {
        redb::StorageError::Corrupted(_) => true,
        redb::StorageError::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

/// Makes the tables and gives the schema.
fn prepare(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(LATCHES)?;
    transaction.open_table(marks::MARKS)?;
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
        assert!(matches!(Store::open(directory.path()), Err(StoreError::Open { .. })));
    }

    #[test]
    fn a_store_of_a_newer_version_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let transaction = store.database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("schema", SCHEMA + 1).unwrap();
        transaction.commit().unwrap();
        drop(store);
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
