//! The adapter: carries out the steps that the index gives, and tells it what it found.

use std::{sync::Arc, time::Duration};

use berth_pod_state::Labels;
use berth_proto::crd::{PersistentPodState, PersistentPodStateSpec, PersistentPodStateStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

use crate::{lease::Tenure, seen::Key, telemetry::chain};

/// Requests to the API server at the same time.
const AT_ONCE: usize = 8;
/// A request without an answer has failed; what it was for is decided anew.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Something to be done for the index.
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
#[derive(Clone, Debug)]
pub struct PodStateWrite {
    /// The PersistentPodState.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Its spec, which a write of the status leaves as it is.
    pub spec: Box<PersistentPodStateSpec>,
    /// All of its status.
    pub status: Box<PersistentPodStateStatus>,
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
    mut steps: mpsc::UnboundedReceiver<PodStateStep>,
    answers: mpsc::Sender<Annotated>,
) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    while let Some(step) = steps.recv().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        tasks.spawn(async move {
            match step {
                PodStateStep::Read { key, uid, generation, pods, keys } => {
                    let api: Api<Pod> = Api::namespaced(client, &key.namespace);
                    let mut found = Vec::with_capacity(pods.len());
                    for (name, uid) in pods {
                        let read = annotations(&api, &name, uid, &keys).await;
                        found.push((name, read));
                    }
                    // Its reader has ended.
                    let _ = answers.send(Annotated { key, uid, generation, pods: found }).await;
                }
                PodStateStep::Write(order) if tenure.holds() => write(&client, *order).await,
                PodStateStep::Write(_) => {}
            }
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn annotations(api: &Api<Pod>, name: &str, uid: String, keys: &[String]) -> Read {
    match timeout(ANSWER_WITHIN, api.get_metadata_opt(name)).await {
        Ok(Ok(pod)) => Ok(pod.filter(|pod| pod.uid().as_deref() == Some(&uid)).map(|pod| {
            let all = pod.annotations();
            let kept = keys.iter().filter_map(|key| Some((key.clone(), all.get(key)?.clone())));
            (uid, kept.collect())
        })),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

async fn write(client: &Client, order: PodStateWrite) {
    let PodStateWrite { key, uid, resource_version, spec, status } = order;
    let api: Api<PersistentPodState> = Api::namespaced(client.clone(), &key.namespace);
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        uid: Some(uid.into()),
        resource_version: Some(resource_version.into()),
        ..ObjectMeta::default()
    };
    let object = PersistentPodState { metadata, spec: *spec, status: Some(*status) };
    let written =
        timeout(ANSWER_WITHIN, api.replace_status(&key.name, &PostParams::default(), &object)).await;
    match written {
        Ok(Ok(_)) => debug!(state = %key, "Status of a PersistentPodState written"),
        // It has changed since, or is gone: its newest version comes by the watch.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
            debug!(state = %key, "Status of a PersistentPodState was decided on an older version");
        }
        Ok(Err(error)) => {
            warn!(state = %key, error = chain(&error), "Status of a PersistentPodState not written");
        }
        Err(_) => warn!(state = %key, "Status of a PersistentPodState not written, no answer"),
    }
}
