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
    client::{CallError, Connection, Lane},
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
        let found = self.connection.ask_in(Lane::Pods, list).await?;
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
        let written = self.connection.ask_in(Lane::Pods, ask).await;
        self.metrics.wrote(write, &written);
        written
    }
}

/// The UID by which the kubelet and the runtime know the pod.
pub(crate) fn identity(meta: &ObjectMeta) -> Option<&str> {
    mirrored(meta).or(meta.uid.as_deref())
}

/// The UID of the static pod that the object mirrors. Authors of pods may write any text there, the UID of
/// somebody else's pod as well. The kubelet makes that of a static pod of a hash: what has the form of a UID
/// of the API server's is no static pod's.
fn mirrored(meta: &ObjectMeta) -> Option<&str> {
    let uid = meta.annotations.as_ref()?.get(MIRROR_ANNOTATION)?;
    (!is_made_by_the_api_server(uid)).then_some(uid.as_str())
}

/// Tells whether it is a UUID, which the API server gives to each object.
fn is_made_by_the_api_server(uid: &str) -> bool {
    let are_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups = uid.split('-').map(|group| (group.len(), are_digits(group)));
    groups.eq([8, 4, 4, 4, 12].map(|digits| (digits, true)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_the_api(None, "own")]
    #[case::hash(Some("7aa1b5fde7b4a2c29d7a1b5fde7b4a2c"), "7aa1b5fde7b4a2c29d7a1b5fde7b4a2c")]
    #[case::in_a_manifest(Some("static-uid"), "static-uid")]
    #[case::one_group_more(
        Some("0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2b11-a"),
        "0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2b11-a"
    )]
    #[case::no_digits(Some("0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2bxy"), "0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2bxy")]
    #[case::somebody_elses(Some("0cbbf9c8-5d6a-4c3e-9a47-1a0f3d1f2b11"), "own")]
    #[case::in_capitals(Some("0CBBF9C8-5D6A-4C3E-9A47-1A0F3D1F2B11"), "own")]
    fn whose_pod_it_is(#[case] mirrors: Option<&str>, #[case] expected: &str) {
        let annotations = mirrors.map(|uid| [(MIRROR_ANNOTATION.to_owned(), uid.to_owned())].into());
        let meta = ObjectMeta { uid: Some("own".to_owned()), annotations, ..ObjectMeta::default() };
        assert_eq!(identity(&meta), Some(expected));
    }
}
