//! Labels, annotations and conditions of workloads and their pods, as OpenKruise has them.

/// Label of a pod: the revision it has.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// Label of a pod: the hash of that revision alone.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// Label of a ControllerRevision: its hash.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Label of a pod and of its claims: which claims belong to which pod.
pub const INSTANCE_LABEL: &str = "apps.kruise.io/cloneset-instance-id";
/// Label of a StatefulSet's pod: its own name, so that a Service can be for it alone.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a StatefulSet's pod: its number.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Label of a pod that is to be deleted, whatever its value.
pub const SPECIFIED_DELETE_LABEL: &str = "apps.kruise.io/specified-delete";
/// Label of a pod: where it is between its creation and its end.
pub const STATE_LABEL: &str = "lifecycle.apps.kruise.io/state";
/// Annotation of a pod: time at which it got its `lifecycle.apps.kruise.io/state`.
pub const STATE_SINCE_ANNOTATION: &str = "lifecycle.apps.kruise.io/timestamp";
/// Label of a CloneSet: pods that wait for their deletion do not count.
pub const EXCLUDE_PREPARING_DELETE_LABEL: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
/// Label of a pod that was made beyond the wanted number while others are updated in place: it goes first.
pub const SURGE_LABEL: &str = "workloads.berth.dev/surge";
/// Annotation of a CloneSet: claims outlive pods that are replaced, and go to those that replace them.
pub const KEEP_CLAIMS_ANNOTATION: &str = "berth.dev/keep-claims";
/// Annotation of a pod: revision that it had when it was given labels and annotations of another one ahead of
/// its images, and that one: their hashes, as `old/new`.
pub const METADATA_OF_ANNOTATION: &str = "workloads.berth.dev/metadata-of";
/// Annotation of a pod: its last update in place; JSON.
pub const IN_PLACE_STATE_ANNOTATION: &str = "apps.kruise.io/inplace-update-state";
/// Annotation of a pod: update in place by an OpenKruise whose images wait for the end of its grace period;
/// JSON.
pub const GRACE_ANNOTATION: &str = "apps.kruise.io/inplace-update-grace";
/// Annotation of a pod: pods with the lower number are deleted first.
pub const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Readiness gate of pods that are updated in place.
pub const IN_PLACE_GATE: &str = "InPlaceUpdateReady";
/// Message of that condition where an agent has shut the gate for an update.
pub const SHUT_BY_AGENT: &str = "the agent of the node updates the pod in place";
/// Reason of that condition where a controller of OpenKruise has shut the gate for an update; agents give it
/// too, beside their message.
pub const SHUT_BY_OPENKRUISE: &str = "StartInPlaceUpdate";
/// Readiness gate of pods that may be taken out of service from outside.
pub const READY_GATE: &str = "KruisePodReady";
