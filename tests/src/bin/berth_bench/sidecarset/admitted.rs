//! Sets and pods as admission stores them, made here where a case is not about admission.

use anyhow::{Result, anyhow};
use berth_proto::crd::SidecarSet;
use berth_sidecarset::{Context as Injection, Set, approve, complete, inject};
use berth_tests::manifest::PodManifest;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// A set, `old` being what was stored before.
pub(super) fn stored(mut set: Value, old: Option<&Value>) -> Result<SidecarSet> {
    complete(&mut set, old)?;
    approve(&mut set, old);
    Ok(serde_json::from_value(set)?)
}

/// A pod with the sidecars of a set.
pub(super) fn injected(set: &SidecarSet, namespace: &str, manifest: &PodManifest) -> Result<Pod> {
    let set = Set::parse(set).map_err(|fault| anyhow!("{fault}"))?;
    let context = Injection { namespace, namespace_labels: None, draw: &mut || 0, now: Timestamp::now() };
    let mut pod = manifest.json().clone();
    inject(&mut pod, &[&set], context).map_err(|refusal| anyhow!("{refusal}"))?;
    Ok(serde_json::from_value(pod)?)
}
