//! The agent's side towards the API server, without the agent's other sides: the test decides what it writes.

use std::sync::Arc;

use anyhow::{Context, Result};
use berth_policy::{ContainerName, ContainerPhase, ContainerProgress, RecreateReport, RequestPhase};
use berth_proto::crd::ContainerRecreateRequest;
use berth_tests::node::{NODE_NAME, Node, User, crds};
use berth_tests::wait::await_condition;
use berthd::agent::Agent;
use berthd::agent::metrics::AgentMetrics;
use berthd::agent::store::Store;
use berthd::cluster::Cluster;
use berthd::cluster::identity::{Identity, IdentityState};
use berthd::cluster::metrics::ClusterMetrics;
use berthd::config::Configuration;
use berthd::recreate::api::{ApiRequests, WatchHealth};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, CustomResourceExt, Resource, ResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::case::{Case, PATIENCE};

/// A side that does nothing yet.
pub(super) struct Prepared {
    cluster: Cluster,
    requests: ApiRequests,
    agent: Arc<Agent>,
    registry: Registry,
    pub(super) dir: TempDir,
}

/// A running side. Ends when it is dropped.
pub(super) struct Side {
    pub(super) cluster: Cluster,
    pub(super) requests: ApiRequests,
    registry: Registry,
    pub(super) dir: TempDir,
    shutdown: DropGuard,
}

impl Prepared {
    pub(super) fn run(self) -> Side {
        let shutdown = CancellationToken::new();
        tokio::spawn(self.cluster.clone().run(shutdown.clone()));
        tokio::spawn(self.requests.clone().run(self.agent, shutdown.clone()));
        Side {
            cluster: self.cluster,
            requests: self.requests,
            registry: self.registry,
            dir: self.dir,
            shutdown: shutdown.drop_guard(),
        }
    }
}

impl Side {
    /// Acts as `user`; `more` are further lines of the configuration, in which `DIR` is a directory of its
    /// own.
    pub(super) fn start(node: &Node, user: User, more: &str) -> Result<Self> {
        Ok(Self::prepare(node, user, more)?.run())
    }

    /// The same, not running yet.
    pub(super) fn prepare(node: &Node, user: User, more: &str) -> Result<Prepared> {
        let dir = tempfile::tempdir()?;
        let text = format!(
            "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\npodView: {{kubeconfig: {}}}\n{}",
            node.api()?.kubeconfig(user)?.display(),
            more.replace("DIR", &dir.path().display().to_string())
        );
        let file = dir.path().join("berthd.yaml");
        std::fs::write(&file, text)?;
        let config = Configuration::read(&file)?.check()?;
        let mut registry = Registry::default();
        let metrics = AgentMetrics::register(&mut registry);
        let store = Arc::new(Store::open(dir.path())?);
        let agent = Arc::new(Agent::new(berth_policy::Config::default(), store, metrics));
        let cluster = Cluster::new(&config, NODE_NAME.to_owned(), ClusterMetrics::register(&mut registry));
        let requests = ApiRequests::new(cluster.clone());
        Ok(Prepared { cluster, requests, agent, registry, dir })
    }

    /// Waits until the watch of requests follows.
    pub(super) async fn follows(&self) -> Result<()> {
        let mut health = self.requests.health();
        let followed = health.wait_for(|health| *health == WatchHealth::Follows);
        tokio::time::timeout(PATIENCE, followed).await.context("the request watch does not follow")??;
        Ok(())
    }

    /// Waits until it knows who it is.
    pub(super) async fn identity(&self) -> Result<Identity> {
        let mut identity = self.cluster.identity();
        let known = identity.wait_for(|state| matches!(state, IdentityState::Known(_)));
        let known = tokio::time::timeout(PATIENCE, known).await.context("the identity is not known")??;
        match &*known {
            IdentityState::Known(identity) => Ok(identity.clone()),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Stops watching: from now on it sees nothing new by itself. Its metrics are counted in the registry.
    pub(super) fn stop_watching(self) -> (ApiRequests, Registry) {
        drop(self.shutdown);
        (self.requests, self.registry)
    }
}

/// Installs the kind, and lets the node's identity see and answer requests.
pub(super) async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = ContainerRecreateRequest::crd();
    let name = definition.name_any();
    let params = PatchParams::apply("tests").force();
    definitions.patch(&name, &params, &Patch::Apply(&definition)).await.context("install the kind")?;
    await_condition("the kind is served", PATIENCE, async || crds::is_served(&definitions.get(&name).await?))
        .await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "cluster-mode" },
        "rules": [
            { "apiGroups": ["apps.kruise.io"], "resources": ["containerrecreaterequests"], "verbs": ["get", "list", "watch", "delete"] },
            { "apiGroups": ["apps.kruise.io"], "resources": ["containerrecreaterequests/status"], "verbs": ["patch"] },
        ],
    });
    apply(
        &Api::all(client.clone()),
        serde_json::from_value::<k8s_openapi::api::rbac::v1::ClusterRole>(role)?,
    )
    .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "cluster-mode" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-mode" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes" }],
    });
    apply(
        &Api::all(client.clone()),
        serde_json::from_value::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(binding)?,
    )
    .await
}

/// Applies an object, however often.
pub(super) async fn apply<K>(api: &Api<K>, object: K) -> Result<()>
where
    K: Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams::apply("tests").force();
    api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.context("apply")?;
    Ok(())
}

/// Objects of the test's namespace.
pub(super) fn namespaced<K>(case: &Case, client: &Client) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), &case.namespace)
}

/// A request about container `a`, assigned to this node as the manager does it.
pub(super) async fn assigned(
    requests: &Api<ContainerRecreateRequest>,
    name: &str,
    contexts: Value,
) -> Result<ContainerRecreateRequest> {
    let request = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": name },
        "spec": { "podName": "pod", "containers": [{ "name": "a" }] },
    });
    requests
        .create(&Default::default(), &serde_json::from_value(request)?)
        .await
        .context("create a request")?;
    let status = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": name },
        "status": { "nodeName": NODE_NAME, "podUID": "p-1", "containerStatusContexts": contexts },
    });
    let params = PatchParams::apply("berth-manager").force();
    requests.patch_status(name, &params, &Patch::Apply(status)).await.context("assign a request")
}

/// The instance of container `a` that is to be replaced.
pub(super) fn context_of_a() -> Value {
    json!([{ "name": "a", "containerID": "containerd://abc", "restartCount": 0 }])
}

/// Makes the report of a node about container `a`.
pub(super) fn progress(phase: RequestPhase, container: ContainerPhase) -> RecreateReport {
    let a = ContainerProgress {
        name: ContainerName::from("a"),
        phase: container,
        message: String::new(),
        killed: true,
    };
    RecreateReport { phase: Some(phase), containers: vec![a], ..RecreateReport::default() }
}
