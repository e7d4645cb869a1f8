//! The bounds of everything that the definitions let in: lengths of texts, lists and maps, and ranges of
//! numbers.
//!
//! An object is written by its author, read by the manager, copied into objects of nodes and read by their
//! agents; what has no bound here can fill each of them. The bounds are far above what anybody means: names
//! as long as Kubernetes has them, annotations as large as those of a pod, times of ten years. A field is
//! found by the end of its path; the first line that fits counts. One that no line fits stays without a
//! bound, and the test of the definitions says so.

mod together;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use self::together::TOGETHER;

/// The most seconds that a request, a job or a probe may name, ten years: it fits 32 bits, and added to any
/// time it overflows nothing.
pub const MOST_SECONDS: i64 = 315_360_000;
/// The most containers that a request may name; no pod has as many.
pub const MOST_CONTAINERS: usize = 256;
/// The most bytes that annotations have together, in Kubernetes and here.
pub const MOST_ANNOTATION_BYTES: usize = 256 << 10;
/// The most bytes that labels and annotations of a job's sandbox have together: a runtime is told a few
/// things by them, and each node that pulls has a copy in an object that all namespaces share.
pub const MOST_SANDBOX_BYTES: usize = 4 << 10;
/// The longest message of a status or a condition, as Kubernetes has it.
pub const LONGEST_MESSAGE: usize = 32 << 10;

/// The most bytes of the history of a SidecarSet, as it stands in its status.
pub const MOST_HISTORY_BYTES: usize = 256 << 10;

/// The largest whole number that every JSON parser keeps.
const EXACT: i64 = 1 << 53;
const I32: i64 = i32::MAX as i64;
const CONTAINERS: i64 = MOST_CONTAINERS as i64;
const ANNOTATIONS: i64 = MOST_ANNOTATION_BYTES as i64;
const SANDBOX: i64 = MOST_SANDBOX_BYTES as i64;
const NAME: i64 = 253;
/// A qualified name: a DNS name, a slash, and 63 letters.
const KEY: i64 = 317;

