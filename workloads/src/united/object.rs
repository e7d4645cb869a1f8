//! A UnitedDeployment as it was read, and its workloads and pods as they are kept.

use std::sync::Arc;

use berth_proto::crd::UnitedDeployment;
use berth_workloads_policy::{
    store::{Stored, version},
    united_deployment::{API_VERSION, ChildView, KIND, Kind, PodView},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};

use crate::owned::Ownable;

/// An object, for the store.
#[derive(Clone, Debug)]
pub(super) struct Filed {
    uid: String,
    version: u64,
    pub(super) object: Arc<UnitedDeployment>,
}

/// A pod, by the UnitedDeployment that its label names.
#[derive(Clone, Debug)]
pub(super) struct FiledPod {
    key: String,
    pub(super) pod: PodView,
}

impl Filed {
    /// Reads an object as it was shown.
    pub(super) fn read(object: DynamicObject) -> Result<Self, String> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let read = serde_json::to_value(object).and_then(serde_json::from_value::<UnitedDeployment>);
        read.map(Self::new).map_err(|error| format!("{name}: {error}"))
    }

    pub(super) fn new(object: UnitedDeployment) -> Self {
        let meta = &object.metadata;
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version(meta.resource_version.as_deref().unwrap_or_default()),
            object: Arc::new(object),
        }
    }

    /// Its namespace and name, by which its pods know it.
    pub(super) fn key(&self) -> String {
        let meta = &self.object.metadata;
        key(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl FiledPod {
    pub(super) fn new(pod: PodView) -> Self {
        Self { key: key(&pod.namespace, pod.united()), pod }
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Stored for Filed {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Stored for FiledPod {
    fn uid(&self) -> &str {
        &self.pod.uid
    }

    fn version(&self) -> u64 {
        self.pod.version()
    }
}

impl Ownable for FiledPod {
    fn owner(&self) -> &str {
        &self.key
    }
}

impl Ownable for ChildView {
    fn owner(&self) -> &str {
        &self.owner
    }
}

/// Resource of UnitedDeployments.
pub(super) fn united() -> ApiResource {
    ApiResource::erase::<UnitedDeployment>(&())
}

/// Resource of a kind of workloads.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    ApiResource::from_gvk_with_plural(&gvk, kind.plural())
}

/// Reduces a workload that a UnitedDeployment decides on.
pub(super) fn child(kind: Kind, object: &DynamicObject) -> Option<ChildView> {
    is_decided(&object.metadata).then(|| ChildView::of(kind, &object.metadata, &object.data))
}

/// Tells whether a UnitedDeployment decides on the object.
pub(super) fn is_decided(meta: &ObjectMeta) -> bool {
    meta.owner_references.iter().flatten().any(|owner| {
        owner.controller == Some(true)
            && owner.kind == KIND
            && owner.api_version.starts_with("apps.kruise.io/")
    })
}

/// Names it in an Event.
pub(super) fn reference(object: &UnitedDeployment) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(KIND.to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_united_deployment_decides_on_counts() {
        let meta = |api_version: &str, kind: &str, controller: bool| -> ObjectMeta {
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": controller,
            });
            serde_json::from_value(json!({ "ownerReferences": [owner] })).unwrap()
        };
        assert!(is_decided(&meta(API_VERSION, KIND, true)));
        for (api_version, kind, controller) in
            [(API_VERSION, KIND, false), ("example.com/v1", KIND, true), (API_VERSION, "CloneSet", true)]
        {
            assert!(!is_decided(&meta(api_version, kind, controller)), "{api_version} {kind} {controller}");
        }
        assert!(!is_decided(&ObjectMeta::default()));
    }
}
