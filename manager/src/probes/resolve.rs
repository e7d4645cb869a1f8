//! Resolution of markers on a pod: its probes with their ports resolved, who writes which condition, label
//! and annotation, and what cannot be done.
//!
//! All of it follows from the pod's containers and the markers that select it, so it is worked out once for
//! the pods of a workload and shared by them.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use berth_proto::crd::{ContainerProbe, PodContainerProbe};
use k8s_openapi::{api::core::v1::Probe, apimachinery::pkg::util::intstr::IntOrString};

use super::{
    marker::Serial,
    queue::Rank,
    room::{self, MARKERS_OF_POD, OF_POD, Share},
    spec::Plan,
};
use crate::store::{Shape, Texts};

/// A marker that selects a pod.
#[derive(Clone, Debug)]
pub(super) struct Selecting {
    pub(super) rank: Rank,
    pub(super) serial: Serial,
    pub(super) plan: Arc<Plan>,
}

/// Result of resolving the markers of a pod.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The names of the markers, the first made first.
    pub(super) markers: Box<[Arc<str>]>,
    pub(super) probes: Box<[ContainerProbe]>,
    /// Whose they are, the first made first.
    pub(super) shares: Box<[Share]>,
    /// The room they take.
    pub(super) weight: usize,
    /// The same as JSON: what an object shows is compared with it, and kept as such.
    pub(super) text: Arc<str>,
    /// With the name of the marker whose it is.
    pub(super) problems: Box<[(Arc<str>, Problem)]>,
}

/// Problem of a named probe on a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The pod does not have it.
    Container { probe: Box<str>, container: Box<str> },
    /// The container does not have it.
    Port { probe: Box<str>, container: Box<str>, port: Box<str> },
    /// Markers before this one have all the room that a pod has.
    Full,
    /// Another probe has it: `<marker>#<probe>`.
    Taken { probe: Box<str>, what: Claim, by: Box<str> },
}

/// Part of a pod that only one probe can write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Claim {
    Condition(Box<str>),
    Label(Box<str>),
    Annotation(Box<str>),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(kind) => write!(f, "condition {kind}"),
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
        }
    }
}

/// Causes of a result: the markers' specs in their order, and the containers.
type Causes = (Box<[Serial]>, Arc<Shape>);

/// Works it out, or finds it.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    known: HashMap<Causes, Arc<Resolved>>,
    /// Looked through for what no pod has any more when there are so many.
    sweep_at: usize,
}

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 256;