/// The longest texts, of items (`[]`) and of values of maps (`{}`) too.
const TEXTS: &[(&str, i64)] = &[
    ("message", LONGEST_MESSAGE as i64),
    ("reason", 1024),
    ("conditions[].status", 32),
    ("type", KEY),
    ("podConditionType", KEY),
    ("key", KEY),
    ("missingLabels[]", KEY),
    ("missingAnnotations[]", KEY),
    ("operator", 63),
    ("values[]", NAME),
    ("matchLabels{}", NAME),
    ("sandboxConfig.labels{}", 4096),
    // Of jobs. What a node's object has of jobs from before this bound stays writable.
    ("spec.sandboxConfig.annotations{}", SANDBOX),
    ("labels{}", NAME),
    ("annotations{}", ANNOTATIONS),
    ("mergeAnnotations{}", ANNOTATIONS),
    ("defaultAnnotations{}", ANNOTATIONS),
    ("command[]", 64 << 10),
    ("revisions[].name", NAME),
    ("topology.subsets[].name", 63),
    ("topology.subsets[].replicas", 16),
    ("tolerations[].effect", 63),
    ("updatedRevision", NAME),
    // `<PodProbeMarker>#<its probe>`, of two names.
    ("name", 2 * NAME + 1),
    ("names[]", NAME),
    ("failedNodes[]", NAME),
    ("containerName", NAME),
    ("nodeName", NAME),
    ("podName", NAME),
    ("namespace", NAME),
    ("kind", NAME),
    ("apiVersion", KEY),
    ("fieldPath", 1024),
    ("resourceVersion", 128),
    ("revision", 1024),
    // One that is longer than a UID has been let in by an older definition.
    ("desiredImages[].uid", 8192),
    ("pulls[].uid", 8192),
    ("uid", 128),
    ("podUID", 128),
    // A kind, a slash, a name.
    ("owner", 2 * NAME + 1),
    ("ownerUid", 128),
    ("features[]", 63),
    ("containerID", 1024),
    ("image", 4096),
    ("emptyImage", 4096),
    ("working", 63),
    ("imageID", 4096),
    ("tag", 256),
    ("sealedCredentials[]", 64 << 10),
    ("sealingKey", 1024),
    // Names of nodes, compressed: 100,000 of them.
    ("endedNodes", 1 << 20),
    ("firstSyncStatus.status", 63),
    ("latestRevision", NAME),
    ("revisionName", NAME),
    ("customVersion", 63),
    ("hash", 128),
    ("hashWithoutImage", 128),
    ("history", MOST_HISTORY_BYTES as i64),
    ("policy", 63),
    ("patchPolicy", 63),
    ("orderedKey", KEY),
    ("envName", 1024),
    ("envNames[]", 1024),
    ("partition", 16),
    ("maxUnavailable", 16),
    ("minAvailable", 16),
    ("maxSurge", 16),
    ("burstReplicas", 16),
    ("podsToDelete[]", NAME),
    ("labelsHandler{}", NAME),
    ("finalizersHandler[]", KEY),
    // Two numbers of 32 bits.
    ("reserveOrdinals[]", 21),
    ("currentRevision", NAME),
    ("updateRevision", NAME),
    ("daemonSetHash", NAME),
    ("status.labelSelector", LONGEST_MESSAGE as i64),
    ("serviceName", NAME),
    ("podManagementPolicy", 63),
    ("podUpdatePolicy", 63),
    ("rollingUpdateType", 63),
    ("whenDeleted", 63),
    ("whenScaled", 63),
    ("host", NAME),
    ("hostIP", 64),
    ("IP", 64),
    ("path", 8192),
    ("scheme", 16),
    ("protocol", 16),
    ("service", 1024),
    ("value", 8192),
    ("port", NAME),
    ("parallelism", 16),
    ("status.phase", 63),
    ("schedule", 256),
    ("timeZone", 128),
    ("concurrencyPolicy", 63),
    ("failedNamespace[]", NAME),
    ("nodeTopologyKeys[]", KEY),
    ("nodeTopologyLabels{}", NAME),
    ("persistentPodStateRetentionPolicy", 63),
    ("minReplicas", 16),
    ("maxReplicas", 16),
    ("effect", 63),
    ("restartPolicy", 63),
    ("scheduleStrategy.type", 63),
    ("replicasPathList[]", 1024),
];

