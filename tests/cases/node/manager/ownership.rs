//! A manager, and berth-workloads, beside an OpenKruise's: the kinds that both have are its own, unless
//! somebody has said whose they are.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use berth_proto::crd::CloneSet;
use berth_proto::sealing::NodeKey;
use berth_tests::node::{Workloads, token};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ListParams;

use super::images::Paper;
use super::*;

const OPENKRUISE: &str = "kruise-system";
/// Its replica that leads.
const HOLDER: &str = "kruise-0";

/// Leases of an OpenKruise. Its namespace stays for the next test.
async fn leases(stage: &Stage) -> Result<Api<Lease>> {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    if namespaces.get_opt(OPENKRUISE).await?.is_none() {
        namespace(&stage.client, OPENKRUISE).await?;
    }
    Ok(Api::namespaced(stage.client.clone(), OPENKRUISE))
}

/// Writes its lease.
async fn renew(leases: &Api<Lease>, holder: &str) -> Result<()> {
    let lease = Lease {
        metadata: kube::api::ObjectMeta { name: Some("kruise-manager".to_owned()), ..Default::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    };
    let params = PatchParams::apply("openkruise").force();
    leases.patch("kruise-manager", &params, &Patch::Apply(&lease)).await.context("renew")?;
    Ok(())
}

/// Renews its lease each second until the end, and gives it up then.
async fn renews(leases: &Api<Lease>, ends: &AtomicBool) -> Result<()> {
    while !ends.load(Relaxed) {
        renew(leases, HOLDER).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    renew(leases, "").await
}

/// The manager of an OpenKruise, on paper: its Deployment wants a pod, or none.
async fn deployed(stage: &Stage, replicas: i32) -> Result<()> {
    let pod = json!({ "metadata": { "labels": { "a": "b" } },
        "spec": { "containers": [{ "name": "manager", "image": "none" }] } });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "kruise-controller-manager" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "a": "b" } }, "template": pod },
    });
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), OPENKRUISE);
    let params = PatchParams::apply("openkruise").force();
    deployments.patch("kruise-controller-manager", &params, &Patch::Apply(&deployment)).await?;
    Ok(())
}

/// Nobody else acts on it: it would be assigned within a second.
async fn stays_unassigned(stage: &Stage, name: &str) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let status = stage.requests.get(name).await?.status;
        ensure!(status.is_none(), "the manager acts beside an OpenKruise: {status:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_start_beside_an_openkruise_leaves_it_the_kinds() -> Result<()> {
    let stage = Stage::set("manager-ownership").await?;
    let of_openkruise = leases(&stage).await?;
    stage.pod("p", "manager-ownership").await?;
    stage.ask("r", asks_for("p", &["a"])).await?;
    // Before the manager looks.
    renew(&of_openkruise, HOLDER).await?;
    let ends = AtomicBool::new(false);
    let watched = async {
        let watched = async {
            let manager = stage.manager(Replica::First).await?;
            manager.leads().await?;
            let yields = manager.metric("berth_manager_yields").await?;
            ensure!(yields == 1.0, "it does not say that it yields");
            stays_unassigned(&stage, "r").await?;
            anyhow::Ok(manager)
        };
        let watched = watched.await;
        ends.store(true, Relaxed);
        watched
    };
    let (renewed, watched) = tokio::join!(renews(&of_openkruise, &ends), watched);
    renewed?;
    let manager = watched?;
    stage.await_assigned("r").await?;
    manager.leads().await?;
    ensure!(manager.metric("berth_manager_yields").await? == 0.0, "it says that it yields");
    Ok(())
}

