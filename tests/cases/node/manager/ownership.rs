//! A manager beside an OpenKruise's: it begins nothing until that has stopped.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use berth_proto::sealing::NodeKey;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::images::Paper;
use super::*;

const OPENKRUISE: &str = "kruise-system";

/// Leases of an OpenKruise. Its namespace stays for the next test.
async fn leases(stage: &Stage) -> Result<Api<Lease>> {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    if namespaces.get_opt(OPENKRUISE).await?.is_none() {
        namespace(&stage.client, OPENKRUISE).await?;
    }
    Ok(Api::namespaced(stage.client.clone(), OPENKRUISE))
}

/// Renews its lease each second until the end, and gives it up then.
async fn renews(leases: &Api<Lease>, ends: &AtomicBool) -> Result<()> {
    loop {
        let ended = ends.load(Relaxed);
        let lease = Lease {
            metadata: kube::api::ObjectMeta { name: Some("kruise-manager".to_owned()), ..Default::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(if ended { "" } else { "kruise-0" }.to_owned()),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let params = PatchParams::apply("openkruise").force();
        leases.patch("kruise-manager", &params, &Patch::Apply(&lease)).await.context("renew")?;
        if ended {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn nothing_is_begun_while_an_openkruise_decides() -> Result<()> {
    let stage = Stage::set("manager-ownership").await?;
    let of_openkruise = leases(&stage).await?;
    let own: Api<Lease> = Api::namespaced(stage.client.clone(), LEASE.0);
    let ends = AtomicBool::new(false);
    let term = async || anyhow::Ok(own.get_opt("berth-manager").await?.and_then(|lease| lease.spec));
    let watch = async || {
        // Nobody else is there: it would be taken within seconds.
        let before = term().await?;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            let now = term().await?;
            ensure!(now == before, "it leads beside an OpenKruise: {now:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    };
    let watched = async {
        let watched = watch().await;
        ends.store(true, Relaxed);
        watched
    };
    let (renewed, watched, manager) =
        tokio::join!(renews(&of_openkruise, &ends), watched, stage.manager(Replica::First));
    watched?;
    renewed?;
    manager?.leads().await
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
