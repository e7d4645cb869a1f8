//! The progress of an update as the annotation `apps.kruise.io/inplace-update-state` holds it, field by
//! field; and the same for each SidecarSet.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use crate::{in_place_update::Metadata, model::ContainerName};

/// Owner of an update, which says where its progress is recorded on the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateOwner {
    /// A workload, or whoever asks by a request: `apps.kruise.io/inplace-update-state`.
    #[default]
    Workload,
    /// The SidecarSet of this name: its member of `kruise.io/sidecarset-inplace-update-state`.
    SidecarSet(String),
}

impl fmt::Display for UpdateOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload => f.write_str("a workload"),
            Self::SidecarSet(name) => write!(f, "SidecarSet {name}"),
        }
    }
}

/// The records of a pod.
pub type Records = BTreeMap<UpdateOwner, Record>;

/// The batch with which a container was patched last, by whomever.
pub(super) fn last_batch<'a>(records: &'a Records, name: &ContainerName) -> Option<&'a Batch> {
    let batches = records.values().flat_map(|record| &record.container_batches_record);
    batches.filter(|batch| batch.containers.contains(name)).max_by_key(|batch| batch.timestamp)
}

/// Time at which a container was patched last, by whomever; in seconds since the epoch.
pub(super) fn last_patched(records: &Records, name: &ContainerName) -> Option<i64> {
    last_batch(records, name).map(|batch| batch.timestamp)
}

/// The state annotation. Times are seconds since the epoch; the adapter spells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `revision`: of the update that wrote it.
    pub revision: String,
    /// `updateTimestamp`: when that update wrote it first.
    pub update_timestamp: i64,
    /// `lastContainerStatuses`: the `imageID` of each container before its image was changed.
    pub last_container_statuses: BTreeMap<ContainerName, String>,
    /// `updateEnvFromMetadata`: the update restarts containers for the env values that they read from
    /// metadata.
    pub update_env_from_metadata: bool,
    /// `updateImages`: an image was changed.
    pub update_images: bool,
    /// `nextContainerImages`: what waits for later batches.
    pub next_container_images: BTreeMap<ContainerName, Arc<str>>,
    /// `nextContainerRefMetadata`: the same of labels and annotations, for each container that reads them.
    pub next_container_ref_metadata: BTreeMap<ContainerName, Metadata>,
    /// `preCheckBeforeNext.containersRequiredReady`; empty when nothing waits, and then the field is left
    /// out.
    pub containers_required_ready: BTreeSet<ContainerName>,
    /// `containerBatchesRecord`.
    pub container_batches_record: Vec<Batch>,
}

/// One entry of `containerBatchesRecord`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// When it was patched.
    pub timestamp: i64,
    /// Its containers, by name.
    pub containers: BTreeSet<ContainerName>,
    /// `migrationSeconds`: time that a version of twins which it starts has to take over. OpenKruise has no
    /// such field, and leaves it alone.
    pub migration: Option<Duration>,
}

impl Record {
    /// The update of this revision wrote it. Workloads of before gave a revision's name where they give the
    /// hash at its end now, and a pod may have been updated by those.
    pub(super) fn is_of(&self, revision: &str) -> bool {
        let is_end = |before: &str| before.ends_with('-') && !revision.is_empty() && !revision.contains('-');
        self.revision == revision || self.revision.strip_suffix(revision).is_some_and(is_end)
    }

    /// The container was patched by the update that wrote this.
    pub(super) fn has_moved(&self, name: &ContainerName) -> bool {
        self.container_batches_record.iter().any(|batch| batch.containers.contains(name))
    }

    /// The container was patched by that update, or would have been.
    pub(super) fn mentions(&self, name: &ContainerName) -> bool {
        self.has_moved(name)
            || self.next_container_images.contains_key(name)
            || self.next_container_ref_metadata.contains_key(name)
    }

    /// Tells whether something waits for a later batch.
    pub(crate) fn has_next(&self) -> bool {
        !self.next_container_images.is_empty() || !self.next_container_ref_metadata.is_empty()
    }
}
