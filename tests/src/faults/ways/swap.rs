//! The twins of a sidecar are swapped by `berthctl swap`; or a hook hangs, and the pod returns to what it
//! was.
//! Somebody serves all the time, and the app runs on. Each twin is started as often as that takes.

use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::bed::Bed;
use super::super::matrix::{Fault, Row, Way};
use super::super::site::{NAMESPACE, PATIENCE};
use crate::manifest::PodManifest;
use crate::node::images::{BUSYBOX, BUSYBOX_NEXT};
use crate::recreate::Evidence;
use crate::wait::{Hopeless, await_condition};

/// Image of the twin that rests: the same under a third name.
const EMPTY: &str = "berth.test/busybox:empty";
/// Set, the postStart hooks hang.
const HANG: &str = "hang";

/// The pod.
pub(super) struct SwappedPod {
    pod: String,
    evidence: Evidence,
    image: &'static str,
}

impl SwappedPod {
    pub(super) async fn start(bed: &Bed, row: &Row) -> Result<Self> {
        bed.node.containerd().ctr(&["images", "tag", "--force", BUSYBOX, EMPTY]).await?;
        let pod = row.object("swap");
        let evidence = Evidence::new(bed.node.run(), NAMESPACE, &pod)?;
        let hook = json!({ "exec": { "command": ["/bin/sh", "-c", "while test -f /evidence/hang; do sleep 0.1; done"] } });
        let twin = |name: &str, image: &str| {
            let container = evidence.container(name, "").image(image);
            container.field("lifecycle", json!({ "postStart": hook }))
        };
        let mut manifest = evidence.mount(PodManifest::new(NAMESPACE, &pod)).grace(5);
        for (key, value) in annotations() {
            manifest = manifest.annotation(key, value);
        }
        let manifest = manifest
            .container(twin("mesh-1", BUSYBOX))
            .container(twin("mesh-2", EMPTY))
            .container(evidence.container("app", ""));
        bed.site.create(&manifest).await?;
        bed.site.ready(&pod).await?;
        for twin in ["mesh-1", "mesh-2"] {
            evidence.has(twin, "start", 1).await?;
        }
        Ok(Self { pod, evidence, image: BUSYBOX })
    }

    pub(super) async fn play(&mut self, bed: &Bed, row: &Row) -> Result<Instant> {
        let app = bed.site.running(&self.pod, "app").await?.id;
        let next = if self.image == BUSYBOX { BUSYBOX_NEXT } else { BUSYBOX };
        let hangs = row.way == Way::SwapBack;
        let (rests, served) = self.twins(bed).await?;
        let before = [self.starts(rests)?, self.starts(served)?];
        if hangs {
            self.evidence.put(HANG)?;
        }
        bed.arm(row)?;
        let target = format!("{NAMESPACE}/{}", self.pod);
        let asked =
            ["swap", &target, "mesh", next, "--migration", if hangs { "2s" } else { "600s" }, "--no-wait"];
        let taken = bed.berthd()?.ctl(&asked).await?;
        let name = taken.split_whitespace().last().context("no name")?.to_owned();
        let healed = bed.strike(row).await?;

        if hangs {
            // The empty image runs the same hook: it would never be Ready.
            await_condition("the pod returns to what it was", PATIENCE, async || {
                let told = told(bed, &name).await?;
                let way_back = told["phase"] == "RollingBack" || !text(&told["outcome"]).is_empty();
                ensure!(way_back, "{told}");
                Ok(())
            })
            .await?;
            self.evidence.take(HANG)?;
        } else {
            self.image = next;
        }
        let outcome = await_condition("the swap has ended", PATIENCE, async || {
            let told = told(bed, &name).await?;
            let outcome = text(&told["outcome"]).to_owned();
            ensure!(!outcome.is_empty(), "{told}");
            Ok(outcome)
        })
        .await?;
        ensure!(outcome == if hangs { "Failed" } else { "Complete" }, "the swap: {outcome}");
        let pod = bed.site.ready(&self.pod).await?;
        let mut images: Vec<&str> = ["mesh-1", "mesh-2"].map(|twin| image(&pod, twin)).into();
        images.sort_unstable();
        let mut wanted = [self.image, EMPTY];
        wanted.sort_unstable();
        ensure!(images == wanted, "{images:?} instead of {wanted:?}");
        ensure!(bed.site.running(&self.pod, "app").await?.id == app, "the app was restarted");
        let allowed = allowed(row);
        for ((twin, before), allowed) in [rests, served].into_iter().zip(before).zip(allowed) {
            // It runs before it has written that it does.
            await_condition(format!("{twin} was started {allowed:?} times"), PATIENCE, async || {
                let starts = self.starts(twin)? - before;
                ensure!(starts <= *allowed.end(), Hopeless(format!("it was started {starts} times")));
                ensure!(starts >= *allowed.start(), "it was started {starts} times");
                Ok(())
            })
            .await?;
        }
        Ok(healed)
    }

    /// The twin that rests, which the new version goes into, and the one that serves.
    async fn twins(&self, bed: &Bed) -> Result<(&'static str, &'static str)> {
        let pod = bed.site.ready(&self.pod).await?;
        Ok(match image(&pod, "mesh-1") == EMPTY {
            true => ("mesh-1", "mesh-2"),
            false => ("mesh-2", "mesh-1"),
        })
    }

    fn starts(&self, twin: &str) -> Result<usize> {
        self.evidence.count(twin, "start")
    }
}

/// How often the twin that rested and the one that served are started: each once for a swap; for one that is
/// given up the first for the new version and for the empty image, and the other one never.
fn allowed(row: &Row) -> [RangeInclusive<usize>; 2] {
    let more = match row.fault {
        Fault::Stop => 0,
        // The kubelet may not have heard of the way back when what holds it is stopped for that.
        Fault::ApiCut if row.way == Way::Swap => 0,
        // What ends a call of the kubelet ends that of a hook, too. Then the kubelet stops the container and
        // starts it anew.
        Fault::ApiCut
        | Fault::Kill
        | Fault::DiskFull
        | Fault::BrokenStore
        | Fault::ContainerdRestart
        | Fault::KillShim => row.points.len(),
    };
    match row.way {
        Way::SwapBack => [2..=2 + more, 0..=0],
        _ => [1..=1 + more, 1..=1 + more],
    }
}

/// Entry of an update, as berthctl shows it.
async fn told(bed: &Bed, name: &str) -> Result<Value> {
    let told = bed.berthd()?.ctl(&["get", "updates", name, "-o", "json"]).await?;
    let mut told: Value = serde_json::from_str(&told).context("what berthctl shows")?;
    Ok(told["updates"][0].take())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Annotations of a pod whose first twin serves.
fn annotations() -> [(&'static str, &'static str); 5] {
    [
        ("kruise.io/sidecarset-working-hotupgrade-container", r#"{"mesh":"mesh-1"}"#),
        ("version.sidecarset.kruise.io/mesh-1", "1"),
        ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
        ("version.sidecarset.kruise.io/mesh-2", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
    ]
}

fn image<'a>(pod: &'a Pod, name: &str) -> &'a str {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let found = containers.into_iter().find(|container| container.name == name);
    found.and_then(|container| container.image.as_deref()).unwrap_or_default()
}
