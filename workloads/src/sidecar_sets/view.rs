//! SidecarSets and ControllerRevisions, reduced to what is decided by. Conversion only.

use std::sync::Arc;

use berth_proto::crd::SidecarSetStatus;
use berth_sidecarset::{FiledRevision, FiledSet};
use berth_workloads_policy::store::{Stored, version};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;

use crate::owned::Ownable;

/// A SidecarSet as it is now.
#[derive(Clone, Debug)]
pub(super) struct SetView {
    pub(super) version: String,
    pub(super) set: Arc<FiledSet>,
}

/// A ControllerRevision as it is now.
#[derive(Clone, Debug)]
pub(super) struct CopyView(pub(super) FiledRevision);

impl SetView {
    /// Reads a SidecarSet; one whose deletion has begun keeps what it has. Of its spec nothing counts: a
    /// field of it that nobody understands is the manager's to say.
    pub(super) fn read(object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        if meta.deletion_timestamp.is_some() {
            return None;
        }
        let status = object.data.get("status").cloned().unwrap_or_default();
        // Without a status that can be read there are no revisions yet.
        let status = serde_json::from_value::<Option<SidecarSetStatus>>(status).ok()?.unwrap_or_default();
        let set = FiledSet {
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            labels: meta.labels.clone().unwrap_or_default(),
            revisions: status.revisions,
            history: status.history.unwrap_or_default(),
        };
        Some(Self { version: meta.resource_version.clone().unwrap_or_default(), set: set.into() })
    }

    /// Names it in an Event.
    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
            kind: Some("SidecarSet".to_owned()),
            name: Some(self.set.name.clone()),
            uid: Some(self.set.uid.clone()),
            resource_version: Some(self.version.clone()),
            ..ObjectReference::default()
        }
    }
}

impl Stored for SetView {
    fn uid(&self) -> &str {
        &self.set.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

impl Stored for CopyView {
    fn uid(&self) -> &str {
        &self.0.uid
    }

    fn version(&self) -> u64 {
        version(&self.0.version)
    }
}

impl Ownable for CopyView {
    fn owner(&self) -> &str {
        &self.0.owner
    }
}
