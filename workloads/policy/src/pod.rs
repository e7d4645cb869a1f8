//! Pods, reduced to what is decided by.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};

use crate::{
    action::Target,
    in_place::{Grace, Shown},
    names::{
        DELETION_COST_ANNOTATION, IN_PLACE_GATE, INSTANCE_LABEL, METADATA_OF_ANNOTATION, READY_GATE,
        REVISION_LABEL, SHUT_BY_AGENT, SHUT_BY_OPENKRUISE,
    },
    revision::{controller, short},
    selector::Labels,
    store::{Stored, version},
    time::until,
};

/// The longest pair of hashes that is read.
const LONGEST_HASHES: usize = 64;
/// Seconds in which a pod is new.
const NEW_SECONDS: i64 = 60;
/// A pod that is new for longer has the time of another clock.
const NEW_AT_MOST: Duration = Duration::from_secs(120);
/// The longest name of a container that is told.
const LONGEST_NAME: usize = 63;

/// Phase of a pod, in the order in which pods are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not running yet.
    #[default]
    Pending,
    /// Its node is silent.
    Unknown,
    /// Running.
    Running,
    /// Over.
    Ended,
}

/// Program that has shut the gate of updates in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// The agent of the node.
    ByAgent,
    /// A controller of OpenKruise, by the reason that it gives.
    ByOpenKruise,
}

impl Shut {
    /// Reads it off the condition; `None`: the gate is open, or somebody else's to open.
    fn of(gate: &PodCondition) -> Option<Self> {
        match (gate.status.as_str(), gate.message.as_deref(), gate.reason.as_deref()) {
            ("True", ..) => None,
            (_, Some(SHUT_BY_AGENT), _) => Some(Self::ByAgent),
            (.., Some(SHUT_BY_OPENKRUISE)) => Some(Self::ByOpenKruise),
            _ => None,
        }
    }
}

/// A pod.
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
    /// Its labels.
    pub labels: Labels,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Types of its readiness gates.
    pub gates: Vec<String>,
    /// Node that it is tied to by its affinity; empty when it is tied to none.
    pub placed_on: String,
    /// Its node; empty before it has one.
    pub node: String,
    /// Its phase.
    pub phase: Phase,
    /// It is being deleted.
    pub terminating: bool,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// Since when it is not Ready any more, though its containers run on as before: their probes fail.
    pub failing_since: Option<Timestamp>,
    /// Whether its gate of updates in place is open, where somebody has said so.
    pub gate: Option<bool>,
    /// Program that has shut that gate for an update in place, while all its containers are Ready.
    pub shut: Option<Shut>,
    /// Condition `KruisePodReady`, where somebody has written it: whether it is True, and its message.
    pub kruise_ready: Option<(bool, String)>,
    /// Container that does not come up, and why.
    pub not_up: Option<Box<str>>,
    /// Restarts of the container that was restarted most often.
    pub restarts: i32,
    /// When it was made.
    pub created: Timestamp,
    /// The lower, the sooner it is deleted.
    pub deletion_cost: i32,
    /// Revisions of which it had one when it was given the metadata of the other.
    pub metadata_of: Option<Box<str>>,
    /// Update that an OpenKruise has left in its grace period, or anybody between two batches.
    pub grace: Option<Box<Grace>>,
    /// Update in place that it shows as ended.
    pub shown: Option<Box<Shown>>,
}

