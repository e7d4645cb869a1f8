//! From a `ContainerUpdateRequest` or an entry of a `NodePodUpdate` to the request of the policy.
//!
//! Admission may be absent or somebody else's, so everything is checked again. What is wrong is not guessed:
//! the request fails, and says which field and what to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerName, PodRef, RequestId,
    in_place_update::{
        MergePatch, Metadata, MetadataKey, UpdateOwner, UpdateReport, UpdateRequest, UpdateSource,
        WantedSwap, twins,
    },
    time::{later, seconds},
};
use berth_proto::{
    crd::{
        ContainerUpdateRequestSpec, ContainerUpdateRequestStatus, DesiredPod, FailurePolicy, Invalid,
        MIGRATION_SECONDS, PodPull, PodService, TwinSwap, UpdateContainer, distinct_containers,
        seconds_within,
    },
    image::Reference,
    names,
};

use super::{
    keys::{self, LONGEST_ANNOTATIONS},
    report, runtime_meta, state, workloads,
};
use crate::base::clock::Clock;

/// How long a request that is to return on failure may take where it does not say: what a Deployment gives
/// its progress.
const PATIENCE: Duration = Duration::from_secs(600);

/// Annotations that others own, or that mean nothing once the pod is there; and why.
const RESERVED: [(&str, &str); 5] = [
    (state::SIDECAR_SETS, "where the progress of updates is kept"),
    ("kubernetes.io/config.mirror", "the kubelet's: it marks static pods"),
    (state::ANNOTATION, "where the progress of updates is kept"),
    (runtime_meta::ANNOTATION, "where the agent says what runs"),
    (berth_policy::launch_priority::ORDERED_ANNOTATION, "read when the pod starts: make a new pod"),
];

/// Flaw of a request. `Display` names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    /// Not of the kind's schema.
    #[error("the spec cannot be read: {0}; make a new request")]
    Unreadable(String),
    /// A text that must be there is not.
    #[error("{0} is empty: make a new request that gives it")]
    Empty(&'static str),
    /// Nothing is asked for.
    #[error("neither containers nor metadata are given: make a new request that says what is to change")]
    Nothing,
    /// A list or a number of both kinds of requests.
    #[error("{0}; make a new request")]
    Invalid(#[from] Invalid),
    /// An image is none.
    #[error("containers[{name}].image: {why}; make a new request with an image as in a pod")]
    Image {
        /// The container.
        name: String,
        /// Cause.
        why: String,
    },
    /// A swap that makes no sense.
    #[error("swaps[{name}].{field}: {why}; make a new request")]
    Swap {
        /// The sidecar.
        name: String,
        /// Which field.
        field: &'static str,
        /// Cause.
        why: String,
    },
    /// An annotation that is not the user's to set.
    #[error("metadata.annotations[{key}] cannot be set, it is {why}")]
    Reserved {
        /// Which one.
        key: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A label or an annotation that no pod can have.
    #[error("metadata.{field}[{key}] cannot be set: {why}")]
    Metadata {
        /// `labels` or `annotations`.
        field: &'static str,
        /// Which one.
        key: String,
        /// Why not.
        why: &'static str,
    },
    /// Neither a workload nor a SidecarSet.
    #[error(
        "owner {0:?} is none that this agent knows: leave it empty, or give SidecarSet/<name>, CloneSet/<name>, \
         DaemonSet/<name> or StatefulSet/<name>"
    )]
    Owner(String),
    /// A merge patch that is none.
    #[error("mergeAnnotations[{0}] is no JSON object: give a JSON merge patch of an object")]
    Merge(String),
    /// One key in two of the maps of annotations.
    #[error("annotation {0} is in two of annotations, mergeAnnotations and defaultAnnotations: give it once")]
    Twice(String),
    /// More annotations than a pod can have.
    #[error(
        "metadata.annotations has {0} bytes, a pod has at most {LONGEST_ANNOTATIONS}: make a new request with less"
    )]
    TooLong(usize),
    /// It is assigned to this node without a pod.
    #[error("status.podUID is missing although status.nodeName is set: make a new request")]
    Unassigned,
}

