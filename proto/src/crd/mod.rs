//! The custom resources, one file per kind.
//!
//! Names, fields and printed columns of `apps.kruise.io/v1alpha1` are those OpenKruise users know; its
//! manifests are valid here unchanged. What only Berth writes is in `status`. `berth.dev/v1alpha1` has what
//! OpenKruise has no kind for. The YAML in `deploy/crds` is generated from these types.
//!
//! A status has two writers, the manager and the agent of the node, each with a field manager of its own: so
//! nothing at its top level is required, and its lists are maps.

mod advanced_cron_job;
mod bounds;
mod broadcast_job;
mod clone_set;
mod container_recreate_request;
mod container_update_request;
mod daemon_set;
mod definitions;
mod image_pull_job;
mod invalid;
mod node_image;
mod node_pod_probe;
mod node_pod_update;
mod numbers;
mod partly;
mod persistent_pod_state;
mod pod_probe_marker;
mod pod_unavailable_budget;
mod resource_distribution;
mod sidecar_set;
mod stateful_set;
mod swap;
mod united_deployment;
mod workload;
mod workload_spread;

pub use advanced_cron_job::{
    AdvancedCronJob, AdvancedCronJobSpec, AdvancedCronJobStatus, CronJobTemplate, JobTemplate, MissedRuns,
    StartingRun,
};
pub use berth_reasons::FailureReason;
pub use bounds::{
    LONGEST_MESSAGE, MOST_ANNOTATION_BYTES, MOST_CONTAINERS, MOST_HISTORY_BYTES, MOST_SANDBOX_BYTES,
    MOST_SECONDS,
};
pub use broadcast_job::{
    BroadcastCompletionPolicy, BroadcastFailurePolicy, BroadcastJob, BroadcastJobCondition, BroadcastJobSpec,
    BroadcastJobStatus,
};
pub use clone_set::{CloneSet, CloneSetScaleStrategy, CloneSetSpec, CloneSetStatus, CloneSetUpdateStrategy};
pub use container_recreate_request::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, FailurePolicy,
    RecreateContainer, RecreatePhase, RecreateState, RecreateStrategy, SpecStatusContext, StatusContext,
};
pub use container_update_request::{
    ContainerUpdateRequest, ContainerUpdateRequestSpec, ContainerUpdateRequestStatus, PreviousState,
    UpdateContainer, UpdateMetadata, UpdatePhase, UpdateState, UpdateStrategy,
};
pub use daemon_set::{
    AdvancedDaemonSet, AdvancedDaemonSetRollingUpdate, AdvancedDaemonSetSpec, AdvancedDaemonSetStatus,
    AdvancedDaemonSetUpdateStrategy,
};
pub use definitions::{CONVERTED, definitions, documents};
pub use image_pull_job::{
    CompletionPolicy, CompletionPolicyType, ImagePullJob, ImagePullJobSpec, ImagePullJobStatus,
    JobPullPolicy, NodeSelector,
};
pub use invalid::{Invalid, distinct_containers, seconds_within};
pub use node_image::{
    DesiredImage, ImagePhase, ImagePullPolicy, ImageSpec, ImageStatus, ImageTagSpec, ImageTagStatus,
    NodeImage, NodeImageSpec, NodeImageStatus, PullSecretReference, PullStatus, SandboxConfig, SyncStatus,
    TagPullPolicy, WantedBy,
};
pub use node_pod_probe::{
    ContainerProbe, ContainerProbeState, NodePodProbe, NodePodProbeSpec, NodePodProbeStatus, PodProbe,
    PodProbeStatus, ProbeState,
};
pub use node_pod_update::{
    DesiredPod, NodePodUpdate, NodePodUpdateSpec, NodePodUpdateStatus, PodEnd, PodPull, PodService,
    UpdatedPod,
};
pub use numbers::Numbers;
pub use partly::{ByEntry, Partly, Unreadable, kept};
pub use persistent_pod_state::{
    NodeTopologyTerm, PersistentPodAnnotation, PersistentPodState, PersistentPodStateSpec,
    PersistentPodStateStatus, PodState, PreferredTopologyTerm,
};
pub use pod_probe_marker::{
    MarkerState, PodContainerProbe, PodProbeMarker, PodProbeMarkerSpec, PodProbeMarkerStatus,
    ProbeMarkerPolicy,
};
pub use pod_unavailable_budget::{
    BudgetTarget, PodUnavailableBudget, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus,
};
pub use resource_distribution::{
    DistributedResource, DistributionCondition, DistributionTargets, NamespaceEntry, NamespaceList,
    ResourceDistribution, ResourceDistributionSpec, ResourceDistributionStatus,
};
pub use sidecar_set::{
    SidecarContainer, SidecarSet, SidecarSetInjectRevision, SidecarSetInjectionStrategy,
    SidecarSetPatchPodMetadata, SidecarSetRevision, SidecarSetSpec, SidecarSetStatus,
    SidecarSetUpdateStrategy, SidecarVolume, UpdatePriorityOrderTerm, UpdatePriorityStrategy,
    UpdatePriorityWeightTerm, UpdateScatterTerm,
};
pub use stateful_set::{
    AdvancedStatefulSet, AdvancedStatefulSetRollingUpdate, AdvancedStatefulSetScaleStrategy,
    AdvancedStatefulSetSpec, AdvancedStatefulSetStatus, AdvancedStatefulSetUpdateStrategy,
    ClaimRetentionPolicy, MOST_NUMBERED_PODS, MOST_ORDINAL_START, OrdinalRange, UnorderedUpdate,
};
pub use swap::{MIGRATION_SECONDS, TwinSwap, TwinSwapState, TwinSwapStep};
pub use united_deployment::{
    ManualUpdate, PodTemplatePatch, Subset, SubsetTemplate, Topology, UnitedAdaptive, UnitedDeployment,
    UnitedDeploymentSpec, UnitedDeploymentStatus, UnitedDeploymentUpdateStatus,
    UnitedDeploymentUpdateStrategy, UnitedScheduleStrategy, WorkloadTemplate,
};
pub use workload::{
    ClaimTemplate, InPlaceUpdateStrategy, LifecycleHook, PodTemplate, WorkloadCondition, WorkloadLifecycle,
};
pub use workload_spread::{
    SpreadAdaptive, SpreadPatch, SpreadScheduleStrategy, SpreadSubset, SpreadSubsetCondition,
    SpreadSubsetStatus, SpreadTarget, SpreadTargetFilter, WorkloadSpread, WorkloadSpreadSpec,
    WorkloadSpreadStatus,
};

/// Rule by which a selector stays as it is. Clients with types leave out a list or map that is empty, which
/// others may have given.
const SAME_SELECTOR: &str = "(has(self.matchLabels) && size(self.matchLabels) > 0) \
     == (has(oldSelf.matchLabels) && size(oldSelf.matchLabels) > 0) \
     && (!has(self.matchLabels) || !has(oldSelf.matchLabels) || self.matchLabels == oldSelf.matchLabels) \
     && (has(self.matchExpressions) && size(self.matchExpressions) > 0) \
     == (has(oldSelf.matchExpressions) && size(oldSelf.matchExpressions) > 0) \
     && (!has(self.matchExpressions) || !has(oldSelf.matchExpressions) \
     || self.matchExpressions == oldSelf.matchExpressions)";
