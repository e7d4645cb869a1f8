//! The adapter: carries out the steps that the index gives, and tells it what it found.

use std::sync::Arc;

use berth_base::sent::Sent;
use berth_pod_state::Labels;
use berth_proto::crd::{PersistentPodState, PersistentPodStateSpec, PersistentPodStateStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    effect::Effect,
    lease::Tenure,
    reads,
    steps::{self, ANSWER_WITHIN, Queued, StatusWrite},
    store::Key,
};

/// Step that the index wants.
#[derive(Clone, Debug)]
pub enum PodStateStep {
    /// Annotations of pods are to be read.
    Read {
        /// The PersistentPodState.
        key: Key,
        /// Which one of that name.
        uid: Box<str>,
        /// Its spec, by number.
        generation: Option<i64>,
        /// Names and UIDs of the pods.
        pods: Vec<(String, String)>,
        /// Keys of the annotations.
        keys: Vec<String>,
    },
    /// A status is to be written.
    Write(Box<PodStateWrite>),
}

/// A write to the status of a PersistentPodState.
pub type PodStateWrite = StatusWrite<PersistentPodStateSpec, PersistentPodStateStatus>;

impl From<PodStateWrite> for Effect {
    fn from(write: PodStateWrite) -> Self {
        Self::PodState(PodStateStep::Write(Box::new(write)))
    }
}

impl Queued for PodStateStep {
    fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Read { key, .. } => &key.namespace,
            Self::Write(write) => &write.key.namespace,
        }
    }

    fn object(&self) -> Option<&Key> {
        match self {
            Self::Read { key, .. } => Some(key),
            Self::Write(write) => Some(&write.key),
        }
    }
}

/// Annotations of a pod as they were read, with its UID; `None`: it is gone, or another one has its name.
pub(super) type Read = Result<Option<(String, Labels)>, String>;

/// Annotations of pods as they were read.
#[derive(Debug)]
pub struct Annotated {
    /// The PersistentPodState.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// Its spec, by number.
    pub generation: Option<i64>,
    /// By the names of the pods.
    pub pods: Vec<(String, Read)>,
}

/// Carries out steps until nobody gives any.
pub async fn carry_out(
    client: Client,
    tenure: Tenure,
    steps: mpsc::UnboundedReceiver<PodStateStep>,
    answers: mpsc::Sender<Annotated>,
) {
    let reads = |step: &PodStateStep| matches!(step, PodStateStep::Read { .. });
    steps::reads_and_writes(steps, reads, |step| {
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        async move {
            match step {
                PodStateStep::Read { key, uid, generation, pods, keys } => {
                    let api: Api<Sent<PartialObjectMeta<Pod>>> = Api::namespaced(client, &key.namespace);
                    let mut found = Vec::with_capacity(pods.len());
                    for (name, uid) in pods {
                        let read = annotations(&api, &name, uid, &keys).await;
                        found.push((name, read));
                    }
                    // Its reader has ended.
                    let _ = answers.send(Annotated { key, uid, generation, pods: found }).await;
                }
                PodStateStep::Write(order) if tenure.holds() => {
                    let object = |metadata, spec, status| PersistentPodState { metadata, spec, status };
                    steps::write(&client, *order, object).await;
                }
                PodStateStep::Write(_) => {}
            }
        }
    })
    .await;
}

async fn annotations(
    api: &Api<Sent<PartialObjectMeta<Pod>>>,
    name: &str,
    uid: String,
    keys: &[String],
) -> Read {
    match timeout(ANSWER_WITHIN, reads::read(api, name)).await {
        Ok(Ok(pod)) => Ok(pod.filter(|pod| pod.uid().as_deref() == Some(&uid)).map(|pod| {
            let all = pod.annotations();
            let kept = keys.iter().filter_map(|key| Some((key.clone(), all.get(key)?.clone())));
            (uid, kept.collect())
        })),
        Ok(Err(error)) => Err(error),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}
