//! Events on pods, on this node because of one, and on objects of images, for `kubectl describe`.
//!
//! Each is a new object: who decides what is said sees to it that nothing is said again and again. An Event
//! that cannot be written is logged and left at that; nothing depends on one.

use berth_policy::{About, Notice, PodRef};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tracing::warn;

use super::{
    client::{Connection, Lane},
    metrics::{ClusterMetrics, Write},
};
use crate::base::{causes::chain, text::cut};

/// Name of the agent as `reportingController`.
const CONTROLLER: &str = "berth.dev/agent";
/// The API's limit for `note`, in bytes.
const LONGEST_NOTE: usize = 1024;
/// Namespace of Events about what is in none.
const NO_NAMESPACE: &str = "default";

/// Writes Events about the pods of the node of this name.
#[derive(Clone, Debug)]
pub(super) struct Events {
    connection: Connection,
    node: String,
    metrics: ClusterMetrics,
}

impl Events {
    pub(super) fn new(connection: Connection, node: String, metrics: ClusterMetrics) -> Self {
        Self { connection, node, metrics }
    }

    pub(super) async fn tell(&self, pod: &PodRef, notice: &Notice) {
        let said = Said { reason: notice.reason, warning: notice.warning, note: &notice.note };
        self.tell_of(subject(&self.node, pod, notice.about), &said).await;
    }

    pub(super) async fn tell_of(&self, about: ObjectReference, said: &Said<'_>) {
        let event = event(&self.node, about, said, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or(NO_NAMESPACE);
        let create = async |client: Client| {
            Api::<Event>::namespaced(client, namespace).create(&PostParams::default(), &event).await
        };
        let written = self.connection.ask_in(Lane::Events, create).await;
        self.metrics.wrote(Write::Event, &written);
        if let Err(error) = written {
            let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
            warn!(namespace, about, error = %chain(&error), "Event not written");
        }
    }
}

/// Contents of an Event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    /// For programs.
    pub(crate) reason: &'static str,
    /// Something is wrong.
    pub(crate) warning: bool,
    /// For people.
    pub(crate) note: &'a str,
}

fn subject(node: &str, pod: &PodRef, about: About) -> ObjectReference {
    let (kind, namespace, name, uid) = match about {
        About::Pod => ("Pod", Some(pod.namespace.clone()), pod.name.as_str(), pod.uid.as_str()),
        // Its name for its UID, as the kubelet does: `kubectl describe` finds both.
        About::Node => ("Node", None, node, node),
    };
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        namespace,
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn event(node: &str, about: ObjectReference, said: &Said<'_>, now: Timestamp) -> Event {
    let name = about.name.as_deref().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            namespace: Some(about.namespace.clone().unwrap_or_else(|| NO_NAMESPACE.to_owned())),
            // As client-go names them.
            name: Some(format!("{name}.{:x}", now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        type_: Some(if said.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(said.reason.to_owned()),
        action: Some(said.reason.to_owned()),
        note: Some(cut(said.note, LONGEST_NOTE).to_owned()),
        regarding: Some(about),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        // The admission policy goes by it.
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_about_a_pod_and_comes_from_a_node() {
        let pod = PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let note = "ä".repeat(1000);
        let said = Said { reason: "Why", warning: true, note: &note };
        let of = |about| event("node-a", subject("node-a", &pod, about), &said, Timestamp::UNIX_EPOCH);
        let event = of(About::Pod);
        assert_eq!(event.reporting_instance.as_deref(), Some("node-a"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(event.regarding.unwrap().uid.as_deref(), Some("u"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.note.unwrap().len(), LONGEST_NOTE);
        let event = of(About::Node);
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        let regarding = event.regarding.unwrap();
        assert_eq!((regarding.kind.as_deref(), regarding.namespace), (Some("Node"), None));
        assert_eq!(regarding.name.as_deref(), Some("node-a"));
    }
}
