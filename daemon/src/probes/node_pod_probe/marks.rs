//! Writes of probes on pods: labels and annotations with the pod itself, so that admission sees them, and
//! conditions with its status.

use std::{collections::BTreeMap, sync::Arc};

use berth_policy::{PodMarks, PodRef, ProbeOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::{object::outcome, shared::SharedProbes};
use crate::{
    base::{causes::chain, clock::Clock, status::whole_second},
    cluster::{
        client::CallError,
        metrics::Write,
        node_pods::{NodePods, Part},
        v1 as core,
    },
};

/// Writes to pods of this node, and tells the probes what they show then.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    pub(super) pods: NodePods,
    pub(super) probes: Arc<SharedProbes>,
}

impl Marker {
    /// Looks at the pod as it is now.
    pub(super) async fn look(&self, pod: &PodRef) -> ProbeOutcome {
        match self.pods.find(pod).await {
            Ok(Some(found)) => {
                self.probes.looked(&found);
                ProbeOutcome::Done
            }
            Ok(None) => ProbeOutcome::Gone,
            Err(error) => {
                warn!(namespace = pod.namespace, pod = pod.name, error = %chain(&error), "Pod not looked at");
                outcome(&error)
            }
        }
    }

    /// The API server shows that the pod is being deleted, or has ended. Whoever stopped asking for its
    /// probes may have known that before the pod view of this agent.
    pub(super) async fn is_ending(&self, pod: &PodRef) -> bool {
        let ends = |found: core::Pod| {
            let phase = found.status.and_then(|status| status.phase);
            found.metadata.deletion_timestamp.is_some()
                || matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
        };
        // Whatever keeps it from being read keeps it from being written.
        self.pods.find(pod).await.is_ok_and(|found| found.is_none_or(ends))
    }

    /// Writes marks on a pod: nothing of it that changed in between, and no other pod of that name.
    pub(super) async fn mark(&self, marks: &PodMarks) -> ProbeOutcome {
        match self.write(marks).await {
            Ok(()) => ProbeOutcome::Done,
            Err(error) => {
                let pod = &marks.pod;
                warn!(namespace = pod.namespace, pod = pod.name, error = %chain(&error), "Pod not marked");
                outcome(&error)
            }
        }
    }

    async fn write(&self, marks: &PodMarks) -> Result<(), CallError> {
        if !marks.labels.is_empty() || !marks.annotations.is_empty() {
            self.patch(marks, Part::Pod, metadata(marks)).await?;
        }
        if !marks.conditions.is_empty() {
            self.patch(marks, Part::Status, conditions(marks, &Clock::read())).await?;
        }
        Ok(())
    }

    async fn patch(&self, marks: &PodMarks, part: Part, body: Value) -> Result<(), CallError> {
        let pod = &marks.pod;
        let written = self.pods.patch(&pod.namespace, &pod.name, part, body, Write::Mark).await;
        written.map(|pod| self.probes.looked(&pod))
    }
}

fn metadata(marks: &PodMarks) -> Value {
    let texts = |all: &BTreeMap<Arc<str>, Option<Arc<str>>>| -> Map<String, Value> {
        all.iter().map(|(key, value)| (key.to_string(), json!(value.as_deref()))).collect()
    };
    json!({ "metadata": {
        "uid": marks.pod.uid.as_str(),
        "labels": texts(&marks.labels),
        "annotations": texts(&marks.annotations),
    } })
}

fn conditions(marks: &PodMarks, clock: &Clock) -> Value {
    let time = |at| Time(whole_second(clock.instant_as_wall(at)));
    let conditions: Vec<core::PodCondition> = marks
        .conditions
        .iter()
        .map(|(condition_type, mark)| core::PodCondition {
            type_: condition_type.to_string(),
            status: mark.status.name().to_owned(),
            // Merged into what is there: left out, the old one would stay.
            message: Some(mark.message.to_string()),
            last_probe_time: mark.last_probe.map(time),
            last_transition_time: Some(time(mark.last_transition)),
            ..core::PodCondition::default()
        })
        .collect();
    json!({ "metadata": { "uid": marks.pod.uid.as_str() }, "status": { "conditions": conditions } })
}

#[cfg(test)]
mod tests {
    use berth_policy::{ConditionMark, ConditionStatus};

    use super::*;

    #[test]
    fn marks_are_set_and_taken_away() {
        let now = std::time::Instant::now();
        let mark = ConditionMark {
            status: ConditionStatus::False,
            message: "busy".into(),
            last_probe: None,
            last_transition: now,
        };
        let marks = PodMarks {
            pod: PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "game".to_owned() },
            conditions: [("game.kruise.io/idle".into(), mark)].into(),
            labels: [("idle".into(), Some("false".into()))].into(),
            annotations: [("cost".into(), None)].into(),
        };
        let body = metadata(&marks);
        assert_eq!(body["metadata"]["uid"], "u");
        assert_eq!(body["metadata"]["labels"], json!({ "idle": "false" }));
        assert_eq!(body["metadata"]["annotations"], json!({ "cost": null }));
        let body = conditions(&marks, &Clock::read());
        let condition = &body["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["message"]), (&json!("False"), &json!("busy")));
        assert!(condition["lastTransitionTime"].is_string());
    }
}
