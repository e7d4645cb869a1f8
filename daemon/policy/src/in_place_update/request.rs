//! Requests about a pod, from a `ContainerUpdateRequest` or an entry of a `NodePodUpdate`, and the reports on
//! them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    in_place_update::{
        Before, Failure, FailureReason, MergePatch, Metadata, MetadataKey, Observed, UpdateOwner, WORKING,
        stage::{Staged, stages},
    },
    model::{ContainerName, PodRef, RequestId},
    time::later,
};

/// Annotation: names of the SidecarSets that a pod got when it was made, with commas.
pub(super) const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";

/// A request to update one pod, as its source shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Identity; of an entry of a `NodePodUpdate`: of this revision of it.
    pub id: RequestId,
    /// Where it comes from, and its answer goes.
    pub source: UpdateSource,
    /// `namespace/name`, for people.
    pub key: String,
    /// When it was made, for the order among requests; ties are broken by the identity.
    pub created: Instant,
    /// The pod.
    pub pod: PodRef,
    /// Tells this desired state from any other one of the pod.
    pub revision: String,
    /// Images by container.
    pub images: BTreeMap<ContainerName, Arc<str>>,
    /// Labels and annotations to set.
    pub metadata: Metadata,
    /// Annotations to merge into; only owners of entries have these.
    pub merges: BTreeMap<String, MergePatch>,
    /// Annotations to set where the pod has none.
    pub defaults: BTreeMap<String, String>,
    /// Swaps of twins, by name of the sidecar.
    pub swaps: BTreeMap<String, WantedSwap>,
    /// Owner of what is wanted.
    pub owner: UpdateOwner,
    /// UID of the workload that owns the entry, which decides on pods of its own alone.
    pub controller: Option<Arc<str>>,
    /// Name of the SidecarSet that owns the entry, which has the pods that say that they got it.
    pub injected_by: Option<String>,
    /// The readiness gate stays as it is.
    pub keeps_service: bool,
    /// An image that cannot be pulled here is left to the kubelet.
    pub leaves_pull: bool,
    /// Number of its try, where the pod may show a good end, and the report on that waits then.
    pub shown_as: Option<i32>,
    /// From the pod being not Ready to the first change.
    pub grace: Duration,
    /// `failurePolicy: Ignore`: a container that cannot be updated is left as it is.
    pub ignore_failures: bool,
    /// On failure, return to what was before.
    pub rollback_on_failure: bool,
    /// It fails then, unless everything is Ready.
    pub deadline: Option<Instant>,
    /// How long the way back may take.
    pub rollback_limit: Duration,
    /// How long after its end the object is to be deleted.
    pub delete_after: Option<Duration>,
    /// Status of the request: the report that was written before, by whomever.
    pub reported: UpdateReport,
    /// When it ended; `None` while it has not.
    pub ended: Option<Instant>,
}

/// A swap of twins that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSwap {
    /// Image of the version to serve; `None`: what is under way comes to rest.
    pub image: Option<Arc<str>>,
    /// Image of the twin that does not serve.
    pub empty_image: Arc<str>,
    /// The least version that it is to have.
    pub version: u64,
    /// Time that it has to take over.
    pub limit: Duration,
}

/// How far a swap is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// Name of the sidecar.
    pub name: String,
    /// Twin that the pod says works.
    pub working: Option<ContainerName>,
    /// Step that it is at.
    pub step: SwapPhase,
}

/// Steps of a swap, for those who read its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwapPhase {
    /// The version that is wanted is not in the pod.
    Pending,
    /// It is started beside the one that serves.
    Migrating,
    /// It has taken over; the other one becomes empty.
    Emptying,
    /// It is given up, and becomes empty.
    Returning,
    /// One serves what is wanted, the other one is empty.
    Done,
}

/// Where a request comes from. The order is who gives way: what a person asks for goes over what a workload
/// wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateSource {
    /// An entry of the `NodePodUpdate` of this node.
    NodePodUpdate,
    /// A `ContainerUpdateRequest` of the API server.
    Api,
    /// `berthctl update`.
    Admin,
}

