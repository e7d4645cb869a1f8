//! Whether the users' own object asks for a probe: the live PodProbeMarker of the pod's namespace. Pure.
//!
//! The writer of a `NodePodProbe` says when a probe begins and when it ends, and never what is carried out. A
//! stolen credential of the manager runs no command that no marker names. No marker reaches a pod of another
//! namespace.

use std::{collections::BTreeMap, fmt, sync::Arc};

use berth_policy::{Markers, PodRef, WantedProbe};
use berth_proto::crd::{PodContainerProbe, PodProbeMarker};
use kube::core::{Selector, SelectorExt};

use super::convert;
use crate::{
    base::causes::chain,
    cluster::{node_pods::identity, v1 as core},
    pods::probe,
};

/// A marker: its namespace and its name.
pub(super) type MarkerName = (Arc<str>, Arc<str>);

/// A pod of this node, as far as markers speak of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LivePod {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The UID by which the kubelet knows it.
    pub(super) identity: String,
    labels: BTreeMap<String, String>,
    /// Containers that can be probed, with their ports that have names.
    containers: BTreeMap<String, Vec<core::ContainerPort>>,
}

/// A marker as it was seen last.
#[derive(Clone, Debug, Default)]
pub(super) enum MarkerSeen {
    /// Not yet.
    #[default]
    Unheard,
    /// There is none of this name, or its deletion has begun.
    Absent,
    /// The API server does not let us look.
    Forbidden,
    /// It asks for this.
    Live(Arc<Rules>),
}

/// The wish of a marker.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    selector: Result<Selector, String>,
    probes: Vec<PodContainerProbe>,
}

/// Whether a probe is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it stands.
    Asked,
    /// Not known yet.
    Open,
    /// Not as it stands.
    Not(Refusal),
}

/// Why a probe is not carried out; for people, after "the probe is not run: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The node has no pod with that UID.
    NoPod,
    /// The pod with that UID has another name or namespace.
    OtherPod,
    /// Its name is not `<PodProbeMarker>#<its probe>`.
    Nameless,
    /// More markers are named than the agent follows.
    TooMany(usize),
    NoMarker(MarkerName),
    Forbidden,
    Selector(MarkerName, String),
    NotSelected(MarkerName),
    NoProbe(MarkerName),
    Container(MarkerName),
    Handler(MarkerName),
    Marks(MarkerName),
}

// === impl LivePod ===

impl LivePod {
    /// The UID of the API, and the pod; `None` for an object without name or UID, which the API never shows.
    pub(super) fn of(pod: &core::Pod) -> Option<(String, Self)> {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let named = |container: &core::Container| {
            let ports = container.ports.iter().flatten().filter(|port| port.name.is_some());
            let plain = |port: &core::ContainerPort| core::ContainerPort {
                name: port.name.clone(),
                container_port: port.container_port,
            };
            (container.name.clone(), ports.map(plain).collect())
        };
        // An init container that runs once has ended before its pod is probed.
        let sidecars = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let containers = spec.into_iter().flat_map(|spec| &spec.containers);
        let live = Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone()?,
            identity: identity(meta)?.to_owned(),
            labels: meta.labels.clone().unwrap_or_default(),
            containers: containers.chain(sidecars).map(named).collect(),
        };
        Some((meta.uid.clone()?, live))
    }

    fn is(&self, pod: &PodRef) -> bool {
        self.namespace == pod.namespace && self.name == pod.name
    }
}

// === impl MarkerSeen ===

impl MarkerSeen {
    /// The wish of a marker now.
    pub(super) fn of(marker: PodProbeMarker) -> Self {
        if marker.metadata.deletion_timestamp.is_some() {
            return Self::Absent;
        }
        let selector = &marker.spec.selector;
        let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
        let selector = if empty {
            Err("it is empty; give matchLabels or matchExpressions".to_owned())
        } else {
            Selector::try_from(marker.spec.selector).map_err(|error| chain(&error))
        };
        Self::Live(Arc::new(Rules { selector, probes: marker.spec.probes }))
    }
}

/// The marker that a probe of this name belongs to, and what the marker calls it.
pub(super) fn marker_of<'p>(pod: &PodRef, probe: &'p str) -> Option<(MarkerName, &'p str)> {
    let (marker, probe) = probe.split_once('#')?;
    let whole = !pod.namespace.is_empty() && !marker.is_empty() && !probe.is_empty();
    whole.then(|| ((pod.namespace.as_str().into(), marker.into()), probe))
}

/// Tells whether the marker asks for this probe of this pod, as it stands: container, handler, numbers,
/// condition, labels and annotations. A marker that is not known yet asks for nothing yet.
pub(super) fn judge(
    pod: &PodRef,
    entry: &WantedProbe,
    live: Option<&LivePod>,
    marker: &MarkerSeen,
) -> Verdict {
    match compare(pod, entry, live, marker) {
        Ok(verdict) => verdict,
        Err(refusal) => Verdict::Not(refusal),
    }
}

