//! The watched kinds as the API server sends them, reduced while they are read.
//!
//! A pod is some kilobytes of JSON of which a hundred bytes count here, and a list brings thousands at once: what is not
//! named below is skipped by the parser and never kept. Nodes are asked for as metadata only.

mod images;
mod requests;

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug, marker::PhantomData};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::IgnoredAny};
use serde_json::Value;

pub use self::{
    images::{Jobs, NodeImages},
    requests::{Requests, Updates},
};
use crate::seen::{ContainerSeen, Kind, NodeSeen, Object, PodSeen, PodStage, Role};

/// A kind that can be watched trimmed.
pub trait Watchable: Clone + Debug + Send + Sync + 'static {
    /// Which one.
    const KIND: Kind;
    /// Its API group, empty for the core.
    const GROUP: &str;
    /// Its version.
    const VERSION: &str;
    /// Its name, as in `kind:`.
    const NAME: &str;
    /// Only metadata are read, so only metadata are asked for.
    const METADATA_ONLY: bool;
    /// With namespaces or without.
    type Scope;
    /// What is read of `spec`.
    type Spec: DeserializeOwned;
    /// What is read of `status`.
    type Status: DeserializeOwned;

    /// The object for the index.
    fn object(meta: &ObjectMeta, spec: Option<Self::Spec>, status: Option<Self::Status>) -> Object;
}

/// An object of a watched kind.
#[derive(Clone, Debug)]
pub struct Watched<W> {
    meta: ObjectMeta,
    object: Object,
    kind: PhantomData<W>,
}

impl<W> Watched<W> {
    /// What the index is told.
    pub fn into_object(self) -> Object {
        self.object
    }
}

impl<W: Watchable> Resource for Watched<W> {
    type DynamicType = ();
    type Scope = W::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        W::NAME.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        W::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        W::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        W::KIND.name().into()
    }

    fn metadata_api() -> bool {
        W::METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de, W: Watchable> Deserialize<'de> for Watched<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Envelope { metadata, spec, status } = Envelope::<W::Spec, W::Status>::deserialize(deserializer)?;
        let meta = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            owner_references: metadata.owner_references,
            ..ObjectMeta::default()
        };
        let object = W::object(&meta, spec, status);
        Ok(Self { meta, object, kind: PhantomData })
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: DeserializeOwned, T: DeserializeOwned"))]
struct Envelope<S, T> {
    metadata: Metadata,
    spec: Option<S>,
    status: Option<T>,
}

/// The rest, managed fields above all, is often the larger half of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

// === pods ===

/// Pods.
#[derive(Clone, Debug)]
pub struct Pods;

/// What is read of a pod's spec.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    restart_policy: Option<String>,
}

/// What is read of a pod's status.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    phase: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    #[serde(default)]
    restart_count: i32,
}

impl Watchable for Pods {
    const KIND: Kind = Kind::Pod;
    const GROUP: &str = "";
    const VERSION: &str = "v1";
    const NAME: &str = "Pod";
    const METADATA_ONLY: bool = false;
    type Scope = NamespaceResourceScope;
    type Spec = PodSpec;
    type Status = PodStatus;

    fn object(meta: &ObjectMeta, spec: Option<PodSpec>, status: Option<PodStatus>) -> Object {
        let status = status.unwrap_or_default();
        let stage = match status.phase.as_deref() {
            _ if meta.deletion_timestamp.is_some() => PodStage::Terminating,
            Some("Succeeded" | "Failed") => PodStage::Finished,
            _ => PodStage::Active,
        };
        let (node, containers, init) = spec
            .map_or_else(Default::default, |spec| (spec.node_name, spec.containers, spec.init_containers));
        let mut statuses: Vec<ContainerStatus> = status.container_statuses.unwrap_or_default();
        statuses.extend(status.init_container_statuses.unwrap_or_default());
        // Names are unique across containers and init containers of a pod.
        let mut with_status = |container: Container, role| {
            let status = statuses.iter_mut().find(|status| status.name == container.name);
            let (id, restarts) =
                status.map_or((None, 0), |status| (status.container_id.take(), status.restart_count));
            ContainerSeen { name: container.name, role, id, restarts }
        };
        let init = init.unwrap_or_default().into_iter().map(|container| {
            let always = container.restart_policy.as_deref() == Some("Always");
            (container, if always { Role::Sidecar } else { Role::Init })
        });
        let regular = containers.unwrap_or_default().into_iter().map(|container| (container, Role::Regular));
        Object::Pod(PodSeen {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            node,
            labels: meta.labels.clone().unwrap_or_default(),
            stage,
            containers: init.chain(regular).map(|(container, role)| with_status(container, role)).collect(),
        })
    }
}

// === nodes ===

/// Nodes.
#[derive(Clone, Debug)]
pub struct Nodes;

impl Watchable for Nodes {
    const KIND: Kind = Kind::Node;
    const GROUP: &str = "";
    const VERSION: &str = "v1";
    const NAME: &str = "Node";
    const METADATA_ONLY: bool = true;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = IgnoredAny;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, _: Option<IgnoredAny>) -> Object {
        Object::Node(NodeSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            labels: meta.labels.clone().unwrap_or_default(),
        })
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
