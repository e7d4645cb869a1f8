//! The cluster in which both controllers act, and their kinds as the bench uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::node::{ControlPlane, User, Workloads, crds, programs};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};

use super::nodes::Nodes;
use crate::agents::{Agents, Upgrade};

pub(super) const NAMESPACE: &str = "shop";
/// Controllers that Deployments and StatefulSets need. Without a kubelet those of nodes take pods for lost.
const CONTROLLERS: &str = "deployment,replicaset,statefulset,serviceaccount,garbagecollector";
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    CloneSet,
    /// One whose updates are new pods.
    RecreatedCloneSet,
    Deployment,
    /// OpenKruise's kind.
    AdvancedStatefulSet,
    StatefulSet,
}

impl Kind {
    fn types(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CloneSet | Self::RecreatedCloneSet => ("apps.kruise.io", "v1alpha1", "CloneSet"),
            Self::Deployment => ("apps", "v1", "Deployment"),
            Self::AdvancedStatefulSet => ("apps.kruise.io", "v1beta1", "StatefulSet"),
            Self::StatefulSet => ("apps", "v1", "StatefulSet"),
        }
    }

    /// Fields beside replicas, selector and template. It rolls out in place, or by other pods, a fifth of
    /// them at a time; one after the other where the API server takes no `maxUnavailable` of a StatefulSet.
    fn fields(self) -> Value {
        match self {
            Self::CloneSet => {
                json!({ "updateStrategy": { "type": "InPlaceIfPossible", "maxUnavailable": "20%" } })
            }
            Self::RecreatedCloneSet => {
                json!({ "updateStrategy": { "type": "ReCreate", "maxUnavailable": "20%" } })
            }
            Self::Deployment => json!({ "strategy": {
                "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "20%", "maxSurge": 0 },
            } }),
            Self::AdvancedStatefulSet => json!({
                "serviceName": "shop", "podManagementPolicy": "Parallel",
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": {
                    "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "20%",
                } },
            }),
            Self::StatefulSet => json!({
                "serviceName": "shop", "podManagementPolicy": "Parallel",
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "20%" } },
            }),
        }
    }
}

pub(super) struct Scene {
    agents: Agents,
    _nodes: Nodes,
    workloads: Workloads,
    client: Client,
    plane: ControlPlane,
}

impl Scene {
    /// Brings everything up; without native controllers where nobody needs them. `options`: of
    /// berth-workloads.
    pub(super) async fn set(nodes: u32, native: bool, options: &[&str]) -> Result<Self> {
        // Building it is not its start.
        programs::workloads()?;
        let plane = match native {
            true => ControlPlane::with_controllers(CONTROLLERS).await?,
            false => ControlPlane::without_controllers().await?,
        };
        let client = plane.client().await?;
        crds::install(&client).await?;
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let agents = match native {
            // What rolls out is counted without the first sign of life of each agent.
            true => Agents::start_warm(&plane, &client, nodes, Upgrade::Workloads).await?,
            false => Agents::start(&plane, &client, nodes, Upgrade::Workloads).await?,
        };
        let of_paper = Nodes::start(&client, nodes).await?;
        let kubeconfig = plane.api().kubeconfig(User::Admin)?;
        let workloads = Workloads::start_with(plane.run(), &kubeconfig, "default", options).await?;
        Ok(Self { agents, _nodes: of_paper, workloads, client, plane })
    }

    pub(super) fn workloads(&self) -> &Workloads {
        &self.workloads
    }

    pub(super) fn down(self) -> Result<()> {
        drop((self.agents, self._nodes, self.workloads, self.client));
        self.plane.down()
    }

    /// Writes of berth-workloads and of agents to pods and entries, until now.
    pub(super) async fn writes(&self) -> Result<f64> {
        let mut own = self.own_writes().await?;
        // Writes of entries are among those that the agents see.
        own -= self.workloads.metric_of("berth_workloads_writes_total", "what=\"nodepodupdate\"").await?;
        Ok(own + f64::from(self.agents.writes()))
    }

    /// Writes of berth-workloads, the Lease aside.
    pub(super) async fn own_writes(&self) -> Result<f64> {
        let mut all = self.workloads.metric("berth_workloads_writes_total").await?;
        for read in ["what=\"nodepodupdate_read\"", "what=\"read\""] {
            all -= self.workloads.metric_of("berth_workloads_writes_total", read).await?;
        }
        Ok(all)
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (group, version, kind) = kind.types();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    pub(super) async fn make(&self, kind: Kind, name: &str, replicas: u32) -> Result<()> {
        let (group, version, of) = kind.types();
        let mut object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": of, "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels(kind, name) },
                "template": {
                    "metadata": { "labels": labels(kind, name) },
                    "spec": { "containers": [{
                        "name": "app", "image": image("1.2.3"),
                        "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
                    }] },
                },
            },
        });
        if let (Some(spec), Value::Object(fields)) = (object["spec"].as_object_mut(), kind.fields()) {
            spec.extend(fields);
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        self.api(kind).create(&PostParams::default(), &object).await.context("make a workload")?;
        Ok(())
    }

    pub(super) async fn roll_out(&self, kind: Kind, name: &str, round: u32) -> Result<()> {
        let patch = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image",
            "value": image(&format!("2.{round}")) }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.context("set the image")?;
        Ok(())
    }

    /// All pods have the newest template, and are ready.
    pub(super) async fn ready(&self, kind: Kind, name: &str, replicas: u32) -> Result<()> {
        await_condition(format!("{kind:?} {name} is ready"), PATIENCE, async || {
            let object = self.api(kind).get(name).await?;
            let status = &object.data["status"];
            let generation = object.metadata.generation;
            ensure!(status["observedGeneration"].as_i64() == generation, "not seen: {status}");
            let all = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                .into_iter()
                .all(|field| status[field].as_u64() == Some(u64::from(replicas)));
            ensure!(all, "{status}");
            Ok(())
        })
        .await
    }

    /// Removes it, and waits until its pods are gone.
    pub(super) async fn remove(&self, kind: Kind, name: &str) -> Result<()> {
        self.api(kind).delete(name, &DeleteParams::background()).await.context("remove a workload")?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let labels = labels(kind, name);
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let of_it = ListParams::default().labels(&labels.join(",")).limit(1);
        await_condition("its pods are gone", PATIENCE, async || {
            ensure!(pods.list_metadata(&of_it).await?.items.is_empty(), "there are some");
            Ok(())
        })
        .await
    }
}

fn labels(kind: Kind, name: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([("app", name.to_owned()), ("kind", format!("{kind:?}"))])
}

fn image(tag: &str) -> String {
    format!("registry.example.com/shop/app:{tag}")
}
