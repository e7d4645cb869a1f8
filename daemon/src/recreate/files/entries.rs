//! The index of the files, and whose the names of their requests are.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::entry::Entry;

/// All files. Locked for a moment, never over an await; what takes its time locks one [`Entry`].
#[derive(Debug, Default)]
pub(super) struct Entries(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<PathBuf, Arc<Entry>>,
    /// Whose the `namespace/name` of a request is: in the pod's readiness gate two of one name would be one.
    keys: BTreeMap<String, PathBuf>,
    /// The other way round: thousands of files each take a name.
    names: BTreeMap<PathBuf, String>,
}

impl Inner {
    /// The name that the request at this path had is free.
    fn release(&mut self, path: &Path) {
        if let Some(key) = self.names.remove(path) {
            self.keys.remove(&key);
        }
    }
}

impl Entries {
    /// All of them, by path.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.lock().files.values().cloned().collect()
    }

    /// The one at this path.
    pub(super) fn at(&self, path: &Path) -> Option<Arc<Entry>> {
        self.lock().files.get(path).cloned()
    }

    /// One more.
    pub(super) fn insert(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.lock().files.insert(entry.path.clone(), entry.clone());
        entry
    }

    /// One less, and its name is free.
    pub(super) fn remove(&self, path: &Path) {
        let mut inner = self.lock();
        inner.files.remove(path);
        inner.release(path);
    }

    /// Takes a name for the request at this path. `Err` is who has it already.
    pub(super) fn claim(&self, key: &str, path: &Path) -> Result<(), PathBuf> {
        let mut inner = self.lock();
        match inner.keys.get(key) {
            Some(holder) if holder != path => Err(holder.clone()),
            Some(_) => Ok(()),
            None => {
                // A request has one name; one that it did not come to be accepted by is free again.
                inner.release(path);
                inner.keys.insert(key.to_owned(), path.to_owned());
                inner.names.insert(path.to_owned(), key.to_owned());
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::record::Record, *};

    #[test]
    fn a_name_is_one_requests_at_a_time() {
        let entries = Entries::default();
        let [a, b] = ["/d/a.yaml", "/d/b.yaml"].map(Path::new);
        let record = Record::new(jiff::Timestamp::UNIX_EPOCH);
        entries.insert(Entry::new(a.to_owned(), record.clone(), None));
        entries.claim("shop/x", a).unwrap();
        entries.claim("shop/x", a).unwrap();
        assert_eq!(entries.claim("shop/x", b), Err(a.to_owned()));
        entries.claim("shop/y", a).unwrap();
        entries.claim("shop/x", b).unwrap();
        entries.remove(b);
        entries.claim("shop/x", a).unwrap();
        entries.remove(a);
        entries.claim("shop/x", b).unwrap();
        assert!(entries.at(a).is_none() && entries.all().is_empty());
    }
}
