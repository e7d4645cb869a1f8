//! The custom resources, one file per kind.
//!
//! Names, fields and printed columns are those OpenKruise users know (`apps.kruise.io/v1alpha1`); its manifests are valid
//! here unchanged. What only Berth writes is in `status`. The YAML in `deploy/crds` is generated from these types.

mod container_recreate_request;

pub use container_recreate_request::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, FailurePolicy,
    RecreateContainer, RecreatePhase, RecreateState, RecreateStrategy, SpecStatusContext, StatusContext,
};
