//! WorkloadSpreads, for their index and for admission.

use berth_base::ownership::SharedKind;
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{FreeForm, Watchable, custom};
use crate::store::{Kind, Object};

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
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // In two steps, as requests are.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::Spread(Box::new(custom(meta, spec, status)))
    }
}
