//! Two hundred requests at once over twenty pods: all of them end, and none of them is written more often
//! than it changes.

use std::collections::BTreeMap;
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
        let writes = tokio::time::timeout(LIMIT, watched).await.context("not all of them ended")???;
        ensure!(writes.len() == PODS * REQUESTS, "{} requests", writes.len());
        // Made, assigned, Pending, Recreating, the question where the kubelet is, killed, Completed.
        let most = writes.values().max_by_key(|writes| writes.len()).context("no requests")?;
        let all: usize = writes.values().map(Vec::len).sum();
        eprintln!("{} requests, {all} writes, at most {} for one", writes.len(), most.len());
        ensure!(most.len() <= 7, "a request was written {} times:\n{}", most.len(), most.join("\n"));
        Ok(())
    })
    .await
}

/// Statuses of each request as they were written, from its creation to its end.
async fn collect_writes(api: Api<ContainerRecreateRequest>) -> Result<BTreeMap<String, Vec<String>>> {
    let mut events = pin!(watcher(api, watcher::Config::default()));
    let mut writes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut ended = 0;
    while let Some(event) = events.try_next().await? {
        let (watcher::Event::Apply(request) | watcher::Event::InitApply(request)) = event else { continue };
        let status = serde_json::to_string(&request.status)?;
        writes.entry(request.name_any()).or_default().push(status);
        let phase = request.status.and_then(|status| status.phase);
        ended += usize::from(phase == Some(RecreatePhase::Completed));
        if ended == PODS * REQUESTS {
            return Ok(writes);
        }
    }
    anyhow::bail!("the watch ended")
}
