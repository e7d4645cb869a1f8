//! Requests to update a pod in place, as a client of the API makes them, and what came of them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{ContainerUpdateRequest, ContainerUpdateRequestStatus, UpdatePhase};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::node::NODE_NAME;
use crate::wait::await_condition;

/// The manager's name among the writers of a status.
const MANAGER: &str = "berth-manager";
/// Longer than an update takes on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(180);

/// A request that is to be made.
#[derive(Clone, Debug)]
pub struct Update {
    spec: Value,
}

impl Update {
    /// To update this pod.
    pub fn new(pod: &str) -> Self {
        Self { spec: json!({ "podName": pod }) }
    }

    /// Gives a container another image.
    pub fn image(mut self, container: &str, image: &str) -> Self {
        let entry = json!({ "name": container, "image": image });
        match &mut self.spec["containers"] {
            Value::Array(list) => list.push(entry),
            none => *none = json!([entry]),
        }
        self
    }

    /// Sets an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.spec["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Sets a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.spec["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets a field of `spec`.
    pub fn field(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec[field] = value.into();
        self
    }

    /// Makes the object, and no assignment.
    pub async fn create(&self, client: &Client, namespace: &str, name: &str) -> Result<Updated> {
        let object: ContainerUpdateRequest = serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "ContainerUpdateRequest",
            "metadata": { "namespace": namespace, "name": name },
            "spec": self.spec,
        }))?;
        let api: Api<ContainerUpdateRequest> = Api::namespaced(client.clone(), namespace);
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("create request {name}"))?;
        let pods = Api::namespaced(client.clone(), namespace);
        Ok(Updated { api, pods, name: name.to_owned(), pod: object.spec.pod_name })
    }

    /// Makes it, and assigns it as the manager does.
    pub async fn begin(&self, client: &Client, namespace: &str, name: &str) -> Result<Updated> {
        let updated = self.create(client, namespace, name).await?;
        updated.assign().await?;
        Ok(updated)
    }
}

/// A request that was made.
#[derive(Clone)]
pub struct Updated {
    api: Api<ContainerUpdateRequest>,
    pods: Api<Pod>,
    /// Its name.
    pub name: String,
    pod: String,
}

impl Updated {
    /// Assigns it as the manager does, for a node without one.
    pub async fn assign(&self) -> Result<()> {
        let pod = self.pods.get(&self.pod).await.with_context(|| format!("pod {}", self.pod))?;
        let apply = json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "ContainerUpdateRequest",
            "status": { "nodeName": NODE_NAME, "podUID": pod.metadata.uid },
        });
        let params = PatchParams::apply(MANAGER);
        let assigned = self.api.patch_status(&self.name, &params, &Patch::Apply(&apply)).await;
        assigned.with_context(|| format!("assign request {}", self.name)).map(drop)
    }

    /// As it is now; `None` when it is gone.
    pub async fn now(&self) -> Result<Option<ContainerUpdateRequest>> {
        Ok(self.api.get_opt(&self.name).await?)
    }

    /// Takes it back.
    pub async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await.context("delete a request")?;
        Ok(())
    }

    /// Waits until its status is accepted.
    pub async fn until(
        &self,
        what: &str,
        accept: impl Fn(&ContainerUpdateRequestStatus) -> Result<()>,
    ) -> Result<ContainerUpdateRequestStatus> {
        await_condition(format!("request {}: {what}", self.name), PATIENCE, async || {
            let request = self.api.get(&self.name).await?;
            let status = request.status.context("no status yet")?;
            accept(&status).with_context(|| serde_json::to_string(&status).unwrap_or_default())?;
            Ok(status)
        })
        .await
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Result<ContainerUpdateRequestStatus> {
        self.until("Completed", |status| {
            ensure!(status.phase == Some(UpdatePhase::Completed), "it is not over");
            Ok(())
        })
        .await
    }

    /// Waits for its end, which must be a good one.
    pub async fn succeeded(&self) -> Result<ContainerUpdateRequestStatus> {
        let status = self.ended().await?;
        let good = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Complete" && condition.status == "True");
        ensure!(good, "request {} failed: {}", self.name, serde_json::to_string(&status)?);
        Ok(status)
    }

    /// Waits for its end, which must be a failure with this reason.
    pub async fn failed(&self, reason: &str) -> Result<ContainerUpdateRequestStatus> {
        let status = self.ended().await?;
        let failure = status.conditions.iter().find(|condition| condition.type_ == "Failed");
        match failure {
            Some(failure) if failure.reason == reason && failure.status == "True" => Ok(status),
            _ => {
                bail!("request {} did not fail with {reason}: {}", self.name, serde_json::to_string(&status)?)
            }
        }
    }
}
