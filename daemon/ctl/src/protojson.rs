//! CRI types as protobuf's JSON: camelCase names, 64-bit integers as strings, enums by name. Only the fields
//! that Berth's subset of the CRI has.

use std::collections::BTreeMap;

use berth_proto::cri;
use serde::Serialize;

/// The answer of ListPodSandbox.
#[derive(Debug, Serialize)]
pub(crate) struct PodSandboxList {
    items: Vec<PodSandbox>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSandbox {
    id: String,
    metadata: PodSandboxMetadata,
    state: &'static str,
    created_at: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct PodSandboxMetadata {
    name: String,
    uid: String,
    namespace: String,
    attempt: u32,
}

/// The answer of ListContainers.
#[derive(Debug, Serialize)]
pub(crate) struct ContainerList {
    containers: Vec<Container>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    id: String,
    pod_sandbox_id: String,
    metadata: ContainerMetadata,
    image: ImageSpec,
    image_ref: String,
    state: &'static str,
    created_at: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct ContainerMetadata {
    name: String,
    attempt: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageSpec {
    image: String,
    annotations: BTreeMap<String, String>,
    user_specified_image: String,
    runtime_handler: String,
}

impl PodSandboxList {
    /// For printing.
    pub(crate) fn new(items: Vec<cri::PodSandbox>) -> Self {
        Self { items: items.into_iter().map(PodSandbox::from).collect() }
    }
}

impl ContainerList {
    /// For printing.
    pub(crate) fn new(containers: Vec<cri::Container>) -> Self {
        Self { containers: containers.into_iter().map(Container::from).collect() }
    }
}

impl From<cri::PodSandbox> for PodSandbox {
    fn from(sandbox: cri::PodSandbox) -> Self {
        let state = sandbox.state().as_str_name();
        let metadata = sandbox.metadata.unwrap_or_default();
        Self {
            id: sandbox.id,
            metadata: PodSandboxMetadata {
                name: metadata.name,
                uid: metadata.uid,
                namespace: metadata.namespace,
                attempt: metadata.attempt,
            },
            state,
            created_at: sandbox.created_at.to_string(),
            labels: sandbox.labels.into_iter().collect(),
            annotations: sandbox.annotations.into_iter().collect(),
        }
    }
}

impl From<cri::Container> for Container {
    fn from(container: cri::Container) -> Self {
        let state = container.state().as_str_name();
        let metadata = container.metadata.unwrap_or_default();
        let image = container.image.unwrap_or_default();
        Self {
            id: container.id,
            pod_sandbox_id: container.pod_sandbox_id,
            metadata: ContainerMetadata { name: metadata.name, attempt: metadata.attempt },
            image: ImageSpec {
                image: image.image,
                annotations: image.annotations.into_iter().collect(),
                user_specified_image: image.user_specified_image,
                runtime_handler: image.runtime_handler,
            },
            image_ref: container.image_ref,
            state,
            created_at: container.created_at.to_string(),
            labels: container.labels.into_iter().collect(),
            annotations: container.annotations.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_those_of_protojson() {
        let container = cri::Container {
            id: "c".into(),
            pod_sandbox_id: "s".into(),
            state: cri::ContainerState::ContainerRunning.into(),
            created_at: 1_700_000_000_000_000_000,
            ..cri::Container::default()
        };
        let json = serde_json::to_value(ContainerList::new(vec![container])).unwrap();
        let first = &json["containers"][0];
        assert_eq!(first["podSandboxId"], "s");
        assert_eq!(first["state"], "CONTAINER_RUNNING");
        assert_eq!(first["createdAt"], "1700000000000000000");
        assert_eq!(first["image"]["userSpecifiedImage"], "");

        let sandbox = cri::PodSandbox { state: 1, ..cri::PodSandbox::default() };
        let json = serde_json::to_value(PodSandboxList::new(vec![sandbox])).unwrap();
        assert_eq!(json["items"][0]["state"], "SANDBOX_NOTREADY");
    }
}
