//! Body of a request: the object as it is applied.

use std::sync::Arc;

use berth_proto::{
    crd::{
        DesiredPod, ImagePullJobStatus, NodeImageStatus, NodePodProbeStatus, PodProbeMarkerStatus,
        SidecarSetStatus,
    },
    sealing::SealError,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    images::{JobAct, JobWrite, NodeImageWrite, Seal},
    pod_updates::{EntryId, PodUpdateWrite},
    probes::{NodeAct, NodeProbesWrite, ProbedPod},
    requests::{RequestAct, RequestKind, RequestStatus, StatusPatch},
    secrets::{NotSealed, Vault},
    wire::{Jobs, Markers, NodeImages, NodeProbes, NodeUpdates, Requests, SidecarSets, Updates, Watchable},
    write::{Target, Write},
};

/// An object with what identifies it and the fields of its status that are the manager's: with server-side
/// apply, one left out is one taken back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body {
    api_version: String,
    kind: &'static str,
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    uid: String,
    resource_version: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Status {
    Request(RequestStatus),
    Node(Box<NodeImageStatus>),
    Job(Box<ImagePullJobStatus>),
    NodeProbes(Box<NodePodProbeStatus>),
    Marker(Box<PodProbeMarkerStatus>),
    SidecarSet(Box<SidecarSetStatus>),
    PodUpdates(DesiredPods),
}

/// The manager's part of the status of a NodePodUpdate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DesiredPods {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    desired_pods: Vec<Entry>,
}

/// Entry of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry {
    Known(Box<DesiredPod>),
    /// A newer program has written it.
    AsItStands(Value),
}

impl Body {
    /// Seals what is owed to a node: that is why this can fail.
    pub(super) fn of(order: &Write, vault: &Vault) -> Result<Self, NotSealed> {
        let (api_version, kind) = match order {
            Write::Request(patch) => match patch.id.kind {
                RequestKind::Recreate => identity::<Requests>(),
                RequestKind::Update => identity::<Updates>(),
            },
            Write::Node(_) => identity::<NodeImages>(),
            Write::Job(_) => identity::<Jobs>(),
            Write::NodeProbes(_) => identity::<NodeProbes>(),
            Write::Marker(_) => identity::<Markers>(),
            Write::SidecarSet(_) => identity::<SidecarSets>(),
            Write::PodUpdates(_) => identity::<NodeUpdates>(),
        };
        let status = match order {
            // Nothing but the preconditions is sent.
            Write::Request(StatusPatch { write: RequestAct::Delete, .. })
            | Write::Job(JobWrite { act: JobAct::Delete, .. }) => None,
            Write::Request(patch) => Some(Status::Request(patch.status())),
            Write::Node(order) => Some(Status::Node(Box::new(node(order, vault)?))),
            Write::Job(JobWrite { act: JobAct::Status(status), .. }) => Some(Status::Job(status.clone())),
            Write::NodeProbes(NodeProbesWrite { act: NodeAct::Desired(pods), .. }) => {
                Some(Status::NodeProbes(Box::new(node_probes(pods))))
            }
            // Nothing is left of what its owner had.
            Write::NodeProbes(NodeProbesWrite { act: NodeAct::TakeNoticeBack, .. }) => None,
            Write::Marker(order) => Some(Status::Marker(order.status.clone())),
            Write::SidecarSet(order) => Some(Status::SidecarSet(order.status.clone())),
            // With nothing left, its owner has nothing in it.
            Write::PodUpdates(order) => Some(Status::PodUpdates(desired_pods(order))),
        };
        let Target { key, .. } = order.target();
        let metadata = Metadata {
            name: key.name.to_string(),
            namespace: key.namespace.to_string(),
            uid: order.uid().to_owned(),
            resource_version: order.resource_version().to_owned(),
        };
        Ok(Self { api_version, kind, metadata, status })
    }
}

/// `apiVersion` and `kind`.
fn identity<W: Watchable>() -> (String, &'static str) {
    (format!("{}/{}", W::GROUP, W::VERSION), W::NAME)
}

fn node(order: &NodeImageWrite, vault: &Vault) -> Result<NodeImageStatus, NotSealed> {
    let desired = order.wishes.iter().map(|wish| {
        let mut entry = wish.entry();
        entry.sealed_credentials = match &wish.seal {
            Seal::Present(sealed) => sealed.to_vec(),
            Seal::Owed => {
                let key = order.sealing_key.as_deref().ok_or(NotSealed::Key(SealError::Key))?;
                vault.seal(&entry.uid, key, &order.node, &entry.image)?
            }
        };
        Ok(entry)
    });
    Ok(NodeImageStatus { desired_images: desired.collect::<Result<_, _>>()?, ..NodeImageStatus::default() })
}

fn desired_pods(order: &PodUpdateWrite) -> DesiredPods {
    let entry = |pod: &Arc<DesiredPod>| {
        let stands = order.unreadable.get(&EntryId::of(pod));
        stands.map_or_else(
            || Entry::Known(Box::new(DesiredPod::clone(pod))),
            |value| Entry::AsItStands(Value::clone(value)),
        )
    };
    DesiredPods { desired_pods: order.pods.iter().map(entry).collect() }
}

fn node_probes(pods: &[Arc<ProbedPod>]) -> NodePodProbeStatus {
    let desired_pod_probes = pods.iter().map(|pod| pod.entry()).collect();
    NodePodProbeStatus { desired_pod_probes, ..NodePodProbeStatus::default() }
}
