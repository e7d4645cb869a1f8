//! Workloads of subsets and their pods, reduced to what is decided by.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::Value;

use super::{HASH_ANNOTATION, Kind, SUBSET_LABEL, SUBSET_REVISION_LABEL};
use crate::{
    action::Target,
    revision::controller,
    store::{Stored, version},
};

/// Workload of a subset.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildView {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of the owner that decides.
    pub owner: String,
    /// When it was made.
    pub created: Timestamp,
    /// Name of its subset.
    pub subset: String,
    /// Revision that it has.
    pub revision: String,
    /// Hash of what it was made of.
    pub hash: String,
    /// It is being deleted.
    pub terminating: bool,
    /// Its own controller has seen its spec.
    pub is_observed: bool,
    /// How many pods it is to have.
    pub wanted: i64,
    /// Pods that stay as they are; `None`: no number.
    pub partition: Option<i64>,
    /// How many pods it has.
    pub replicas: i64,
    /// How many of them are ready.
    pub ready: i64,
}

/// Pod of a subset.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// UID of its controller.
    pub owner: String,
    /// Name of a ReplicaSet that decides on it.
    pub replica_set: Option<String>,
    /// Revision of the UnitedDeployment that it has.
    pub revision: String,
    /// It is Ready.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
}

impl ChildView {
    /// Reads a workload: its metadata, and the rest of it.
    pub fn of(kind: Kind, meta: &ObjectMeta, rest: &Value) -> Self {
        let label =
            |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        let number = |path: &str| rest.pointer(path).and_then(Value::as_i64);
        let count = |path: &str| number(path).unwrap_or(0).clamp(0, i64::from(i32::MAX));
        let hash = meta.annotations.as_ref().and_then(|all| all.get(HASH_ANNOTATION));
        let partition = match kind {
            Kind::StatefulSet | Kind::AdvancedStatefulSet => {
                rest.pointer("/spec/updateStrategy/rollingUpdate/partition")
            }
            Kind::CloneSet => rest.pointer("/spec/updateStrategy/partition"),
            Kind::Deployment => None,
        };
        let partition = partition.map_or(Some(0), Value::as_i64);
        Self {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: controller(meta.owner_references.as_deref().unwrap_or_default()).to_owned(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            subset: label(SUBSET_LABEL),
            // OpenKruise 1.8 names it by the same label on each kind, and leaves that of 1.4 as it was.
            revision: [SUBSET_REVISION_LABEL, kind.revision_label()]
                .into_iter()
                .map(label)
                .find(|name| !name.is_empty())
                .unwrap_or_default(),
            hash: hash.cloned().unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
            is_observed: number("/status/observedGeneration") >= meta.generation,
            wanted: number("/spec/replicas").unwrap_or(1),
            partition,
            replicas: count("/status/replicas"),
            ready: count("/status/readyReplicas"),
        }
    }

    /// Names it for a write.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }

    /// Tells whether it says what another one does of all that is decided by.
    pub fn is_as(&self, wanted: &Self) -> bool {
        let of = |one: &Self| (one.subset.clone(), one.revision.clone(), one.hash.clone(), one.owner.clone());
        of(self) == of(wanted) && (self.wanted, self.partition) == (wanted.wanted, wanted.partition)
    }

    /// Tells whether it decides on the pod, itself or by a ReplicaSet.
    pub(crate) fn has(&self, pod: &PodView) -> bool {
        match (&pod.replica_set, self.kind) {
            (Some(name), Kind::Deployment) => {
                name.rsplit_once('-').is_some_and(|(deployment, _)| deployment == self.name)
            }
            (None, _) => pod.owner == self.uid,
            (Some(_), _) => false,
        }
    }
}

impl PodView {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let owners: &[OwnerReference] = meta.owner_references.as_deref().unwrap_or_default();
        let replica_set = owners
            .iter()
            .find(|owner| owner.controller == Some(true) && owner.kind == "ReplicaSet")
            .map(|owner| owner.name.clone());
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let revision = meta.labels.as_ref().and_then(|labels| labels.get(SUBSET_REVISION_LABEL));
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            owner: controller(owners).to_owned(),
            replica_set,
            revision: revision.cloned().unwrap_or_default(),
            ready: conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
            terminating: meta.deletion_timestamp.is_some(),
        }
    }

    /// Name of the UnitedDeployment that it is of, as its revision has it.
    pub fn united(&self) -> &str {
        self.revision.rsplit_once('-').map(|(name, _)| name).unwrap_or_default()
    }

    /// Tells whether it is the same for every decision.
    pub fn is_like(&self, other: &Self) -> bool {
        let now = Self { version: String::new(), ..self.clone() };
        now == Self { version: String::new(), ..other.clone() }
    }

    /// Its number.
    pub(crate) fn ordinal(&self) -> Option<i64> {
        self.name.rsplit_once('-')?.1.parse().ok()
    }

    pub(crate) fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Stored for ChildView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

impl Stored for PodView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}
