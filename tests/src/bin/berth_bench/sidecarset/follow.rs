//! Watches that tell a case of every object that changes.

use std::sync::Arc;

use futures::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};

/// Tells of every object that there is, and of every version that follows; for ever.
pub(super) async fn follow<K, S>(api: Api<K>, seen: Arc<S>, take: fn(&S, K))
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => take(&seen, object),
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            // It goes on; objects that are not seen any more show as a case that does not end.
            Err(error) => eprintln!("a watch: {error}"),
        }
    }
}