/// Report that the status of a request is to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateReport {
    /// `None` before the node has answered.
    pub phase: Option<UpdatePhase>,
    /// For people; empty when there is nothing to say.
    pub message: String,
    /// Where each container stands that the request changes, in the order of the pod.
    pub containers: Vec<ContainerUpdate>,
    /// Where each swap stands.
    pub swaps: Vec<SwapReport>,
    /// How it ended; `None` before the end.
    pub outcome: Option<UpdateOutcome>,
    /// Why the way back was begun, and when.
    pub rolling_back: Option<(Failure, Instant)>,
    /// State of the pod before the first change.
    pub previous: Option<Before>,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdatePhase {
    /// Not begun.
    Pending,
    /// Begun.
    Updating,
    /// It failed, and the pod returns to what it was.
    RollingBack,
    /// Ended, well or not.
    Ended,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The pod is what was asked for; with `failurePolicy: Ignore`, as far as it can be.
    Complete,
    /// It is not.
    Failed(FailureReason),
}

/// Where one container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUpdate {
    /// Which one.
    pub name: ContainerName,
    /// How far.
    pub phase: ContainerUpdatePhase,
    /// For people; empty when there is nothing to say.
    pub message: String,
}

/// How far one container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerUpdatePhase {
    /// Its change waits for those above it, or for its image.
    Pending,
    /// The pod was patched; it does not run what is wanted yet, or is not Ready.
    Updating,
    /// It runs what is wanted, and is Ready.
    Succeeded,
    /// It will not.
    Failed,
}

impl UpdatePhase {
    /// Name that users read, in a status as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Updating => "Updating",
            Self::RollingBack => "RollingBack",
            Self::Ended => "Completed",
        }
    }
}

impl ContainerUpdatePhase {
    /// Name that users read, in a status as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Updating => "Updating",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl SwapPhase {
    /// Name that users read, in a status as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Migrating => "Migrating",
            Self::Emptying => "Emptying",
            Self::Returning => "Returning",
            Self::Done => "Done",
        }
    }
}

impl UpdateSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NodePodUpdate, Self::Api, Self::Admin];
}

impl UpdateRequest {
    /// Returns the images and metadata that the request wants of the pod now: what it asks for, or on its way
    /// back what was before.
    pub(super) fn wanted(&self, seen: &Observed) -> (BTreeMap<ContainerName, Arc<str>>, Metadata) {
        let (mut images, mut metadata) = match (&self.reported.rolling_back, &self.reported.previous) {
            (Some(_), Some(before)) => (before.images.clone(), self.values_back(before, seen)),
            _ => (self.images.clone(), self.metadata.clone()),
        };
        for staged in self.stages(seen) {
            images.extend(staged.images);
            metadata.extend(staged.metadata);
        }
        (images, metadata)
    }

    /// All images that it may want at some time, on its way back too.
    pub(super) fn all_images(&self) -> impl Iterator<Item = &Arc<str>> {
        let back = self.reported.previous.iter().filter(|_| self.is_going_back());
        let back = back.flat_map(|before| before.images.values());
        let swaps = self.swaps.values().flat_map(|swap| swap.image.iter().chain([&swap.empty_image]));
        self.images.values().chain(swaps).chain(back)
    }

    /// Stages of its swaps. One that makes no sense is refused before anybody asks.
    pub(super) fn stages(&self, seen: &Observed) -> Vec<Staged> {
        stages(self, seen).unwrap_or_default()
    }

    /// Keys of annotations that are shared: only own members of them are changed.
    pub(super) fn shared(&self) -> impl Iterator<Item = &str> {
        let working = (!self.swaps.is_empty()).then_some(WORKING);
        self.merges.keys().chain(self.defaults.keys()).map(String::as_str).chain(working)
    }

    /// The labels and annotations of a way back. Of an annotation that is shared only the own members go
    /// back, which [`super::resolve`] has computed; one that was only set because there was none stays.
    fn values_back(&self, before: &Before, seen: &Observed) -> Metadata {
        let mut values = before.values(seen);
        for key in self.shared() {
            let key = MetadataKey::Annotation(key.to_owned());
            match self.metadata.get(&key) {
                Some(value) => values.insert(key, value.clone()),
                None => values.remove(&key),
            };
        }
        values
    }

