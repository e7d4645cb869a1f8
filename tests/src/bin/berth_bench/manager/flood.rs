//! Two tenants of one cluster: one floods, does the other notice?
//!
//! Tenant B makes a recreate request, an ImagePullJob and a PodProbeMarker, one after the other: the time
//! from each one's creation to what the manager makes of it (the request assigned, the wish in the NodeImage
//! of its node, the probe in the NodePodProbe), as a watch shows it. First alone; that is the baseline. Then
//! tenant A, whose pods run on the same nodes, makes thousands of markers and jobs as large as the definition
//! lets them be, and leaves them there; and while the manager is still at them the same is measured again.
//! `elapsed_s` is all three together.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use berth_proto::crd::{
    ContainerRecreateRequest, ImagePullJob, MOST_SANDBOX_BYTES, NodeImage, NodePodProbe, PodProbeMarker,
};
use berth_tests::node::{ControlPlane, Manager, Replica, User, crds, programs};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{BENCH, Large, memory_mb};
use crate::idle::cpu_s;
use crate::report::{Row, median};

pub(super) const CASE: &str = "flood";
pub(super) const METRICS: &[&str] = &["elapsed_s", "recreate_s", "pull_s", "probe_s", "rss_mb", "cpu_s"];
const NODES: u32 = 4;
/// Pods of tenant A on each node.
const PODS: u32 = 2;
/// Annotations of each of A's jobs: what the definition lets in.
const JOB_BYTES: usize = MOST_SANDBOX_BYTES - 1;
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);
/// Removes what one round has made before the next.
const PAUSE: Duration = Duration::from_secs(1);
const A: &str = "tenant-a";
const B: &str = "tenant-b";

/// One phase, a value a round.
#[derive(Default)]
struct Measured {
    recreate: Vec<f64>,
    pull: Vec<f64>,
    probe: Vec<f64>,
    all: Vec<f64>,
}

pub(super) async fn run(options: &Large) -> Result<Vec<Row>> {
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    cluster(&client).await?;
    programs::manager()?;
    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    let manager = Manager::start(plane.run(), Replica::First, &kubeconfig, ("default", 15)).await?;
    manager.leads().await?;
    let pid = manager.service().pid().context("the manager has ended")?;

    let runs = options.common.runs;
    let before = measure(&client, "alone", runs).await?;
    let (begun, cpu) = (Instant::now(), cpu_s(pid)?);
    flood(&client, options.markers, options.large_jobs).await?;
    let (markers, jobs) = (options.markers, options.large_jobs);
    eprintln!(
        "{markers} markers and {jobs} jobs of {} KiB made in {:.0} s, in which the manager used {:.1} s of CPU",
        JOB_BYTES.div_ceil(1 << 10),
        begun.elapsed().as_secs_f64(),
        cpu_s(pid)? - cpu,
    );
    let during = measure(&client, "flooded", runs).await?;
    let (cpu, rss) = (cpu_s(pid)? - cpu, memory_mb(pid, "VmRSS")?);
    eprintln!("the manager used {cpu:.1} s of CPU for both, {:.0} MB at the most", memory_mb(pid, "VmHWM")?);
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("elapsed_s", "s").medians(&during.all, &before.all)?,
        row("recreate_s", "s").medians(&during.recreate, &before.recreate)?,
        row("pull_s", "s").medians(&during.pull, &before.pull)?,
        row("probe_s", "s").medians(&during.probe, &before.probe)?,
        row("rss_mb", "MB").measured(rss, None, 1),
        row("cpu_s", "s").measured(cpu, None, 1),
    ])
}

fn node(number: u32) -> String {
    format!("node-{}", number % NODES)
}

/// Nodes with the objects that their agents make, and running pods of both tenants.
async fn cluster(client: &Client) -> Result<()> {
    for name in [A, B] {
        make::<Namespace>(&Api::all(client.clone()), json!({ "metadata": { "name": name } })).await?;
    }
    for number in 0..NODES {
        let name = node(number);
        let made = make::<Node>(&Api::all(client.clone()), json!({ "metadata": { "name": name } })).await?;
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": made.uid() });
        let of_node = |kind: &str| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind,
                "metadata": { "name": name, "ownerReferences": [owner] }, "spec": {} })
        };
        make::<NodeImage>(&Api::all(client.clone()), of_node("NodeImage")).await?;
        make::<NodePodProbe>(&Api::all(client.clone()), of_node("NodePodProbe")).await?;
        for pod in 0..PODS {
            running(client, A, &format!("a-{number}-{pod}"), &name).await?;
        }
        running(client, B, &format!("b-{number}"), &name).await?;
    }
    Ok(())
}

async fn running(client: &Client, namespace: &str, name: &str, node: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    make(
        &pods,
        json!({
            "metadata": { "name": name, "labels": { "app": namespace, "pod": name } },
            "spec": { "nodeName": node, "containers": [{ "name": "app", "image": "none" }] },
        }),
    )
    .await?;
    let status = json!({ "status": {
        "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{ "ip": "10.0.0.7" }],
        "conditions": [{ "type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        "containerStatuses": [{ "name": "app", "containerID": format!("containerd://{:0>64}", name.len()), "restartCount": 0,
            "image": "none", "imageID": "none", "ready": true, "state": { "running": {} } }],
    }});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status))
        .await
        .context("start a pod")?;
    Ok(())
}

