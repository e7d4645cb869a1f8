//! The objects a thief finds: some of node A, some of node B, some of nobody.

use anyhow::{Context, Result, ensure};
use berth_tests::node::{NODE_NAME, User, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::attempts::{Who, version};
use crate::api_server::{api_server, namespace, namespace_with};
use crate::case::PATIENCE;

/// Node A is the one whose credentials were stolen.
pub(super) const A: &str = NODE_NAME;
pub(super) const B: &str = "node-b";
pub(super) const NAMESPACE: &str = "stolen-token";
/// Where agents may write any label.
pub(super) const OPEN: &str = "stolen-token-open";
/// Keys that agents may write on the pods of [`NAMESPACE`].
const ALLOWED: &str = "allowed, example.com/,Listed";
/// Where the accounts of an installation are whose namespace was renamed.
const ELSEWHERE: &str = "berth-elsewhere";
/// The kubelet of node A.
pub(super) const KUBELET: &str = "system:node:localhost";

pub(super) struct World {
    admin: Client,
    agent: Client,
    unbound: Client,
    kubelet: Client,
    manager: Client,
    /// Identities that have roles of Berth and are none of it, and authors.
    others: Vec<(Who, Client)>,
    /// UID of Node A.
    pub(super) uid: String,
    /// UIDs of the agents' pods, of node A and of node B.
    pub(super) agents: [String; 2],
}

/// Names of the agents' pods.
pub(super) const AGENTS: [&str; 2] = ["agent-mine", "agent-theirs"];

impl World {
    pub(super) async fn make() -> Result<Self> {
        let api_server = api_server().await?;
        let admin = api_server.client().await?;
        namespace_with(&admin, NAMESPACE, json!({ "berth.dev/agent-labels": ALLOWED })).await?;
        namespace_with(&admin, OPEN, json!({ "berth.dev/agent-labels": "*" })).await?;
        for name in [ELSEWHERE, "kruise-system"] {
            namespace(&admin, name).await?;
        }
        deploy::apply(&admin, "manager/admission.yaml").await?;
        let nodes: Api<Node> = Api::all(admin.clone());
        for name in [A, B] {
            let node =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "zone": "a" } } }))?;
            nodes.create(&PostParams::default(), &node).await.context("make a node")?;
            // Room for what is asked: otherwise that is what an attempt is refused for.
            let room = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
            let status = Patch::Merge(json!({ "status": { "capacity": room, "allocatable": room } }));
            nodes.patch_status(name, &PatchParams::default(), &status).await.context("room on a node")?;
        }
        let uid = nodes.get(A).await?.uid().context("a node without UID")?;
        let agents = [agent_pod(&admin, AGENTS[0], A).await?, agent_pod(&admin, AGENTS[1], B).await?];
        let agent = token::of(&admin, "berth-agent", Some(A)).await?;
        let unbound = token::of(&admin, "berth-agent", None).await?;
        let manager = token::of(&admin, "berth-manager", None).await?;
        let world = Self {
            agent: api_server.api().client_with("agent", &agent).await?,
            unbound: api_server.api().client_with("unbound", &unbound).await?,
            kubelet: api_server.api().client(User::Node).await?,
            manager: api_server.api().client_with("manager", &manager).await?,
            others: others(&admin).await?,
            admin,
            uid,
            agents,
        };
        world.fill().await?;
        world.fill_selected().await?;
        Ok(world)
    }

    pub(super) fn client(&self, who: Who) -> &Client {
        match who {
            Who::Agent => &self.agent,
            Who::Unbound => &self.unbound,
            Who::Kubelet => &self.kubelet,
            Who::Manager => &self.manager,
            // They have no token; the administrator speaks for them.
            Who::InGroup | Who::ByName => &self.admin,
            Who::Moved | Who::Renamed | Who::MovedManager | Who::Local | Who::Author | Who::OpenKruise => {
                let found = self.others.iter().find(|(other, _)| *other == who);
                &found.expect("a client for each of them").1
            }
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
        let probe = json!({ "name": "p", "containerName": "a", "podConditionType": "example.com/x",
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

    /// Objects that select pods that the thief has none of, and a pod where all labels may be written.
    async fn fill_selected(&self) -> Result<()> {
        let labels = json!({ "metadata": { "labels": {
            "app": "mine", "pod-template-hash": "1", "controller-revision-hash": "1" } } });
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), NAMESPACE);
        pods.patch("mine", &PatchParams::default(), &Patch::Merge(labels)).await.context("labels")?;
        let selected = json!({ "app": "theirs", "pod-template-hash": "2" });
        let template = json!({ "metadata": { "labels": selected }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
        let set = json!({ "spec": { "replicas": 0, "selector": { "matchLabels": selected }, "template": template } });
        self.object("apps/v1", "ReplicaSet", "theirs", set, None).await?;
        let service = json!({ "spec": { "selector": { "app": "theirs" }, "ports": [{ "port": 80 }] } });
        self.object("v1", "Service", "theirs", service, None).await?;
        let policy = json!({ "spec": { "podSelector": { "matchLabels": { "role": "db" } }, "ingress": [] } });
        self.object("networking.k8s.io/v1", "NetworkPolicy", "theirs", policy, None).await?;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "mine", "labels": { "pod-template-hash": "1" } },
            "spec": { "nodeName": A, "containers": [{ "name": "a", "image": "registry.example/a:1" }] },
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), OPEN);
        pods.create(&PostParams::default(), &pod).await.context("a pod where all is allowed")?;
        // One that a CloneSet updates in place.
        let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web",
            "uid": "u", "controller": true });
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "cloned", "ownerReferences": [owner],
                "labels": { "pod-template-hash": "a1", "controller-revision-hash": "web-a1" } },
            "spec": { "nodeName": A, "containers": [{ "name": "a", "image": "registry.example/a:1" }] },
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), NAMESPACE);
        pods.create(&PostParams::default(), &pod).await.context("a pod of a CloneSet")?;
        Ok(())
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

    /// As an administrator does for nodes where berthd is a service.
    pub(super) async fn let_tokens_be_renewed(&self) -> Result<()> {
        deploy::apply(&self.admin, "token-renewal").await.map(drop)
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
        // The authorizer follows a watch: it knows the binding when a read that only an admin may do
        // succeeds.
        for client in [&self.agent, &self.manager] {
            let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
            await_condition("the binding counts", PATIENCE, async || Ok(secrets.get("secret").await?))
                .await?;
        }
        Ok(())
    }
}