/// Fields that both kinds have, in one shape.
struct Wanted<'a> {
    containers: &'a [UpdateContainer],
    swaps: &'a [TwinSwap],
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
    merged: &'a BTreeMap<String, String>,
    defaults: &'a BTreeMap<String, String>,
    grace: Option<i32>,
    failure_policy: Option<FailurePolicy>,
    rollback: bool,
    deadline: Option<i64>,
}

/// A `ContainerUpdateRequest`, and who it is.
pub(super) struct Named<'a> {
    pub(super) id: RequestId,
    pub(super) source: UpdateSource,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) created: Instant,
}

/// Converts a `ContainerUpdateRequest` for the policy, and says what is wrong with it. One that has ended is
/// given on however it looks: it is only deleted.
pub(super) fn request(
    named: Named<'_>,
    spec: Result<&ContainerUpdateRequestSpec, &String>,
    status: &ContainerUpdateRequestStatus,
    clock: &Clock,
) -> (UpdateRequest, Result<(), Flaw>) {
    let Named { id, source, namespace, name, created } = named;
    let reported = report::read(status, clock);
    let ended = status.completion_time.as_ref().map(|time| clock.instant(time.0));
    let nothing = ContainerUpdateRequestSpec::default();
    let (spec, readable) = match spec {
        Ok(spec) => (spec, Ok(())),
        Err(error) => (&nothing, Err(Flaw::Unreadable(error.clone()))),
    };
    let metadata = spec.metadata.clone().unwrap_or_default();
    let strategy = spec.strategy.clone().unwrap_or_default();
    let wanted = Wanted {
        containers: &spec.containers,
        swaps: &spec.swaps,
        labels: &metadata.labels,
        annotations: &metadata.annotations,
        merged: &BTreeMap::new(),
        defaults: &BTreeMap::new(),
        grace: strategy.grace_period_seconds,
        failure_policy: strategy.failure_policy,
        rollback: spec.rollback_on_failure,
        deadline: spec.active_deadline_seconds,
    };
    let uid = status.pod_uid.clone().unwrap_or_default();
    let pod =
        PodRef { uid: uid.as_str().into(), namespace: namespace.to_owned(), name: spec.pod_name.clone() };
    let flaw = readable
        .and(if spec.pod_name.is_empty() { Err(Flaw::Empty("spec.podName")) } else { Ok(()) })
        .and_then(|()| check(&wanted))
        .and_then(|()| {
            Ok(seconds_within("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0)?)
        })
        .and(if uid.is_empty() { Err(Flaw::Unassigned) } else { Ok(()) });
    // Distinct in the pod's annotation, and people find the request by it.
    let short: String = id.as_str().chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let request = UpdateRequest {
        revision: format!("{name}-{short}"),
        key: format!("{namespace}/{name}"),
        delete_after: spec.ttl_seconds_after_finished.map(seconds),
        ..of(wanted, id, source, created, pod, reported)
    };
    (UpdateRequest { ended, ..request }, if ended.is_some() { Ok(()) } else { flaw })
}

/// The same of an entry of a `NodePodUpdate`.
pub(super) fn desired(
    entry: &DesiredPod,
    reported: UpdateReport,
    ended: Option<Instant>,
    seen: Instant,
    clock: &Clock,
) -> (UpdateRequest, Result<(), Flaw>) {
    let wanted = Wanted {
        containers: &entry.containers,
        swaps: &entry.swaps,
        labels: &entry.labels,
        annotations: &entry.annotations,
        merged: &entry.merge_annotations,
        defaults: &entry.default_annotations,
        grace: entry.grace_period_seconds,
        failure_policy: entry.failure_policy,
        rollback: entry.rollback_on_failure,
        deadline: entry.active_deadline_seconds,
    };
    let named = [("uid", &entry.uid), ("name", &entry.name), ("revision", &entry.revision)];
    let empty = named.into_iter().find(|(_, text)| text.is_empty()).map(|(field, _)| Flaw::Empty(field));
    let (owner, owned) = match owner(&entry.owner) {
        Some(owner) => (owner, Ok(())),
        None => (UpdateOwner::Workload, Err(Flaw::Owner(entry.owner.chars().take(80).collect()))),
    };
    let (merges, merged) = merges(&entry.merge_annotations);
    let flaw = empty.map_or(Ok(()), Err).and(owned).and_then(|()| check(&wanted)).and(merged);
    let pod = PodRef {
        uid: entry.uid.as_str().into(),
        namespace: entry.namespace.clone(),
        name: entry.name.clone(),
    };
    let id = desired_id(entry);
    let created = entry.since.as_ref().map_or(seen, |since| clock.instant(since.0));
    let request = UpdateRequest {
        revision: entry.revision.clone(),
        key: match &owner {
            UpdateOwner::Workload => format!("{}/{} ({})", entry.namespace, entry.name, entry.revision),
            owner => format!("{}/{} ({owner}, {})", entry.namespace, entry.name, entry.revision),
        },
        merges,
        defaults: entry.default_annotations.clone(),
        owner,
        keeps_service: entry.service == PodService::Keep,
        leaves_pull: entry.pull == PodPull::BestEffort,
        ..of(wanted, id, UpdateSource::NodePodUpdate, created, pod, reported)
    };
    (UpdateRequest { ended, ..request }, flaw)
}

/// Reads the owner of an entry; `None` for one of a kind that is not known here.
fn owner(text: &str) -> Option<UpdateOwner> {
    match text.split_once('/') {
        None if text.is_empty() => Some(UpdateOwner::Workload),
        Some(("SidecarSet", name)) if names::is_dns_subdomain(name) => {
            Some(UpdateOwner::SidecarSet(name.to_owned()))
        }
        Some((kind, name)) if workloads::is_kind(kind) && names::is_dns_subdomain(name) => {
            Some(UpdateOwner::Workload)
        }
        _ => None,
    }
}

fn merges(texts: &BTreeMap<String, String>) -> (BTreeMap<String, MergePatch>, Result<(), Flaw>) {
    let mut merges = BTreeMap::new();
    for (key, text) in texts {
        match MergePatch::parse(text) {
            Ok(patch) => drop(merges.insert(key.clone(), patch)),
            Err(_) => return (BTreeMap::new(), Err(Flaw::Merge(key.clone()))),
        }
    }
    (merges, Ok(()))
}

/// The identity of an entry: of this try of this revision, for this owner.
pub(super) fn desired_id(entry: &DesiredPod) -> RequestId {
    RequestId::from(format!("{}/{}@{}#{}", entry.uid, entry.owner, entry.revision, entry.attempt))
}

fn of(
    wanted: Wanted<'_>,
    id: RequestId,
    source: UpdateSource,
    created: Instant,
    pod: PodRef,
    reported: UpdateReport,
) -> UpdateRequest {
    let given = wanted.deadline.map(seconds);
    // A swap that does not come about always goes back.
    let rollback = wanted.rollback || !wanted.swaps.is_empty();
    let limit = given.or(rollback.then_some(PATIENCE));
    let labels = wanted.labels.iter().map(|(key, value)| (MetadataKey::Label(key.clone()), value.clone()));
    let annotations =
        wanted.annotations.iter().map(|(key, value)| (MetadataKey::Annotation(key.clone()), value.clone()));
    let image = |container: &UpdateContainer| {
        (ContainerName::from(container.name.as_str()), Arc::from(container.image.as_str()))
    };
    UpdateRequest {
        id,
        source,
        key: String::new(),
        created,
        pod,
        revision: String::new(),
        images: wanted.containers.iter().map(image).collect(),
        metadata: labels.chain(annotations).collect::<Metadata>(),
        merges: BTreeMap::new(),
        defaults: BTreeMap::new(),
        swaps: wanted.swaps.iter().map(swap).collect(),
        owner: UpdateOwner::Workload,
        keeps_service: false,
        leaves_pull: false,
        grace: seconds(wanted.grace.unwrap_or(0)),
        ignore_failures: wanted.failure_policy == Some(FailurePolicy::Ignore),
        rollback_on_failure: rollback,
        deadline: limit.map(|limit| later(created, limit)),
        rollback_limit: given.unwrap_or(PATIENCE),
        delete_after: None,
        reported,
        ended: None,
    }
}

fn swap(swap: &TwinSwap) -> (String, WantedSwap) {
    let limit = swap.migration_seconds.unwrap_or(MIGRATION_SECONDS);
    let wanted = WantedSwap {
        image: swap.image.as_str().into(),
        empty_image: swap.empty_image.as_str().into(),
        version: swap.version.try_into().unwrap_or_default(),
        limit: seconds(limit),
    };
    (swap.name.clone(), wanted)
}

/// Each sidecar once, with two images that are two, and none of its twins asked for beside that.
fn check_swaps(wanted: &Wanted<'_>) -> Result<(), Flaw> {
    distinct_containers("swaps", wanted.swaps.iter().map(|swap| swap.name.as_str()))?;
    for swap in wanted.swaps {
        let flaw = |field, why: String| Err(Flaw::Swap { name: swap.name.clone(), field, why });
        for (field, image) in [("image", &swap.image), ("emptyImage", &swap.empty_image)] {
            if let Err(error) = image.parse::<Reference>() {
                return flaw(field, error.to_string());
            }
        }
        if swap.image == swap.empty_image {
            return flaw("image", "it is the empty image, which serves nobody".to_owned());
        }
        if swap.version < 0 {
            return flaw("version", format!("{} is below 0", swap.version));
        }
        seconds_within("swaps[].migrationSeconds", swap.migration_seconds, 1)?;
        let twins = twins(&swap.name);
        if let Some(twin) =
            wanted.containers.iter().find(|one| twins.iter().any(|twin| twin.as_str() == one.name))
        {
            return flaw(
                "name",
                format!("container {} is one of its twins, and is in containers too", twin.name),
            );
        }
    }
    Ok(())
}

fn check(wanted: &Wanted<'_>) -> Result<(), Flaw> {
    let annotations = [wanted.annotations, wanted.merged, wanted.defaults];
    if wanted.containers.is_empty()
        && wanted.swaps.is_empty()
        && wanted.labels.is_empty()
        && annotations.iter().all(|annotations| annotations.is_empty())
    {
        return Err(Flaw::Nothing);
    }
    distinct_containers("containers", wanted.containers.iter().map(|container| container.name.as_str()))?;
    for container in wanted.containers {
        if let Err(error) = container.image.parse::<Reference>() {
            return Err(Flaw::Image { name: container.name.clone(), why: error.to_string() });
        }
    }
    check_swaps(wanted)?;
    for (key, why) in RESERVED {
        if annotations.iter().any(|annotations| annotations.contains_key(key)) {
            return Err(Flaw::Reserved { key, why });
        }
    }
    let mut keys = BTreeSet::new();
    if let Some(key) = annotations.iter().flat_map(|of| of.keys()).find(|key| !keys.insert(*key)) {
        return Err(Flaw::Twice(key.clone()));
    }
    if let Some((field, key, why)) = unfit(wanted) {
        return Err(Flaw::Metadata { field, key: key.to_owned(), why });
    }
    let annotations =
        annotations.iter().flat_map(|of| of.iter()).map(|(key, value)| key.len() + value.len()).sum();
    if annotations > LONGEST_ANNOTATIONS {
        return Err(Flaw::TooLong(annotations));
    }
    seconds_within("activeDeadlineSeconds", wanted.deadline, 3)?;
    Ok(seconds_within("gracePeriodSeconds", wanted.grace, 0)?)
}

/// A label or annotation that the API server would refuse.
fn unfit<'a>(wanted: &Wanted<'a>) -> Option<(&'static str, &'a str, &'static str)> {
    let label = |(key, value): (&'a String, &String)| {
        Some(("labels", key.as_str(), keys::key(key).or_else(|| keys::label(value))?))
    };
    // In the prefix of an annotation's key capitals are as good.
    let annotation =
        |key: &'a String| Some(("annotations", key.as_str(), keys::key(&key.to_ascii_lowercase())?));
    let mut annotations = wanted.annotations.keys().chain(wanted.merged.keys()).chain(wanted.defaults.keys());
    wanted.labels.iter().find_map(label).or_else(|| annotations.find_map(annotation))
}

#[cfg(test)]
mod tests;
