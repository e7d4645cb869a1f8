//! The adapter: carries out the steps that the index gives, and tells it what it found.

use berth_proto::crd::{WorkloadSpread, WorkloadSpreadSpec, WorkloadSpreadStatus};
use berth_spread::{Note, Target};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use super::replicas::replicas;
use crate::{
    lease::Tenure,
    seen::Key,
    site::{self, ANSWER_WITHIN, StatusWrite},
    size,
    telemetry::chain,
};

/// Author of the Events.
const CONTROLLER: &str = "berth-manager";
/// The longest note the API takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Something to be done for the index.
#[derive(Clone, Debug)]
pub enum SpreadStep {
    /// The replicas of a workload are to be read.
    Ask {
        /// The spread.
        key: Key,
        /// Which one of that name.
        uid: Box<str>,
        /// Its workload.
        target: Target,
    },
    /// A status is to be written.
    Write(Box<SpreadWrite>),
    /// An Event is to be written.
    Tell {
        /// The spread.
        key: Key,
        /// Which one of that name.
        uid: Box<str>,
        /// Its news.
        note: Note,
    },
}

/// A write to the status of a WorkloadSpread.
pub type SpreadWrite = StatusWrite<WorkloadSpreadSpec, WorkloadSpreadStatus>;

/// Replicas of a workload as they were read.
#[derive(Debug)]
pub struct Replicas {
    /// The spread.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// How many pods its workload wants, or what is wrong.
    pub wants: Result<i32, String>,
}

/// Carries out steps until nobody gives any.
pub async fn carry_out(
    client: Client,
    tenure: Tenure,
    steps: mpsc::UnboundedReceiver<SpreadStep>,
    answers: mpsc::Sender<Replicas>,
) {
    site::each(steps, |step| {
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        async move {
            match step {
                SpreadStep::Ask { key, uid, target } => {
                    let wants = replicas(&client, &key.namespace, &target).await;
                    // Its reader has ended.
                    let _ = answers.send(Replicas { key, uid, wants }).await;
                }
                SpreadStep::Write(order) if tenure.holds() => {
                    let object = |metadata, spec, status| WorkloadSpread { metadata, spec, status };
                    site::write(&client, *order, object).await;
                }
                SpreadStep::Tell { key, uid, note } if tenure.holds() => {
                    tell(&client, &key, &uid, note).await;
                }
                SpreadStep::Write(_) | SpreadStep::Tell { .. } => {}
            }
        }
    })
    .await;
}

/// An Event that cannot be written is lost; the status says what lasts.
async fn tell(client: &Client, key: &Key, uid: &str, note: Note) {
    let now = Timestamp::now();
    let event = Event {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.to_string()),
            name: Some(format!("{}.{:x}", size::cut(&key.name, 200), now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
            kind: Some("WorkloadSpread".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.reason.to_owned()),
        note: Some(size::cut(&note.text, LONGEST_NOTE).to_string()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    };
    let events: Api<Event> = Api::namespaced(client.clone(), &key.namespace);
    match timeout(ANSWER_WITHIN, events.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => warn!(spread = %key, error = chain(&error), "Event not written"),
        Err(_) => warn!(spread = %key, "Event not written: no answer"),
    }
}
