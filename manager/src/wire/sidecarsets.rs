//! SidecarSets, namespaces and NodePodUpdates, for the index of sidecars.

use berth_base::ownership::SharedKind;
use berth_proto::crd::{DesiredPod, UpdatedPod};
use berth_sidecarset::names;
use k8s_openapi::{
    ClusterResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::{FreeForm, Watchable, parted, read, readable, weighed};
use crate::store::{Kind, NamespaceSeen, NodePodUpdateSeen, Object, SidecarSetSeen, Weight};

/// SidecarSets.
#[derive(Clone, Debug)]
pub struct SidecarSets;

impl Watchable for SidecarSets {
    const KIND: Kind = Kind::SidecarSet;
    const SHARED: Option<SharedKind> = Some(SharedKind::SidecarSet);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "SidecarSet";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = ClusterResourceScope;
    // In two steps, as requests are.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        let label = meta.labels.as_ref().and_then(|labels| labels.get(names::CUSTOM_VERSION));
        let (spec, spec_weight) = weighed(spec.unwrap_or_default(), FreeForm::spec);
        let status = status.map(|status| weighed(status, FreeForm::status));
        let (status, status_weight) = status.unwrap_or_else(|| (Ok(Default::default()), Weight::default()));
        Object::SidecarSet(Box::new(SidecarSetSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            custom_version: label.filter(|version| !version.is_empty()).cloned(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            spec,
            status,
            spec_weight,
            status_weight,
        }))
    }
}

/// Namespaces.
#[derive(Clone, Debug)]
pub struct Namespaces;

impl Watchable for Namespaces {
    const KIND: Kind = Kind::Namespace;
    const GROUP: &str = "";
    const VERSION: &str = "v1";
    const NAME: &str = "Namespace";
    const METADATA_ONLY: bool = true;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, _: Option<IgnoredAny>) -> Object {
        Object::Namespace(NamespaceSeen {
            name: meta.name.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}

/// NodePodUpdates.
#[derive(Clone, Debug)]
pub struct NodeUpdates;

/// Entries that another version wrote are passed over one by one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpdatesStatus {
    desired_pods: Option<Vec<Value>>,
    pods: Option<Vec<Value>>,
    features: Option<Vec<Value>>,
    renew_time: Option<Value>,
}

impl Watchable for NodeUpdates {
    const KIND: Kind = Kind::NodePodUpdate;
    const GROUP: &str = "berth.dev";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "NodePodUpdate";
    const METADATA_ONLY: bool = false;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = NodeUpdatesStatus;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, status: Option<NodeUpdatesStatus>) -> Object {
        let status = status.unwrap_or_default();
        let (desired, others) = parted::<DesiredPod>(meta, "desiredPods", status.desired_pods);
        let identified = |entry: Value| Some((DesiredPod::identity(&entry)?, entry));
        Object::NodePodUpdate(Box::new(NodePodUpdateSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            desired,
            unreadable: others.into_iter().filter_map(identified).collect(),
            pods: readable::<UpdatedPod>(meta, "pods", status.pods),
            features: readable::<String>(meta, "features", status.features),
            renewed: status.renew_time.and_then(|time| read::<Time>(time).ok()).map(|time| time.0),
        }))
    }
}
