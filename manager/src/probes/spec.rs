//! Spec of a PodProbeMarker, and whether it can be carried out. The admission policy `berth-probe-markers`
//! says the same earlier; where it is not installed, this is where a marker is refused.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::{
    crd::{PodContainerProbe, PodProbeMarkerSpec, ProbeMarkerPolicy},
    names::{is_label_value, is_qualified},
};

use super::{
    handler,
    names::{DELETION_COST, is_reserved},
    room::{self, OF_POD},
};
use crate::{selector::Selector, store::Key};

/// Written by the kubelet, the control plane, and those who update pods in place.
pub(super) const FOREIGN: [&str; 12] = [
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
    "KruisePodReady",
    "InPlaceUpdateReady",
    "SidecarSetUpgradable",
];

/// A marker that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) selector: Selector,
    /// Their `podConditionType` is never empty.
    pub(super) probes: Box<[PodContainerProbe]>,
    /// The room they take on a pod.
    pub(super) weight: usize,
}

impl Plan {
    /// Plan of which nothing is kept but that the marker makes sense; any other one has probes.
    pub(super) fn bare() -> Self {
        Self { selector: Selector::default(), probes: Box::default(), weight: 0 }
    }
}

/// Fault: the field below `spec`, and what to do about it.
pub(super) type Fault = (String, String);

/// The plan, or what is wrong with the marker: the first field, the object and the remedy.
pub(super) fn parse(key: &Key, spec: &PodProbeMarkerSpec) -> Result<Plan, String> {
    let fault = |(field, problem): Fault| format!("spec.{field} of PodProbeMarker {key} {problem}");
    let mut plan = check(spec).map_err(fault)?;
    // Each is named with its marker.
    let each = |probe| room::weight(probe, key.name.len());
    plan.weight = plan.probes.iter().map(each).fold(0, usize::saturating_add);
    if plan.weight > OF_POD {
        let problem = format!(
            "take {} KiB with their answers, and the probes of a pod have {} KiB; give fewer or smaller ones",
            plan.weight.div_ceil(1 << 10),
            OF_POD >> 10,
        );
        return Err(fault(("probes".to_owned(), problem)));
    }
    Ok(plan)
}

fn check(spec: &PodProbeMarkerSpec) -> Result<Plan, Fault> {
    let labels = spec.selector.match_labels.as_ref();
    let expressions = spec.selector.match_expressions.as_deref().unwrap_or_default();
    if labels.is_none_or(BTreeMap::is_empty) && expressions.is_empty() {
        let problem =
            "is empty and would select every pod of the namespace; give matchLabels or matchExpressions";
        return fault("selector", problem);
    }
    let selector = Selector::parse(labels.unwrap_or(&BTreeMap::new()), expressions)
        .map_err(|problem| ("selector".to_owned(), format!("has {problem}")))?;
    if spec.probes.is_empty() {
        return fault("probes", "is empty; give at least one probe");
    }
    let (mut names, mut conditions) = (BTreeSet::new(), BTreeSet::new());
    let mut probes = spec.probes.clone();
    for (number, probe) in probes.iter_mut().enumerate() {
        if probe.name.is_empty() {
            return fault(&format!("probes[{number}].name"), "is empty; give the probe a name");
        }
        let at = |field: &str| format!("probes[{:?}].{field}", probe.name);
        if probe.name.contains('#') {
            return fault(
                &at("name"),
                "has a \"#\", which separates it from the marker's name; leave it out",
            );
        }
        if !names.insert(probe.name.clone()) {
            return fault(&at("name"), "is given twice; give each probe a name of its own");
        }
        if probe.container_name.is_empty() {
            return fault(&at("containerName"), "is empty; name the container that is to be probed");
        }
        handler::check(&probe.probe).map_err(|(field, problem)| (at(&format!("probe{field}")), problem))?;
        probe.pod_condition_type = probe.pod_condition_type.take().filter(|kind| !kind.is_empty());
        let at = |field: &str| format!("probes[{:?}].{field}", probe.name);
        if let Some(kind) = &probe.pod_condition_type {
            condition(kind, !conditions.insert(kind.clone()))
                .map_err(|problem| (at("podConditionType"), problem))?;
        } else if probe.marker_policy.is_empty() {
            let problem =
                "and markerPolicy are left out, so nobody would learn the outcome; give one of them";
            return fault(&at("podConditionType"), problem);
        }
        policies(&probe.marker_policy)
            .map_err(|(field, problem)| (at(&format!("markerPolicy{field}")), problem))?;
    }
    Ok(Plan { selector, probes: probes.into(), weight: 0 })
}

fn fault<T>(field: &str, problem: &str) -> Result<T, Fault> {
    Err((field.to_owned(), problem.to_owned()))
}

fn condition(kind: &str, twice: bool) -> Result<(), String> {
    if FOREIGN.contains(&kind) {
        Err(format!(
            "is {kind}, which Kubernetes writes itself or an update in place does; give a type of your own, such as example.com/idle"
        ))
    } else if !is_qualified(kind) {
        Err(format!("is {kind:?}, {NO_KEY}"))
    } else if twice {
        Err(format!(
            "is {kind:?} for two probes, and one condition can have one outcome; give each a type of its own"
        ))
    } else {
        Ok(())
    }
}

/// Rule for a key, and a remedy.
const NO_KEY: &str = "which is no qualified name: that is at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or \
                      digit at both ends, and before it a DNS name and \"/\" where it has a prefix; correct it";

fn policies(policies: &[ProbeMarkerPolicy]) -> Result<(), Fault> {
    for (number, ProbeMarkerPolicy { state, labels, annotations }) in policies.iter().enumerate() {
        if policies[..number].iter().any(|before| before.state == *state) {
            return fault(
                "",
                &format!("has the state {state:?} twice; put its labels and annotations together"),
            );
        }
        let at = |field: &str| format!("[{state:?}]{field}");
        if labels.is_empty() && annotations.is_empty() {
            return fault(&at(""), "has neither labels nor annotations; give some, or leave the state out");
        }
        for (field, key) in
            labels.keys().map(|key| ("labels", key)).chain(annotations.keys().map(|key| ("annotations", key)))
        {
            // The case of an annotation's key does not matter, as everywhere.
            let good =
                if field == "labels" { is_qualified(key) } else { is_qualified(&key.to_ascii_lowercase()) };
            if !good {
                return fault(&at(&format!(".{field}")), &format!("has the key {key:?}, {NO_KEY}"));
            }
            if is_reserved(key) {
                let problem = format!(
                    "has the key {key:?}, and keys of kubernetes.io and k8s.io are Kubernetes' own but for {DELETION_COST}; use a domain of your own"
                );
                return fault(&at(&format!(".{field}")), &problem);
            }
        }
        if let Some((key, value)) = labels.iter().find(|(_, value)| !is_label_value(value)) {
            let problem = format!(
                "gives {key:?} the value {value:?}, which is no value of a label: it is at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit at both ends; correct it, or make it an annotation"
            );
            return fault(&at(".labels"), &problem);
        }
    }
    Ok(())
}