impl PodView {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let status = pod.status.as_ref();
        let condition = |type_: &str| {
            let all = status.and_then(|status| status.conditions.as_ref());
            all.into_iter().flatten().find(|condition| condition.type_ == type_)
        };
        let ready = condition("Ready").filter(|ready| ready.status == "True");
        let phase = phase(status.and_then(|status| status.phase.as_deref()).unwrap_or_default());
        let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let cost = annotation(DELETION_COST_ANNOTATION);
        let metadata_of = annotation(METADATA_OF_ANNOTATION).filter(|text| text.len() <= LONGEST_HASHES);
        let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref()).into_iter().flatten();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            gates: gates.map(|gate| gate.condition_type.clone()).collect(),
            placed_on: placed_on(pod).unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            phase,
            terminating: meta.deletion_timestamp.is_some(),
            ready_since: ready
                .map(|ready| ready.last_transition_time.as_ref().map_or(created, |time| time.0)),
            failing_since: condition("ContainersReady")
                .filter(|ready| ready.status == "False" && phase == Phase::Running)
                .and_then(|_| failing_since(condition("Ready")?, containers?)),
            gate: condition(IN_PLACE_GATE).map(|gate| gate.status == "True"),
            shut: condition(IN_PLACE_GATE)
                .filter(|_| condition("ContainersReady").is_some_and(|ready| ready.status == "True"))
                .and_then(Shut::of),
            kruise_ready: condition(READY_GATE)
                .map(|gate| (gate.status == "True", gate.message.clone().unwrap_or_default())),
            not_up: containers.into_iter().flatten().find_map(not_up),
            restarts: containers.into_iter().flatten().map(|one| one.restart_count).max().unwrap_or(0),
            created,
            deletion_cost: cost.and_then(|cost| deletion_cost(cost)).unwrap_or(0),
            metadata_of: metadata_of.map(|text| text.as_str().into()),
            grace: Grace::of(pod),
            shown: Shown::of(pod),
        }
    }

    /// Tells whether it counts: it has not ended, and is not being deleted.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Ended && !self.terminating
    }

    /// Time for which it is new; `None`: it is not, or goes. Who loses a pod that is, and makes another one
    /// for it at once, may make pods without end.
    pub(crate) fn new_for(&self, now: Timestamp) -> Option<Duration> {
        let left = until(self.created, NEW_SECONDS, now);
        (!self.terminating && !left.is_zero() && left <= NEW_AT_MOST).then_some(left)
    }

    /// Tells whether it has a readiness gate of this type.
    pub(crate) fn has_gate(&self, type_: &str) -> bool {
        self.gates.iter().any(|gate| gate == type_)
    }

    /// Tells whether it serves.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Running && self.ready_since.is_some() && self.gate != Some(false)
    }

    /// Tells whether it has served for so many seconds.
    pub fn is_ready_for(&self, seconds: i64, now: Timestamp) -> bool {
        self.is_ready()
            && self.ready_since.is_some_and(|since| seconds <= 0 || until(since, seconds, now).is_zero())
    }

    /// Hash of the revision whose labels and annotations it was given ahead of its images, as long as it has
    /// the revision of before: whoever gave it these may have told its node nothing.
    pub(crate) fn ahead(&self) -> Option<&str> {
        let (had, given) = self.metadata_of.as_deref()?.split_once('/')?;
        (had != given && had == short(self.label(REVISION_LABEL))).then_some(given)
    }

    /// UID of the owner that decides on it; empty when there is none.
    pub fn owner(&self) -> &str {
        controller(&self.owners)
    }

    /// Its node, or the one that it is for.
    pub fn wanted_node(&self) -> &str {
        if self.node.is_empty() { &self.placed_on } else { &self.node }
    }

    /// Its instance: which claims are its own.
    pub fn instance(&self) -> &str {
        self.label(INSTANCE_LABEL)
    }

    /// Value of a label; empty when it has none.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Names it for a write.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
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

/// Says why a container does not come up. The kubelet has several words for one cause, and takes turns.
fn not_up(status: &ContainerStatus) -> Option<Box<str>> {
    let why = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
    let what = match why {
        "" | "ContainerCreating" | "PodInitializing" => return None,
        "CrashLoopBackOff" => "falls over again and again",
        image if image.contains("Image") => "waits for its image, which cannot be pulled",
        "CreateContainerConfigError" | "CreateContainerError" => "cannot be created",
        _ => "cannot be started",
    };
    let name: String = status.name.chars().take(LONGEST_NAME).collect();
    Some(format!("container {name} {what}").into())
}

/// Time at which it ceased to be Ready. A pod that never was has that condition from before its containers
/// ran, and one with a container that was started since is no pod whose probe fails alone.
fn failing_since(ready: &PodCondition, containers: &[ContainerStatus]) -> Option<Timestamp> {
    let since = ready.last_transition_time.as_ref().filter(|_| ready.status == "False")?.0;
    let runs_since =
        |one: &ContainerStatus| Some(one.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0);
    let ran = |one: &ContainerStatus| runs_since(one).is_some_and(|started| started < since);
    (!containers.is_empty() && containers.iter().all(ran)).then_some(since)
}

/// Node that the affinity of a pod names.
pub(crate) fn placed_on(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
    let field = fields.iter().find(|field| field.key == "metadata.name" && field.operator == "In")?;
    field.values.as_ref()?.first().cloned()
}

