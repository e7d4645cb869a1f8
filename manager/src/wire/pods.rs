//! Pods: where they are, what they consist of, and how far they are.

use std::{collections::BTreeMap, net::IpAddr};

use berth_sidecarset::{names, upgradable};
use berth_spread::{MATCHED, Matched};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, Deserializer};

use super::{
    LONGEST_NAME, Watchable, owner,
    sidecars::{Running, Shown, sidecars, updates},
};
use crate::store::{ContainerSeen, Kind, Object, Phase, PodSeen, PodSpread, PodStage, Role, SidecarsSeen};

/// Labels with it say that a pod does not serve, whatever its readiness says.
const UNAVAILABLE: &str = "unavailable-pod.kruise.io/";

/// The longest image of a container that is looked at; a reference has far less.
const LONGEST_IMAGE: usize = 4096;
/// The most bytes of all labels of a pod together that are looked at: more than a hundred of the longest.
const MOST_LABELS: usize = 64 << 10;

/// Pods.
#[derive(Clone, Debug)]
pub struct Pods;

/// Part of a pod's spec that is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: Option<String>,
    restart_policy: Option<String>,
    ports: Option<Vec<Port>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: Option<String>,
    container_port: i64,
}

/// Part of a pod's status that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    #[serde(default, deserialize_with = "time")]
    last_transition_time: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    #[serde(default)]
    restart_count: i32,
    #[serde(default)]
    image: String,
    #[serde(default, rename = "imageID")]
    image_id: String,
    state: Option<State>,
}

#[derive(Debug, Deserialize)]
struct State {
    running: Option<RunningState>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunningState {
    #[serde(default, deserialize_with = "time")]
    started_at: Option<Time>,
}

/// Reads a time. One that makes no sense is none: by protobuf a kubelet can bring in a year of twelve digits,
/// and no list with such a pod could be read.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()).map(Time))
}

impl Watchable for Pods {
    const KIND: Kind = Kind::Pod;
    const GROUP: &str = "";
    const VERSION: &str = "v1";
    const NAME: &str = "Pod";
    const METADATA_ONLY: bool = false;
    type Scope = NamespaceResourceScope;
    type Spec = PodSpec;
    type Status = PodStatus;

    fn object(meta: &ObjectMeta, spec: Option<PodSpec>, status: Option<PodStatus>) -> Object {
        let mut status = status.unwrap_or_default();
        let stage = PodStage::of(meta.deletion_timestamp.is_some(), status.phase.as_deref());
        let conditions = status.conditions.take().unwrap_or_default();
        let initialized = conditions.iter().any(|condition| condition.holds("Initialized"));
        let (node, containers, init) = spec
            .map_or_else(Default::default, |spec| (spec.node_name, spec.containers, spec.init_containers));
        let regular = containers.as_deref().unwrap_or_default();
        let running = status.container_statuses.as_deref().unwrap_or_default();
        let sidecars = with_sidecars(meta, regular, running, &conditions, status.phase.as_deref());
        let ready = conditions.iter().any(|condition| condition.holds("Ready"));
        let available = status.phase.as_deref() == Some("Running")
            && ready
            && !meta.labels.iter().flatten().any(|(key, _)| key.starts_with(UNAVAILABLE))
            && !meta.annotations.as_ref().is_some_and(|kept| updates(kept, &pairs(regular, running)));
        let spread = spread(meta, &conditions);
        // Names are unique across containers and init containers of a pod.
        let mut statuses: BTreeMap<String, ContainerStatus> = BTreeMap::new();
        let shown = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
        for mut status in shown {
            statuses.entry(std::mem::take(&mut status.name)).or_insert(status);
        }
        let mut with_status = |container: Container, role| {
            let status = statuses.remove(&container.name);
            let (id, restarts) =
                status.map_or((None, 0), |status| (status.container_id, status.restart_count));
            let ports = container.ports.unwrap_or_default().into_iter().filter_map(named).collect();
            ContainerSeen { name: container.name, role, id, restarts, ports }
        };
        let init = init.unwrap_or_default().into_iter().map(|container| {
            let always = container.restart_policy.as_deref() == Some("Always");
            (container, if always { Role::Sidecar } else { Role::Init })
        });
        let regular = containers.unwrap_or_default().into_iter().map(|container| (container, Role::Regular));
        Object::Pod(PodSeen {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0),
            node,
            labels: labels(meta),
            stage,
            initialized,
            ip: status.pod_ip.and_then(|ip| ip.parse::<IpAddr>().ok()),
            containers: init.chain(regular).map(|(container, role)| with_status(container, role)).collect(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            mirror: meta.annotations.as_ref().is_some_and(|kept| kept.contains_key(names::MIRROR)),
            sidecars,
            spread,
            owner: owner(meta),
            available,
            ready,
        })
    }
}

