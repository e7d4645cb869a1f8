//! WorkloadSpreads and pods, reduced to what is decided by. Conversion only.

use berth_proto::crd::{WorkloadSpread, WorkloadSpreadStatus};
use berth_spread::{COST, IGNORE_METADATA, MATCHED, Matched, PodSeen, Spread};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::trimmed::TrimmedPod;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;
/// Characters of a cost that are looked at: no number has more.
const LONGEST_COST: usize = 16;

/// A WorkloadSpread as it is now.
#[derive(Clone, Debug)]
pub(super) struct SpreadView {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) generation: i64,
    /// Pods that were there before get labels and annotations of the patches.
    pub(super) gives_metadata: bool,
    /// The manager says why one cannot be carried out.
    pub(super) spread: Spread,
    pub(super) status: WorkloadSpreadStatus,
}

/// A pod as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodView {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) node: String,
    /// Its controller: API version, kind, name and UID.
    pub(super) owner: [String; 4],
    pub(super) seen: PodSeen,
}

impl SpreadView {
    /// Reads a WorkloadSpread; one whose deletion has begun, or that makes no sense, is none.
    pub(super) fn of(spread: WorkloadSpread) -> Option<Self> {
        let meta = spread.metadata;
        if meta.deletion_timestamp.is_some() {
            return None;
        }
        Some(Self {
            namespace: meta.namespace?,
            name: meta.name?,
            uid: meta.uid?,
            version: meta.resource_version.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            gives_metadata: meta
                .annotations
                .unwrap_or_default()
                .get(IGNORE_METADATA)
                .is_none_or(|ignore| ignore != "true"),
            spread: Spread::parse(&spread.spec).ok()?,
            status: spread.status.unwrap_or_default(),
        })
    }

    /// Tells whether a pod may be of its workload, by way of a ReplicaSet too.
    pub(super) fn may_have(&self, pod: &PodView) -> bool {
        let ([api_version, kind, name, _], target) = (&pod.owner, &self.spread.target);
        target.is(api_version, kind, name) || target.may_have(api_version, kind, name)
    }

    /// Names it in an Event.
    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
            kind: Some("WorkloadSpread".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.version.clone()),
            ..ObjectReference::default()
        }
    }
}

impl PodView {
    /// Tells whether nothing that is decided by differs from an earlier version.
    pub(super) fn decides_as(&self, earlier: &Self) -> bool {
        let Self { name, version: _, node, owner, seen } = self;
        (name, node, owner, seen) == (&earlier.name, &earlier.node, &earlier.owner, &earlier.seen)
    }

    /// Reduces a pod; one that nobody decides on is none that counts.
    pub(super) fn of(TrimmedPod(pod): TrimmedPod) -> Option<Self> {
        let meta = &pod.metadata;
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let owner = [&owner.api_version, &owner.kind, &owner.name, &owner.uid].map(Clone::clone);
        if owner.iter().any(|part| part.len() > LONGEST_NAME) {
            return None;
        }
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key);
        let matched = annotation(MATCHED).and_then(|text| Matched::read(text)).filter(has_names);
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let conditions =
            || status.iter().flat_map(|status| status.conditions.iter().flatten()).collect::<Vec<_>>();
        let ready = conditions().into_iter().find(|one| one.type_ == "Ready" && one.status == "True");
        let waits = conditions().into_iter().any(|one| {
            one.type_ == "PodScheduled"
                && one.status == "False"
                && one.reason.as_deref() == Some("Unschedulable")
        });
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let containers = || status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let seen = PodSeen {
            uid: meta.uid.clone()?,
            matched,
            active: meta.deletion_timestamp.is_none() && !matches!(phase, "Succeeded" | "Failed"),
            assigned: !node.is_empty(),
            phase: match phase {
                "Running" => 2,
                "Unknown" => 1,
                _ => 0,
            },
            ready: ready.is_some(),
            ready_since: ready.and_then(|one| Some(one.last_transition_time.as_ref()?.0.as_second())),
            restarts: containers().map(|one| one.restart_count).max().unwrap_or(0),
            created: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            unschedulable: waits,
            cost: annotation(COST).map(|cost| cost.chars().take(LONGEST_COST).collect()),
        };
        Some(Self {
            name: meta.name.clone()?,
            version: meta.resource_version.clone().unwrap_or_default(),
            node,
            owner,
            seen,
        })
    }
}

/// Tells whether what a pod says of its subset may be so. Anybody may write it.
fn has_names(matched: &Matched) -> bool {
    let Matched { name, subset, uid } = matched;
    [Some(name), Some(subset), uid.as_ref()].into_iter().flatten().all(|part| part.len() <= LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Watches read pods in parts.
    #[test]
    fn all_that_a_spread_goes_by_is_read() {
        let since = "2026-01-01T00:00:09Z";
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o",
            "controller": true });
        let matched = json!({ "name": "spread", "subset": "a", "uid": "s" }).to_string();
        let pod = json!({
            "metadata": { "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner],
                "annotations": { MATCHED: matched, COST: "-5", "large": "x" } },
            "spec": { "containers": [{ "name": "a", "image": "i" }], "nodeName": "node" },
            "status": {
                "phase": "Running",
                "conditions": [
                    { "type": "Ready", "status": "True", "lastTransitionTime": since },
                    { "type": "PodScheduled", "status": "False", "reason": "Unschedulable" },
                ],
                "containerStatuses": [{ "name": "a", "image": "i", "imageID": "d", "ready": true,
                    "restartCount": 3 }],
            },
        });
        let whole = PodView::of(TrimmedPod(serde_json::from_value(pod.clone()).unwrap())).unwrap();
        assert_eq!(PodView::of(serde_json::from_value(pod).unwrap()).as_ref(), Some(&whole));
        let PodSeen { matched, cost, restarts, ready_since, unschedulable, .. } = whole.seen;
        assert!(matched.is_some() && cost.is_some() && ready_since.is_some() && unschedulable);
        assert_eq!((restarts, whole.node.as_str(), whole.version.as_str()), (3, "node", "7"));
    }

    #[test]
    fn what_anybody_may_write_on_a_pod_is_bounded() {
        let pod = |subset: &str, cost: &str, owner: &str| {
            let matched = json!({ "name": "spread", "subset": subset }).to_string();
            let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "o",
                "controller": true });
            let meta = json!({ "name": "p", "uid": "u", "ownerReferences": [owner],
                "annotations": { MATCHED: matched, COST: cost } });
            PodView::of(serde_json::from_value(json!({ "metadata": meta })).unwrap())
        };
        let (long, ordinary) = ("x".repeat(1000), pod("a", "-2147483648", "web").unwrap());
        assert_eq!(ordinary.seen.matched.map(|matched| matched.subset).as_deref(), Some("a"));
        assert_eq!(ordinary.seen.cost.as_deref(), Some("-2147483648"));
        let large = pod(&long, &long, "web").unwrap();
        assert!(large.seen.matched.is_none());
        assert_eq!(large.seen.cost.map(|cost| cost.len()), Some(LONGEST_COST));
        assert_eq!(pod("a", "1", &long), None, "nobody's");
    }
}
