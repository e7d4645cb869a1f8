//! StatefulSets and PersistentPodStates, reduced to what is decided by. Conversion only.

use std::collections::BTreeMap;

use berth_pod_state::annotations::{self, ALL};
use berth_proto::crd::PersistentPodState;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// A StatefulSet of either group as it is now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetView {
    pub(super) api_version: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    terminating: bool,
    /// Annotations that are read.
    annotations: BTreeMap<String, String>,
}

impl SetView {
    /// Reads the metadata of a StatefulSet.
    pub(super) fn of(meta: ObjectMeta, api_version: &'static str) -> Option<Self> {
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.retain(|key, _| ALL.contains(&key.as_str()));
        Some(Self {
            api_version,
            namespace: meta.namespace?,
            name: meta.name?,
            uid: meta.uid?,
            terminating: meta.deletion_timestamp.is_some(),
            annotations,
        })
    }

    /// Tells whether it may ask for anything; another one may still have what it asked for once.
    pub(super) fn asks(&self) -> bool {
        self.annotations.contains_key(annotations::AUTOMATIC)
    }

    pub(super) fn decided(&self) -> annotations::SetView<'_> {
        annotations::SetView {
            api_version: self.api_version,
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            terminating: self.terminating,
            annotations: &self.annotations,
        }
    }

    /// Names it in an Event.
    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.to_owned()),
            kind: Some("StatefulSet".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Reduces a PersistentPodState: what the manager records in it is not decided by.
pub(super) fn known(mut state: PersistentPodState) -> Option<PersistentPodState> {
    state.status = None;
    state.metadata.annotations = None;
    Some(state)
}
