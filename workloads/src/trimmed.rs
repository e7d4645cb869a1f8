//! Pods, claims and Jobs as the API server sends them, reduced while they are read.
//!
//! A pod is some kilobytes of JSON, of which a few hundred bytes are decided by, and a list brings hundreds
//! at once: what is not named below is skipped by the parser, and never kept.

/// Has an object in its first field be one of that kind.
macro_rules! resource {
    ($trimmed:ident, $whole:ident) => {
        impl kube::Resource for $trimmed {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $whole::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $whole::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $whole::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $whole::plural(&())
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                self.0.meta()
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                self.0.meta_mut()
            }
        }
    };
}

mod claim;
mod job;

use berth_base::line_pace::SharedPace;
use berth_base::metadata::{Metadata, ReadAnnotations};
use berth_base::sent::Received;
use berth_spread::MATCHED;
use berth_workloads_policy::{
    names::{DELETION_COST_ANNOTATION, GRACE_ANNOTATION, IN_PLACE_STATE_ANNOTATION, METADATA_OF_ANNOTATION},
    pod::PodView,
};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container as SpecContainer, ContainerState, ContainerStateRunning, ContainerStateWaiting,
        ContainerStatus, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodCondition, PodReadinessGate,
        PodSpec, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use tracing::warn;

pub(crate) use self::{claim::TrimmedClaim, job::TrimmedJob};

/// Bytes that labels, finalizers, owners, gates and annotations of a pod may take. They are bounded each, and
/// not together; those that people give take less than a tenth.
const MOST_METADATA: usize = 32 << 10;
/// Bytes of a record of an update in place that are kept: it has no bound of its own.
const MOST_RECORD: usize = 8 << 10;
/// Beginning of the fields of such a record that say what waits.
const WAITS: &str = "\"nextContainer";
/// Bytes of a text in memory beside itself, with its share of the map or list that it is in.
const TEXT: usize = 80;
/// Key that no label has: labels of a pod are not known, since its metadata are too large.
const UNREAD: &str = "";
/// Pace of the lines about claims that are set aside: each version of one is.
static ASIDE: SharedPace = SharedPace::new();

/// Annotations of a pod.
struct Annotations;

impl ReadAnnotations for Annotations {
    const KEYS: &'static [&'static str] = &[
        DELETION_COST_ANNOTATION,
        METADATA_OF_ANNOTATION,
        GRACE_ANNOTATION,
        IN_PLACE_STATE_ANNOTATION,
        MATCHED,
    ];
}

/// Tells whether an annotation of this key is read, whatever it says.
pub(crate) fn is_read(key: &str) -> bool {
    Annotations::KEYS.contains(&key) && key != IN_PLACE_STATE_ANNOTATION
}

/// Tells whether the labels of a pod are not known.
pub(crate) fn is_unread(pod: &PodView) -> bool {
    pod.labels.contains_key(UNREAD)
}

/// A pod with nothing but the fields that are read.
#[derive(Clone, Debug)]
pub(crate) struct TrimmedPod(pub(crate) Pod);

resource!(TrimmedPod, Pod);

/// No part of it that is read can be deep.
impl Received for TrimmedPod {
    type Object = Self;
    const IS_SMALL: bool = true;

    fn read(self) -> Result<Self, String> {
        Ok(self)
    }
}

/// The pod of the API.
#[derive(Deserialize)]
struct Read {
    metadata: Metadata<Annotations>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    affinity: Option<Affinity>,
    containers: Option<Vec<Image>>,
    node_name: Option<String>,
    readiness_gates: Option<Vec<PodReadinessGate>>,
    restart_policy: Option<String>,
}

/// A container as the spec has it.
#[derive(Deserialize)]
struct Image {
    #[serde(default)]
    name: String,
    image: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: i32,
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    running: Option<ContainerStateRunning>,
    waiting: Option<Waiting>,
}

#[derive(Deserialize)]
struct Waiting {
    reason: Option<String>,
}

