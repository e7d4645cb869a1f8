//! Withdrawal of the agent's abilities from the object, where it may not change pods any more: controllers
//! would give it entries and wait until it counts as silent.

use berth_proto::crd::{NodePodUpdate, NodePodUpdateStatus, Partly};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::{info, warn};

use super::NodeUpdates;
use crate::{
    base::causes::chain,
    cluster::{FIELD_MANAGER, client::CallError, node_object, pause, raw},
};

impl NodeUpdates {
    /// Takes the abilities back, until the object says so or the API server refuses it for good.
    pub(in crate::update) async fn withdraw(&self) {
        let mut attempt = 0;
        while let Err(error) = self.withdrawn().await {
            let is_refused = error.refusal_or_forbidden().is_some();
            if attempt == 0 || is_refused {
                warn!(node = self.node, error = %chain(&error), "Features not withdrawn from the NodePodUpdate");
            }
            if is_refused {
                return;
            }
            sleep(pause::after(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    async fn withdrawn(&self) -> Result<(), CallError> {
        let get = async |client: Client| {
            let found = raw::all::<NodePodUpdate>(client).get_opt(&self.node).await?;
            found.map(raw::typed::<Partly<NodePodUpdate>>).transpose()
        };
        let found = self.connection.ask(get).await?;
        let Some(Partly { object, unreadable }) = found else { return Ok(()) };
        let status = object.status.unwrap_or_default();
        if status.features.is_empty() {
            return Ok(());
        }
        // What was done stays said, by a newer agent as well.
        let NodePodUpdateStatus { pods, conditions, renew_time, .. } = status;
        let unreadable = unreadable.into_iter().filter(|one| one.list == "pods").map(|one| one.entry);
        let pods: Vec<Value> = pods.iter().map(|pod| json!(pod)).chain(unreadable).collect();
        let status =
            json!({ "pods": pods, "conditions": conditions, "features": [], "renewTime": renew_time });
        let uid = object.metadata.uid.unwrap_or_default();
        let written = node_object::apply_status::<NodePodUpdate>(
            &self.connection,
            &self.node,
            &uid,
            FIELD_MANAGER,
            status,
        );
        written.await?;
        info!(node = self.node, "Features withdrawn from the NodePodUpdate: pods may not be changed here");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::cluster::fake::{Answer, FakeApi, Question};

    /// Writes for an object with this status, where the first answers are no good.
    async fn written(status: Option<Value>, refused: Option<u16>) -> Vec<Value> {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let failed = AtomicBool::new(false);
        let api = FakeApi::new(move |Question { what, body, .. }| {
            let object = status.as_ref().map(|status| {
                json!({
                    "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
                    "metadata": { "name": "node-a", "uid": "u", "resourceVersion": "7" },
                    "spec": {}, "status": status,
                })
            });
            let is_write = what.starts_with("PATCH");
            if is_write {
                let _ = tell.send(body["status"].clone());
            }
            match (object, refused) {
                (Some(_), Some(code))
                    if is_write && (code == 403 || !failed.swap(true, Ordering::Relaxed)) =>
                {
                    Answer::Refused(code)
                }
                (Some(object), _) => Answer::Object(object),
                (None, _) => Answer::Refused(404),
            }
        });
        let api = api.await;
        let updates = NodeUpdates::new(api.connection.clone(), "node-a".to_owned());
        let limit = std::time::Duration::from_secs(20);
        tokio::time::timeout(limit, updates.withdraw()).await.expect("it ends");
        let mut all = Vec::new();
        while let Ok(one) = told.try_recv() {
            all.push(one);
        }
        all
    }

    #[tokio::test]
    async fn an_agent_that_may_not_change_pods_takes_its_features_back() {
        let newer = json!({ "uid": "q", "revision": "r", "phase": "Paused" });
        let pods = json!([{ "uid": "p", "revision": "r", "phase": "Succeeded" }, newer]);
        let time = "2026-11-01T00:00:00Z";
        let said = json!({ "features": ["owners/v1"], "pods": pods, "renewTime": time });
        let without = json!({ "features": [], "pods": pods, "conditions": [], "renewTime": time });
        let table = [
            ("it had some", Some(said.clone()), None, 1),
            ("tried again", Some(said.clone()), Some(500), 2),
            ("refused", Some(said), Some(403), 1),
            ("it has none", Some(json!({ "renewTime": time })), None, 0),
            ("there is no object", None, None, 0),
        ];
        for (row, status, refused, writes) in table {
            assert_eq!(written(status, refused).await, vec![without.clone(); writes], "{row}");
        }
    }
}
