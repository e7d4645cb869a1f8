//! Withdrawal of the agent's abilities from the object, where it may not change pods any more: controllers
//! would give it entries and wait until it counts as silent.

use berth_proto::crd::{NodePodUpdate, NodePodUpdateStatus};
use kube::Client;
use serde_json::json;
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
            let is_refused = error.refusal(true).is_some();
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
            found.map(raw::typed::<NodePodUpdate>).transpose()
        };
        let Some(object) = self.connection.ask(get).await? else { return Ok(()) };
        let status = object.status.unwrap_or_default();
        if status.features.is_empty() {
            return Ok(());
        }
        // What was done stays said.
        let NodePodUpdateStatus { pods, conditions, renew_time, .. } = status;
        let status =
            json!({ "pods": pods, "conditions": conditions, "features": [], "renewTime": renew_time });
        let uid = object.metadata.uid.unwrap_or_default();
        node_object::apply_status::<NodePodUpdate>(&self.connection, &self.node, &uid, FIELD_MANAGER, status)
            .await?;
        info!(node = self.node, "Features withdrawn from the NodePodUpdate: pods may not be changed here");
        Ok(())
    }
}
