//! A crowd of requests for one pod: what it costs the calls of everybody else.
//!
//! All parts are real: berthd, kubelet, API server, containerd. Ten thousand ContainerRecreateRequests that
//! drain their pod for an hour stay open, each assigned to the node. Meanwhile a client asks through berthd
//! for the status of another pod's container, one call after the other, as it did before the crowd came and
//! does again once it has gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ContainerRecreateRequest;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Cri;
use berth_tests::recreate::Ask;
use berth_tests::wait::await_condition;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};

use crate::report::{Bench, Row, median};

pub(crate) const CASE: &str = "crowd-10000";
pub(crate) const METRICS: &[&str] = &["p50_us", "p99_us"];

const CROWD: usize = 10_000;
const AT_ONCE: usize = 16;
/// Calls of a round, one after the other.
const CALLS: usize = 2000;
const NAMESPACE: &str = "default";
const PATIENCE: Duration = Duration::from_secs(300);

/// Median and 99th percentile of a round, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Round {
    p50: f64,
    p99: f64,
}

pub(crate) async fn run(bench: &Bench, runs: u32) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let client = node.client().await?;
    let cri = node.containerd().cri()?;
    for pod in ["crowded", "other"] {
        create(&client, &cri, pod).await?;
    }
    let other = cri.containers(NAMESPACE, "other").await?.pop().context("no container")?.id;
    let through = Cri::connect(node.berthd()?.socket())?;
    let rounds =
        async || stream::iter(0..runs).then(|_| round(&through, &other)).try_collect::<Vec<_>>().await;

    let mut alone = rounds().await?;
    eprintln!("alone: {alone:.0?}");
    let begun = Instant::now();
    stream::iter(0..CROWD)
        .map(|number| ask(&client, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    eprintln!("{CROWD} requests made and assigned in {:.0?}", begun.elapsed());
    let crowded = rounds().await?;
    eprintln!("with the crowd: {crowded:.0?}");
    let requests: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), NAMESPACE);
    let open = requests.list(&ListParams::default()).await?.items;
    let open = open
        .iter()
        .filter(|request| request.status.as_ref().is_none_or(|status| status.completion_time.is_none()));
    ensure!(open.count() == CROWD, "not all requests stayed open");
    requests.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    await_condition("the crowd has gone", PATIENCE, async || {
        ensure!(requests.list(&ListParams::default().limit(1)).await?.items.is_empty(), "not yet");
        Ok(())
    })
    .await?;
    alone.extend(rounds().await?);
    node.down()?;

    let row = |metric, of: fn(&Round) -> f64| {
        let (with, without): (Vec<f64>, Vec<f64>) =
            (crowded.iter().map(of).collect(), alone.iter().map(of).collect());
        let value = median(&with).context("nothing was measured")?;
        anyhow::Ok(Row::new(bench, CASE, metric, "us").measured(value, median(&without), with.len()))
    };
    Ok(vec![row("p50_us", |round| round.p50)?, row("p99_us", |round| round.p99)?])
}

async fn create(client: &Client, cri: &Cri, pod: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let manifest = PodManifest::new(NAMESPACE, pod).container(Container::new("a"));
    pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
    await_condition(format!("{pod} runs"), PATIENCE, async || {
        let running = cri.containers(NAMESPACE, pod).await?;
        let shown = pods.get(pod).await?.status.and_then(|status| status.container_statuses);
        let shown = shown.into_iter().flatten().any(|status| status.ready);
        ensure!(shown && running.iter().any(|instance| instance.started_at > 0), "not yet");
        Ok(())
    })
    .await
}

async fn ask(client: &Client, number: usize) -> Result<()> {
    let ask = Ask::new("crowded", &["a"]).strategy("unreadyGracePeriodSeconds", 3600);
    ask.create(client, NAMESPACE, &format!("crowd-{number}")).await?.assign().await
}

async fn round(cri: &Cri, container: &str) -> Result<Round> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        cri.container(container).await?.context("the container is gone")?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len() * part / 100).copied().context("no calls");
    Ok(Round { p50: at(50)?, p99: at(99)? })
}
