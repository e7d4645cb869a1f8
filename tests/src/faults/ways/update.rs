//! Two ordered containers of a running pod are changed: the higher one reads an annotation, the lower one
//! gets an image.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::bed::Bed;
use super::super::matrix::Row;
use super::super::site::{GRACE, NAMESPACE, PATIENCE};
use super::written;
use crate::manifest::PodManifest;
use crate::node::images::{BUSYBOX, BUSYBOX_NEXT};
use crate::observe::Instance;
use crate::recreate::Evidence;
use crate::update::Update;
use crate::wait::await_condition;

/// The readiness gate of updates in place.
const GATE: &str = "InPlaceUpdateReady";

/// The pod.
pub(super) struct UpdatedPod {
    pod: String,
    evidence: Evidence,
    image: &'static str,
}

impl UpdatedPod {
    pub(super) async fn start(bed: &Bed, row: &Row) -> Result<Self> {
        let pod = row.object("update");
        let evidence = Evidence::new(bed.node.run(), NAMESPACE, &pod)?;
        let value = json!({
            "name": "VALUE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['value']" } }
        });
        let manifest = evidence
            .mount(PodManifest::new(NAMESPACE, &pod))
            .grace(GRACE)
            .spec("readinessGates", json!([{ "conditionType": GATE }]))
            .annotation("value", "first")
            .container(evidence.container("high", "sleep 0.3").env_entry(value).priority(5))
            .container(evidence.container("low", "sleep 0.1").priority(1));
        bed.site.create(&manifest).await?;
        // Whoever makes such pods opens their gate, as OpenKruise's workloads do.
        let open = json!({ "status": { "conditions": [{ "type": GATE, "status": "True" }] } });
        let (params, open) = (PatchParams::default(), Patch::Strategic(open));
        bed.site.pods.patch_status(&pod, &params, &open).await.context("open the gate")?;
        bed.site.ready(&pod).await?;
        for name in ["high", "low"] {
            evidence.has(name, "start", 1).await?;
        }
        Ok(Self { pod, evidence, image: BUSYBOX })
    }

    pub(super) async fn play(&mut self, bed: &Bed, row: &Row) -> Result<Instant> {
        let before = [written(&self.evidence, "high")?, written(&self.evidence, "low")?];
        let was = self.running(bed).await?;
        self.image = if self.image == BUSYBOX { BUSYBOX_NEXT } else { BUSYBOX };
        let value = format!("{} of {}", row.fault.name(), row.number);
        let update = Update::new(&self.pod).annotation("value", &value).image("low", self.image);
        bed.arm(row)?;
        let name = row.object("update-request");
        let asked = update.begin(&bed.client, NAMESPACE, &name).await?;
        let healed = bed.strike(row).await?;

        asked.succeeded().await?;
        let now = self.running(bed).await?;
        for (at, name) in ["high", "low"].into_iter().enumerate() {
            ensure!(now[at].id != was[at].id, "Completed, and {name} was not replaced");
            self.evidence.has(name, "start", before[at].1 + 1).await?;
            let hooks = written(&self.evidence, name)?.0 - before[at].0;
            ensure!(row.hooks().contains(&hooks), "{name}: {hooks} hooks, not {:?}", row.hooks());
        }
        ensure!(now[1].started_at > now[0].started_at, "low was started before high");
        let (code, env) = bed.site.cri.exec(&now[0].id, &["/bin/sh", "-c", "printf %s \"$VALUE\""]).await?;
        ensure!(code == 0 && env == value, "exit {code}, env {env:?} instead of {value:?}");
        await_condition("the pod says so, and is back in service", PATIENCE, async || {
            let pod = bed.site.ready(&self.pod).await?;
            let images = pod.spec.iter().flat_map(|spec| &spec.containers).map(|it| it.image.as_deref());
            ensure!(images.flatten().any(|image| image == self.image), "old image");
            Ok(healed)
        })
        .await
    }

    /// High and low.
    async fn running(&self, bed: &Bed) -> Result<[Instance; 2]> {
        Ok([bed.site.running(&self.pod, "high").await?, bed.site.running(&self.pod, "low").await?])
    }
}
