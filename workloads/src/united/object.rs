//! A UnitedDeployment as it was read, and its workloads and pods as they are kept.

use std::sync::Arc;

use berth_proto::crd::{UnitedDeployment, UnitedDeploymentSpec};
use berth_workloads_policy::{
    store::Stored,
    united_deployment::{ChildView, KIND, Kind, PodView},
};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use crate::{
    object::{self, Bare, Object, is_of},
    owned::Ownable,
    room::bare_meta,
};

/// A UnitedDeployment, for the store.
pub(super) type Filed = object::Filed<Arc<UnitedDeployment>>;

impl Bare for Arc<UnitedDeployment> {
    fn bare(&self) -> Self {
        let mut bare = UnitedDeployment::new("", UnitedDeploymentSpec::default());
        bare.metadata = bare_meta(&self.metadata);
        Self::new(bare)
    }
}

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

    /// Its own controller counts more in its status than is looked at.
    fn decides_as(&self, earlier: &Self) -> bool {
        Self { version: earlier.version.clone(), ..self.clone() } == *earlier
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        owned::{Concerned, Owned},
        watch::Shown,
    };

    #[rstest]
    #[case::another_version(json!({}), false)]
    #[case::available(json!({ "availableReplicas": 3 }), false)]
    #[case::ready(json!({ "readyReplicas": 3 }), true)]
    fn a_workload_that_changes_nothing_is_no_plan(#[case] status: Value, #[case] planned: bool) {
        let of = |version: u32, status: &Value| {
            let object = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "namespace": "ns", "name": "d", "uid": "d", "resourceVersion": version.to_string(),
                    "ownerReferences": [{
                        "apiVersion": "apps.kruise.io/v1alpha1", "kind": KIND, "name": "x", "uid": "x",
                        "controller": true,
                    }],
                },
                "spec": { "replicas": 3 }, "status": status,
            });
            child(Kind::Deployment, &serde_json::from_value(object).unwrap()).unwrap()
        };
        let mut children = Owned::default();
        children.take(Shown::Applied(of(1, &json!({}))));
        assert_eq!(children.take(Shown::Applied(of(2, &status))) != Concerned::None, planned);
    }
}
