//! Two hundred requests at once over twenty pods: all of them end, none goes back on its way, and none is
//! written as time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerRecreateRequest, RecreatePhase};
use berth_tests::manifest::Container;
use berth_tests::recreate::Ask;
use futures::TryStreamExt;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use crate::case::{Case, run_alone};

const PODS: usize = 20;
const REQUESTS: usize = 10;
const LIMIT: Duration = Duration::from_secs(900);
/// Most writes of a request, however long it takes: made, assigned, Pending, Recreating, the question where
/// the kubelet is, that it stops nothing, exited, killed, Completed; and others of its pod, for which it
/// waits, begin and end.
const MOST: usize = 9 + 2 * REQUESTS;
/// Most of all of them by the request: few wait for more than one other.
const MOST_BY_REQUEST: usize = 8;

#[tokio::test]
async fn recreate_two_hundred_at_once() -> Result<()> {
    run_alone("recreate_two_hundred_at_once", async |case: &Case| {
        for pod in 0..PODS {
            let manifest = case.manifest(&format!("pod-{pod}"));
            case.create(&manifest.container(Container::new("a")).container(Container::new("b"))).await?;
        }
        for pod in 0..PODS {
            case.await_ready(&format!("pod-{pod}")).await?;
        }
        let client = case.node.client().await?;
        let api: Api<ContainerRecreateRequest> = Api::namespaced(client.clone(), &case.namespace);
        let watched = tokio::spawn(collect_writes(api));
        for request in 0..REQUESTS {
            for pod in 0..PODS {
                let container = if request % 2 == 0 { "a" } else { "b" };
                let ask = Ask::new(&format!("pod-{pod}"), &[container]);
                let asked = ask.create(&client, &case.namespace, &format!("r-{request}-{pod}")).await?;
                asked.assign().await?;
            }
        }
        let written = tokio::time::timeout(LIMIT, watched).await.context("not all of them ended")???;
        ensure!(written.len() == PODS * REQUESTS, "{} requests", written.len());
        let most = written.values().map(|one| &one.statuses).max_by_key(|statuses| statuses.len());
        let most = most.context("no requests")?;
        let all: usize = written.values().map(|one| one.statuses.len()).sum();
        eprintln!("{} requests, {all} writes, at most {} for one", written.len(), most.len());
        ensure!(most.len() <= MOST, "a request was written {} times:\n{}", most.len(), most.join("\n"));
        ensure!(all <= MOST_BY_REQUEST * written.len(), "{all} writes of {} requests", written.len());
        Ok(())
    })
    .await
}

/// A request as a watch has shown it.
#[derive(Default)]
struct Written {
    /// One for each write.
    statuses: Vec<String>,
    /// Version of the last one; a watch that begins anew shows it again.
    version: Option<String>,
    stage: [u8; 4],
}

/// Stage of a request: it is assigned, how far its container is, whether that was told to stop, and whether
/// the request has ended. Each only grows.
fn stage(request: &ContainerRecreateRequest) -> [u8; 4] {
    let Some(status) = &request.status else { return [0; 4] };
    let state = status.container_recreate_states.first();
    let container = match state.map(|state| state.phase) {
        None | Some(RecreatePhase::Pending) => 0,
        Some(RecreatePhase::Recreating) => 1,
        Some(RecreatePhase::Completed | RecreatePhase::Succeeded | RecreatePhase::Failed) => 2,
    };
    [
        u8::from(status.node_name.is_some()),
        container,
        u8::from(state.is_some_and(|state| state.is_killed)),
        u8::from(status.phase == Some(RecreatePhase::Completed)),
    ]
}

/// Statuses of each request as they were written, from its creation to its end.
async fn collect_writes(api: Api<ContainerRecreateRequest>) -> Result<BTreeMap<String, Written>> {
    let mut events = pin!(watcher(api, watcher::Config::default()));
    let mut written: BTreeMap<String, Written> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    while let Some(event) = events.try_next().await? {
        let (watcher::Event::Apply(request) | watcher::Event::InitApply(request)) = event else { continue };
        let (name, version, now) = (request.name_any(), request.resource_version(), stage(&request));
        let one = written.entry(name.clone()).or_default();
        if one.version == version {
            continue;
        }
        let before = std::mem::replace(&mut one.stage, now);
        let grows = before.iter().zip(now).all(|(before, now)| *before <= now);
        ensure!(grows, "{name}: {before:?}, then {now:?}");
        one.version = version;
        one.statuses.push(serde_json::to_string(&request.status)?);
        if now[3] == 1 && ended.insert(name) && ended.len() == PODS * REQUESTS {
            return Ok(written);
        }
    }
    anyhow::bail!("the watch ended")
}
