//! The newest version of the node's object, between a watch that never waits and writes that may.

use std::sync::PoisonError;

use berth_proto::crd::{NodePodUpdate, Partly};
use tokio::sync::Notify;

use crate::cluster::follow::Shown;

/// The object that the watch showed last: one object, so nothing before it counts, however fast it changes
/// and however long a write takes.
#[derive(Debug, Default)]
pub(super) struct Newest {
    untaken: std::sync::Mutex<Option<Shown<Partly<NodePodUpdate>>>>,
    put: Notify,
}

impl Newest {
    /// Puts in what is shown.
    pub(super) fn put(&self, event: Shown<Partly<NodePodUpdate>>) {
        let mut untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        // That nobody shows it any more takes back nothing of what was shown.
        let is_less = match event {
            Shown::Lost(_) => true,
            Shown::Refused(_) => untaken.is_some(),
            Shown::Listed(_) | Shown::Applied(_) | Shown::Deleted(_) | Shown::NotInstalled(_) => false,
        };
        if !is_less {
            *untaken = Some(event);
        }
        drop(untaken);
        self.put.notify_one();
    }

    /// Cancel-safe: what is not taken stays.
    pub(super) async fn take(&self) -> Shown<Partly<NodePodUpdate>> {
        loop {
            let untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner).take();
            match untaken {
                Some(event) => return event,
                None => self.put.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(revision: usize) -> Partly<NodePodUpdate> {
        let mut object = NodePodUpdate::new("node-a", Default::default());
        object.metadata.resource_version = Some(revision.to_string());
        object.into()
    }

    /// A watch that is faster than the writes keeps one object, the last one.
    #[tokio::test]
    async fn of_many_changes_the_last_one_is_taken() {
        let news = Newest::default();
        for revision in 0..10_000 {
            news.put(Shown::Applied(object(revision)));
        }
        news.put(Shown::Refused(String::new()));
        news.put(Shown::Lost(String::new()));
        let Shown::Applied(taken) = news.take().await else { panic!("not what was shown") };
        assert_eq!(taken.object.metadata.resource_version.as_deref(), Some("9999"));
        // What it woke for is taken already: nothing else comes.
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(10), news.take());
        assert!(nothing.await.is_err());
        news.put(Shown::Refused(String::new()));
        assert!(matches!(news.take().await, Shown::Refused(_)));
        news.put(Shown::Applied(object(1)));
        news.put(Shown::Deleted(object(1)));
        assert!(matches!(news.take().await, Shown::Deleted(_)));
    }
}
