//! What is sent: the object as it is applied.

use std::sync::Arc;

use berth_proto::{
    crd::{ImagePullJobStatus, NodeImageStatus, NodePodProbeStatus, PodProbeMarkerStatus},
    sealing::SealError,
};
use serde::Serialize;

use crate::{
    images::{JobAct, JobOrder, NodeOrder, Seal},
    index::{Ask, RequestStatus},
    order::{Order, Target},
    probes::{NodeAct, NodeProbesOrder, ProbedPod},
    secrets::{NotSealed, Vault},
    wire::{Jobs, Markers, NodeImages, NodeProbes, Requests, Updates, Watchable},
};

/// An object with what identifies it and the fields of its status that are the manager's: with server-side apply, one
/// left out is one taken back.
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
}

impl Body {
    /// Seals what is owed to a node: that is why this can fail.
    pub(super) fn of(order: &Order, vault: &Vault) -> Result<Self, NotSealed> {
        let (api_version, kind) = match order {
            Order::Request(patch) => match patch.id.ask {
                Ask::Recreate => identity::<Requests>(),
                Ask::Update => identity::<Updates>(),
            },
            Order::Node(_) => identity::<NodeImages>(),
            Order::Job(_) => identity::<Jobs>(),
            Order::NodeProbes(_) => identity::<NodeProbes>(),
            Order::Marker(_) => identity::<Markers>(),
        };
        let status = match order {
            Order::Request(patch) => Some(Status::Request(patch.status())),
            Order::Node(order) => Some(Status::Node(Box::new(node(order, vault)?))),
            Order::Job(JobOrder { act: JobAct::Status(status), .. }) => Some(Status::Job(status.clone())),
            // Nothing but the preconditions is sent.
            Order::Job(JobOrder { act: JobAct::Delete, .. }) => None,
            Order::NodeProbes(NodeProbesOrder { act: NodeAct::Desired(pods), .. }) => {
                Some(Status::NodeProbes(Box::new(node_probes(pods))))
            }
            // Nothing is left of what its owner had.
            Order::NodeProbes(NodeProbesOrder { act: NodeAct::TakeNoticeBack, .. }) => None,
            Order::Marker(order) => Some(Status::Marker(order.status.clone())),
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

fn node(order: &NodeOrder, vault: &Vault) -> Result<NodeImageStatus, NotSealed> {
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

fn node_probes(pods: &[Arc<ProbedPod>]) -> NodePodProbeStatus {
    let desired_pod_probes = pods.iter().map(|pod| pod.entry()).collect();
    NodePodProbeStatus { desired_pod_probes, ..NodePodProbeStatus::default() }
}
