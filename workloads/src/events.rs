//! Events of workloads, written one after the other and no faster than people read. One that cannot be
//! written is lost; the set's status says what lasts.

use std::time::Duration;

use berth_base::telemetry::chain;
use berth_workloads_policy::action::Note;
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::mpsc, time::timeout};
use tracing::{debug, warn};

use crate::kinds::{Set, Workload};

/// The longest note the API takes, in characters of at most four bytes.
const LONGEST_NOTE: usize = 256;
/// Author of the Events.
const CONTROLLER: &str = "berth-workloads";
/// An Event without an answer is given up after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(50);
/// Events that wait; one more is lost.
const MOST_WAITING: usize = 512;

/// Something to tell of an object.
pub(crate) type Told = (ObjectReference, Note);

/// The entrance.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Told>);

impl Events {
    /// Takes something to tell of a set.
    pub(crate) fn tell(&self, set: &Set, note: Note) {
        self.about(reference(set.as_ref()), note);
    }

    /// Takes something to tell of an object.
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

/// Writes what is told, for ever. Ends when nobody tells any more.
pub(crate) async fn write(client: Client, mut told: mpsc::Receiver<Told>) {
    while let Some((object, note)) = told.recv().await {
        let reason = note.reason;
        let events = Api::<Event>::namespaced(client.clone(), namespace(&object));
        let event = event(object, note, Timestamp::now());
        match timeout(ANSWER_WITHIN, events.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(reason, error = chain(&error), "Event not written"),
            Err(_) => warn!(reason, "Event not written: no answer"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Namespace of an Event: that of its object, and `default` where that has none.
fn namespace(object: &ObjectReference) -> &str {
    object.namespace.as_deref().unwrap_or("default")
}

/// Name of an Event has room for a number beside that of its object.
fn cut(name: &str) -> String {
    name.chars().take(200).collect()
}

/// Names a set in an Event.
fn reference(set: &dyn Workload) -> ObjectReference {
    let meta = set.meta();
    ObjectReference {
        api_version: Some(set.kind().api_version()),
        kind: Some(set.kind().name.to_owned()),
        namespace: meta.namespace.clone(),
        name: Some(set.name().to_owned()),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectReference::default()
    }
}

fn event(object: ObjectReference, note: Note, now: Timestamp) -> Event {
    let name = object.name.as_deref().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace(&object).to_owned()),
            name: Some(format!("{}.{:x}", cut(name), now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        regarding: Some(object),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.reason.to_owned()),
        note: Some(note.text.chars().take(LONGEST_NOTE).collect()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::CloneSet;

    use super::*;

    #[test]
    fn an_event_is_about_its_set() {
        let mut set = CloneSet::new("shop", Default::default());
        set.metadata.namespace = Some("ns".to_owned());
        set.metadata.uid = Some("u".to_owned());
        let note = Note { warning: true, reason: "FailedCreate", text: "ä".repeat(2000) };
        let event = event(reference(&set), note, Timestamp::constant(1_700_000_000, 0));
        let regarding = event.regarding.unwrap();
        assert_eq!((regarding.name.as_deref(), regarding.uid.as_deref()), (Some("shop"), Some("u")));
        assert_eq!(event.metadata.namespace.as_deref(), Some("ns"));
        assert!(event.note.unwrap().len() <= 1024);
    }

    #[test]
    fn an_event_of_an_object_without_a_namespace_is_in_the_default_one() {
        let object = ObjectReference { name: Some("all".to_owned()), ..ObjectReference::default() };
        let note = Note { warning: true, reason: "InvalidSpec", text: "x".to_owned() };
        let event = event(object, note, Timestamp::constant(1_700_000_000, 0));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(event.regarding.unwrap().namespace, None);
    }
}