/// Labels of a pod. They have a bound each, and none together: who has more than anybody needs has none.
fn labels(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let labels = meta.labels.as_ref();
    let bytes = labels.into_iter().flatten().map(|(key, value)| key.len().saturating_add(value.len()));
    let fits = bytes.fold(0, usize::saturating_add) <= MOST_LABELS;
    labels.filter(|_| fits).cloned().unwrap_or_default()
}

impl ContainerStatus {
    /// Returns when the process that runs was started, in seconds.
    fn started(&self) -> Option<i64> {
        let running = self.state.as_ref()?.running.as_ref()?;
        Some(running.started_at.as_ref()?.0.as_second())
    }
}

impl Condition {
    fn holds(&self, condition: &str) -> bool {
        self.type_ == condition && self.status == "True"
    }
}

/// Subset of the pod, if it is in one.
fn spread(meta: &ObjectMeta, conditions: &[Condition]) -> Option<Box<PodSpread>> {
    let Matched { name, subset, uid } = Matched::read(meta.annotations.as_ref()?.get(MATCHED)?)?;
    if [Some(&name), Some(&subset), uid.as_ref()].into_iter().flatten().any(|part| part.len() > LONGEST_NAME)
    {
        return None;
    }
    let waits = |one: &Condition| {
        one.type_ == "PodScheduled" && one.status == "False" && one.reason.as_deref() == Some("Unschedulable")
    };
    Some(Box::new(PodSpread { name, subset, entry: uid, unschedulable: conditions.iter().any(waits) }))
}

/// Port that has a name. Nobody asks for the others: they are numbers already.
fn named(port: Port) -> Option<(String, u16)> {
    let name = port.name.filter(|name| !name.is_empty())?;
    Some((name, u16::try_from(port.container_port).ok()?))
}

/// The sidecars, if SidecarSets have put some into the pod.
fn with_sidecars(
    meta: &ObjectMeta,
    containers: &[Container],
    statuses: &[ContainerStatus],
    conditions: &[Condition],
    phase: Option<&str>,
) -> Option<Box<SidecarsSeen>> {
    let annotations = meta.annotations.as_ref()?;
    let phase = match phase {
        Some("Running") => Phase::Running,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Pending,
    };
    let mut seen = sidecars(annotations, &pairs(containers, statuses), phase)?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    seen.ready = ready.is_some_and(|condition| condition.holds("Ready"));
    let told = conditions.iter().find(|condition| condition.type_ == upgradable::CONDITION);
    let words = told.map(|condition| upgradable::words(condition.message.as_deref())).unwrap_or_default();
    let words = words.into_iter().filter(|(set, _)| seen.listed.contains(set));
    seen.upgradable = words.map(|(set, upgradable)| (set, upgradable.to_string())).collect();
    seen.ready_since = ready.and_then(|condition| Some(condition.last_transition_time.as_ref()?.0));
    Some(seen)
}

/// Containers with their statuses. Where the pod of a request is read, nobody has checked how many they are.
fn pairs<'a>(containers: &'a [Container], statuses: &'a [ContainerStatus]) -> Vec<Running<'a>> {
    // Of two with one name the first counts.
    let statuses: BTreeMap<&str, &ContainerStatus> =
        statuses.iter().rev().map(|status| (status.name.as_str(), status)).collect();
    let pair = |container: &'a Container| {
        let status = statuses.get(container.name.as_str()).copied();
        Running {
            name: &container.name,
            image: container
                .image
                .as_deref()
                .filter(|image| image.len() <= LONGEST_IMAGE)
                .unwrap_or_default(),
            status: status.map(|status| Shown {
                image: &status.image,
                id: &status.image_id,
                started: status.started(),
            }),
        }
    };
    containers.iter().map(pair).collect()
}
