//! Path `beside`: the kubelet speaks to containerd itself. Images are its business there as everywhere; what
//! has to be restarted for its env the agent stops.

use anyhow::{Result, ensure};
use berth_tests::node::images::BUSYBOX_NEXT;
use berth_tests::update::Update;

use super::{Scene, container, gate, image};
use crate::case::{Case, is_ready, run_beside};

#[tokio::test]
async fn update_beside() -> Result<()> {
    run_beside("update_beside", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let high = container(evidence, "high", &[("VALUE", "metadata.annotations['value']")]);
            pod.annotation("value", "one")
                .container(high.priority(2))
                .container(container(evidence, "low", &[]).priority(1))
        })
        .await?;
        let update = Update::new("pod").annotation("value", "two").image("low", BUSYBOX_NEXT);
        scene.ask("both", &update).await?.succeeded().await?;
        ensure!(scene.env("high", "VALUE").await? == "two", "old env");
        ensure!(image(&scene.now().await?, "low")? == BUSYBOX_NEXT, "old image");
        scene.in_order("high", "low").await?;
        for name in ["high", "low"] {
            ensure!(scene.restarts(name).await? == 1, "{name} was not restarted once");
        }
        ensure!(gate(&scene.now().await?)? == "True", "the gate is closed");
        case.await_pod("pod", "Ready again", is_ready).await?;
        Ok(())
    })
    .await
}
