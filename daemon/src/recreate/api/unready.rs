//! Holds a pod not Ready while its containers are recreated, by the readiness gate `KruisePodReady`.
//!
//! Several writers share the condition, the agent is one of them: it reads the pod, changes its own entry,
//! and writes on the condition that nobody wrote in between. Only conditions are sent, so fields this program
//! does not know stay.

use std::time::Duration;

use berth_policy::{PodRef, StepOutcome};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::json;
use tracing::{info, warn};

use crate::{
    base::causes::chain,
    cluster::{
        client::CallError,
        metrics::Write,
        node_pods::{NodePods, Part},
        v1 as core,
    },
    pods::{
        read,
        unready::{self, CONDITION, Entry},
    },
};

/// Pauses after a conflict, as OpenKruise has them: whoever was first is done by then.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// Change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is there, and the pod is not Ready.
    Hold,
    /// It is not there.
    Release,
    /// The condition is there, without any entry. One that somebody wrote stays.
    Open,
}

/// The conditions to write; none when the pod is as it should be, or lacks the gate.
pub(super) fn conditions(
    pod: &core::Pod,
    change: Change,
    entry: &Entry,
    now: Timestamp,
) -> Vec<core::PodCondition> {
    if !read::has_gate(pod, CONDITION) {
        return Vec::new();
    }
    let old = read::condition(pod, CONDITION);
    let message = old.and_then(|old| old.message.as_deref()).unwrap_or("");
    let mut entries = unready::entries(message);
    let there = entries.contains(entry);
    let is_true = old.is_some_and(|old| old.status == "True");
    let gate = |status: &str, entries: Vec<Entry>, since: Option<Time>| core::PodCondition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        message: Some(unready::message(entries)),
        last_transition_time: since,
        ..core::PodCondition::default()
    };
    match change {
        Change::Hold if there && !is_true => Vec::new(),
        Change::Hold => {
            entries.push(entry.clone());
            let mut changed = vec![gate("False", entries, Some(Time(now)))];
            changed.extend(read::not_ready_by(pod, CONDITION, now));
            changed
        }
        Change::Open => unready::opened(pod, now).into_iter().collect(),
        Change::Release if !there => Vec::new(),
        Change::Release => {
            entries.retain(|other| other != entry);
            let status = if entries.is_empty() { "True" } else { "False" };
            let same = old.filter(|old| old.status == status);
            let since = same.and_then(|old| old.last_transition_time.clone()).unwrap_or(Time(now));
            vec![gate(status, entries, Some(since))]
        }
    }
}

/// Writes to the readiness of pods of this node.
#[derive(Clone, Debug)]
pub(super) struct Readiness(pub(super) NodePods);

impl Readiness {
    /// Has the entry of the request with this key there, or not there.
    pub(super) async fn change(&self, pod: &PodRef, key: &str, change: Change) -> StepOutcome {
        let entry = unready::request(key);
        let mut pauses = PAUSES.into_iter();
        loop {
            let error = match self.attempt(pod, &entry, change).await {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.is_conflict() => tokio::time::sleep(pause).await,
                _ => {
                    let pod = format!("{}/{}", pod.namespace, pod.name);
                    warn!(pod, request = key, error = %chain(&error), "Readiness of a pod not written");
                    return StepOutcome::Failed;
                }
            }
        }
    }

    async fn attempt(&self, pod: &PodRef, entry: &Entry, change: Change) -> Result<StepOutcome, CallError> {
        let Some(found) = self.0.find(pod).await? else { return Ok(StepOutcome::Gone) };
        let conditions = conditions(&found, change, entry, Timestamp::now());
        if conditions.is_empty() {
            return Ok(StepOutcome::Done);
        }
        // The version makes it a conflict when somebody else was faster.
        let body = json!({
            "metadata": { "uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version },
            "status": { "conditions": conditions },
        });
        let patched = self.0.patch(&pod.namespace, &pod.name, Part::Status, body, Write::Unready).await;
        match patched {
            Ok(_) => {
                info!(
                    pod = format!("{}/{}", pod.namespace, pod.name),
                    request = entry.key,
                    ?change,
                    "Readiness of a pod written"
                );
                Ok(StepOutcome::Done)
            }
            Err(error) if error.is_gone() => Ok(StepOutcome::Gone),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
