//! WorkloadSpreads.

use berth_base::ownership::SharedKind;
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::Value;

use super::{Watchable, read, read_spec};
use crate::seen::{Kind, Object, SpreadSeen};

/// WorkloadSpreads.
#[derive(Clone, Debug)]
pub struct Spreads;

impl Watchable for Spreads {
    const KIND: Kind = Kind::Spread;
    const SHARED: Option<SharedKind> = Some(SharedKind::WorkloadSpread);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "WorkloadSpread";
    const METADATA_ONLY: bool = false;
    type Scope = NamespaceResourceScope;
    // In two steps, as requests are.
    type Spec = Value;
    type Status = Value;

    fn object(meta: &ObjectMeta, spec: Option<Value>, status: Option<Value>) -> Object {
        Object::Spread(Box::new(SpreadSeen {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            spec: read_spec(spec),
            status: status.map_or_else(|| Ok(Default::default()), read),
        }))
    }
}
