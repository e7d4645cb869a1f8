//! Objects of the kinds that both have, and the pods that come of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use berth_tests::node::images::BUSYBOX;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};

pub(super) type Definition = CustomResourceDefinition;

pub(super) const NAMESPACE: &str = "moves";
/// Sidecar that the SidecarSet puts into the pods of the CloneSet.
pub(super) const SIDECAR: &str = "log";
/// Pods that run when all is well, by the label `app`: those of the CloneSet, the StatefulSet, the DaemonSet,
/// and the UnitedDeployments of each kind of workload.
pub(super) const PODS: [(&str, usize); 7] =
    [("shop", 2), ("store", 1), ("each", 1), ("wide", 1), ("plain", 1), ("fixed", 1), ("kept", 1)];

/// Instance of a container, and how often it was restarted.
type Instance = (String, i32);

/// Name and UID of each pod, and what its containers run.
pub(super) type Standing = BTreeMap<String, BTreeMap<String, Instance>>;

/// Kind of an object of a manifest.
pub(super) fn kind_of(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// One object of each kind, in the order in which they are made.
pub(super) fn all() -> Result<Vec<DynamicObject>> {
    let text = include_str!("objects.yaml").replace("IMAGE", BUSYBOX);
    serde_saphyr::from_multiple(&text).context("objects.yaml")
}

/// All pods of the namespace, and what they run.
pub(super) async fn standing(pods: &Api<Pod>) -> Result<Standing> {
    let all = pods.list(&ListParams::default()).await.context("pods")?;
    Ok(all
        .into_iter()
        .map(|pod| (format!("{} {}", pod.name_any(), pod.uid().unwrap_or_default()), runs(pod)))
        .collect())
}

fn runs(pod: Pod) -> BTreeMap<String, Instance> {
    let containers = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let instance = |id: Option<String>, restarts| (id.unwrap_or_default(), restarts);
    containers.into_iter().map(|it| (it.name, instance(it.container_id, it.restart_count))).collect()
}