/// The longest lists and largest maps.
const COUNTS: &[(&str, i64)] = &[
    ("conditions", 32),
    ("matchLabels", 128),
    ("matchExpressions", 128),
    ("values", 512),
    ("labels", 256),
    ("annotations", 256),
    ("mergeAnnotations", 256),
    ("defaultAnnotations", 256),
    ("features", 32),
    ("missingLabels", 256),
    ("missingAnnotations", 256),
    ("command", 1024),
    ("httpHeaders", 128),
    ("ports", 256),
    ("containers", CONTAINERS),
    ("swaps", CONTAINERS),
    ("containerRecreateStates", CONTAINERS),
    ("containerStatusContexts", CONTAINERS),
    ("containerUpdateStates", CONTAINERS),
    // As many nodes as Kubernetes is made for, twice.
    ("names", 10_000),
    ("failedNodes", 128),
    ("images{}.pullSecrets", 64),
    ("tags", 1024),
    ("ownerReferences", 1024),
    ("imageStatuses", 4096),
    ("desiredImages", 1024),
    ("pulls", 1024),
    ("markerPolicy", 4),
    ("spec.probes", 128),
    ("probes", 1024),
    ("probeStates", 1024),
    ("podProbes", 2048),
    ("desiredPodProbes", 2048),
    ("podProbeStatuses", 2048),
    ("desiredPods", 2048),
    ("status.pods", 2048),
    ("spec.initContainers", CONTAINERS),
    ("spec.volumes", 1024),
    ("imagePullSecrets", 64),
    ("patchPodMetadata", 64),
    ("transferEnv", 256),
    ("envNames", 1024),
    ("orderPriority", 64),
    ("weightPriority", 64),
    ("scatterStrategy", 128),
    ("revisions", 512),
    ("podsToDelete", 4096),
    ("labelsHandler", 64),
    ("finalizersHandler", 64),
    ("volumeClaimTemplates", 64),
    ("reserveOrdinals", 4096),
    ("status.active", 1024),
    ("missedBefore", 32),
    ("topology.subsets", 128),
    ("matchFields", 128),
    ("tolerations", 128),
    ("partitions", 128),
    ("currentPartitions", 128),
    ("subsetReplicas", 128),
    ("finalizers", 64),
    // Of namespaces.
    ("list", 10_000),
    ("failedNamespace", 10_000),
    ("nodeTopologyKeys", 64),
    ("nodeTopologyLabels", 128),
    ("preferredPersistentTopology", 64),
    ("persistentPodAnnotations", 64),
    ("podStates", 10_000),
    ("subsets", 64),
    ("subsetStatuses", 128),
    ("replicasPathList", 64),
    ("preferredNodeSelectorTerms", 64),
    ("creatingPods", 2_001),
    ("deletingPods", 2_001),
    // A budget gives 2,000 permits at once.
    ("disruptedPods", 2_001),
    ("unavailablePods", 2_001),
];

/// The ranges of numbers.
const RANGES: &[(&str, i64, i64)] = &[
    ("seconds", 0, MOST_SECONDS),
    ("minStartedSeconds", 0, MOST_SECONDS),
    ("gracePeriodSeconds", 0, MOST_SECONDS),
    ("terminationGracePeriodSeconds", 0, MOST_SECONDS),
    ("unreadyGracePeriodSeconds", 0, MOST_SECONDS),
    ("activeDeadlineSeconds", 0, MOST_SECONDS),
    ("ttlSecondsAfterFinished", 0, MOST_SECONDS),
    ("timeoutSeconds", 0, MOST_SECONDS),
    ("initialDelaySeconds", 0, MOST_SECONDS),
    ("periodSeconds", 0, MOST_SECONDS),
    ("successThreshold", 0, 1_000_000),
    ("failureThreshold", 0, 1_000_000),
    ("migrationSeconds", 0, MOST_SECONDS),
    ("backoffLimit", 0, 100_000),
    ("containerPort", 0, 65_535),
    ("hostPort", 0, 65_535),
    ("port", 0, 65_535),
    ("parallelism", 0, I32),
    ("restartCount", 0, I32),
    ("attempt", 0, I32),
    ("progress", 0, 100),
    ("version", 0, EXACT),
    ("observedGeneration", 0, EXACT),
    ("ownerGeneration", 0, EXACT),
    ("matchedPods", 0, EXACT),
    ("desired", 0, I32),
    ("active", 0, I32),
    ("waiting", 0, I32),
    ("pulling", 0, I32),
    ("succeeded", 0, I32),
    ("failed", 0, I32),
    ("revisionHistoryLimit", 0, I32),
    ("partition", 0, I32),
    ("maxUnavailable", 0, I32),
    ("minAvailable", 0, I32),
    ("unavailableAllowed", 0, I32),
    ("currentAvailable", 0, I32),
    ("desiredAvailable", 0, I32),
    ("totalReplicas", 0, I32),
    ("weight", 0, 100),
    ("updatedPods", 0, I32),
    ("readyPods", 0, I32),
    ("updatedReadyPods", 0, I32),
    ("notInjectedPods", 0, I32),
    ("collisionCount", 0, I32),
    ("revisions[].revision", 0, EXACT),
    // As many pods as Kubernetes is made for, several times.
    ("replicas", 0, 1_000_000),
    ("reserveOrdinals[]", 0, I32),
    ("maxSurge", 0, I32),
    ("burstReplicas", 0, I32),
    // The largest number is how Kubernetes says "never": of a Deployment's deadline too.
    ("minReadySeconds", 0, I32),
    ("progressDeadlineSeconds", 0, I32),
    ("readyReplicas", 0, I32),
    ("availableReplicas", 0, I32),
    ("currentReplicas", 0, I32),
    ("updatedReplicas", 0, I32),
    ("updatedAvailableReplicas", 0, I32),
    ("updatedReadyReplicas", 0, I32),
    ("expectedUpdatedReplicas", 0, I32),
    ("desiredNumberScheduled", 0, I32),
    ("currentNumberScheduled", 0, I32),
    ("numberMisscheduled", 0, I32),
    ("numberReady", 0, I32),
    ("updatedNumberScheduled", 0, I32),
    ("numberAvailable", 0, I32),
    ("numberUnavailable", 0, I32),
    ("restartLimit", 0, I32),
    ("acceptedFailures", 0, I32),
    ("startingDeadlineSeconds", 0, MOST_SECONDS),
    ("successfulJobsHistoryLimit", 0, I32),
    ("failedJobsHistoryLimit", 0, I32),
    ("missed.count", 0, I32),
    ("missedBefore[].count", 0, I32),
    // Less than none is none.
    ("tolerationSeconds", -EXACT, EXACT),
    ("partitions{}", 0, I32),
    ("currentPartitions{}", 0, I32),
    ("subsetReplicas{}", 0, I32),
    ("minReplicas", 0, 1_000_000),
    ("maxReplicas", 0, 1_000_000),
    ("missingReplicas", -1, 1_000_000),
    ("observedReplicas", 0, 1_000_000),
    ("topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds", 0, MOST_SECONDS),
    ("rescheduleCriticalSeconds", 0, 295),
    ("unschedulableDuration", 0, MOST_SECONDS),
    ("unschedulableLastSeconds", 0, MOST_SECONDS),
];

