//! A container with a preStop hook is recreated, again and again.

use anyhow::{Context, Result, ensure};

use super::super::bed::Bed;
use super::super::matrix::Cell;
use super::super::site::{NAMESPACE, PATIENCE};
use super::written;
use crate::manifest::PodManifest;
use crate::recreate::{Ask, Evidence};
use crate::wait::await_condition;

/// Points that containers of all pods pass: there the cell waits for its own.
const OF_ALL: &[&str] = &["stop-asked", "stopped", "created", "started"];

/// The pod.
pub(super) struct Recreated {
    pod: String,
    evidence: Evidence,
}

impl Recreated {
    pub(super) async fn start(bed: &Bed, cell: &Cell) -> Result<Self> {
        let pod = format!("recreate-{}", cell.number);
        let evidence = Evidence::new(bed.node.run(), NAMESPACE, &pod)?;
        let manifest =
            evidence.mount(PodManifest::new(NAMESPACE, &pod)).container(evidence.container("a", "sleep 0.5"));
        bed.site.create(&manifest).await?;
        bed.site.ready(&pod).await?;
        // So that there is an old instance to remove at the first point.
        let asked = Ask::new(&pod, &["a"]).create(&bed.client, NAMESPACE, &format!("{pod}-first")).await?;
        asked.assign().await?;
        asked.succeeded(PATIENCE).await.context("before the first cell")?;
        Ok(Self { pod, evidence })
    }

    pub(super) async fn play(&self, bed: &Bed, cell: &Cell) -> Result<()> {
        let (hooks, starts) = written(&self.evidence, "a")?;
        let before = bed.site.running(&self.pod, "a").await?;
        let late = OF_ALL.contains(&cell.point);
        if !late {
            bed.arm(cell)?;
        }
        let name = format!("recreate-{}-{}", cell.number, cell.point);
        let asked = Ask::new(&self.pod, &["a"]).create(&bed.client, NAMESPACE, &name).await?;
        asked.assign().await?;
        if late {
            await_condition("the hook runs", PATIENCE, async || {
                ensure!(written(&self.evidence, "a")?.0 > hooks, "no hook yet");
                Ok(())
            })
            .await?;
            bed.arm(cell)?;
        }
        bed.strike(cell).await?;

        asked.succeeded(PATIENCE).await?;
        let now = bed.site.running(&self.pod, "a").await?;
        ensure!(now.id != before.id, "Completed, and the container was not replaced");
        let (hooks_now, starts_now) = written(&self.evidence, "a")?;
        ensure!(starts_now == starts + 1, "{} starts instead of one", starts_now - starts);
        let ran = hooks_now - hooks;
        ensure!(cell.hooks().contains(&ran), "the hook ran {ran} times, not {:?}", cell.hooks());
        let pod = bed.site.ready(&self.pod).await?;
        let shown = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()).next();
        let shown = shown.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
        ensure!(shown.ends_with(&now.id), "the pod shows {shown}, {} runs", now.id);
        Ok(())
    }
}
