//! PersistentPodStates, and the StatefulSets of both groups that they are about.

use berth_base::ownership::SharedKind;
use berth_proto::crd::Numbers;
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::{FreeForm, MOST_ENTRIES, Watchable, custom};
use crate::store::{Kind, Object, SetSeen};

/// PersistentPodStates.
#[derive(Clone, Debug)]
pub struct PodStates;

/// StatefulSets of Kubernetes.
#[derive(Clone, Debug)]
pub struct StatefulSets;

/// Advanced StatefulSets.
#[derive(Clone, Debug)]
pub struct AdvancedSets;

/// Part of a StatefulSet's spec that is read, of either group.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetSpec {
    replicas: Option<i32>,
    ordinals: Option<Ordinals>,
    reserve_ordinals: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct Ordinals {
    start: Option<i32>,
}

impl Watchable for PodStates {
    const KIND: Kind = Kind::PodState;
    const SHARED: Option<SharedKind> = Some(SharedKind::PersistentPodState);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "PersistentPodState";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // In two steps, as requests are.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::PodState(Box::new(custom(meta, spec, status)))
    }
}

impl Watchable for StatefulSets {
    const KIND: Kind = Kind::StatefulSet;
    const GROUP: &str = "apps";
    const VERSION: &str = "v1";
    const NAME: &str = "StatefulSet";
    const METADATA_ONLY: bool = false;
    type Scope = NamespaceResourceScope;
    type Spec = SetSpec;
    type Status = IgnoredAny;

    fn object(meta: &ObjectMeta, spec: Option<SetSpec>, _: Option<IgnoredAny>) -> Object {
        set(meta, spec, false)
    }
}

impl Watchable for AdvancedSets {
    const KIND: Kind = Kind::AdvancedSet;
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1beta1";
    const NAME: &str = "StatefulSet";
    const PLURAL: &str = "statefulsets";
    const METADATA_ONLY: bool = false;
    type Scope = NamespaceResourceScope;
    type Spec = SetSpec;
    type Status = IgnoredAny;

    fn object(meta: &ObjectMeta, spec: Option<SetSpec>, _: Option<IgnoredAny>) -> Object {
        set(meta, spec, true)
    }
}

fn set(meta: &ObjectMeta, spec: Option<SetSpec>, advanced: bool) -> Object {
    let SetSpec { replicas, ordinals, reserve_ordinals } = spec.unwrap_or_default();
    let entry = |value| serde_json::from_value::<IntOrString>(value).ok();
    let reserved = reserve_ordinals.unwrap_or_default().into_iter().take(MOST_ENTRIES);
    let reserved: Vec<IntOrString> = reserved.filter_map(entry).collect();
    Object::StatefulSet(SetSeen {
        advanced,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        replicas: replicas.unwrap_or(1),
        start: ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0),
        reserved: Numbers::of(&reserved),
    })
}