/// Gives each value below its bound, where its type does not say one.
pub(super) fn bound(schema: &mut JSONSchemaProps, path: &str) {
    let int_or_string = schema.x_kubernetes_int_or_string == Some(true);
    let of_type = |wanted: &str| schema.type_.as_deref() == Some(wanted);
    let (text, list) = (of_type("string") || int_or_string, of_type("array"));
    let (number, map) =
        (of_type("integer") || of_type("number") || int_or_string, schema.additional_properties.is_some());
    if text && schema.enum_.is_none() && schema.format.as_deref() != Some("date-time") {
        schema.max_length = schema.max_length.or(find(TEXTS, path));
    }
    if list {
        schema.max_items = schema.max_items.or(find(COUNTS, path));
    }
    if map {
        schema.max_properties = schema.max_properties.or(find(COUNTS, path));
    }
    if number && let Some((_, least, most)) = RANGES.iter().find(|(end, ..)| fits(path, end)) {
        schema.minimum = schema.minimum.or(Some(*least as f64));
        schema.maximum = schema.maximum.or(Some(*most as f64));
    }
    for (_, rule, message) in TOGETHER.iter().filter(|(end, ..)| fits(path, end)) {
        schema.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: (*rule).to_owned(),
            message: Some((*message).to_owned()),
            ..ValidationRule::default()
        });
    }
    for (name, property) in schema.properties.iter_mut().flatten() {
        bound(property, &format!("{path}.{name}"));
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => bound(items, &format!("{path}[]")),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => {
            items.iter_mut().for_each(|items| bound(items, &format!("{path}[]")));
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        bound(values, &format!("{path}{{}}"));
    }
}

fn find(table: &[(&str, i64)], path: &str) -> Option<i64> {
    table.iter().find(|(end, _)| fits(path, end)).map(|(_, most)| *most)
}

/// Tells whether the path is this one, or ends with it after a dot.
fn fits(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}