/// All that tenant A makes.
async fn flood(client: &Client, markers: u32, jobs: u32) -> Result<()> {
    let of_markers = Api::<PodProbeMarker>::namespaced(client.clone(), A);
    let of_jobs = Api::<ImagePullJob>::namespaced(client.clone(), A);
    let (of_markers, of_jobs) = (&of_markers, &of_jobs);
    let made = stream::iter(0..markers)
        .map(|number| async move { make(of_markers, marker(&format!("m{number:05}"), A)).await.map(drop) });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let annotations = json!({ "a": "x".repeat(JOB_BYTES - 1) });
    let annotations = &annotations;
    let made = stream::iter(0..jobs).map(|number| async move {
        let mut job = job(&format!("j{number:05}"), &json!({}));
        job["spec"]["sandboxConfig"] = json!({ "annotations": annotations });
        job["spec"]["parallelism"] = json!("100%");
        make(of_jobs, job).await.map(drop)
    });
    made.buffer_unordered(4).try_collect::<()>().await
}

fn marker(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "probes": [{ "name": "idle", "containerName": "app", "podConditionType": format!("game.io/{name}"),
                "probe": { "exec": { "command": ["/idle.sh"] }, "periodSeconds": 5 } }],
        },
    })
}

fn job(name: &str, selector: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": { "name": name },
        "spec": { "image": format!("registry.example/{name}:1"), "completionPolicy": {}, "selector": selector },
    })
}

/// The waits that tenant B notices.
async fn measure(client: &Client, phase: &str, runs: u32) -> Result<Measured> {
    let mut measured = Measured::default();
    for round in 0..runs {
        let (name, node) = (format!("{phase}-{round}"), node(round));
        let requests: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), B);
        let request = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": name },
            "spec": { "podName": format!("b-{}", round % NODES), "containers": [{ "name": "app" }] },
        });
        let assigned = |request: &ContainerRecreateRequest| {
            request.status.as_ref().is_some_and(|status| status.node_name.is_some())
        };
        let recreate = latency(&requests, &name, assigned, &requests, request).await?;

        let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), B);
        let wanted = format!("registry.example/{name}:1");
        let wished = |image: &NodeImage| {
            let desired = image.status.iter().flat_map(|status| &status.desired_images);
            desired.into_iter().any(|wish| wish.image == wanted)
        };
        let job = job(&name, &json!({ "names": [node] }));
        let pull = latency(&Api::all(client.clone()), &node, wished, &jobs, job).await?;

        let markers: Api<PodProbeMarker> = Api::namespaced(client.clone(), B);
        let full = format!("{name}#idle");
        let probed = |probes: &NodePodProbe| {
            let pods = probes.status.iter().flat_map(|status| &status.desired_pod_probes);
            pods.flat_map(|pod| &pod.probes).any(|probe| probe.name == full)
        };
        let probe = latency(&Api::all(client.clone()), &node, probed, &markers, marker(&name, B)).await?;

        eprintln!("{phase}: recreate {recreate:.3} s, pull {pull:.3} s, probe {probe:.3} s");
        measured.recreate.push(recreate);
        measured.pull.push(pull);
        measured.probe.push(probe);
        measured.all.push(recreate + pull + probe);
        requests.delete(&name, &DeleteParams::default()).await?;
        jobs.delete(&name, &DeleteParams::default()).await?;
        markers.delete(&name, &DeleteParams::default()).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let Measured { recreate, pull, probe, .. } = &measured;
    eprintln!("{phase}: {:.3} s, {:.3} s, {:.3} s (medians)", middle(recreate), middle(pull), middle(probe));
    Ok(measured)
}

/// Seconds from the creation of an object until a watch shows the one of this name as it is to be.
async fn latency<K, M>(
    shown: &Api<K>,
    name: &str,
    is_so: impl Fn(&K) -> bool,
    made: &Api<M>,
    object: Value,
) -> Result<f64>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned,
    M: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let only = format!("metadata.name={name}");
    let list = ListParams::default().fields(&only);
    let watch = WatchParams::default().fields(&only);
    let mut version =
        shown.list(&list).await?.metadata.resource_version.context("a list without a version")?;
    let mut events = pin!(shown.watch(&watch, &version).await?);
    // The watch has the connection. The next one is made here and not on the clock: the first request after
    // a TLS handshake waits 40 ms for an acknowledgement that the API server's kernel delays.
    made.list_metadata(&ListParams::default().limit(1)).await?;
    let begun = Instant::now();
    make(made, object).await?;
    let seen = async {
        loop {
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) if is_so(&object) => {
                        return anyhow::Ok(begun.elapsed().as_secs_f64());
                    }
                    WatchEvent::Error(error) => bail!("watch {name}: {error}"),
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = object.resource_version().unwrap_or(version);
                    }
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                }
            }
            // The API server ends watches as it likes; the next one begins where this one ended.
            events.set(shown.watch(&watch, &version).await?);
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.with_context(|| format!("{name}: not seen"))?
}

async fn make<K>(api: &Api<K>, object: Value) -> Result<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("make an object")
}
