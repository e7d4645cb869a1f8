//! Samples of CloneSets, UnitedDeployments, WorkloadSpreads and PersistentPodStates as they are: applied, and
//! seen through. Controllers and scheduler are Kubernetes' own; nodes are on paper, and pods are Ready when
//! the test says so.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{CloneSet, PersistentPodState, UnitedDeployment, WorkloadSpread};
use berth_tests::node::{ControlPlane, Manager, Replica, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::admission::{Door, install_admission};
use crate::api_server::node_of_zone;
use crate::case::{PATIENCE, end_now};

const SPACE: &str = "default";
const ZONE: &str = "topology.kubernetes.io/zone";
const SUBSET: &str = "apps.kruise.io/subset-name";
const NEXT: &str = "busybox:1.37";

struct Stage {
    client: Client,
    pods: Api<Pod>,
}

/// Place of a pod: its node, and the value of one of its labels.
type Place = (String, String);

impl Stage {
    /// The pods of an app, as their kubelets would have them: what has a node is Ready, what goes is gone.
    async fn live(&self, app: &str) -> Result<Vec<Pod>> {
        let mut there = Vec::new();
        for pod in self.pods.list(&ListParams::default().labels(&format!("app={app}"))).await? {
            let name = pod.name_any();
            if pod.metadata.deletion_timestamp.is_some() {
                end_now(&self.pods, &name).await?;
                continue;
            }
            let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if has_node && phase != Some("Running") {
                let status = json!({ "status": {
                    "phase": "Running",
                    "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                }});
                self.pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
            }
            there.push(pod);
        }
        Ok(there)
    }

    /// Waits until the pods of an app are in these places: zone of the node, value of a label, image, and how
    /// many are there. A zone that is empty stands for any.
    async fn are(&self, app: &str, label: &str, wanted: &[(&str, &str, &str, usize)]) -> Result<()> {
        await_condition(format!("{app}: {wanted:?}"), PATIENCE, async || {
            let mut found: BTreeMap<(String, String, String), usize> = BTreeMap::new();
            for pod in self.live(app).await? {
                let spec = pod.spec.as_ref().context("no spec")?;
                let node = spec.node_name.as_deref().context("without a node")?;
                let of = pod.labels().get(label).cloned().unwrap_or_default();
                let image = spec.containers.first().and_then(|one| one.image.clone()).unwrap_or_default();
                let named = wanted.iter().any(|(zone, value, ..)| zone.is_empty() && *value == of);
                let zone = if named { "" } else { node.split('-').next().unwrap_or_default() };
                *found.entry((zone.to_owned(), of, image)).or_default() += 1;
            }
            let wanted = wanted.iter().map(|(zone, of, image, count)| {
                (((*zone).to_owned(), (*of).to_owned(), (*image).to_owned()), *count)
            });
            ensure!(found == wanted.collect(), "{found:?}");
            Ok(())
        })
        .await
    }

    /// Applies a file as it is, as soon as the manager admits its kinds.
    async fn apply(&self, sample: &str) -> Result<()> {
        await_condition(format!("{sample} is taken"), PATIENCE, async || {
            deploy::apply(&self.client, sample).await.map(drop)
        })
        .await
    }

    /// Without an agent on its node a pod is made anew, where one would be updated in place.
    async fn clone_set(&self) -> Result<()> {
        self.apply("samples/clone-set.yaml").await?;
        self.are("frontend", "app", &[("", "frontend", "busybox:1.36", 3)]).await?;
        let sets: Api<CloneSet> = Api::namespaced(self.client.clone(), SPACE);
        let path = "/spec/template/spec/containers/0/image";
        let patch = json!([{ "op": "replace", "path": path, "value": NEXT }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        sets.patch("frontend", &PatchParams::default(), &patch).await.context("another image")?;
        let some = [("", "frontend", "busybox:1.36", 1), ("", "frontend", NEXT, 2)];
        self.are("frontend", "app", &some).await
    }

    async fn united_deployment(&self) -> Result<()> {
        let image = "busybox:1.36";
        deploy::apply_in(&self.client, "samples/united-deployment.yaml", SPACE).await?;
        let united: Api<UnitedDeployment> = Api::namespaced(self.client.clone(), SPACE);
        let all = [("a", "zone-a", image, 1), ("b", "zone-b", image, 3), ("", "anywhere", image, 2)];
        self.are("zones", SUBSET, &all).await?;
        self.says(&united, |status| status["readyReplicas"] == 6 && status["updatedReadyReplicas"] == 6)
            .await?;
        // Two pods of the second zone keep the old revision.
        let containers = json!([{ "op": "replace", "value": NEXT,
            "path": "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image" }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(containers)?);
        united.patch("zones", &PatchParams::default(), &patch).await.context("another image")?;
        let some = [
            ("a", "zone-a", NEXT, 1),
            ("b", "zone-b", image, 2),
            ("b", "zone-b", NEXT, 1),
            ("", "anywhere", NEXT, 2),
        ];
        self.are("zones", SUBSET, &some).await?;
        self.says(&united, |status| status["readyReplicas"] == 6 && status["updatedReadyReplicas"] == 4).await
    }

    async fn says(&self, united: &Api<UnitedDeployment>, holds: impl Fn(&Value) -> bool) -> Result<()> {
        await_condition("the UnitedDeployment says it", PATIENCE, async || {
            self.live("zones").await?;
            let object = united.get("zones").await?;
            let status = json!(object.status);
            ensure!(status["observedGeneration"] == json!(object.metadata.generation), "{status}");
            ensure!(holds(&status), "{status}");
            Ok(())
        })
        .await
    }

    /// The spread waits for its webhook entry, so the workload may follow at once.
    async fn workload_spread(&self) -> Result<()> {
        self.apply("samples/workload-spread.yaml").await?;
        self.are("web", "zone", &[("a", "a", "busybox:1.36", 3), ("b", "", "busybox:1.36", 2)]).await?;
        let spreads: Api<WorkloadSpread> = Api::namespaced(self.client.clone(), SPACE);
        await_condition("the spread says it", PATIENCE, async || {
            let status = spreads.get("web").await?.status.context("no status")?;
            let told: Vec<_> =
                status.subset_statuses.iter().map(|one| (one.name.as_str(), one.replicas)).collect();
            ensure!(told == [("zone-a", 3), ("zone-b", 2)], "{told:?}");
            Ok(())
        })
        .await
    }

    async fn pod_state(&self) -> Result<()> {
        self.apply("samples/persistent-pod-state.yaml").await?;
        let states: Api<PersistentPodState> = Api::namespaced(self.client.clone(), SPACE);
        let before = await_condition("all pods are recorded", PATIENCE, async || {
            let places = self.places().await?;
            let status = states.get("stays").await?.status.context("no status")?;
            for (name, (node, zone)) in &places {
                let state = status.pod_states.get(name).with_context(|| format!("no {name}"))?;
                ensure!(state.node_name.as_ref() == Some(node), "{name}: {state:?}");
                let labels = &state.node_topology_labels;
                ensure!(labels.get(ZONE) == Some(zone), "{name}: {state:?}");
                ensure!(labels.get("kubernetes.io/hostname") == Some(node), "{name}: {state:?}");
            }
            Ok(places)
        })
        .await?;
        for name in before.keys() {
            self.pods.delete(name, &DeleteParams::default()).await.context("delete a pod")?;
        }
        let after = await_condition("all pods are there again", PATIENCE, async || {
            let places = self.places().await?;
            for pod in self.live("stays").await? {
                let injected = pod.annotations().get("kruise.io/injected-persistent-pod-state");
                ensure!(injected.is_some_and(|name| name == "stays"), "{:?}", pod.annotations());
                let spec = pod.spec.as_ref().context("no spec")?;
                let (_, zone) = &before[&pod.name_any()];
                ensure!(spec.node_selector.as_ref().and_then(|all| all.get(ZONE)) == Some(zone), "{spec:?}");
                let preferred = json!(spec.affinity).to_string();
                ensure!(preferred.contains("kubernetes.io/hostname"), "{preferred}");
            }
            Ok(places)
        })
        .await?;
        ensure!(before == after, "{before:?}, then {after:?}");
        Ok(())
    }

    /// Nodes and zones of the three pods of the StatefulSet.
    async fn places(&self) -> Result<BTreeMap<String, Place>> {
        let mut places = BTreeMap::new();
        for pod in self.live("stays").await? {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("without a node")?;
            let zone = node.split('-').next().unwrap_or_default().to_owned();
            places.insert(pod.name_any(), (node, zone));
        }
        ensure!(places.len() == 3, "{places:?}");
        Ok(places)
    }
}

#[tokio::test]
async fn samples_of_spread_and_state_do_what_they_say() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::with_controllers("deployment,replicaset,statefulset").await?;
    let client = plane.client().await?;
    deploy::install(&client).await?;
    install_admission(&client, plane.run()).await?;
    for part in ["workloads", "spreads", "uniteddeployments", "podstates"] {
        deploy::apply(&client, &format!("{part}/role.yaml")).await?;
        deploy::apply(&client, &format!("{part}/policy.yaml")).await?;
        if part != "workloads" {
            deploy::add_conditions(&client, &format!("{part}/kustomization.yaml")).await?;
        }
    }
    let kubeconfig = async |who: &str| {
        let token = token::of(&client, who, None).await?;
        plane.api().kubeconfig_with(who, &token)
    };
    let _door = Door::open(plane.run()).await?;
    let of_manager = kubeconfig("berth-manager").await?;
    let manager = Manager::admitting(plane.run(), Replica::First, &of_manager, ("berth-system", 3)).await?;
    manager.leads().await?;
    let of_workloads = kubeconfig("berth-workloads").await?;
    let more = ["--spreads", "--united-deployments", "--pod-states"];
    let _workloads = Workloads::start_with(plane.run(), &of_workloads, "berth-system", &more).await?;
    let stage = Stage { pods: Api::namespaced(client.clone(), SPACE), client };
    for (node, zone) in [("a-1", "a"), ("a-2", "a"), ("b-1", "b"), ("b-2", "b")] {
        node_of_zone(&stage.client, node, zone).await?;
    }
    stage.clone_set().await.context("CloneSet")?;
    stage.workload_spread().await.context("WorkloadSpread")?;
    stage.united_deployment().await.context("UnitedDeployment")?;
    stage.pod_state().await.context("PersistentPodState")
}
