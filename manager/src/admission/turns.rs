//! Turns at the status of an object: questions about one take turns within a replica, and each begins with
//! what this replica wrote last.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync;

/// Objects that somebody has a turn at; past them those are forgotten that nobody waits for.
const MOST: usize = 1024;

/// Turns, by object. A std lock: nothing is awaited under it.
pub(super) struct Turns<K>(Mutex<HashMap<String, Turn<K>>>);

/// Turn at one object, with what was written or listed last.
pub(super) type Turn<K> = Arc<sync::Mutex<Option<K>>>;

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Turns<K> {
    pub(super) fn of(&self, key: &str) -> Turn<K> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= MOST {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        turns.entry(key.to_owned()).or_default().clone()
    }
}
