//! Locks of the status of an object: questions about one take turns within a replica, and each begins with
//! what this replica wrote last. Another replica may write in between: then it is decided anew, after a
//! pause.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{sync, time::sleep};

/// A decision that is written over so often is left to who asks.
pub(super) const TRIES: u32 = 8;
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

/// Waits before a decision that was written over is made anew, the longer the more often it was. Not all wait
/// as long as this one: they would come at once again.
pub(super) async fn pause(tried: u32) {
    let spread = u64::from(Timestamp::now().subsec_nanosecond().unsigned_abs() % 16);
    sleep(Duration::from_millis(spread.saturating_add(u64::from(tried).saturating_mul(10)))).await;
}
