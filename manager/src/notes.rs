//! Events of SidecarSets: what the index has to tell of them, written one after the other and no faster than
//! people read. One that cannot be written is lost; the set's status says the same.

use std::time::Duration;

use berth_base::events::News;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;
use tracing::debug;

use crate::{lease::Tenure, sidecarsets::SetNote};

/// Author of the manager's Events.
pub(crate) const AUTHOR: &str = "berth-manager";
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(100);
/// Events that wait; one more is lost.
const MOST_WAITING: usize = 256;

/// The entrance.
#[derive(Clone, Debug)]
pub struct Notes {
    sender: mpsc::Sender<SetNote>,
    tenure: Tenure,
}

impl Notes {
    /// Takes something to tell; only the leader tells it.
    pub fn tell(&self, note: SetNote) {
        if self.tenure.holds()
            && let Err(error) = self.sender.try_send(note)
        {
            debug!(%error, "Event not written, too many wait");
        }
    }
}

/// Returns the entrance, and what comes out of it.
pub fn channel(tenure: Tenure) -> (Notes, mpsc::Receiver<SetNote>) {
    let (sender, told) = mpsc::channel(MOST_WAITING);
    (Notes { sender, tenure }, told)
}

/// Writes what is told, for ever. Ends when nobody tells any more.
pub async fn write(client: Client, mut told: mpsc::Receiver<SetNote>) {
    while let Some(SetNote { name, uid, warning, reason, text }) = told.recv().await {
        let regarding = ObjectReference {
            api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
            kind: Some("SidecarSet".to_owned()),
            name: Some(name.to_string()),
            uid: Some(uid.into_string()),
            ..ObjectReference::default()
        };
        News { regarding, warning, reason, text }.write(&client, AUTHOR).await;
        tokio::time::sleep(PAUSE).await;
    }
}
