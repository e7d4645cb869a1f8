//! Events of SidecarSets: what the index has to tell of them, written one after the other and no faster than
//! people read. One that cannot be written is lost; the set's status says the same.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::mpsc, time::timeout};
use tracing::{debug, warn};

use crate::{lease::Tenure, sidecarsets::SetNote, size, telemetry::chain};

/// The longest note the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// Events of objects without a namespace are in this one.
const NAMESPACE: &str = "default";
/// Author of the Events.
const CONTROLLER: &str = "berth-manager";
/// An Event without an answer is given up after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
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
    let events = Api::<Event>::namespaced(client, NAMESPACE);
    while let Some(note) = told.recv().await {
        let (set, reason) = (note.name.clone(), note.reason);
        let event = event(note, Timestamp::now());
        match timeout(ANSWER_WITHIN, events.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(set = &*set, reason, error = chain(&error), "Event not written"),
            Err(_) => warn!(set = &*set, reason, "Event not written: no answer"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn event(note: SetNote, now: Timestamp) -> Event {
    let SetNote { name, uid, warning, reason, text } = note;
    Event {
        metadata: ObjectMeta {
            namespace: Some(NAMESPACE.to_owned()),
            name: Some(format!("{name}.{:x}", now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
            kind: Some("SidecarSet".to_owned()),
            name: Some(name.to_string()),
            uid: Some(uid.into_string()),
            ..ObjectReference::default()
        }),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        action: Some(reason.to_owned()),
        note: Some(size::cut(&text, LONGEST_NOTE).to_owned()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_about_its_set() {
        let note = SetNote {
            name: "mesh".into(),
            uid: "u".into(),
            warning: true,
            reason: "UpgradeFailed",
            text: "ä".repeat(1000),
        };
        let event = event(note, Timestamp::constant(1_700_000_000, 0));
        let regarding = event.regarding.unwrap();
        assert_eq!((regarding.name.as_deref(), regarding.uid.as_deref()), (Some("mesh"), Some("u")));
        assert_eq!(
            (event.type_.as_deref(), event.reason.as_deref()),
            (Some("Warning"), Some("UpgradeFailed"))
        );
        assert_eq!(event.note.unwrap().len(), LONGEST_NOTE);
        assert_eq!(event.metadata.name.as_deref(), Some("mesh.17979cfe362a0000"));
    }
}
