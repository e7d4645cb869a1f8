//! Parameters of writes: they have the name of this program, and a deletion is of one object and of no other
//! one of its name.

use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};

/// The owner of what is written, as `managedFields` shows it.
pub(super) const FIELD_MANAGER: &str = "berth-workloads";

pub(crate) fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

pub(crate) fn patch() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// Parameters of the deletion of the object of that UID.
pub(crate) fn delete(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams::default().preconditions(preconditions)
}
