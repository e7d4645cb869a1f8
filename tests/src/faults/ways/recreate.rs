//! A container with a preStop hook is recreated, again and again.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;

use super::super::bed::Bed;
use super::super::matrix::Row;
use super::super::site::{GRACE, NAMESPACE, PATIENCE};
use super::written;
use crate::manifest::PodManifest;
use crate::recreate::{Ask, Asked, Evidence};
use crate::wait::await_condition;

/// Points that containers of all pods pass: there the cell waits for its own.
const OF_ALL: &[&str] = &["stop-asked", "stopped", "created", "started"];

/// The pod.
pub(super) struct Recreated {
    pod: String,
    evidence: Evidence,
}

impl Recreated {
    pub(super) async fn start(bed: &Bed, row: &Row) -> Result<Self> {
        let pod = row.object("recreate");
        let evidence = Evidence::new(bed.node.run(), NAMESPACE, &pod)?;
        let manifest = evidence
            .mount(PodManifest::new(NAMESPACE, &pod))
            .grace(GRACE)
            .container(evidence.container("a", "sleep 0.5"));
        bed.site.create(&manifest).await?;
        bed.site.ready(&pod).await?;
        Ok(Self { pod, evidence })
    }

    /// Sees to it that there is an old instance to remove. The kubelet removes them, too, now and then.
    async fn with_an_old_one(&self, bed: &Bed, row: &Row) -> Result<()> {
        let ran = bed.site.ran(&self.pod, "a").await?;
        if ran.iter().any(|instance| instance.state == ContainerState::ContainerExited) {
            return Ok(());
        }
        let asked = self.ask(bed, &row.object("before")).await?;
        asked.succeeded(PATIENCE).await.map(drop).context("before the first point")
    }

    async fn ask(&self, bed: &Bed, name: &str) -> Result<Asked> {
        let asked = Ask::new(&self.pod, &["a"]).create(&bed.client, NAMESPACE, name).await?;
        asked.assign().await?;
        Ok(asked)
    }

    pub(super) async fn play(&self, bed: &Bed, row: &Row) -> Result<Instant> {
        self.with_an_old_one(bed, row).await?;
        let (hooks, starts) = written(&self.evidence, "a")?;
        let before = bed.site.running(&self.pod, "a").await?;
        let late = row.points.iter().any(|point| OF_ALL.contains(point));
        if !late {
            bed.arm(row)?;
        }
        let asked = self.ask(bed, &row.object("request")).await?;
        if late {
            await_condition("the hook runs", PATIENCE, async || {
                ensure!(written(&self.evidence, "a")?.0 > hooks, "no hook yet");
                Ok(())
            })
            .await?;
            bed.arm(row)?;
        }
        let healed = bed.strike(row).await?;

        asked.succeeded(PATIENCE).await?;
        let now = bed.site.running(&self.pod, "a").await?;
        ensure!(now.id != before.id, "Completed, and the container was not replaced");
        let (hooks_now, starts_now) = written(&self.evidence, "a")?;
        ensure!(starts_now == starts + 1, "{} starts instead of one", starts_now - starts);
        let ran = hooks_now - hooks;
        ensure!(row.hooks().contains(&ran), "the hook ran {ran} times, not {:?}", row.hooks());
        let pod = bed.site.ready(&self.pod).await?;
        let shown = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()).next();
        let shown = shown.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
        ensure!(shown.ends_with(&now.id), "the pod shows {shown}, {} runs", now.id);
        Ok(healed)
    }
}
