//! `PodProbeMarker`s, as a user makes them, and what pods show of them.

use anyhow::{Context, Result, bail};
use berth_proto::crd::PodProbeMarker;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

/// The label of pods by which a marker finds them.
pub const APP: &str = "app";
/// The domain of the conditions that are asked for here.
const DOMAIN: &str = "probes.test";
/// The field manager of a user with kubectl.
const MANAGER: &str = "kubectl";

/// A marker that is to be made. The condition of each probe has the probe's name.
#[derive(Clone, Debug)]
pub struct Marker {
    name: String,
    app: String,
    probes: Vec<Value>,
}

impl Marker {
    /// Makes a marker of the pods whose label `app` has this value; without a probe yet.
    pub fn new(name: &str, app: &str) -> Self {
        Self { name: name.to_owned(), app: app.to_owned(), probes: Vec::new() }
    }

    /// Adds a probe of a container: a core `Probe`.
    pub fn probe(mut self, name: &str, container: &str, probe: Value) -> Self {
        self.probes.push(json!({
            "name": name,
            "containerName": container,
            "probe": probe,
            "podConditionType": format!("{DOMAIN}/{name}"),
        }));
        self
    }

    /// Lets the probe that was added last write a label as well: "true" while it succeeds, "false" while it
    /// fails.
    pub fn label(mut self, key: &str) -> Self {
        if let Some(probe) = self.probes.last_mut() {
            probe["markerPolicy"] = json!([
                { "state": "Succeeded", "labels": { key: "true" } },
                { "state": "Failed", "labels": { key: "false" } },
            ]);
        }
        self
    }

    /// Makes it, or makes the one of its name like it.
    pub async fn apply(&self, client: &Client, namespace: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "PodProbeMarker",
            "metadata": { "name": self.name },
            "spec": { "selector": { "matchLabels": { APP: self.app } }, "probes": self.probes },
        });
        let markers: Api<PodProbeMarker> = Api::namespaced(client.clone(), namespace);
        let params = PatchParams::apply(MANAGER).force();
        let applied = markers.patch(&self.name, &params, &Patch::Apply(&object)).await;
        applied.with_context(|| format!("apply marker {}", self.name)).map(drop)
    }
}

/// Deletes a marker.
pub async fn delete(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let markers: Api<PodProbeMarker> = Api::namespaced(client.clone(), namespace);
    let deleted = markers.delete(name, &DeleteParams::default()).await;
    deleted.with_context(|| format!("delete marker {name}")).map(drop)
}

/// The type of the condition of a probe of this name.
pub fn condition_type(probe: &str) -> String {
    format!("{DOMAIN}/{probe}")
}

/// Finds the condition of the pod for a probe of this name.
pub fn condition<'a>(pod: &'a Pod, probe: &str) -> Option<&'a PodCondition> {
    let kind = condition_type(probe);
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Accepts a pod that says this of a probe: the condition's status, and words of its message.
pub fn says(pod: &Pod, probe: &str, status: &str, words: &str) -> Result<()> {
    match condition(pod, probe) {
        Some(found)
            if found.status == status && found.message.as_deref().unwrap_or_default().contains(words) =>
        {
            Ok(())
        }
        other => bail!("{probe}: {other:?}"),
    }
}
