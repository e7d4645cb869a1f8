//! Updates in place of StatefulSets and DaemonSets, by the agent of a real node.

use std::pin::pin;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::NodePodUpdate;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{NODE_NAME, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::case::{Case, ENDS_AT_ONCE, PATIENCE, container, is_ready, run_updating_alone};

const MISSING: &str = "berth.test/nobody-has:this";

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE] }],
        },
    })
}

fn set(kind: &str, version: &str, name: &str, namespace: &str, rolling: &Value) -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": kind,
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, BUSYBOX),
            "updateStrategy": { "rollingUpdate": rolling },
        },
    }))?)
}

/// Number of the entries of the DaemonSet.
fn ours(node: &NodePodUpdate) -> usize {
    let entries = node.status.iter().flat_map(|status| &status.desired_pods);
    entries.filter(|entry| entry.owner == "DaemonSet/log").count()
}

struct Stage<'a> {
    case: &'a Case,
    workloads: Workloads,
    db: Api<DynamicObject>,
    log: Api<DynamicObject>,
}

impl Stage<'_> {
    /// The one pod of a set, with this image and Ready.
    async fn runs(&self, app: &str, image: &str) -> Result<Pod> {
        let what = format!("{app} runs {image}");
        let params = ListParams::default().labels(&format!("app={app}"));
        await_condition(what, PATIENCE, async || {
            self.workloads.service().check_running()?;
            let mut pods = self.case.pods.list(&params).await?.items;
            ensure!(pods.len() == 1, "{} pods", pods.len());
            let pod = pods.remove(0);
            is_ready(&pod)?;
            let status = container(&pod, "main")?;
            ensure!(status.image.ends_with(image), "{status:?}");
            Ok(pod)
        })
        .await
    }

    async fn plays(&self) -> Result<()> {
        let (db, log) = (self.runs("db", BUSYBOX).await?, self.runs("log", BUSYBOX).await?);
        ensure!(log.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(NODE_NAME));
        let update = async |api: &Api<DynamicObject>, name: &str, rolling: Value| {
            let spec = json!({
                "template": template(name, BUSYBOX_NEXT), "updateStrategy": { "rollingUpdate": rolling },
            });
            let patch = json!({ "spec": spec });
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit")
        };
        update(&self.log, "log", json!({ "partition": 1 })).await?;
        update(&self.db, "db", json!({})).await?;
        let after = self.runs("db", BUSYBOX_NEXT).await?;
        ensure!(after.uid() == db.uid() && container(&after, "main")?.restart_count == 1, "the same pod");
        let held = self.runs("log", BUSYBOX).await?;
        ensure!(
            held.uid() == log.uid() && container(&held, "main")?.restart_count == 0,
            "the partition holds it"
        );

        // A bad image is a state of the pod, and another one is the way out.
        let bad = json!({ "spec": { "template": template("db", MISSING) } });
        self.db.patch("db", &PatchParams::default(), &Patch::Merge(&bad)).await.context("a bad image")?;
        await_condition("the status says that the image is missing", PATIENCE, async || {
            let pod = self.case.pods.get("db-0").await?;
            ensure!(pod.uid() == db.uid(), "it was made anew");
            let status = &self.db.get("db").await?.data["status"];
            let said = status["conditions"][0]["message"].as_str().unwrap_or_default();
            ensure!(said.contains("waits for its image"), "{status}");
            ensure!(status["updatedReplicas"] == 1 && status["availableReplicas"] == 0, "{status}");
            Ok(())
        })
        .await?;
        update(&self.db, "db", json!({})).await?;
        ensure!(self.runs("db", BUSYBOX_NEXT).await?.uid() == db.uid(), "the same pod");

        // The program is killed while the node works.
        let updates: Api<NodePodUpdate> = Api::all(self.db.clone().into_client());
        let only = WatchParams::default().fields(&format!("metadata.name={NODE_NAME}"));
        let version = updates.get(NODE_NAME).await?.resource_version().context("no version")?;
        let mut versions = pin!(updates.watch(&only, &version).await?);
        update(&self.log, "log", json!({ "partition": 0 })).await?;
        // The entry is there for a short time only.
        let asked = async {
            while let Some(event) = versions.try_next().await? {
                match event {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) if ours(&node) == 1 => {
                        return anyhow::Ok(());
                    }
                    _ => {}
                }
            }
            bail!("the watch ended")
        };
        timeout(PATIENCE, asked).await.context("no entry of the DaemonSet")??;
        self.workloads.service().kill()?;
        self.workloads.service().start()?;
        self.workloads.ready().await?;
        let after = self.runs("log", BUSYBOX_NEXT).await?;
        ensure!(after.uid() == log.uid() && container(&after, "main")?.restart_count == 1, "the same pod");
        await_condition("the update is forgotten, and the status says it", PATIENCE, async || {
            ensure!(ours(&updates.get(NODE_NAME).await?) == 0, "it is there");
            let status = &self.log.get("log").await?.data["status"];
            ensure!(status["updatedNumberScheduled"] == 1 && status["numberAvailable"] == 1, "{status}");
            let status = &self.db.get("db").await?.data["status"];
            ensure!(
                status["updatedReadyReplicas"] == 1 && status["currentRevision"] == status["updateRevision"],
                "{status}"
            );
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn stateful_and_daemon_sets_update_in_place() -> Result<()> {
    run_updating_alone("stateful_and_daemon_sets_update_in_place", async |case: &Case| {
        let client = case.node.client().await?;
        deploy::apply(&client, "workloads/role.yaml").await?;
        deploy::apply(&client, "workloads/policy.yaml").await?;
        let token = token::of(&client, "berth-workloads", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-workloads", &token)?;
        let workloads = Workloads::start(case.node.run(), &kubeconfig, "berth-system").await?;
        let namespace = &case.namespace;
        let db =
            set("StatefulSet", "v1beta1", "db", namespace, &json!({ "podUpdatePolicy": "InPlaceOnly" }))?;
        let rolling = json!({ "rollingUpdateType": "InPlaceIfPossible" });
        let log = set("DaemonSet", "v1alpha1", "log", namespace, &rolling)?;
        let stage =
            Stage { case, workloads, db: deploy::api(&client, &db)?, log: deploy::api(&client, &log)? };
        stage.db.create(&PostParams::default(), &db).await.context("make the StatefulSet")?;
        stage.log.create(&PostParams::default(), &log).await.context("make the DaemonSet")?;
        let outcome = stage.plays().await;
        // Their pods would come back.
        for (api, name) in [(&stage.db, "db"), (&stage.log, "log")] {
            api.delete(name, &DeleteParams::foreground()).await.context("remove the set")?;
            await_condition(format!("{name} is gone"), PATIENCE, async || {
                ensure!(api.get_opt(name).await?.is_none(), "it is there");
                Ok(())
            })
            .await?;
        }
        outcome
    })
    .await
}
