//! From a `ContainerUpdateRequest` or an entry of a `NodePodUpdate` to the request of the policy.
//!
//! Admission may be absent or somebody else's, so everything is checked again. What is wrong is not guessed:
//! the request fails, and says which field and what to do.

mod check;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerName, PodRef, RequestId,
    in_place_update::{
        MergePatch, Metadata, MetadataKey, UpdateOwner, UpdateReport, UpdateRequest, UpdateSource, WantedSwap,
    },
    time::{later, seconds},
};
use berth_proto::{
    crd::{
        ContainerUpdateRequestSpec, ContainerUpdateRequestStatus, DesiredPod, FailurePolicy,
        MIGRATION_SECONDS, PodEnd, PodPull, PodService, TwinSwap, UpdateContainer, UpdatedPod,
        seconds_within,
    },
    names,
};

pub(super) use self::check::Flaw;
use self::check::check;
use super::{report, sidecar_sets, workloads};
use crate::base::clock::Clock;

/// How long a request that is to return on failure may take where it does not say: what a Deployment gives
/// its progress.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

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
    let sound = match entry.upgradable {
        Some(_) => alone(&wanted, &owner),
        None => check(&wanted),
    };
    let flaw = empty.map_or(Ok(()), Err).and(owned).and(sound).and(merged);
    let pod = PodRef {
        uid: entry.uid.as_str().into(),
        namespace: entry.namespace.clone(),
        name: entry.name.clone(),
    };
    let id = desired_id(entry);
    let created = entry.since.as_ref().map_or(seen, |since| clock.instant(since.0));
    let request = UpdateRequest {
        revision: recorded(entry).to_owned(),
        key: match &owner {
            UpdateOwner::Workload => format!("{}/{} ({})", entry.namespace, entry.name, entry.revision),
            owner => format!("{}/{} ({owner}, {})", entry.namespace, entry.name, entry.revision),
        },
        merges,
        defaults: entry.default_annotations.clone(),
        owner,
        controller: workloads::controller(entry).map(Into::into),
        injected_by: sidecar_sets::owner(entry).map(str::to_owned),
        keeps_service: entry.service == PodService::Keep,
        leaves_pull: entry.pull == PodPull::BestEffort,
        shown_as: (entry.end == PodEnd::Shown).then_some(entry.attempt),
        ..of(wanted, id, UpdateSource::NodePodUpdate, created, pod, reported)
    };
    (UpdateRequest { ended, ..request }, flaw)
}

/// Revision as the pod says it: clients compare the record with the label, which may be a hash alone.
fn recorded(entry: &DesiredPod) -> &str {
    let label = entry.labels.get(workloads::REVISION_LABEL).filter(|label| !label.is_empty());
    label.unwrap_or(&entry.revision)
}

/// A word for a pod's condition is a SidecarSet's, and nothing else is asked for with it.
fn alone(wanted: &Wanted<'_>, owner: &UpdateOwner) -> Result<(), Flaw> {
    let maps = [wanted.labels, wanted.annotations, wanted.merged, wanted.defaults];
    let nothing =
        wanted.containers.is_empty() && wanted.swaps.is_empty() && maps.iter().all(|map| map.is_empty());
    if nothing && matches!(owner, UpdateOwner::SidecarSet(_)) { Ok(()) } else { Err(Flaw::Word) }
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
    entry_id(&entry.uid, &entry.owner, &entry.revision, entry.attempt)
}

/// The identity of the entry that this answers.
pub(super) fn answered_id(said: &UpdatedPod) -> RequestId {
    entry_id(&said.uid, &said.owner, &said.revision, said.attempt)
}

fn entry_id(uid: &str, owner: &str, revision: &str, attempt: i32) -> RequestId {
    RequestId::from(format!("{uid}/{owner}@{revision}#{attempt}"))
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
    let swaps: BTreeMap<_, _> = wanted.swaps.iter().map(swap).collect();
    // A new version has its time to take over beside that.
    let migration = swaps.values().map(|swap| swap.limit).max().unwrap_or_default();
    let most = DEFAULT_DEADLINE.saturating_add(migration);
    let limit = given.or(rollback.then_some(most));
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
        swaps,
        owner: UpdateOwner::Workload,
        controller: None,
        injected_by: None,
        keeps_service: false,
        leaves_pull: false,
        shown_as: None,
        grace: seconds(wanted.grace.unwrap_or(0)),
        ignore_failures: wanted.failure_policy == Some(FailurePolicy::Ignore),
        rollback_on_failure: rollback,
        deadline: limit.map(|limit| later(created, limit)),
        rollback_limit: given.unwrap_or(most),
        delete_after: None,
        reported,
        ended: None,
    }
}

fn swap(swap: &TwinSwap) -> (String, WantedSwap) {
    let limit = swap.migration_seconds.unwrap_or(MIGRATION_SECONDS);
    let wanted = WantedSwap {
        image: Some(swap.image.as_str().into()),
        empty_image: swap.empty_image.as_str().into(),
        version: swap.version.try_into().unwrap_or_default(),
        limit: seconds(limit),
    };
    (swap.name.clone(), wanted)
}

#[cfg(test)]
mod tests;
