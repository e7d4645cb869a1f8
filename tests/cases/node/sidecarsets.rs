//! SidecarSets from one end to the other: the admission server injects, the manager counts and asks, the
//! agent of the node upgrades, and the kubelet restarts the sidecar alone.

mod forged;
mod together;
mod upgradable;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet, SidecarSetStatus};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{Manager, NODE_NAME, Replica, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::admission::{Door, install_admission};
use crate::case::{Case, ENDS_AT_ONCE, PATIENCE, container, run_updating_alone};
use crate::probes;

const SET: &str = "logs";
const LABEL: &str = "injects";

struct Stage<'a> {
    case: &'a Case,
    sets: Api<SidecarSet>,
    updates: Api<NodePodUpdate>,
}

impl Stage<'_> {
    async fn status(
        &self,
        what: &str,
        holds: impl Fn(&SidecarSetStatus) -> bool,
    ) -> Result<SidecarSetStatus> {
        await_condition(format!("SidecarSet {SET}: {what}"), PATIENCE, async || {
            let set = self.sets.get(SET).await?;
            let status = set.status.clone().context("no status")?;
            ensure!(status.observed_generation == set.metadata.generation && holds(&status), "{status:?}");
            Ok(status)
        })
        .await
    }

    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    /// A pod that the set selects.
    fn manifest(&self, name: &str) -> PodManifest {
        self.case.manifest(name).label(LABEL, "logs").container(Container::new("app"))
    }

    /// Makes a pod that the set selects; it comes up with its sidecar.
    async fn pod(&self, name: &str) -> Result<Pod> {
        self.case.create(&self.manifest(name)).await?;
        let pod = self.case.await_ready(name).await?;
        ensure!(containers(&pod) == ["log", "app"], "{:?}", containers(&pod));
        Ok(pod)
    }

    /// Waits until the sidecar of a pod runs this image, and tells how often its containers were restarted.
    async fn upgraded(&self, name: &str, image: &str) -> Result<(i32, i32)> {
        let pod = self
            .case
            .await_pod(name, &format!("runs {image}"), |pod| {
                let log = container(pod, "log")?;
                ensure!(log.ready && log.image.ends_with(image), "{log:?}");
                Ok(())
            })
            .await?;
        Ok((container(&pod, "log")?.restart_count, container(&pod, "app")?.restart_count))
    }
}

fn containers(pod: &Pod) -> Vec<&str> {
    pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| &*container.name).collect()
}

fn sidecar(image: &str) -> Value {
    json!({ "name": "log", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE] })
}

#[tokio::test]
async fn sidecars_are_upgraded_in_place() -> Result<()> {
    run_updating_alone("sidecars_are_upgraded_in_place", async |case: &Case| {
        let client = case.node.client().await?;
        install_admission(&client, case.node.run()).await?;
        let _door = Door::open(case.node.run()).await?;
        let token = token::of(&client, "berth-manager", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-manager", &token)?;
        // The Lease of whatever manager other cases have left: every replica injects, the leader asks.
        let lease = ("berth-system", 15);
        let manager = Manager::admitting(case.node.run(), Replica::Second, &kubeconfig, lease).await?;
        let white_list = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kruise-configuration" },
            "data": { "SidecarSet_PatchPodMetadata_WhiteList":
                "{\"rules\":[{\"allowedAnnotationKeyExprs\":[\"^example.com/\"]}]}" },
        });
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "berth-system");
        let params = PatchParams::apply("test").force();
        maps.patch("kruise-configuration", &params, &Patch::Apply(&white_list)).await?;
        let stage = Stage { case, sets: Api::all(client.clone()), updates: Api::all(client) };
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": { "name": SET },
            "spec": {
                "selector": { "matchLabels": { LABEL: "logs" } },
                "updateStrategy": { "type": "RollingUpdate", "maxUnavailable": 1, "partition": 1 },
                "containers": [sidecar(BUSYBOX)],
            },
        });
        await_condition("the set is taken", PATIENCE, async || {
            let set = serde_json::from_value(set.clone())?;
            stage.sets.create(&PostParams::default(), &set).await.map(drop).context("make the set")
        })
        .await?;
        await_condition("the API server asks for pods of the set", PATIENCE, async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let pod = case.pods.create(&params, &stage.manifest("probe").pod()?).await?;
            ensure!(containers(&pod) == ["log", "app"], "not yet");
            Ok(())
        })
        .await?;
        let outcome = rolls_out(&stage).await;
        // Whoever leads takes back what it has not asked for, before or after the agent has refused it.
        manager.service().stop()?;
        probes::manager_rests().await?;
        let outcome = match outcome {
            Ok(()) => forged::only_what_the_author_asked_for(&stage, &kubeconfig).await,
            failed => failed,
        };
        stage.sets.delete(SET, &DeleteParams::default()).await?;
        let nothing = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": NODE_NAME }, "status": { "desiredPods": [] },
        });
        let params = PatchParams::apply("berth-manager").force();
        stage.updates.patch_status(NODE_NAME, &params, &Patch::Apply(&nothing)).await?;
        outcome
    })
    .await
}

async fn rolls_out(stage: &Stage<'_>) -> Result<()> {
    let made = stage.pod("one").await?;
    ensure!(made.annotations().get("kruise.io/sidecarset-injected-list").is_some_and(|list| list == SET));
    stage.pod("two").await?;
    stage
        .status("both pods count", |status| (status.matched_pods, status.updated_pods) == (Some(2), Some(2)))
        .await?;

    // One of two: the partition keeps the other. Annotations ride along, for the Namespace lists their keys.
    let annotations = json!([
        { "annotations": { "example.com/level": "1" }, "patchPolicy": "Overwrite" },
        { "annotations": { "example.com/ports": "{\"log\":1}" }, "patchPolicy": "MergePatchJson" },
        { "annotations": { "example.com/kept": "1" } },
    ]);
    stage.patch(json!({ "containers": [sidecar(BUSYBOX_NEXT)], "patchPodMetadata": annotations })).await?;
    let one = (Some(1), Some(1));
    stage.status("one is upgraded", |status| (status.updated_pods, status.updated_ready_pods) == one).await?;
    stage.patch(json!({ "updateStrategy": { "partition": 0 } })).await?;
    for name in ["one", "two"] {
        let restarts = stage.upgraded(name, BUSYBOX_NEXT).await?;
        ensure!(restarts == (1, 0), "{name}: {restarts:?} restarts of the sidecar and of the app");
        let pod = stage.case.pods.get(name).await?;
        let has = |key: &str| pod.annotations().get(&format!("example.com/{key}")).map(String::as_str);
        let found = ["level", "ports", "kept"].map(has);
        ensure!(found == [Some("1"), Some("{\"log\":1}"), Some("1")], "{name}: {found:?}");
    }
    stage.status("both are upgraded", |status| status.updated_ready_pods == Some(2)).await?;
    upgradable::who_cannot_follow(stage).await?;
    await_condition("nothing is asked for any more", PATIENCE, async || {
        let status = stage.updates.get(NODE_NAME).await?.status.unwrap_or_default();
        ensure!(status.desired_pods.is_empty() && status.pods.is_empty(), "{status:?}");
        Ok(())
    })
    .await?;

    // And back, as anything else, while three others have to do with another pod.
    together::four_owners_of_one_pod(stage).await?;
    for name in ["one", "two"] {
        let restarts = stage.upgraded(name, BUSYBOX).await?;
        ensure!(restarts == (2, 0), "{name}: {restarts:?} restarts of the sidecar and of the app");
    }
    stage.status("both are as before", |status| status.updated_ready_pods == Some(2)).await.map(drop)
}