/// Makes a pod of the account berth-agent, as that of a DaemonSet. Returns its UID.
async fn agent_pod(admin: &Client, name: &str, node: &str) -> Result<String> {
    let spec = json!({ "nodeName": node, "serviceAccountName": "berth-agent",
        "volumes": [{ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
        "automountServiceAccountToken": false, "containers": [{ "name": "a", "image": "registry.example/a:1" }] });
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "berth-system");
    let made = pods.create(&PostParams::default(), &pod).await.context("make an agent's pod")?;
    made.uid().context("a pod without UID")
}

/// Accounts that have roles of Berth under another name, and authors of objects.
async fn others(admin: &Client) -> Result<Vec<(Who, Client)>> {
    let api = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let rules = json!([
        api("apps.kruise.io", &["*/status"], &["patch", "update"]),
        api("berth.dev", &["*/status"], &["patch", "update"]),
        api("apps.kruise.io", &["containerrecreaterequests", "podprobemarkers"], &["create", "patch", "update"]),
        api("berth.dev", &["containerupdaterequests"], &["create", "patch", "update"]),
        api("", &["pods"], &["get", "list", "watch"]),
        { "apiGroups": [""], "resources": ["pods"], "resourceNames": ["disposable"], "verbs": ["delete"] },
    ]);
    let role = json!({ "apiVersion": RBAC, "kind": "ClusterRole", "metadata": { "name": "author" }, "rules": rules });
    deploy::apply_object(admin, &serde_json::from_value(role)?).await?;
    deploy::apply(admin, "openkruise").await?;
    let table = [
        (Who::Moved, ELSEWHERE, "berth-agent", "berth-agent"),
        (Who::Renamed, "berth-system", "agent", "berth-agent"),
        (Who::MovedManager, ELSEWHERE, "berth-manager", "berth-manager"),
        (Who::Local, NAMESPACE, "local", "berth-agent"),
        (Who::Author, NAMESPACE, "author", "author"),
        (Who::OpenKruise, "kruise-system", "kruise-manager", "author"),
    ];
    let mut clients = Vec::new();
    for (who, namespace, name, role) in table {
        let account = json!({ "metadata": { "name": name } });
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
        accounts
            .create(&PostParams::default(), &serde_json::from_value(account)?)
            .await
            .context("account")?;
        let subject = json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name });
        let within = (who == Who::Local).then_some(NAMESPACE);
        bind(admin, &format!("test-{namespace}-{name}"), within, role, subject).await?;
        let node = Api::<Node>::all(admin.clone()).get(A).await?;
        let bound = json!({ "kind": "Node", "apiVersion": "v1", "name": A, "uid": node.uid() });
        let spec: TokenRequestSpec =
            serde_json::from_value(json!({ "audiences": [], "boundObjectRef": bound }))?;
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let token = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let token = token.status.context("a token without a status")?.token;
        clients.push((who, api_server().await?.api().client_with(name, &token).await?));
    }
    bind(
        admin,
        "test-by-name",
        None,
        "berth-kubelet",
        json!({ "apiGroup": RBAC_GROUP, "kind": "User", "name": KUBELET }),
    )
    .await?;
    for (_, namespace, name, _) in table {
        may_write(admin, &format!("system:serviceaccount:{namespace}:{name}")).await?;
    }
    may_write(admin, KUBELET).await?;
    Ok(clients)
}

/// Waits until the authorizer, which follows a watch, knows that this user may write what requests say.
async fn may_write(admin: &Client, user: &str) -> Result<()> {
    let attributes = json!({ "group": "apps.kruise.io", "resource": "containerrecreaterequests",
        "subresource": "status", "verb": "patch", "namespace": NAMESPACE });
    let question: SubjectAccessReview =
        serde_json::from_value(json!({ "spec": { "user": user, "resourceAttributes": attributes } }))?;
    let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
    await_condition(format!("{user} has its role"), PATIENCE, async || {
        let answer = reviews.create(&PostParams::default(), &question).await.context("ask for its rights")?;
        ensure!(answer.status.is_some_and(|status| status.allowed), "not yet");
        Ok(())
    })
    .await
}

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// In one namespace, or in the whole cluster.
async fn bind(admin: &Client, name: &str, within: Option<&str>, role: &str, subject: Value) -> Result<()> {
    let kind = if within.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": RBAC, "kind": kind, "metadata": { "name": name, "namespace": within },
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    }))?;
    deploy::apply_object(admin, &object).await.map(drop)
}