/// Both programs: what they have begun is left when an OpenKruise comes, and taken up again when it has gone.
#[tokio::test]
async fn an_openkruise_that_comes_later_gets_the_kinds() -> Result<()> {
    let stage = Stage::set("manager-ownership-later").await?;
    leases(&stage).await?;
    for part in ["manager/admission.yaml", "workloads/role.yaml", "workloads/policy.yaml"] {
        deploy::apply(&stage.client, part).await?;
    }
    stage.pod("p", "manager-ownership-later").await?;
    let token = token::of(&stage.client, "berth-workloads", None).await?;
    let kubeconfig = stage.plane.api().kubeconfig_with("berth-workloads", &token)?;
    let run = stage.plane.run();
    let workloads = Workloads::start_with(run, &kubeconfig, LEASE.0, &[]).await?;
    let manager = Manager::admitting(run, Replica::First, &stage.kubeconfig, LEASE).await?;
    manager.leads().await?;

    let sets: Api<CloneSet> = Api::namespaced(stage.client.clone(), "manager-ownership-later");
    let scale = async |replicas: i32| {
        let container = json!({ "name": "a", "image": "none" });
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "set" },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "set": "set" } },
                "template": { "metadata": { "labels": { "set": "set" } }, "spec": { "containers": [container] } },
            },
        });
        sets.patch("set", &PatchParams::apply("tests").force(), &Patch::Apply(&set)).await?;
        anyhow::Ok(())
    };
    let selected = ListParams::default().labels("set=set");
    let pods = async || anyhow::Ok(stage.pods.list(&selected).await?.items.len());
    let are = async |count: usize| {
        await_condition(format!("{count} pods"), PATIENCE, async || {
            let found = pods().await?;
            ensure!(found == count, "{found}");
            Ok(())
        })
        .await
    };
    let yield_is = async |wanted: f64| {
        await_condition(format!("yields: {wanted}"), PATIENCE, async || {
            let told = [
                manager.metric("berth_manager_yields").await?,
                workloads.metric("berth_workloads_yields").await?,
            ];
            ensure!(told == [wanted; 2], "{told:?}");
            Ok(())
        })
        .await
    };
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let checks_sets = async |wanted: bool| {
        await_condition(format!("SidecarSets are checked: {wanted}"), PATIENCE, async || {
            let entries = webhooks.get("berth-manager").await?.webhooks.unwrap_or_default();
            let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
            let checks = names.iter().any(|name| name.starts_with("checks.sidecarsets."));
            ensure!(checks == wanted, "{names:?}");
            Ok(())
        })
        .await
    };

    let tried = async {
        yield_is(0.0).await?;
        checks_sets(true).await?;
        stage.ask("before", asks_for("p", &["a"])).await?;
        stage.await_assigned("before").await?;
        scale(1).await?;
        are(1).await?;

        deployed(&stage, 1).await?;
        yield_is(1.0).await?;
        // Nobody is asked who does not decide: with nobody to answer, sets could not be written.
        checks_sets(false).await?;
        manager.ready().await?;
        stage.ask("beside", asks_for("p", &["b"])).await?;
        scale(2).await?;
        stays_unassigned(&stage, "beside").await?;
        let found = pods().await?;
        ensure!(found == 1, "a pod was made beside an OpenKruise: {found}");

        deployed(&stage, 0).await?;
        yield_is(0.0).await?;
        stage.await_assigned("beside").await?;
        are(2).await?;
        checks_sets(true).await
    };
    let tried = tried.await;
    // The API server is that of the next test as well, and nobody answers there then.
    deployed(&stage, 0).await?;
    manager.service().stop()?;
    webhooks.delete("berth-manager", &DeleteParams::default()).await?;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(stage.client.clone());
    mutating.delete("berth-manager", &DeleteParams::default()).await?;
    tried
}

#[tokio::test]
async fn a_kind_that_is_left_is_not_touched() -> Result<()> {
    let paper = Paper::set("manager-kinds", &NodeKey::generate()).await?;
    let stage = &paper.stage;
    let of_openkruise = leases(stage).await?;
    stage.pod("p", "manager-kinds").await?;
    stage.ask("r", asks_for("p", &["a"])).await?;
    paper.job("j", json!({ "image": "none:1", "completionPolicy": { "type": "Always" } })).await?;
    let start = async |ownership: &str| {
        let (run, ownership) = (stage.plane.run(), format!("--ownership={ownership}"));
        Manager::start_with(run, Replica::First, &stage.kubeconfig, LEASE, &[&ownership]).await
    };
    // Before the manager looks.
    renew(&of_openkruise, HOLDER).await?;
    let ends = AtomicBool::new(false);
    let tried = async {
        // It begins though an OpenKruise decides, and is ready.
        let manager = start("berth,ContainerRecreateRequest=openkruise").await?;
        manager.leads().await?;
        paper.await_wish(PATIENCE).await?;
        let status = stage.requests.get("r").await?.status;
        ensure!(status.is_none(), "{status:?}");
        manager.service().stop()?;
        // The other way round.
        let manager = start("openkruise,ContainerRecreateRequest=berth").await?;
        manager.leads().await?;
        paper.job("k", json!({ "image": "none:2", "completionPolicy": { "type": "Always" } })).await?;
        stage.await_assigned("r").await?;
        let wishes = paper.images.get(&paper.node).await?.status.context("no status")?.desired_images;
        ensure!(wishes.len() == 1, "{wishes:?}");
        Ok(())
    };
    let tried = async {
        let tried = tried.await;
        ends.store(true, Relaxed);
        tried
    };
    let (renewed, tried) = tokio::join!(renews(&of_openkruise, &ends), tried);
    tried?;
    renewed
}
