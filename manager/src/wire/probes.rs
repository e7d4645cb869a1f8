//! PodProbeMarkers and NodePodProbes, for the probe index.

use berth_base::ownership::SharedKind;
use berth_proto::crd::PodProbe;
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::{FreeForm, Watchable, custom, readable};
use crate::store::{Kind, NodePodProbeSeen, Object};

/// PodProbeMarkers.
#[derive(Clone, Debug)]
pub struct Markers;

impl Watchable for Markers {
    const KIND: Kind = Kind::PodProbeMarker;
    const SHARED: Option<SharedKind> = Some(SharedKind::PodProbeMarker);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "PodProbeMarker";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // In two steps, as requests are.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::PodProbeMarker(Box::new(custom(meta, spec, status)))
    }
}

/// NodePodProbes, without what their agents write and what OpenKruise's controllers ask for.
#[derive(Clone, Debug)]
pub struct NodeProbes;

/// Entries that another version wrote are passed over one by one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeProbesStatus {
    desired_pod_probes: Option<Vec<Value>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    reason: Option<String>,
}

/// Condition that managers before this one wrote on every object of a kind that nothing acted on.
const NOTICE: &str = "NotYetActedOn";

impl Watchable for NodeProbes {
    const KIND: Kind = Kind::NodePodProbe;
    const SHARED: Option<SharedKind> = Some(SharedKind::PodProbeMarker);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "NodePodProbe";
    const METADATA_ONLY: bool = false;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = NodeProbesStatus;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, status: Option<NodeProbesStatus>) -> Object {
        let (desired, conditions) = status.map_or_else(Default::default, |status| {
            (status.desired_pod_probes, status.conditions.unwrap_or_default())
        });
        let noticed = conditions.iter().any(|condition| condition.reason.as_deref() == Some(NOTICE));
        Object::NodePodProbe(Box::new(NodePodProbeSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            desired: readable::<PodProbe>(meta, "desiredPodProbes", desired),
            noticed,
        }))
    }
}