fn phase(name: &str) -> Phase {
    match name {
        "Running" => Phase::Running,
        "Succeeded" | "Failed" => Phase::Ended,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// Reads a cost as Kubernetes does: neither a plus sign nor zeros before the number.
fn deletion_cost(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
        && text != "-0";
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn costs_are_read_as_kubernetes_does() {
        for (text, cost) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("0", Some(0)),
            ("+5", None),
            ("05", None),
            ("", None),
            ("-0", None),
            ("2147483648", None),
        ] {
            assert_eq!(deletion_cost(text), cost, "{text}");
        }
    }

    #[test]
    fn a_container_that_does_not_come_up_is_told_in_the_same_words() {
        let said = |why: &str| {
            let states = json!([
                { "name": "side", "state": { "running": {} } },
                { "name": "main", "state": { "waiting": { "reason": why } } },
            ]);
            let pod =
                json!({ "metadata": { "name": "p", "uid": "u" }, "status": { "containerStatuses": states } });
            PodView::of(&serde_json::from_value(pod).unwrap()).not_up.map(String::from)
        };
        assert_eq!((said("ContainerCreating"), said("PodInitializing"), said("")), (None, None, None));
        assert_eq!(said("CrashLoopBackOff").unwrap(), "container main falls over again and again");
        assert_eq!(said("ErrImagePull"), said("ImagePullBackOff"));
        assert!(said("InvalidImageName").unwrap().contains("cannot be pulled"));
        assert_eq!(said("CreateContainerConfigError").unwrap(), "container main cannot be created");
        assert_eq!(said("A word of later").unwrap(), "container main cannot be started");
    }

    /// Each row: the phase, whether the containers are ready, since when the pod is not, the states of its
    /// containers, and whether it is one whose probe fails.
    #[test]
    fn a_pod_whose_probe_fails_was_ready_before() {
        let runs = json!({ "running": { "startedAt": "2026-01-01T00:00:05Z" } });
        let waits = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let ended = json!({ "terminated": { "exitCode": 1 } });
        for (row, phase, ready, since, states, fails) in [
            ("its probe fails", "Running", "False", 9, vec![&runs, &runs], true),
            ("it never came up", "Running", "False", 4, vec![&runs], false),
            ("it ceased to be when it began to run", "Running", "False", 5, vec![&runs], false),
            ("a gate of it is shut", "Running", "True", 9, vec![&runs], false),
            ("one falls over", "Running", "False", 9, vec![&runs, &waits], false),
            ("one has ended", "Running", "False", 9, vec![&ended, &runs], false),
            ("it says nothing of its containers", "Running", "False", 9, vec![], false),
            ("it runs not yet", "Pending", "False", 9, vec![&runs], false),
            ("its node is silent", "Running", "Unknown", 9, vec![&runs], false),
        ] {
            let states: Vec<_> =
                states.into_iter().map(|state| json!({ "name": "a", "state": state })).collect();
            let at = format!("2026-01-01T00:00:0{since}Z");
            let not_ready = if ready == "True" { "False" } else { ready };
            let pod = json!({ "metadata": { "name": "p", "uid": "u" }, "status": {
                "phase": phase, "containerStatuses": states, "conditions": [
                    { "type": "ContainersReady", "status": ready, "lastTransitionTime": at },
                    { "type": "Ready", "status": not_ready, "lastTransitionTime": at },
                ],
            } });
            let pod = PodView::of(&serde_json::from_value(pod).unwrap());
            let expect = fails.then(|| at.parse().unwrap());
            assert_eq!(pod.failing_since, expect, "{row}");
        }
    }

    #[test]
    fn a_pod_with_a_shut_gate_does_not_serve() {
        let pod = |gate: &str| {
            let pod = serde_json::from_value(json!({
                "metadata": { "name": "p", "uid": "u" },
                "status": { "phase": "Running", "conditions": [
                    { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
                    { "type": gate, "status": "False" },
                ]},
            }));
            PodView::of(&pod.unwrap())
        };
        assert!(!pod(IN_PLACE_GATE).is_ready());
        let ready = pod("Other");
        let then: Timestamp = "2026-01-01T00:00:09Z".parse().unwrap();
        assert!(ready.is_ready() && ready.is_ready_for(9, then) && !ready.is_ready_for(10, then));
    }
}
