//! `NodePodUpdate`: the in-place updates one node is to carry out, and how far they are. Controllers write
//! the one, the agent of the node the other.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    FailurePolicy, PreviousState, TwinSwap, TwinSwapState, UpdateContainer, UpdatePhase, UpdateState,
};

/// Nothing is asked for here: what follows from workloads is in `status.desiredPods`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "NodePodUpdate",
    plural = "nodepodupdates",
    shortname = "npu",
    doc = "The in-place updates of pods of one node. It has the name of its node.",
    status = "NodePodUpdateStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"UNDERSTOOD","type":"string","jsonPath":".status.conditions[?(@.type==\"Understood\")].status","description":"False: an entry cannot be carried out."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodePodUpdateSpec {}

/// The updates of the node. The manager writes `desiredPods`, the agent of the node `pods`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePodUpdateStatus {
    /// Wanted state of pods of the node; one entry for each owner that wants something of a pod. A pod is
    /// brought there once for each revision and attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid", "owner"]))]
    pub desired_pods: Vec<DesiredPod>,
    /// How far they are; an entry goes with the one of `desiredPods`. The agent alone writes them, always all
    /// of them: as one value they cost the API server a quarter less than with an owner of each field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<UpdatedPod>,
    /// Abilities of the agent of the node beyond entries without an owner, such as `owners/v1` and
    /// `swaps/v1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub features: Vec<String>,
    /// Last sign of life of the agent of the node, by its own clock: it gives one every two minutes. After
    /// ten without another one workloads make pods anew that could be updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Time>,
    /// `Understood`, False when an entry of `desiredPods` is not one that can be carried out, Unknown when
    /// the owner of one could not be read; which, and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Wanted state of one pod. Everything that is not named stays as it is. One writer owns an entry as a whole:
/// owners of single fields would make every write more costly for the API server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct DesiredPod {
    /// UID of the pod.
    pub uid: String,
    /// Kind and name of the object that wants it, such as `SidecarSet/mesh`; empty: a workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = ""))]
    pub owner: String,
    /// UID of that object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = ""))]
    pub owner_uid: String,
    /// Generation of that object by which this was decided, for workloads: what a node could not do then is
    /// tried anew when the object has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_generation: Option<i64>,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Tells this desired state from any other one of the pod and owner; the pod's annotation
    /// `apps.kruise.io/inplace-update-state` says it, and for a SidecarSet
    /// `kruise.io/sidecarset-inplace-update-state`.
    pub revision: String,
    /// Number of the try of this revision: another one is carried out anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("default" = 0))]
    pub attempt: i32,
    /// Service of the pod while its containers are restarted.
    #[serde(default, skip_serializing_if = "PodService::is_drained")]
    pub service: PodService,
    /// Pull of its images, before anything is stopped for them.
    #[serde(default, skip_serializing_if = "PodPull::is_required")]
    pub pull: PodPull,
    /// Word on a good end of its update.
    #[serde(default, skip_serializing_if = "PodEnd::is_reported")]
    pub end: PodEnd,
    /// The containers that get another image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<UpdateContainer>,
    /// The sidecars with twins that get another version, without a moment in which none serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub swaps: Vec<TwinSwap>,
    /// Labels to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// JSON merge patches (RFC 7386) of annotations whose values are JSON objects, by key: each is applied to
    /// the value that the pod has when it is patched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merge_annotations: BTreeMap<String, String>,
    /// Annotations that are set only where the pod has none of that key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_annotations: BTreeMap<String, String>,
    /// Word of its owner, a SidecarSet, for the condition `SidecarSetUpgradable` of the pod: whether the pod
    /// can be brought to the set's newest sidecars in place. With it nothing else is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgradable: Option<bool>,
    /// When this revision was asked for: its deadline counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// As in a ContainerUpdateRequest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// As in a ContainerUpdateRequest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// As in a ContainerUpdateRequest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback_on_failure: bool,
    /// As in a ContainerUpdateRequest, from `since` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
}

impl DesiredPod {
    /// Reads whom an entry is for and which try of what it is, and nothing of what it asks for: as much as a
    /// writer has to know of one that cannot be read. `None`: that cannot be read either.
    pub fn identity(entry: &Value) -> Option<Self> {
        let field = |name: &&str| Some(((*name).to_owned(), entry.get(*name)?.clone()));
        let fields: Map<String, Value> = IDENTITY.iter().filter_map(field).collect();
        Self::deserialize(Value::Object(fields)).ok()
    }
}

/// Fields of an entry that say which one it is.
const IDENTITY: [&str; 8] =
    ["uid", "owner", "ownerUid", "ownerGeneration", "namespace", "name", "revision", "attempt"];

/// Service of a pod while containers of it are restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PodService {
    /// It goes on: the readiness gate InPlaceUpdateReady stays as it is.
    Keep,
    /// Where the pod has that gate, it is shut before the first change and opened after the last one.
    #[default]
    Drain,
}

impl PodService {
    fn is_drained(&self) -> bool {
        *self == Self::Drain
    }
}

/// Pull of the images of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PodPull {
    /// An image that the agent cannot pull fails the entry, and the pod stays as it is.
    #[default]
    Required,
    /// One that it cannot pull is left to the kubelet, which has the pod's own credentials; where it cannot
    /// either, the pod waits for its image. An entry of a workload then does not fail either because a
    /// container falls over: it is waited for.
    BestEffort,
}

impl PodPull {
    fn is_required(&self) -> bool {
        *self == Self::Required
    }
}

/// Word on the good end of the update of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PodEnd {
    /// The agent reports it at once.
    #[default]
    Reported,
    /// Where the pod itself shows it, by the message of its condition InPlaceUpdateReady, the report waits
    /// for some seconds; it is not made if the entry is taken away before.
    Shown,
}

impl PodEnd {
    fn is_reported(&self) -> bool {
        *self == Self::Reported
    }
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// How far the update of one pod is.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatedPod {
    /// UID of the pod.
    pub uid: String,
    /// Kind and name of the object that wants what this is about, such as `SidecarSet/mesh`; empty: a
    /// workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = ""))]
    pub owner: String,
    /// UID of that object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = ""))]
    pub owner_uid: String,
    /// Which revision this is about.
    pub revision: String,
    /// Try of that revision that this is about.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("default" = 0))]
    pub attempt: i32,
    /// `Pending`, `Updating`, `RollingBack`, `Succeeded` or `Failed`.
    pub phase: UpdatePhase,
    /// Why it failed, for programs; from the beginning of the way back on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the phase was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where each container stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<UpdateState>,
    /// How far each swap is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub swaps: Vec<TwinSwapState>,
    /// State of the pod before the first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousState>,
}
