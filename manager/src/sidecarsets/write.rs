//! Writes that the index gives, as values.

use std::sync::Arc;

use berth_proto::crd::SidecarSetStatus;

/// A write to the status of a SidecarSet.
#[derive(Clone, Debug)]
pub struct SetWrite {
    /// The name of the set.
    pub name: Arc<str>,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Its status: every field that is the manager's.
    pub status: Box<SidecarSetStatus>,
}
