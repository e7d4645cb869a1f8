//! Which decision a path asks for, and what it needs to know.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    path, pods, recreate,
    review::{Request, Verdict},
    server::Decide,
    sets::SetSeen,
    view::View,
};
use crate::telemetry::chain;

/// A pod that is not read within it is done without.
const READ_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// What decisions are made from.
pub(super) struct Handler {
    /// Reads a pod, and the white list.
    pub(super) client: Client,
    /// All SidecarSets.
    pub(super) sets: watch::Receiver<View<SetSeen>>,
    /// Labels of all namespaces.
    pub(super) namespaces: watch::Receiver<View<BTreeMap<String, String>>>,
    /// Whether every pod gets the readiness gate KruisePodReady.
    pub(super) pod_readiness_gate: bool,
}

impl Decide for Handler {
    async fn decide(&self, path: &'static str, request: &Request) -> Verdict {
        match path {
            path::REQUESTS => self.recreate(request).await,
            path::PODS => self.pod(request),
            _ => Verdict::AS_IT_IS,
        }
    }
}

impl Handler {
    fn pod(&self, request: &Request) -> Verdict {
        let mut pod = request.object.clone();
        if self.pod_readiness_gate {
            pods::add_readiness_gate(&mut pod);
        }
        Verdict::Allowed { object: Some(pod), warnings: Vec::new() }
    }

    /// The pod is read from the API server, now: the watched ones are kept without probes, hooks and ports,
    /// which thousands of pods would take memory with, and requests are rare.
    async fn recreate(&self, request: &Request) -> Verdict {
        let name = request.object.pointer("/spec/podName").and_then(Value::as_str).unwrap_or_default();
        let pod = if name.is_empty() || name.contains('/') { None } else { self.read(request, name).await };
        recreate::complete(request, pod.as_ref())
    }

    async fn read(&self, request: &Request, name: &str) -> Option<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &request.namespace);
        match timeout(READ_WITHIN, pods.get_opt(name)).await {
            Ok(Ok(pod)) => pod,
            Ok(Err(error)) => {
                debug!(error = chain(&error), "Pod of a request not read, the request is not completed");
                None
            }
            Err(_) => None,
        }
    }
}
