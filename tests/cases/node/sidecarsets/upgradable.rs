//! Pods that cannot follow their set in place say so, and that they can when that is so again. Nothing of
//! them is restarted for it. The set itself has Events of its upgrades.

use anyhow::{Context, Result, ensure};
use berth_tests::node::images::BUSYBOX_NEXT;
use berth_tests::wait::await_condition;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::{SET, Stage, sidecar};
use crate::case::{PATIENCE, container};

/// Two pods with the newest sidecars, of a set that changes in more than images and back.
pub(super) async fn who_cannot_follow(stage: &Stage<'_>) -> Result<()> {
    let mut other: Value = sidecar(BUSYBOX_NEXT);
    other["env"] = json!([{ "name": "LEVEL", "value": "debug" }]);
    stage.patch(json!({ "containers": [other] })).await?;
    says(stage, "False", "UpdateImmutableField", r#"{"logs":false}"#).await?;
    stage.patch(json!({ "containers": [sidecar(BUSYBOX_NEXT)] })).await?;
    says(stage, "True", "AllSidecarsetUpgradable", r#"{"logs":true}"#).await?;
    stage.status("both count as before", |status| status.updated_ready_pods == Some(2)).await?;
    in_events(stage).await
}

/// Waits for the Events of the set that `kubectl describe` shows.
async fn in_events(stage: &Stage<'_>) -> Result<()> {
    let events: Api<Event> = Api::namespaced(stage.sets.clone().into_client(), "default");
    await_condition("the upgrade stands in Events", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await?.items;
        let of_set = all.iter().filter(|event| {
            let about = event.regarding.as_ref();
            let about = about.map(|about| (about.kind.as_deref(), about.name.as_deref()));
            about == Some((Some("SidecarSet"), Some(SET)))
        });
        let told: Vec<_> = of_set.filter_map(|event| event.reason.as_deref()).collect();
        for reason in ["InProgress", "Updated", "NotUpgradablePods"] {
            ensure!(told.contains(&reason), "no {reason} among {told:?}");
        }
        Ok(())
    })
    .await
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
