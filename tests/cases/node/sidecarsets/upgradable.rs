//! Pods that cannot follow their set in place say so, and that they can when that is so again. Nothing of
//! them is restarted for it.

use anyhow::{Context, Result, ensure};
use berth_tests::node::images::BUSYBOX_NEXT;
use serde_json::{Value, json};

use super::{Stage, sidecar};
use crate::case::container;

/// Two pods with the newest sidecars, of a set that changes in more than images and back.
pub(super) async fn who_cannot_follow(stage: &Stage<'_>) -> Result<()> {
    let mut other: Value = sidecar(BUSYBOX_NEXT);
    other["env"] = json!([{ "name": "LEVEL", "value": "debug" }]);
    stage.patch(json!({ "containers": [other] })).await?;
    says(stage, "False", "UpdateImmutableField", r#"{"logs":false}"#).await?;
    stage.patch(json!({ "containers": [sidecar(BUSYBOX_NEXT)] })).await?;
    says(stage, "True", "AllSidecarsetUpgradable", r#"{"logs":true}"#).await?;
    stage.status("both count as before", |status| status.updated_ready_pods == Some(2)).await.map(drop)
}

async fn says(stage: &Stage<'_>, status: &str, reason: &str, message: &str) -> Result<()> {
    for name in ["one", "two"] {
        let what = format!("says SidecarSetUpgradable {status}");
        let pod = stage
            .case
            .await_pod(name, &what, |pod| {
                let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let found =
                    conditions.find(|one| one.type_ == "SidecarSetUpgradable").context("no condition")?;
                let said = (&*found.status, found.reason.as_deref(), found.message.as_deref());
                ensure!(said == (status, Some(reason), Some(message)), "{found:?}");
                Ok(())
            })
            .await?;
        let restarts = (container(&pod, "log")?.restart_count, container(&pod, "app")?.restart_count);
        ensure!(restarts == (1, 0), "{name}: {restarts:?} restarts of the sidecar and of the app");
    }
    Ok(())
}
