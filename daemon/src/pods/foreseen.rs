//! Manifests of pods, read as the pod view reads the pods that they become.

use berth_policy::Pod;
use serde::de::Error;
use serde_json::Value;

use super::convert;
use crate::cluster::v1 as core;

/// Reads a v1 Pod that is not there yet. Name and UID, which the API server may give it, count for nothing.
///
/// # Errors
/// A field that the agent reads is of another type.
pub fn pod(manifest: Value) -> Result<Pod, serde_json::Error> {
    let mut object: core::Pod = serde_json::from_value(manifest)?;
    object.metadata.uid.get_or_insert_default();
    object.metadata.name.get_or_insert_default();
    convert::pod(object).ok_or_else(|| Error::custom("it is no pod"))
}
