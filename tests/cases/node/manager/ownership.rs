//! A manager beside an OpenKruise's: it begins nothing until that has stopped.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::*;

const OPENKRUISE: &str = "kruise-system";

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
    namespace(&stage.client, OPENKRUISE).await?;
    let of_openkruise: Api<Lease> = Api::namespaced(stage.client.clone(), OPENKRUISE);
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
