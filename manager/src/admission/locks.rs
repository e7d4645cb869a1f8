//! Locks of the status of an object: questions about one take turns within a replica, and each begins with
//! what this replica wrote last.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync;

/// Objects whose lock somebody has; past them those are forgotten that nobody waits for.
const MOST: usize = 1024;

/// Locks, by object. A std lock: nothing is awaited under it.
pub(super) struct ObjectLocks<K>(Mutex<HashMap<String, ObjectLock<K>>>);

/// Lock of one object, with what was written or listed last.
pub(super) type ObjectLock<K> = Arc<sync::Mutex<Option<K>>>;

impl<K> Default for ObjectLocks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> ObjectLocks<K> {
    pub(super) fn of(&self, key: &str) -> ObjectLock<K> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= MOST {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        turns.entry(key.to_owned()).or_default().clone()
    }
}
