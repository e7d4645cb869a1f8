//! A UnitedDeployment as it was read, and its workloads and pods as they are kept.

use std::sync::Arc;

use berth_proto::crd::UnitedDeployment;
use berth_workloads_policy::{
    store::Stored,
    united_deployment::{ChildView, KIND, Kind, PodView},
};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use crate::{
    object::{self, Object, is_of},
    owned::Ownable,
};

/// A UnitedDeployment, for the store.
pub(super) type Filed = object::Filed<Arc<UnitedDeployment>>;

/// A pod, by the UnitedDeployment that its label names.
#[derive(Clone, Debug)]
pub(super) struct FiledPod {
    key: String,
    pub(super) pod: PodView,
}

impl FiledPod {
    pub(super) fn new(pod: PodView) -> Self {
        Self { key: format!("{}/{}", pod.namespace, pod.united()), pod }
    }
}

/// Namespace and name of a UnitedDeployment, by which its pods know it.
pub(super) fn key(object: &Arc<UnitedDeployment>) -> String {
    format!("{}/{}", object.namespace(), object.name())
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
    is_of(KIND, &object.metadata).then(|| ChildView::of(kind, &object.metadata, &object.data))
}
