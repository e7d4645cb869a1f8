//! The watch of the ControllerRevisions of sets, in one namespace. Conversion only; nothing is decided here.

use std::pin::pin;

use berth_base::sent::{Received, Sent};
use berth_sidecarset::{FiledRevision, SET_LABEL};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::FiledEvent;
use crate::watch::{Outage, WATCH_SECONDS, is_too_old};

/// Objects of a page: one has the sidecars of a set, up to half a megabyte.
const PAGE: u32 = 32;

/// Watches the ControllerRevisions of sets, for ever. Ends when nobody receives any more.
pub async fn follow_filed(client: Client, namespace: String, events: mpsc::Sender<FiledEvent>) {
    let api: Api<Sent<ControllerRevision>> = Api::namespaced(client, &namespace);
    let config = watcher::Config::default().labels(SET_LABEL).timeout(WATCH_SECONDS).page_size(PAGE);
    let mut shown = pin!(watcher::watcher(api.clone(), config.clone()));
    let mut outage = Outage::default();
    while let Some(event) = shown.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if is_too_old(&error) {
                    shown.set(watcher::watcher(api.clone(), config.clone()));
                }
                let failure = outage.fails(&error);
                if let Some(error) = failure.news {
                    warn!(namespace, error, "Watch of the ControllerRevisions of SidecarSets lost");
                }
                tokio::time::sleep(failure.pause).await;
                continue;
            }
        };
        // That a list begins is only an intention.
        if !matches!(event, Event::Init) && outage.ends() {
            info!(namespace, "Watch of the ControllerRevisions of SidecarSets follows again");
        }
        if events.send(filed(event)).await.is_err() {
            return;
        }
    }
}

/// Reduces what the watch shows. An object that nobody can read is none that counts.
fn filed(event: Event<Sent<ControllerRevision>>) -> FiledEvent {
    let gone =
        |object: &Sent<ControllerRevision>| FiledEvent::Gone(object.meta().uid.clone().unwrap_or_default());
    match event {
        Event::Init => FiledEvent::ListBegins,
        Event::InitDone => FiledEvent::ListEnds,
        Event::InitApply(object) | Event::Apply(object) => {
            let gone = gone(&object);
            let copy = object.read().ok().and_then(|object| FiledRevision::of(&object));
            copy.map_or(gone, FiledEvent::Applied)
        }
        Event::Delete(object) => gone(&object),
    }
}

#[cfg(test)]
mod tests;