fn compare(
    pod: &PodRef,
    entry: &WantedProbe,
    live: Option<&LivePod>,
    marker: &MarkerSeen,
) -> Result<Verdict, Refusal> {
    let (name, probe) = marker_of(pod, &entry.name).ok_or(Refusal::Nameless)?;
    let live = live.ok_or(Refusal::NoPod)?;
    if !live.is(pod) {
        return Err(Refusal::OtherPod);
    }
    let rules = match marker {
        MarkerSeen::Unheard => return Ok(Verdict::Open),
        MarkerSeen::Absent => return Err(Refusal::NoMarker(name)),
        MarkerSeen::Forbidden => return Err(Refusal::Forbidden),
        MarkerSeen::Live(rules) => rules,
    };
    match &rules.selector {
        Ok(selector) if selector.matches(&live.labels) => {}
        Ok(_) => return Err(Refusal::NotSelected(name)),
        Err(why) => return Err(Refusal::Selector(name, why.clone())),
    }
    let asked = rules.probes.iter().find(|asked| asked.name == probe);
    let asked = asked.ok_or_else(|| Refusal::NoProbe(name.clone()))?;
    let ports = live.containers.get(&asked.container_name);
    let Some(ports) = ports.filter(|_| asked.container_name == entry.container.as_str()) else {
        return Err(Refusal::Container(name));
    };
    let container = core::Container { ports: Some(ports.clone()), ..core::Container::default() };
    // Compared as they would be carried out: two that differ in how they are written are the same. What
    // cannot be read is not run.
    let same = match (probe::of_marker(&container, &asked.probe), &entry.probe) {
        (Ok(asked), Ok(entry)) => asked == *entry,
        (Err(_), Err(_)) => true,
        _ => false,
    };
    if !same {
        return Err(Refusal::Handler(name));
    }
    if !are_marks_asked(asked, entry) {
        return Err(Refusal::Marks(name));
    }
    Ok(Verdict::Asked)
}

/// A condition or a key that the marker asks for may be missing as a whole: another marker that selects the
/// pod has it.
fn are_marks_asked(asked: &PodContainerProbe, entry: &WantedProbe) -> bool {
    let kind = asked.pod_condition_type.as_deref();
    if entry.condition_type.as_deref().is_some_and(|entry| Some(entry) != kind) {
        return false;
    }
    let (mut succeeded, mut failed) = convert::policies(&asked.marker_policy);
    for (of_marker, of_entry) in [
        (succeeded.labels.keys().chain(failed.labels.keys()).cloned().collect::<Vec<_>>(), Part::Labels),
        (succeeded.annotations.keys().chain(failed.annotations.keys()).cloned().collect(), Part::Annotations),
    ] {
        for key in of_marker {
            if !of_entry.of(&entry.succeeded).contains_key(&key)
                && !of_entry.of(&entry.failed).contains_key(&key)
            {
                of_entry.of_mut(&mut succeeded).remove(&key);
                of_entry.of_mut(&mut failed).remove(&key);
            }
        }
    }
    succeeded == entry.succeeded && failed == entry.failed
}

/// A part of the markers of one outcome.
#[derive(Clone, Copy)]
enum Part {
    Labels,
    Annotations,
}

type Texts = BTreeMap<Arc<str>, Arc<str>>;

impl Part {
    fn of(self, markers: &Markers) -> &Texts {
        match self {
            Self::Labels => &markers.labels,
            Self::Annotations => &markers.annotations,
        }
    }

    fn of_mut(self, markers: &mut Markers) -> &mut Texts {
        match self {
            Self::Labels => &mut markers.labels,
            Self::Annotations => &mut markers.annotations,
        }
    }
}

// === impl Refusal ===

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(namespace, name): &MarkerName| format!("PodProbeMarker {namespace}/{name}");
        match self {
            Self::NoPod => f.write_str("the node has no pod with that UID"),
            Self::OtherPod => f.write_str("the pod with that UID has another name or namespace"),
            Self::Nameless => f.write_str(
                "its name is not <PodProbeMarker>#<probe>, so no PodProbeMarker of the pod's namespace can ask for it",
            ),
            Self::TooMany(most) => {
                write!(f, "the pods of this node are probed for more than {most} PodProbeMarkers; put some together")
            }
            Self::NoMarker(name) => write!(f, "there is no {}", of(name)),
            Self::Forbidden => f.write_str(
                "the agent may not read PodProbeMarkers, which have to ask for it: kubectl apply -k deploy/rbac",
            ),
            Self::Selector(name, why) => write!(f, "the selector of {} cannot be read: {why}", of(name)),
            Self::NotSelected(name) => write!(f, "{} does not select the pod", of(name)),
            Self::NoProbe(name) => write!(f, "{} has no probe of that name", of(name)),
            Self::Container(name) => write!(f, "{} asks for another container", of(name)),
            Self::Handler(name) => write!(f, "{} asks for another action or other numbers", of(name)),
            Self::Marks(name) => write!(f, "{} asks for other conditions, labels or annotations", of(name)),
        }
    }
}

#[cfg(test)]
#[path = "tests/verify.rs"]
mod tests;