impl Resolver {
    /// The markers are those that select the pod, the first made first.
    pub(super) fn resolve(
        &mut self,
        markers: &[Selecting],
        shape: &Arc<Shape>,
        texts: &mut Texts,
    ) -> Arc<Resolved> {
        let key = (markers.iter().map(|marker| marker.serial).collect(), shape.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.known.retain(|_, resolved| Arc::strong_count(resolved) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let resolved = Arc::new(resolve(markers, shape, texts));
        self.known.insert(key, resolved.clone());
        resolved
    }
}

impl Resolved {
    /// Takes only these parts of it: what one node has room for.
    pub(super) fn only(&self, parts: &[usize], texts: &mut Texts) -> Self {
        let chosen = parts.iter().filter_map(|part| self.shares.get(*part));
        let probes: Vec<_> =
            chosen.filter_map(|share| self.probes.get(share.probes.clone())).flatten().cloned().collect();
        Self {
            markers: Box::default(),
            text: text(&probes, texts),
            probes: probes.into(),
            shares: Box::default(),
            weight: 0,
            problems: Box::default(),
        }
    }
}

/// Probes as they are compared.
pub(super) fn text(probes: &[ContainerProbe], texts: &mut Texts) -> Arc<str> {
    // Into memory, and of plain fields: it cannot fail.
    texts.one(&serde_json::to_string(probes).unwrap_or_default())
}

fn resolve(markers: &[Selecting], shape: &Shape, texts: &mut Texts) -> Resolved {
    let mut claims = Claims::default();
    let (mut probes, mut problems, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let (mut used, mut run) = (0_usize, 0);
    for marker in markers {
        let name = &marker.rank.1;
        let after = used.saturating_add(marker.plan.weight);
        if run == MARKERS_OF_POD || after > OF_POD {
            problems.push((name.clone(), Problem::Full));
            continue;
        }
        (used, run) = (after, run + 1);
        let first = probes.len();
        for wanted in &marker.plan.probes {
            match runnable(wanted, shape) {
                Ok(probe) => {
                    let full: Box<str> = format!("{name}#{}", wanted.name).into();
                    let (probe, taken) = claims.grant(full, wanted, probe);
                    problems.extend(taken.into_iter().map(|problem| (name.clone(), problem)));
                    probes.push(probe);
                }
                Err(problem) => problems.push((name.clone(), problem)),
            }
        }
        let of = first..probes.len();
        if !of.is_empty() {
            let each = |probe| room::weight(probe, 0);
            let weight = probes[of.clone()].iter().map(each).fold(0, usize::saturating_add);
            shares.push(Share { rank: marker.rank.clone(), probes: of, weight });
        }
    }
    Resolved {
        markers: markers.iter().map(|marker| marker.rank.1.clone()).collect(),
        text: text(&probes, texts),
        probes: probes.into(),
        weight: shares.iter().map(|share| share.weight).fold(0, usize::saturating_add),
        shares: shares.into(),
        problems: problems.into(),
    }
}

/// The probe with its port as a number, if the pod has what it names.
fn runnable(wanted: &PodContainerProbe, shape: &Shape) -> Result<Probe, Problem> {
    let PodContainerProbe { name, container_name: container, probe, .. } = wanted;
    if !shape.has(container) {
        return Err(Problem::Container { probe: name.as_str().into(), container: container.as_str().into() });
    }
    let mut probe = probe.clone();
    let http = probe.http_get.as_mut().map(|http| &mut http.port);
    let tcp = probe.tcp_socket.as_mut().map(|tcp| &mut tcp.port);
    for port in http.into_iter().chain(tcp) {
        let IntOrString::String(text) = port else { continue };
        // As the kubelet does: a name, and if there is none, a number that was written as a text.
        let number = shape.port(container, text).or_else(|| text.parse().ok().filter(|number| *number > 0));
        let missing = || Problem::Port {
            probe: name.as_str().into(),
            container: container.as_str().into(),
            port: text.as_str().into(),
        };
        *port = IntOrString::Int(number.ok_or_else(missing)?.into());
    }
    Ok(probe)
}

/// Claims of the probes of a pod: first come, first served. A probe that does not run there claims nothing.
#[derive(Default)]
struct Claims(HashMap<Claim, Box<str>>);

impl Claims {
    /// The probe with all that is left for it to write, and what is not.
    fn grant(
        &mut self,
        name: Box<str>,
        wanted: &PodContainerProbe,
        probe: Probe,
    ) -> (ContainerProbe, Vec<Problem>) {
        let condition = wanted.pod_condition_type.as_deref().map(|kind| Claim::Condition(kind.into()));
        let policies = &wanted.marker_policy;
        let labels = policies.iter().flat_map(|policy| policy.labels.keys());
        let annotations = policies.iter().flat_map(|policy| policy.annotations.keys());
        let labels = labels.map(|key| Claim::Label(key.as_str().into()));
        let annotations = annotations.map(|key| Claim::Annotation(key.as_str().into()));
        // Once each: both states may have the same key.
        let claims: BTreeSet<Claim> = condition.into_iter().chain(labels).chain(annotations).collect();
        let mut taken = Vec::new();
        for claim in claims {
            if let Some(by) = self.0.get(&claim) {
                taken.push(Problem::Taken {
                    probe: wanted.name.as_str().into(),
                    what: claim,
                    by: by.clone(),
                });
            } else {
                self.0.insert(claim, name.clone());
            }
        }
        let has = |claim: Claim| self.0.get(&claim) == Some(&name);
        let mut marker_policy = policies.clone();
        for policy in &mut marker_policy {
            policy.labels.retain(|key, _| has(Claim::Label(key.as_str().into())));
            policy.annotations.retain(|key, _| has(Claim::Annotation(key.as_str().into())));
        }
        marker_policy.retain(|policy| !policy.labels.is_empty() || !policy.annotations.is_empty());
        let condition = wanted.pod_condition_type.clone();
        let pod_condition_type = condition.filter(|kind| has(Claim::Condition(kind.as_str().into())));
        let container_name = wanted.container_name.clone();
        let name = name.into();
        (ContainerProbe { name, container_name, probe, pod_condition_type, marker_policy }, taken)
    }
}
