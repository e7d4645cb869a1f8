//! WorkloadSpreads as a user has them: the manager's webhooks, berth-workloads, the controllers and the
//! scheduler of Kubernetes. Nodes are on paper, and pods have their places and do not run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{SpreadSubsetCondition, WorkloadSpread};
use berth_tests::node::{ControlPlane, Manager, Replica, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::admission::{Door, install_admission};
use crate::api_server::{namespace, node_of_zone};
use crate::case::{PATIENCE, end_now};

const SPACE: &str = "spreads";
const ZONE: &str = "topology.kubernetes.io/zone";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The manager answers for a new spread after it, whether pods are asked about by then or not.
const STANDS_WITHIN: Duration = Duration::from_millis(1500);

struct Stage {
    client: Client,
    pods: Api<Pod>,
    spreads: Api<WorkloadSpread>,
}

impl Stage {
    /// Makes a spread over zones, `(zone, most pods)` each; the last one takes any number. New pods are asked
    /// about from then on.
    async fn spread(
        &self,
        target: (&str, &str, &str),
        zones: &[(&str, Option<i32>)],
        adaptive: bool,
    ) -> Result<()> {
        let (api_version, kind, name) = target;
        let subsets: Vec<Value> = zones
            .iter()
            .map(|(zone, most)| {
                let term =
                    json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] });
                let patch = json!({ "metadata": { "labels": { "of-zone": zone } } });
                json!({ "name": zone, "maxReplicas": most, "requiredNodeSelectorTerm": term, "patch": patch })
            })
            .collect();
        let strategy =
            adaptive.then(|| json!({ "type": "Adaptive", "adaptive": { "rescheduleCriticalSeconds": 3 } }));
        let spread = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread", "metadata": { "name": name },
            "spec": {
                "targetRef": { "apiVersion": api_version, "kind": kind, "name": name },
                "subsets": subsets, "scheduleStrategy": strategy,
            },
        });
        let spread = serde_json::from_value(spread)?;
        let took = await_condition("the spread is taken", PATIENCE, async || {
            let begun = Instant::now();
            self.spreads.create(&PostParams::default(), &spread).await.context("make a spread")?;
            Ok(begun.elapsed())
        })
        .await?;
        // Right after its spread: the first pod has a subset.
        let owner = await_condition("an owner of pods", PATIENCE, async || self.owner(target).await).await?;
        let pod = json!({
            "metadata": {
                "name": format!("{name}-0"), "labels": { "app": name }, "ownerReferences": [owner],
            },
            "spec": { "containers": [{ "name": "app", "image": "none" }] },
        });
        let first: Pod = serde_json::from_value(pod)?;
        let tried = PostParams { dry_run: true, ..PostParams::default() };
        let is_placed = async || -> Result<()> {
            let pod = self.pods.create(&tried, &first).await?;
            let is_placed = pod.annotations().contains_key("apps.kruise.io/matched-workloadspread");
            ensure!(is_placed, "the first pod of {name} came before the entry");
            Ok(())
        };
        if took < STANDS_WITHIN {
            return is_placed().await;
        }
        await_condition("pods are asked about", PATIENCE, async || is_placed().await).await
    }

    /// Owner of the workload's pods.
    async fn owner(&self, (api_version, kind, name): (&str, &str, &str)) -> Result<Value> {
        let owner = if kind == "Deployment" {
            let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), SPACE);
            let sets = sets.list(&ListParams::default().labels(&format!("app={name}"))).await?;
            let set = sets.items.into_iter().next().context("no ReplicaSet yet")?;
            json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set.name_any(), "uid": set.uid() })
        } else {
            let object = json!({ "apiVersion": api_version, "kind": kind,
                "metadata": { "name": name, "namespace": SPACE } });
            let object = serde_json::from_value(object)?;
            let uid = deploy::api(&self.client, &object)?.get(name).await?.uid();
            json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
        };
        let mut owner = owner;
        owner["controller"] = true.into();
        Ok(owner)
    }

    /// Makes a workload of no pods yet.
    async fn workload(&self, target: (&str, &str, &str)) -> Result<Api<DynamicObject>> {
        let (api_version, kind, name) = target;
        let labels = json!({ "app": name });
        let mut workload = json!({
            "apiVersion": api_version, "kind": kind, "metadata": { "name": name, "namespace": SPACE },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": {
                    "automountServiceAccountToken": false,
                    "containers": [{ "name": "app", "image": "none" }],
                } },
            },
        });
        if kind == "StatefulSet" {
            workload["spec"]["serviceName"] = name.into();
            workload["spec"]["podManagementPolicy"] = "Parallel".into();
        }
        let workload: DynamicObject = serde_json::from_value(workload)?;
        let api = deploy::api(&self.client, &workload)?;
        api.create(&PostParams::default(), &workload).await.context("make a workload")?;
        Ok(api)
    }

    /// The pods of a workload. Those that are being deleted go, as their kubelets would have it.
    async fn of(&self, name: &str) -> Result<Vec<Pod>> {
        let pods = self.pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
        let (going, pods): (Vec<Pod>, Vec<Pod>) =
            pods.into_iter().partition(|pod| pod.metadata.deletion_timestamp.is_some());
        for pod in going {
            end_now(&self.pods, &pod.name_any()).await?;
        }
        Ok(pods)
    }

    /// Waits until the pods of a workload are in so many of each zone, by their nodes and by their labels,
    /// and the status says the same.
    async fn are_in(&self, name: &str, zones: &[(&str, i32)]) -> Result<()> {
        await_condition(format!("{name}: {zones:?}"), PATIENCE, async || {
            let mut found: BTreeMap<String, i32> =
                zones.iter().map(|(zone, _)| ((*zone).to_owned(), 0)).collect();
            for pod in self.of(name).await? {
                let node =
                    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("without a node")?;
                let zone = pod.labels().get("of-zone").context("without the patch")?;
                ensure!(node.starts_with(&format!("{zone}-")), "{} is on {node}, of {zone}", pod.name_any());
                *found.entry(zone.clone()).or_default() += 1;
            }
            let wanted: BTreeMap<String, i32> =
                zones.iter().map(|(zone, count)| ((*zone).to_owned(), *count)).collect();
            ensure!(found == wanted, "{found:?}");
            let status = self.spreads.get(name).await?.status.context("no status")?;
            let told: BTreeMap<String, i32> =
                status.subset_statuses.iter().map(|one| (one.name.clone(), one.replicas)).collect();
            ensure!(told == wanted, "{status:?}");
            Ok(())
        })
        .await
    }

    /// The definition and the manager refuse what makes no sense, and say the field and the remedy.
    async fn bad_ones_are_refused(&self) -> Result<()> {
        let good = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread", "metadata": { "name": "bad" },
            "spec": {
                "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "bad" },
                "subsets": [{ "name": "a", "maxReplicas": 2 }, { "name": "b" }],
            },
        });
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let tried = async |spread: Value| {
            anyhow::Ok(self.spreads.create(&dry_run, &serde_json::from_value(spread)?).await?)
        };
        tried(good.clone()).await.context("a good one")?;
        for (at, value, because) in [
            ("/spec/targetRef/kind", json!("DaemonSet"), "a Deployment, ReplicaSet or StatefulSet of apps"),
            ("/spec/targetRef/name", json!("web"), "WorkloadSpread \"web\" has the same workload"),
            ("/spec/subsets/1/maxReplicas", json!("50%"), "give only numbers, or only shares"),
            ("/spec/subsets/0/maxReplicas", json!("101%"), "a share from 0% to 100%"),
            ("/spec/subsets/1/requiredNodeSelectorTerm", json!({}), "asks for nothing, so no node has it"),
            ("/spec/subsets/1/name", json!("a"), "Duplicate value"),
            ("/spec/scheduleStrategy", json!({ "adaptive": {} }), "is of type Adaptive"),
        ] {
            let mut bad = good.clone();
            let (parent, field) = at.rsplit_once('/').context("a path")?;
            bad.pointer_mut(parent).context("a parent")?[field] = value;
            let Err(error) = tried(bad.clone()).await else { bail!("{bad} was taken") };
            ensure!(error.to_string().contains(because), "{bad}: {error}");
        }
        Ok(())
    }

    /// In a thief's hands the program's token gives a pod labels only along with a subset, and none that
    /// others decide by. Nothing of it is stored.
    async fn labels_are_for_adoption(&self, thief: &Client) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(thief.clone(), SPACE);
        let pod = self.of("earlier").await?.first().context("no pod")?.name_any();
        let matched = json!({ "apps.kruise.io/matched-workloadspread": "{\"name\":\"x\",\"subset\":\"a\"}" });
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        for (metadata, passes) in [
            (json!({ "annotations": matched }), true),
            (json!({ "annotations": matched, "labels": { "of-zone": "a" } }), true),
            (json!({ "labels": { "of-zone": "a" } }), false),
            (json!({ "annotations": { "note": "a" } }), false),
            (json!({ "annotations": matched, "labels": { "app": null } }), false),
            (json!({ "annotations": matched, "labels": { "pod-template-hash": "a" } }), false),
            (json!({ "annotations": matched, "labels": { "apps.kruise.io/subset-name": "a" } }), false),
            (json!({ "annotations": matched, "labels": { "kubernetes.io/x": "a" } }), false),
            (json!({ "annotations": matched, "finalizers": ["example.com/a"] }), false),
        ] {
            let patch = json!({ "metadata": metadata });
            let answer = pods.patch(&pod, &dry, &Patch::Merge(&patch)).await;
            let is_refused = match &answer {
                Ok(_) => false,
                Err(kube::Error::Api(status)) => {
                    ensure!(status.code == 403 && status.message.contains("WorkloadSpreads"), "{status:?}");
                    true
                }
                Err(error) => bail!("{error}"),
            };
            ensure!(is_refused != passes, "{metadata}: {answer:?}");
        }
        Ok(())
    }

    /// Waits until the pods of each zone have this cost.
    async fn cost(&self, name: &str, costs: &[(&str, &str)]) -> Result<()> {
        await_condition(format!("{name} has its costs"), PATIENCE, async || {
            for pod in self.of(name).await? {
                let zone = pod.labels().get("of-zone").context("without the patch")?;
                let wanted = costs.iter().find(|(of, _)| of == zone).map(|(_, cost)| *cost);
                let cost = pod.annotations().get(COST).map(String::as_str);
                ensure!(cost == wanted, "{}, of {zone}: {cost:?}", pod.name_any());
            }
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn pods_are_spread_and_leave_in_the_contrary_order() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::with_controllers("deployment,replicaset,statefulset").await?;
    let client = plane.client().await?;
    deploy::install(&client).await?;
    install_admission(&client, plane.run()).await?;
    for part in ["workloads/role.yaml", "workloads/policy.yaml", "spreads/role.yaml", "spreads/policy.yaml"] {
        deploy::apply(&client, part).await?;
    }
    deploy::add_conditions(&client, "spreads/kustomization.yaml").await?;
    let kubeconfig = async |who: &str| {
        let token = token::of(&client, who, None).await?;
        plane.api().kubeconfig_with(who, &token)
    };
    let _door = Door::open(plane.run()).await?;
    let of_manager = kubeconfig("berth-manager").await?;
    let manager = Manager::admitting(plane.run(), Replica::First, &of_manager, ("berth-system", 3)).await?;
    manager.leads().await?;
    let of_workloads = kubeconfig("berth-workloads").await?;
    let _workloads =
        Workloads::start_with(plane.run(), &of_workloads, "berth-system", &["--spreads"]).await?;
    namespace(&client, SPACE).await?;
    let stage = Stage {
        pods: Api::namespaced(client.clone(), SPACE),
        spreads: Api::namespaced(client.clone(), SPACE),
        client,
    };
    for (node, zone) in [("a-1", "a"), ("a-2", "a"), ("b-1", "b"), ("c-1", "c")] {
        node_of_zone(&stage.client, node, zone).await?;
    }

    let zones = [("a", Some(2)), ("b", Some(1)), ("c", None)];
    for target in [
        ("apps.kruise.io/v1alpha1", "CloneSet", "clones"),
        ("apps/v1", "StatefulSet", "numbered"),
        ("apps/v1", "Deployment", "web"),
    ] {
        let (_, kind, name) = target;
        let workloads = stage.workload(target).await?;
        stage.spread(target, &zones, false).await.context(kind)?;
        let has = async |replicas: i32| {
            let replicas = json!({ "spec": { "replicas": replicas } });
            workloads.patch(name, &PatchParams::default(), &Patch::Merge(&replicas)).await.context("scale")
        };
        has(5).await?;
        stage.are_in(name, &[("a", 2), ("b", 1), ("c", 2)]).await.context(kind)?;
        if kind != "StatefulSet" {
            stage.cost(name, &[("a", "300"), ("b", "200"), ("c", "100")]).await.context(kind)?;
        }
        has(2).await?;
        stage.are_in(name, &[("a", 2), ("b", 0), ("c", 0)]).await.context(kind)?;
        has(4).await?;
        stage.are_in(name, &[("a", 2), ("b", 1), ("c", 1)]).await.context(kind)?;
    }
    stage.bad_ones_are_refused().await?;

    // Pods that were there before get their subset and the label of its patch, each by its node.
    let target = ("apps/v1", "Deployment", "earlier");
    let workloads = stage.workload(target).await?;
    let four = json!({ "spec": { "replicas": 4 } });
    workloads.patch("earlier", &PatchParams::default(), &Patch::Merge(&four)).await?;
    await_condition("its pods have nodes", PATIENCE, async || {
        let pods = stage.of("earlier").await?;
        let placed = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        ensure!(placed.count() == 4, "{} pods", pods.len());
        Ok(())
    })
    .await?;
    let token = token::of(&stage.client, "berth-workloads", None).await?;
    stage.labels_are_for_adoption(&plane.api().client_with("stolen", &token).await?).await?;
    stage.spread(target, &[("a", None), ("b", None), ("c", None)], false).await?;
    await_condition("they are adopted", PATIENCE, async || {
        for pod in stage.of("earlier").await? {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("without a node")?;
            let zone = node.split('-').next().map(str::to_owned);
            ensure!(pod.labels().get("of-zone") == zone.as_ref(), "on {node}: {:?}", pod.labels());
            let matched = pod.annotations().get("apps.kruise.io/matched-workloadspread");
            ensure!(matched.is_some_and(|text| text.contains("earlier")), "{:?}", pod.annotations());
        }
        Ok(())
    })
    .await?;

    // A pod that finds no node in its zone moves on, and the zone is closed for a while.
    let target = ("apps/v1", "Deployment", "moves");
    let workloads = stage.workload(target).await?;
    stage.spread(target, &[("a", Some(2)), ("nowhere", Some(1)), ("c", None)], true).await?;
    let four = json!({ "spec": { "replicas": 4 } });
    workloads.patch("moves", &PatchParams::default(), &Patch::Merge(&four)).await?;
    stage.are_in("moves", &[("a", 2), ("nowhere", 0), ("c", 2)]).await?;
    let status = stage.spreads.get("moves").await?.status.context("no status")?;
    let closed = status.subset_statuses.iter().find(|one| one.name == "nowhere").context("no subset")?;
    let is_closed = |one: &SpreadSubsetCondition| one.type_ == "Schedulable" && one.status == "False";
    ensure!(closed.conditions.iter().any(is_closed), "{closed:?}");
    Ok(())
}