    /// Tells whether it is about the pod that it names, of which this is `namespace/name`, where that is
    /// known. Its UID is of a status, which others write.
    pub(super) fn names(&self, named: Option<&str>) -> bool {
        let own = (self.pod.namespace.as_str(), self.pod.name.as_str());
        named.is_none_or(|named| named.split_once('/') == Some(own))
    }

    /// Tells whether it is about a pod that it may want something of: the one that it names, and one of its
    /// owner's, which this workload decides on, or which got this SidecarSet.
    pub(super) fn may_want(&self, seen: &Observed) -> bool {
        let list = || seen.metadata.get(&MetadataKey::Annotation(INJECTED_LIST.to_owned()));
        let has = |set: &String| list().is_some_and(|list| list.split(',').any(|one| one.trim() == set));
        self.names(seen.named.as_deref())
            && (self.controller.is_none() || self.controller == seen.controller)
            && (self.rests() || self.injected_by.as_ref().is_none_or(has))
    }

    /// Tells whether it stands in the node's object, with all other entries.
    pub(super) fn is_entry(&self) -> bool {
        self.source == UpdateSource::NodePodUpdate
    }

    /// Tells whether it is an entry of a workload that leaves the pod as it is when it fails: nobody returns
    /// to what was before it, so that need not be written down before it begins.
    pub fn is_one_way(&self) -> bool {
        self.is_entry() && self.owner == UpdateOwner::Workload && !self.rollback_on_failure
    }

    /// Tells whether it is an entry of a workload whose pod stays whatever its containers do, as the kubelet
    /// would keep it: one that falls over may come up yet, and a newer entry takes the place of this one.
    pub(super) fn bears_crashes(&self) -> bool {
        self.is_one_way() && self.leaves_pull
    }

    /// Tells whether it is an entry of another owner than the other one, which no other one replaces.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.is_entry() && other.is_entry() && self.owner != other.owner
    }

    /// Tells whether it said of this container that it runs what it asked for.
    pub(super) fn says_moved(&self, name: &ContainerName) -> bool {
        let mut states = self.reported.containers.iter();
        states.any(|state| state.name == *name && state.phase == ContainerUpdatePhase::Succeeded)
    }

    /// Tells whether it failed, and what was before is wanted.
    pub(super) fn is_going_back(&self) -> bool {
        self.reported.rolling_back.is_some()
    }

    /// Makes it no older than it was when it was shown before, and its way back no longer. How long ago they
    /// began is known by the wall clock, which somebody may set. An object is made once, an entry may be
    /// asked for again.
    pub(super) fn keep_time(&mut self, before: &Self) {
        let created = match self.source {
            UpdateSource::NodePodUpdate => self.created.max(before.created),
            UpdateSource::Api | UpdateSource::Admin => before.created,
        };
        let limit = self.deadline.map(|deadline| deadline.saturating_duration_since(self.created));
        self.deadline = limit.map(|limit| later(created, limit));
        self.created = created;
        let way_back = (&mut self.reported.rolling_back, &before.reported.rolling_back);
        if let (Some((_, since)), Some((_, before))) = way_back {
            *since = *before;
        }
    }

    /// Returns when it fails.
    pub fn limit(&self) -> Option<Instant> {
        match &self.reported.rolling_back {
            Some((_, since)) => since.checked_add(self.rollback_limit),
            None => self.deadline,
        }
    }

    /// Newest last. One that goes back gives way to all that are to come.
    pub(super) fn age(&self) -> (bool, UpdateSource, Instant, &RequestId) {
        let (source, created, id) = self.rank();
        (!self.is_going_back(), source, created, id)
    }

    /// The same, whichever way they go.
    pub(super) fn rank(&self) -> (UpdateSource, Instant, &RequestId) {
        (self.source, self.created, &self.id)
    }
}
