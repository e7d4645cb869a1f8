//! A PodUnavailableBudget, and who takes its pods out of service by itself: the agent, which updates them in
//! place, and berth-workloads, which deletes them. Both wait for it, say so, and go on once they are let.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{CloneSet, NodePodUpdate, PodUnavailableBudget};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{NODE_NAME, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::case::{Case, ENDS_AT_ONCE, PATIENCE, container, is_ready, run_updating_alone};
use crate::swaps::admitted;

/// Name of the CloneSet and of its budget.
const NAME: &str = "web";
/// Pods of the set; its own rules let all of them go at once.
const PODS: usize = 2;
const SAYS: &str = "\"web\" is forbidden: pub unavailable allowed is negative";

struct Stage<'a> {
    case: &'a Case,
    /// By a client that shows each refusal.
    pods: Api<Pod>,
    sets: Api<CloneSet>,
    budgets: Api<PodUnavailableBudget>,
    updates: Api<NodePodUpdate>,
    events: Api<Event>,
    hooks: Api<ValidatingWebhookConfiguration>,
}

impl<'a> Stage<'a> {
    async fn set(case: &'a Case) -> Result<Self> {
        let client = case.node.api()?.client_of_one_try().await?;
        Ok(Self {
            case,
            pods: Api::namespaced(client.clone(), &case.namespace),
            sets: Api::namespaced(client.clone(), &case.namespace),
            budgets: Api::namespaced(client.clone(), &case.namespace),
            updates: Api::all(client.clone()),
            events: Api::namespaced(client.clone(), &case.namespace),
            hooks: Api::all(client),
        })
    }

