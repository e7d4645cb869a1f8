//! A container with a preStop hook is recreated, again and again.

use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::RecreatePhase;
use berth_proto::cri::ContainerState;
use berthd::agent::fault::Point;

use super::super::bed::Bed;
use super::super::matrix::Row;
use super::super::site::{GRACE, NAMESPACE, PATIENCE};
use super::written;
use crate::manifest::PodManifest;
use crate::recreate::{Ask, Asked, Evidence};
use crate::wait::await_condition;

/// Points that containers of all pods pass: there the cell waits for its own.
const OF_ALL: &[Point] = &[Point::StopAsked, Point::Stopped, Point::Created, Point::Started];

/// Requests for one row, until one comes to its first point.
const ATTEMPTS: usize = 5;

/// The pod.
pub(super) struct Recreated {
    pod: String,
    evidence: Evidence,
}

/// State before a request.
struct Before {
    id: String,
    hooks: usize,
    starts: usize,
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
        evidence.has("a", "start", 1).await?;
        Ok(Self { pod, evidence })
    }

    /// Sees to it that there is an old instance to remove. The kubelet removes them, too, now and then.
    async fn with_an_old_one(&self, bed: &Bed, name: &str) -> Result<()> {
        let ran = bed.site.ran(&self.pod, "a").await?;
        if ran.iter().any(|instance| instance.state == ContainerState::ContainerExited) {
            return Ok(());
        }
        let asked = self.ask(bed, name).await?;
        asked.succeeded(PATIENCE).await.map(drop).context("before the first point")
    }

    async fn ask(&self, bed: &Bed, name: &str) -> Result<Asked> {
        let asked = Ask::new(&self.pod, &["a"]).create(&bed.client, NAMESPACE, name).await?;
        asked.assign().await?;
        Ok(asked)
    }

    pub(super) async fn play(&self, bed: &Bed, row: &Row) -> Result<Instant> {
        for attempt in 1..=ATTEMPTS {
            if row.points.contains(&Point::Removing) {
                self.with_an_old_one(bed, &format!("{}-{attempt}", row.object("before"))).await?;
            }
            let before = self.now(bed).await?;
            let asked = self.approach(bed, row, &format!("{}-{attempt}", row.object("request"))).await?;
            if attempt < ATTEMPTS && self.ended_before(bed, &asked).await? {
                self.replaced_once(bed, &before, &(1..=1)).await.context("before the point was reached")?;
                continue;
            }
            let healed = bed.strike(row).await?;
            asked.succeeded(PATIENCE).await?;
            self.replaced_once(bed, &before, &row.hooks()).await?;
            return Ok(healed);
        }
        bail!("not reached in {ATTEMPTS} requests")
    }

    /// Asks, and has berthd stand still at the first point.
    async fn approach(&self, bed: &Bed, row: &Row, name: &str) -> Result<Asked> {
        if !row.points.iter().any(|point| OF_ALL.contains(point)) {
            bed.arm(row)?;
            return self.ask(bed, name).await;
        }
        let hooks = written(&self.evidence, "a")?.0;
        let asked = self.ask(bed, name).await?;
        await_condition("the hook runs", PATIENCE, async || {
            ensure!(written(&self.evidence, "a")?.0 > hooks, "no hook yet");
            Ok(())
        })
        .await?;
        bed.arm(row)?;
        Ok(asked)
    }

    /// Some points may be left out. Whether the request is over, and berthd stands nowhere.
    async fn ended_before(&self, bed: &Bed, asked: &Asked) -> Result<bool> {
        await_condition("the point is reached, or the request is over", PATIENCE, async || {
            if bed.berthd()?.at_point().is_ok() {
                return Ok(false);
            }
            let status = asked.now().await?.and_then(|request| request.status).context("no status")?;
            ensure!(status.phase == Some(RecreatePhase::Completed), "{status:?}");
            // It may come there after the end: then it is about to stand.
            ensure!(bed.berthd()?.spare()?, "berthd does not stand yet");
            Ok(true)
        })
        .await
    }

    async fn now(&self, bed: &Bed) -> Result<Before> {
        let (hooks, starts) = written(&self.evidence, "a")?;
        Ok(Before { id: bed.site.running(&self.pod, "a").await?.id, hooks, starts })
    }

    /// One instance took the place of the other, by way of its hook, and the pod shows it.
    async fn replaced_once(&self, bed: &Bed, before: &Before, hooks: &RangeInclusive<usize>) -> Result<()> {
        let now = self.now(bed).await?;
        ensure!(now.id != before.id, "Completed, and the container was not replaced");
        self.evidence.has("a", "start", before.starts + 1).await?;
        let ran = now.hooks - before.hooks;
        ensure!(hooks.contains(&ran), "the hook ran {ran} times, not {hooks:?}");
        // The kubelet says so when it next can: it may have been without an API server, too.
        await_condition("the pod shows it", PATIENCE, async || {
            let pod = bed.site.ready(&self.pod).await?;
            let shown =
                pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()).next();
            let shown = shown.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
            ensure!(shown.ends_with(&now.id), "the pod shows {shown}, {} runs", now.id);
            Ok(())
        })
        .await
    }
}
