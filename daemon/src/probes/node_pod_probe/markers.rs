//! The PodProbeMarkers that entries name, each followed by a watch of its own, as the kubelet follows the
//! ConfigMaps and Secrets of its pods. The agent reads those that it needs and no others, however many a
//! namespace has.

use std::collections::BTreeMap;

use berth_proto::crd::PodProbeMarker;
use futures::FutureExt;
use kube::runtime::watcher;
use tokio::task::{AbortHandle, JoinSet};
use tracing::error;

use super::{
    shared::SharedProbes,
    verify::{MarkerName, MarkerSeen},
};
use crate::cluster::{
    client::Connection,
    follow::{self, Shown, Watch},
    raw::{self, Raw},
};

/// Follows those that are to be followed, for ever. Nothing is asked while no entry names one.
pub(super) async fn follow(connection: &Connection, probes: &std::sync::Arc<SharedProbes>) {
    let mut named = probes.markers();
    // Dropped, all of them end.
    let mut tasks = JoinSet::new();
    let mut followed: BTreeMap<MarkerName, AbortHandle> = BTreeMap::new();
    loop {
        let markers = named.borrow_and_update().clone();
        followed.retain(|name, task| {
            let kept = markers.contains(name) && !task.is_finished();
            if !kept {
                task.abort();
            }
            kept
        });
        for name in markers {
            followed.entry(name).or_insert_with_key(|name| {
                let (connection, probes, name) = (connection.clone(), probes.clone(), name.clone());
                tasks.spawn(async move { one(&connection, &probes, &name).await })
            });
        }
        // Cancel-safe: the newest set, and tasks that have ended already.
        tokio::select! {
            changed = named.changed() => if changed.is_err() { return },
            Some(ended) = tasks.join_next() => if let Err(error) = ended && !error.is_cancelled() {
                error!(%error, "Watch of a PodProbeMarker died, begun anew");
            },
        }
    }
}

async fn one(connection: &Connection, probes: &SharedProbes, name: &MarkerName) {
    let (namespace, marker) = name;
    let watch = Watch {
        what: "PodProbeMarker",
        // One that is not there may be made.
        single: false,
        insists: false,
        selected: watcher::Config::default().fields(&format!("metadata.name={marker}")),
    };
    let api = |client| raw::namespaced::<PodProbeMarker>(client, namespace);
    let ready = |_| async { Ok(true) }.boxed();
    let each = |shown| {
        let seen = match shown {
            Shown::Listed(markers) => markers.into_iter().next().map_or(MarkerSeen::Absent, MarkerSeen::of),
            Shown::Applied(marker) => MarkerSeen::of(marker),
            Shown::Deleted(_) | Shown::NotInstalled(_) => MarkerSeen::Absent,
            Shown::Refused(_) => MarkerSeen::Forbidden,
            // What was shown stays.
            Shown::Lost(_) => return,
        };
        probes.hear(name, seen);
    };
    follow::follow(connection, &watch, api, Raw::typed, ready, each).await;
}