    async fn make(&self) -> Result<()> {
        let set: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": NAME },
            "spec": {
                "replicas": PODS, "selector": { "matchLabels": { "app": NAME } },
                "updateStrategy": { "type": "InPlaceOnly", "maxUnavailable": "100%" },
                "template": template(BUSYBOX),
            },
        }))?;
        self.sets.create(&PostParams::default(), &set).await.context("make the set")?;
        Ok(())
    }

    /// Another image, by this way of updates.
    async fn change(&self, way: &str, image: &str) -> Result<()> {
        let change = json!([
            { "op": "replace", "path": "/spec/updateStrategy/type", "value": way },
            { "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image },
        ]);
        let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
        self.sets.patch(NAME, &PatchParams::default(), &change).await.context("edit the set")?;
        Ok(())
    }

    /// Makes a budget that lets no pod go, and waits until the API server asks it.
    async fn limit(&self) -> Result<()> {
        let target = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": NAME });
        let budget: PodUnavailableBudget = serde_json::from_value(json!({
            "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
            "metadata": { "name": NAME }, "spec": { "maxUnavailable": 0, "targetRef": target },
        }))?;
        await_condition("the budget is taken", PATIENCE, async || {
            self.budgets.create(&PostParams::default(), &budget).await.map(drop).context("make a budget")
        })
        .await?;
        let pods = self.pods.list(&ListParams::default()).await?.items;
        let pod = pods.first().context("no pod")?.name_any();
        await_condition("the budget is asked", PATIENCE, async || {
            let tried = DeleteParams { dry_run: true, ..DeleteParams::default() };
            let Err(error) = self.pods.delete(&pod, &tried).await else { bail!("not yet") };
            ensure!(error.to_string().contains(SAYS), "{error}");
            Ok(())
        })
        .await
    }

    /// Lets one pod go at a time.
    async fn lets_one(&self) -> Result<()> {
        let patch = json!({ "spec": { "maxUnavailable": 1 } });
        self.budgets.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Waits until all pods have the newest template, and serve.
    async fn is_whole(&self, what: &str) -> Result<()> {
        await_condition(what.to_owned(), PATIENCE, async || {
            let set = self.sets.get(NAME).await?;
            let status = set.status.clone().context("no status")?;
            ensure!(status.observed_generation == set.metadata.generation, "{status:?}");
            let all = i32::try_from(PODS)?;
            ensure!((status.updated_ready_replicas, status.available_replicas) == (all, all), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the agent's answer names the budget.
    async fn agent_says_it(&self) -> Result<()> {
        await_condition("the agent says what it waits for", PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.context("no status")?;
            let messages = status.pods.iter().filter_map(|pod| pod.message.as_deref());
            let waits = "waits until the API server takes the next step: ";
            let waiting = messages.filter(|message| message.contains(waits) && message.contains(SAYS));
            ensure!(waiting.count() == PODS, "{:?}", status.pods);
            Ok(())
        })
        .await
    }

    /// Waits until an Event of the set names the budget.
    async fn set_says_it(&self) -> Result<()> {
        await_condition("an Event says who holds the set back", PATIENCE, async || {
            let events = self.events.list(&ListParams::default()).await?.items;
            let says = |event: &Event| {
                let kind = event.regarding.as_ref().and_then(|about| about.kind.as_deref());
                let note = event.note.as_deref().unwrap_or_default();
                kind == Some("CloneSet") && event.reason.as_deref() == Some("HeldBack") && note.contains(SAYS)
            };
            ensure!(events.iter().any(says), "{events:?}");
            Ok(())
        })
        .await
    }

    /// Removes budget and set, and waits until nothing of them is left that would need a manager.
    async fn clear(&self) -> Result<()> {
        let (all, foreground) = (ListParams::default(), DeleteParams::foreground());
        self.budgets.delete_collection(&DeleteParams::default(), &all).await.context("remove the budget")?;
        self.sets.delete_collection(&foreground, &all).await.context("remove the set")?;
        await_condition("set and entries are gone", PATIENCE, async || {
            ensure!(self.sets.list(&all).await?.items.is_empty(), "the set is there");
            let hooks = self.hooks.get("berth-manager").await?.webhooks.unwrap_or_default();
            let own = format!(".{}.", self.case.namespace);
            ensure!(!hooks.iter().any(|entry| entry.name.contains(&own)), "its entry is there");
            Ok(())
        })
        .await
    }
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": NAME } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE] }],
        },
    })
}

#[tokio::test]
async fn agent_and_workloads_wait_for_the_budget() -> Result<()> {
    run_updating_alone("agent_and_workloads_wait_for_the_budget", async |case: &Case| {
        let client = case.node.client().await?;
        deploy::apply(&client, "workloads/role.yaml").await?;
        deploy::apply(&client, "workloads/policy.yaml").await?;
        let (_door, manager) = admitted(case, &client).await?;
        let token = token::of(&client, "berth-workloads", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-workloads", &token)?;
        let _workloads = Workloads::start_with(case.node.run(), &kubeconfig, "berth-system", &[]).await?;
        let stage = Stage::set(case).await?;
        let outcome = waits(&stage).await;
        let cleared = stage.clear().await;
        manager.service().stop()?;
        outcome.and(cleared)
    })
    .await
}

async fn waits(stage: &Stage<'_>) -> Result<()> {
    stage.make().await?;
    stage.is_whole("all pods run").await?;
    stage.limit().await?;
    let fewest = Arc::new(AtomicUsize::new(usize::MAX));
    let watching = tokio::spawn(watch(stage.pods.clone(), fewest.clone()));
    await_condition("the pods are watched", PATIENCE, async || {
        let seen = fewest.load(Ordering::SeqCst);
        ensure!(seen != usize::MAX, "not yet");
        Ok(())
    })
    .await?;

    // The set asks for both at once. The first step of the node is its question to the budget.
    stage.change("InPlaceOnly", BUSYBOX_NEXT).await?;
    stage.agent_says_it().await?;
    for pod in stage.pods.list(&ListParams::default()).await? {
        ensure!(container(&pod, "main")?.restart_count == 0, "nothing is done before it is let");
    }
    ensure!(fewest.load(Ordering::SeqCst) == PODS, "a pod was away before it was let");
    stage.lets_one().await?;
    stage.is_whole("all pods are updated in place").await?;

    // The set deletes both at once.
    stage.change("ReCreate", BUSYBOX).await?;
    stage.set_says_it().await?;
    stage.is_whole("all pods are made anew").await?;
    ensure!(!watching.is_finished(), "nobody watched: {:?}", watching.await);
    watching.abort();
    let fewest = fewest.load(Ordering::SeqCst);
    ensure!(fewest == PODS - 1, "{fewest} of {PODS} pods served at the lowest");
    Ok(())
}

/// Watches every version of every pod, and keeps how few served at once.
async fn watch(pods: Api<Pod>, fewest: Arc<AtomicUsize>) -> Result<()> {
    let mut events = pin!(watcher::watcher(pods, watcher::Config::default()));
    let mut serving: BTreeMap<String, bool> = BTreeMap::new();
    let mut whole = false;
    while let Some(event) = events.next().await {
        match event? {
            watcher::Event::Init => {
                // A list shows no versions in between.
                ensure!(!whole, "the watch broke: nothing can be said of what it missed");
            }
            watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
                serving.insert(pod.name_any(), serves(&pod));
            }
            watcher::Event::Delete(pod) => {
                serving.remove(&pod.name_any());
            }
            watcher::Event::InitDone => whole = true,
        }
        if whole {
            fewest.fetch_min(serving.values().filter(|serves| **serves).count(), Ordering::SeqCst);
        }
    }
    bail!("the watch ended")
}

/// Says whether a pod serves: it is Ready, is to stay, and its update has not begun.
fn serves(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_shut = conditions.any(|one| one.type_ == "InPlaceUpdateReady" && one.status == "False");
    is_ready(pod).is_ok() && !is_shut && pod.metadata.deletion_timestamp.is_none()
}
