//! The adapter: carries out the steps that the index gives, and tells it what it found.

use std::{sync::Arc, time::Duration};

use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

use super::lookup::{Found, Lookup, look_up};
use crate::{lease::Tenure, seen::Key, telemetry::chain};

/// Requests to the API server at the same time.
const AT_ONCE: usize = 8;
/// A write without an answer has failed; what it was to say is decided anew.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Something to be done for the index.
#[derive(Clone, Debug)]
pub enum Step {
    /// A fact is to be looked up.
    LookUp(Lookup),
    /// A status is to be written.
    Write(Box<BudgetWrite>),
}

/// A write to the status of a budget.
#[derive(Clone, Debug)]
pub struct BudgetWrite {
    /// The budget.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on: a permit that was given since makes it fail.
    pub resource_version: Box<str>,
    /// Its spec, which a write of the status leaves as it is.
    pub spec: Box<PodUnavailableBudgetSpec>,
    /// All of its status.
    pub status: Box<PodUnavailableBudgetStatus>,
}

/// A fact that was looked up.
#[derive(Debug)]
pub struct Answer {
    /// Lookup that was asked for.
    pub lookup: Lookup,
    /// Its result.
    pub found: Found,
}

/// Carries out steps until nobody gives any.
pub async fn carry_out(
    client: Client,
    tenure: Tenure,
    mut steps: mpsc::UnboundedReceiver<Step>,
    answers: mpsc::Sender<Answer>,
) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    while let Some(step) = steps.recv().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        tasks.spawn(async move {
            match step {
                Step::LookUp(lookup) => {
                    let found = look_up(&client, &lookup).await;
                    // Its reader has ended.
                    let _ = answers.send(Answer { lookup, found }).await;
                }
                Step::Write(order) if tenure.holds() => write(&client, *order).await,
                Step::Write(_) => {}
            }
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn write(client: &Client, order: BudgetWrite) {
    let BudgetWrite { key, uid, resource_version, spec, status } = order;
    let api: Api<PodUnavailableBudget> = Api::namespaced(client.clone(), &key.namespace);
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        uid: Some(uid.into()),
        resource_version: Some(resource_version.into()),
        ..ObjectMeta::default()
    };
    let object = PodUnavailableBudget { metadata, spec: *spec, status: Some(*status) };
    let written =
        timeout(ANSWER_WITHIN, api.replace_status(&key.name, &PostParams::default(), &object)).await;
    match written {
        Ok(Ok(_)) => debug!(budget = %key, "Status of a budget written"),
        // It has changed since, or is gone: its newest version comes by the watch.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
            debug!(budget = %key, "Status of a budget was decided on an older version");
        }
        Ok(Err(error)) => warn!(budget = %key, error = chain(&error), "Status of a budget not written"),
        Err(_) => warn!(budget = %key, "Status of a budget not written, no answer"),
    }
}
