//! The adapter: carries out the steps that the index gives, and tells it what it found.

use std::sync::Arc;

use berth_base::events::News;
use berth_proto::crd::{WorkloadSpread, WorkloadSpreadSpec, WorkloadSpreadStatus};
use berth_spread::{Note, Target};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;

use super::replicas::replicas;
use crate::{
    effect::Effect,
    lease::Tenure,
    notes::AUTHOR,
    steps::{self, Queued, StatusWrite},
    store::Key,
};

/// Step that the index wants.
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

impl From<SpreadWrite> for Effect {
    fn from(write: SpreadWrite) -> Self {
        Self::Spread(SpreadStep::Write(Box::new(write)))
    }
}

impl Queued for SpreadStep {
    fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Ask { key, .. } | Self::Tell { key, .. } => &key.namespace,
            Self::Write(write) => &write.key.namespace,
        }
    }

    fn object(&self) -> Option<&Key> {
        match self {
            Self::Ask { key, .. } => Some(key),
            Self::Write(write) => Some(&write.key),
            Self::Tell { .. } => None,
        }
    }
}

/// Replicas of a workload as they were read.
#[derive(Debug)]
pub struct Replicas {
    /// The spread.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// Its workload, as it was when that was asked for.
    pub target: Target,
    /// How many pods that wants, or what is wrong.
    pub wants: Result<i32, String>,
}

/// Carries out steps until nobody gives any.
pub async fn carry_out(
    client: Client,
    tenure: Tenure,
    steps: mpsc::UnboundedReceiver<SpreadStep>,
    answers: mpsc::Sender<Replicas>,
) {
    let reads = |step: &SpreadStep| matches!(step, SpreadStep::Ask { .. });
    steps::reads_and_writes(steps, reads, |step| {
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        async move {
            match step {
                SpreadStep::Ask { key, uid, target } => {
                    let wants = replicas(&client, &key.namespace, &target).await;
                    // Its reader has ended.
                    let _ = answers.send(Replicas { key, uid, target, wants }).await;
                }
                SpreadStep::Write(order) if tenure.holds() => {
                    let object = |metadata, spec, status| WorkloadSpread { metadata, spec, status };
                    steps::write(&client, *order, object).await;
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

async fn tell(client: &Client, key: &Key, uid: &str, note: Note) {
    let regarding = ObjectReference {
        api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
        kind: Some("WorkloadSpread".to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    };
    let Note { reason, warning, text } = note;
    News { regarding, warning, reason, text }.write(client, AUTHOR).await;
}
