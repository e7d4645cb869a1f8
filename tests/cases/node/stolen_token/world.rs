//! The objects a thief finds: some of node A, some of node B, some of nobody.

use anyhow::{Context, Result};
use berth_tests::node::{NODE_NAME, User, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::attempts::{Who, version};
use crate::case::PATIENCE;
use crate::centre::{centre, namespace};

/// Node A is the one whose credentials were stolen.
pub(super) const A: &str = NODE_NAME;
pub(super) const B: &str = "node-b";
pub(super) const NAMESPACE: &str = "stolen-token";

pub(super) struct World {
    admin: Client,
    agent: Client,
    unbound: Client,
    kubelet: Client,
    manager: Client,
    /// Of Node A.
    pub(super) uid: String,
}

impl World {
    pub(super) async fn make() -> Result<Self> {
        let centre = centre().await?;
        let admin = centre.client().await?;
        namespace(&admin, NAMESPACE).await?;
        let nodes: Api<Node> = Api::all(admin.clone());
        for name in [A, B] {
            let node =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "zone": "a" } } }))?;
            nodes.create(&PostParams::default(), &node).await.context("make a node")?;
        }
        let uid = nodes.get(A).await?.uid().context("a node without UID")?;
        let agent = token::of(&admin, "berth-agent", Some(A)).await?;
        let unbound = token::of(&admin, "berth-agent", None).await?;
        let manager = token::of(&admin, "berth-manager", None).await?;
        let world = Self {
            agent: centre.api().client_with("agent", &agent).await?,
            unbound: centre.api().client_with("unbound", &unbound).await?,
            kubelet: centre.api().client(User::Node).await?,
            manager: centre.api().client_with("manager", &manager).await?,
            admin,
            uid,
        };
        world.fill().await?;
        Ok(world)
    }

    pub(super) fn client(&self, who: Who) -> &Client {
        match who {
            Who::Agent => &self.agent,
            Who::Unbound => &self.unbound,
            Who::Kubelet => &self.kubelet,
            Who::Manager => &self.manager,
        }
    }

    async fn fill(&self) -> Result<()> {
        for (name, node) in [("mine", A), ("theirs", B)] {
            let resources = json!({ "requests": { "cpu": "10m" } });
            let containers =
                json!([{ "name": "a", "image": "registry.example/a:1", "resources": resources }]);
            let before = json!([{ "name": "i", "image": "registry.example/i:1" }]);
            let spec = json!({ "nodeName": node, "containers": containers, "initContainers": before });
            let conditions = json!([{ "type": "ContainersReady", "status": "False" }]);
            let status = json!({ "phase": "Running", "conditions": conditions });
            self.object("v1", "Pod", name, json!({ "spec": spec }), Some(status)).await?;
        }
        let recreating = json!({ "phase": "Recreating",
            "containerRecreateStates": [{ "name": "a", "phase": "Recreating" }] });
        let was = json!([{ "name": "a", "image": "registry.example/a:0" }]);
        let updating = json!({ "phase": "Updating", "previous": { "containers": was },
            "containerUpdateStates": [{ "name": "a", "phase": "Updating" }] });
        let assigned = |node: &str| json!({ "nodeName": node, "podUID": "u" });
        let finished = |node: &str| json!({ "nodeName": node, "phase": "Completed", "completionTime": "2026-07-02T10:00:00Z" });
        let requests = [
            ("mine", Some(assigned(A))),
            ("mine-done", Some(finished(A))),
            ("done-agent", Some(finished(A))),
            ("done-kubelet", Some(finished(A))),
            ("theirs", Some(assigned(B))),
            ("theirs-done", Some(finished(B))),
            ("unassigned", None),
            ("new", None),
        ];
        for (name, status) in requests {
            let asked = json!({ "name": "a", "image": "registry.example/a:1" });
            for (kind, container, answer) in [
                ("ContainerRecreateRequest", json!({ "name": "a" }), &recreating),
                ("ContainerUpdateRequest", asked, &updating),
            ] {
                let spec = json!({ "podName": "mine", "containers": [container] });
                let mut status = status.clone();
                if let Some(status) = status.as_mut().filter(|status| status["completionTime"].is_null()) {
                    for (field, value) in answer.as_object().into_iter().flatten() {
                        status[field] = value.clone();
                    }
                }
                self.berth(kind, name, json!({ "spec": spec }), status).await?;
            }
        }
        let job = json!({ "image": "registry.example/a:1", "completionPolicy": {} });
        self.berth("ImagePullJob", "job", json!({ "spec": job.clone() }), None).await?;
        let ttl =
            json!({ "image": "registry.example/a:1", "completionPolicy": { "ttlSecondsAfterFinished": 1 } });
        for (name, spec) in [("done-with-ttl", &ttl), ("done", &job)] {
            let status = json!({ "completionTime": "2026-07-02T10:00:00Z" });
            self.berth("ImagePullJob", name, json!({ "spec": spec }), Some(status)).await?;
        }
        self.berth("ImagePullJob", "with-ttl", json!({ "spec": ttl }), None).await?;
        let probe = json!({ "name": "p", "containerName": "a", "podConditionType": "x",
            "probe": { "exec": { "command": ["true"] } } });
        let marker = json!({ "selector": { "matchLabels": { "a": "b" } }, "probes": [probe] });
        self.berth("PodProbeMarker", "marker", json!({ "spec": marker }), None).await?;
        self.berth("NodeImage", B, json!({}), None).await?;
        self.berth("NodePodProbe", B, json!({}), None).await?;
        self.berth("NodePodUpdate", B, json!({}), None).await?;
        self.object("v1", "Secret", "secret", json!({}), None).await?;
        self.object("coordination.k8s.io/v1", "Lease", "lease", json!({}), None).await?;
        let event = json!({
            "eventTime": "2026-07-02T10:00:00.000000Z", "action": "Test", "reason": "Test", "type": "Normal",
            "reportingController": "berth.dev/agent", "reportingInstance": B,
            "regarding": { "kind": "Pod", "namespace": NAMESPACE, "name": "theirs" },
        });
        self.object("events.k8s.io/v1", "Event", "of-b", event, None).await
    }

    async fn berth(&self, kind: &str, name: &str, object: Value, status: Option<Value>) -> Result<()> {
        self.object(version(kind), kind, name, object, status).await
    }

    async fn object(
        &self,
        version: &str,
        kind: &str,
        name: &str,
        mut object: Value,
        status: Option<Value>,
    ) -> Result<()> {
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({ "name": name, "labels": { "made-by": "admin" } });
        if !["NodeImage", "NodePodProbe", "NodePodUpdate"].contains(&kind) {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        let api = deploy::api(&self.admin, &object)?;
        api.create(&PostParams::default(), &object).await.with_context(|| format!("make {kind} {name}"))?;
        if let Some(status) = status {
            let patch = Patch::Merge(json!({ "status": status }));
            let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
            patched.with_context(|| format!("status of {kind} {name}"))?;
        }
        Ok(())
    }

    /// Roles that nobody should have bound.
    pub(super) async fn make_thieves_admins(&self) -> Result<()> {
        let subjects = ["berth-agent", "berth-manager"]
            .map(|name| json!({ "kind": "ServiceAccount", "namespace": "berth-system", "name": name }));
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "thieves" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": subjects,
        }))?;
        let api = deploy::api(&self.admin, &object)?;
        api.create(&PostParams::default(), &object).await.context("bind cluster-admin")?;
        // The authorizer follows a watch: it knows the binding when a read that only an admin may do succeeds.
        for client in [&self.agent, &self.manager] {
            let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
            await_condition("the binding counts", PATIENCE, async || Ok(secrets.get("secret").await?))
                .await?;
        }
        Ok(())
    }
}