impl<'de> Deserialize<'de> for TrimmedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { metadata, mut spec, status } = Read::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::from(metadata);
        keep_what_waits(&mut metadata);
        let gates = spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
        if memory(&metadata, gates) > MOST_METADATA {
            reduce(&mut metadata);
            if let Some(spec) = &mut spec {
                spec.readiness_gates = None;
            }
        }
        // Of the images nothing is kept but those that somebody was about to change.
        let notes = [GRACE_ANNOTATION, IN_PLACE_STATE_ANNOTATION];
        let annotations = metadata.annotations.as_ref();
        let has_grace = annotations.is_some_and(|all| notes.iter().any(|key| all.contains_key(*key)));
        let containers = |read: Option<Vec<Image>>| {
            let all = read.into_iter().flatten().filter(|_| has_grace);
            all.map(|Image { name, image }| SpecContainer { name, image, ..SpecContainer::default() })
                .collect()
        };
        let spec = spec.map(|spec| PodSpec {
            affinity: spec.affinity.and_then(placing),
            containers: containers(spec.containers),
            node_name: spec.node_name,
            readiness_gates: spec.readiness_gates,
            restart_policy: spec.restart_policy,
            ..PodSpec::default()
        });
        let waiting = |Waiting { reason }| ContainerStateWaiting { reason, message: None };
        let state = |State { running, waiting: read }| ContainerState {
            running,
            waiting: read.map(waiting),
            ..ContainerState::default()
        };
        let container = |read: Container| ContainerStatus {
            name: read.name,
            ready: read.ready,
            restart_count: read.restart_count,
            state: read.state.map(state),
            ..ContainerStatus::default()
        };
        let statuses = |read: Option<Vec<Container>>| {
            read.map(|all| all.into_iter().map(container).collect::<Vec<ContainerStatus>>())
        };
        let status = status.map(|status| PodStatus {
            phase: status.phase,
            conditions: status.conditions,
            container_statuses: statuses(status.container_statuses),
            init_container_statuses: statuses(status.init_container_statuses),
            ..PodStatus::default()
        });
        Ok(Self(Pod { metadata, spec, status }))
    }
}

/// Takes out the record of an update in place, unless something of that update waits: of most nothing does.
fn keep_what_waits(meta: &mut ObjectMeta) {
    let waits = |record: &str| record.len() <= MOST_RECORD && record.contains(WAITS);
    if let Some(all) = &mut meta.annotations {
        all.retain(|key, text| key != IN_PLACE_STATE_ANNOTATION || waits(text));
    }
}

/// Bytes that parts of a pod take for which there is no bound.
fn memory(meta: &ObjectMeta, gates: &[PodReadinessGate]) -> usize {
    let pair = |(key, value): (&String, &String)| text(key).saturating_add(text(value));
    let pairs = meta.labels.iter().chain(&meta.annotations).flatten().map(pair);
    let owners = meta.owner_references.iter().flatten().map(of_owner);
    let gates = gates.iter().map(|gate| text(&gate.condition_type));
    let all = pairs.chain(owners).chain(gates);
    all.chain(meta.finalizers.iter().flatten().map(|name| text(name))).fold(0, usize::saturating_add)
}

/// Tells whether the owners of a claim take no more than metadata of a pod may. Otherwise the claim is set
/// aside: whoever writes one owner more writes all of them.
pub(crate) fn owners_fit(meta: &ObjectMeta) -> bool {
    let fit = has_few_owners(meta);
    if !fit && let Some(left_out) = ASIDE.take() {
        let (namespace, claim) = (meta.namespace.as_deref(), meta.name.as_deref());
        warn!(namespace, claim, left_out, "Claim has too many owners, it is set aside");
    }
    fit
}

fn has_few_owners(meta: &ObjectMeta) -> bool {
    let owners = meta.owner_references.iter().flatten().map(of_owner);
    owners.fold(0, usize::saturating_add) <= MOST_METADATA
}

fn of_owner(owner: &OwnerReference) -> usize {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    [api_version, kind, name, uid].into_iter().map(|part| text(part)).fold(0, usize::saturating_add)
}

fn text(text: &str) -> usize {
    text.len().saturating_add(TEXT)
}

/// Takes out what has no bound. That a pod is somebody's stays: it is not gone, and its labels are not known.
fn reduce(meta: &mut ObjectMeta) {
    meta.labels = Some([(UNREAD.to_owned(), String::new())].into());
    (meta.annotations, meta.finalizers) = (None, None);
    let decides = |owner: &OwnerReference| owner.controller == Some(true) && of_owner(owner) <= MOST_METADATA;
    if let Some(owners) = &mut meta.owner_references {
        owners.retain(decides);
        owners.truncate(1);
        owners.shrink_to_fit();
    }
}

/// Affinity as far as it names a node.
fn placing(affinity: Affinity) -> Option<Affinity> {
    let required = affinity.node_affinity?.required_during_scheduling_ignored_during_execution?;
    let match_fields = required.node_selector_terms.into_iter().next()?.match_fields?;
    let term = NodeSelectorTerm { match_fields: Some(match_fields), ..NodeSelectorTerm::default() };
    let required = NodeSelector { node_selector_terms: vec![term] };
    let node_affinity = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(required),
        ..NodeAffinity::default()
    };
    Some(Affinity { node_affinity: Some(node_affinity), ..Affinity::default() })
}

#[cfg(test)]
mod tests;
