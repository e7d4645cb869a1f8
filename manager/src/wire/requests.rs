//! Requests of both kinds, for the index of requests.

use berth_base::ownership::SharedKind;
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{FreeForm, Watchable, custom};
use crate::store::{Kind, Object};

/// ContainerRecreateRequests.
#[derive(Clone, Debug)]
pub struct Requests;

impl Watchable for Requests {
    const KIND: Kind = Kind::Request;
    const SHARED: Option<SharedKind> = Some(SharedKind::ContainerRecreateRequest);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "ContainerRecreateRequest";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // Read in two steps: one object that another CRD let in must not make the list of all of them unreadable.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::Request(Box::new(custom(meta, spec, status)))
    }
}

/// ContainerUpdateRequests.
#[derive(Clone, Debug)]
pub struct Updates;

impl Watchable for Updates {
    const KIND: Kind = Kind::Update;
    const GROUP: &str = "berth.dev";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "ContainerUpdateRequest";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // In two steps, too.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::Update(Box::new(custom(meta, spec, status)))
    }
}
