//! Events of objects, as the central programs write them. One that cannot be written is lost: the status of
//! its object says what lasts. Those of a namespace wait for those of another one no longer than for one of
//! them (`waiting`).

mod waiting;

use std::time::Duration;

use berth_proto::text::cut;
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;
use tracing::warn;

pub use self::waiting::Waiting;
use crate::{line_pace::SharedPace, telemetry::chain};

/// The longest note that the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// The longest part of an object's name in that of its Event, which has room for a number beside it.
const LONGEST_NAME: usize = 200;
/// An Event without an answer is given up after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pace of the lines about Events that are not written: in a namespace that is being deleted none of them is.
static NOT_WRITTEN: SharedPace = SharedPace::new();

/// News of an object, for people.
#[derive(Clone, Debug)]
pub struct News {
    /// The object.
    pub regarding: ObjectReference,
    /// Something is wrong.
    pub warning: bool,
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub text: String,
}

impl News {
    /// Writes an Event in the name of this program.
    pub async fn write(self, client: &Client, author: &str) {
        let reason = self.reason;
        let event = self.event(author, Timestamp::now());
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events = Api::<Event>::namespaced(client.clone(), namespace);
        let failure = match timeout(ANSWER_WITHIN, events.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer".to_owned(),
        };
        if let Some(left_out) = NOT_WRITTEN.take() {
            let name = event.metadata.name.as_deref();
            warn!(namespace, event = name, reason, error = failure, left_out, "Event not written");
        }
    }

    fn event(self, author: &str, now: Timestamp) -> Event {
        let Self { regarding, warning, reason, text } = self;
        let name = cut(regarding.name.as_deref().unwrap_or_default(), LONGEST_NAME);
        // An object without a namespace has its Events in this one.
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                ..ObjectMeta::default()
            },
            regarding: Some(regarding),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            action: Some(reason.to_owned()),
            note: Some(cut(&text, LONGEST_NOTE).to_owned()),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(author.to_owned()),
            reporting_instance: Some(author.to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_about_its_object() {
        let regarding = ObjectReference {
            name: Some("mesh".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectReference::default()
        };
        let news = News { regarding, warning: true, reason: "UpgradeFailed", text: "ä".repeat(1000) };
        let event = news.event("berth-test", Timestamp::constant(1_700_000_000, 0));
        assert_eq!(
            (event.type_.as_deref(), event.reason.as_deref()),
            (Some("Warning"), Some("UpgradeFailed"))
        );
        assert_eq!(event.note.unwrap().len(), LONGEST_NOTE);
        assert_eq!(event.metadata.name.as_deref(), Some("mesh.17979cfe362a0000"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"), "its object has none");
        let regarding = event.regarding.unwrap();
        assert_eq!((regarding.uid.as_deref(), regarding.namespace), (Some("u"), None));
    }

    #[test]
    fn an_event_is_beside_its_object() {
        let regarding = ObjectReference {
            namespace: Some("shop".to_owned()),
            name: Some("x".repeat(250)),
            ..ObjectReference::default()
        };
        let news = News { regarding, warning: false, reason: "SuccessfulCreate", text: "made".to_owned() };
        let meta = news.event("berth-test", Timestamp::UNIX_EPOCH).metadata;
        assert_eq!(meta.namespace.as_deref(), Some("shop"));
        assert!(meta.name.is_some_and(|name| name.len() == LONGEST_NAME + 2));
    }
}
