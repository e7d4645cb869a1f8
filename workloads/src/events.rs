//! Events of workloads, written one after the other, by turns of their namespaces, and no faster than people
//! read. One that cannot be written is lost; the set's status says what lasts.

use std::time::Duration;

use berth_base::events::{News, Waiting};
use berth_workloads_policy::action::Note;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;
use tracing::debug;

use crate::object::Object;

/// Author of the Events.
const AUTHOR: &str = "berth-workloads";
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(50);
/// Events that wait; one more is lost.
const MOST_WAITING: usize = 512;

/// An object, and the news to tell of it.
pub(crate) type Told = (ObjectReference, Note);

/// The entrance.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Told>);

impl Events {
    /// Takes something to tell of an object.
    pub(crate) fn tell(&self, object: &impl Object, note: Note) {
        self.about(object.reference(), note);
    }

    /// Takes something to tell of an object that is known by its name.
    pub(crate) fn about(&self, object: ObjectReference, note: Note) {
        if let Err(error) = self.0.try_send((object, note)) {
            debug!(%error, "Event not written, too many wait");
        }
    }
}

/// Returns the entrance, and what comes out of it.
pub(crate) fn channel() -> (Events, mpsc::Receiver<Told>) {
    let (sender, told) = mpsc::channel(MOST_WAITING);
    (Events(sender), told)
}

/// Namespace whose turn it takes.
fn namespace((object, _): &Told) -> &str {
    object.namespace.as_deref().unwrap_or_default()
}

/// Writes what is told, for ever. Ends when nobody tells any more.
pub(crate) async fn write(client: Client, mut told: mpsc::Receiver<Told>) {
    let mut waiting = Waiting::default();
    while let Some((regarding, note)) = waiting.next(&mut told, namespace).await {
        let Note { warning, reason, text } = note;
        News { regarding, warning, reason, text }.write(&client, AUTHOR).await;
        tokio::time::sleep(PAUSE).await;
    }
}
