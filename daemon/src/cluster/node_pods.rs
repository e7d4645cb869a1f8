//! The pods of this node at the API server: read by name, and patched. What is written, and when, is others'
//! to say.

use berth_policy::PodRef;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::Value;

use super::{
    client::{CallError, Connection},
    metrics::{ClusterMetrics, Write},
    raw, v1 as core,
};

/// Set on the API object that mirrors a static pod; its value is the UID the kubelet uses on this node.
pub(crate) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Reads and writes pods of the node of this name.
#[derive(Clone, Debug)]
pub(crate) struct NodePods {
    connection: Connection,
    node: String,
    metrics: ClusterMetrics,
}

/// Which part of a pod is patched: each has rights of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Its metadata and spec.
    Pod,
    /// Its status.
    Status,
}

impl NodePods {
    pub(crate) fn new(connection: Connection, node: String, metrics: ClusterMetrics) -> Self {
        Self { connection, node, metrics }
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The pod as it is now; `None` when it is gone, or another one has its name. A static pod may be asked
    /// for by the UID of its mirror, or by its own.
    pub(crate) async fn find(&self, pod: &PodRef) -> Result<Option<core::Pod>, CallError> {
        // Listed, not got: for the kubelet's identity a pod that is gone is a pod it must not read.
        let selected =
            ListParams::default().fields(&format!("spec.nodeName={},metadata.name={}", self.node, pod.name));
        let list = async |client: Client| {
            let found = raw::namespaced::<core::Pod>(client, &pod.namespace).list(&selected).await?;
            found.items.into_iter().next().map(raw::typed::<core::Pod>).transpose()
        };
        let found = self.connection.ask(list).await?;
        let is = |uid: Option<&str>| uid == Some(pod.uid.as_str());
        Ok(found.filter(|found| is(identity(&found.metadata)) || is(found.metadata.uid.as_deref())))
    }

    /// Patches it, counted as `write`. Containers are merged by their name, conditions by their type; a
    /// `metadata.uid` or `resourceVersion` in the body that is not the pod's is a conflict.
    pub(crate) async fn patch(
        &self,
        namespace: &str,
        name: &str,
        part: Part,
        body: Value,
        write: Write,
    ) -> Result<core::Pod, CallError> {
        let (patch, params) = (Patch::Strategic(body), PatchParams::default());
        let ask = async |client: Client| {
            let pods = raw::namespaced::<core::Pod>(client, namespace);
            let written = match part {
                Part::Pod => pods.patch(name, &params, &patch).await,
                Part::Status => pods.patch_status(name, &params, &patch).await,
            };
            written.and_then(raw::typed)
        };
        let written = self.connection.ask(ask).await;
        self.metrics.wrote(write, &written);
        written
    }
}

/// The UID by which the kubelet and the runtime know the pod.
pub(crate) fn identity(meta: &ObjectMeta) -> Option<&str> {
    let mirrored = meta.annotations.as_ref().and_then(|annotations| annotations.get(MIRROR_ANNOTATION));
    mirrored.or(meta.uid.as_ref()).map(String::as_str)
}
