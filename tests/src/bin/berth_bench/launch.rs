//! Launch order: how long until all containers of a three-container pod are Ready?
//!
//! The baseline is the same pod without priorities, on the same node and through the same berthd. Ordered and
//! plain pods take turns, so that both meet the same machine. The clock starts when the pod is created at the
//! API server and stops when a watch shows the pod Ready.
//!
//! With probes each container has a readiness probe every second that succeeds at once. Its own time, as the
//! runtime takes it for the same command, passes once for each level that is waited for: `own_s` is what the
//! order takes beyond that and beyond the plain pod, against a limit of 0.3 s. In `highest-first-probes-late`
//! the agent leaves probes to the kubelet (`launchOrder.earlyReadiness: false`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{Condition, await_condition, conditions};

use crate::Options;
use crate::report::{Bench, Row, median};

pub(crate) const BENCH: Bench = Bench {
    name: "launch",
    about: "create to Ready of a pod with three containers on three levels; baseline: the plain pod",
    cases: &[
        ("lowest-first-probes", &["all_ready_s"]),
        ("lowest-first-no-probes", &["all_ready_s"]),
        (EARLY, &["all_ready_s", "own_s"]),
        ("highest-first-no-probes", &["all_ready_s"]),
        (LATE, &["all_ready_s"]),
    ],
};
/// The agent runs the probes itself.
const EARLY: &str = "highest-first-probes";
/// It does not. The last one: it changes the agent's configuration.
const LATE: &str = "highest-first-probes-late";
/// Limit of the time that an order may take beyond the plain pod and the probes' own time, in seconds.
const LIMIT: f64 = 0.3;
/// Levels that are waited for.
const AWAITED: f64 = 2.0;
/// Nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let pods: Api<Pod> = Api::namespaced(node.client().await?, "default");
    // The first pod of a node pays for what is only done once.
    all_ready(&pods, &manifest("warm-up", false, false, false)).await?;

    let mut rows = Vec::new();
    for &(case, _) in BENCH.cases.iter().filter(|(case, _)| options.wants(case)) {
        if case == LATE {
            node.berthd()?.configure("launchOrder:\n  earlyReadiness: false\n").await?;
        }
        let (highest_first, probes) = (case.starts_with("highest"), !case.ends_with("no-probes"));
        let (mut ordered, mut plain) = (Vec::new(), Vec::new());
        for run in 0..options.runs {
            let name = format!("{case}-{run}");
            ordered.push(all_ready(&pods, &manifest(&name, true, highest_first, probes)).await?);
            plain.push(
                all_ready(&pods, &manifest(&format!("plain-{name}"), false, highest_first, probes)).await?,
            );
        }
        eprintln!("{case}: ordered {ordered:.2?} plain {plain:.2?}");
        rows.push(Row::new(&BENCH, case, "all_ready_s", "s").medians(&ordered, &plain)?);
        if case == EARLY {
            let (ordered, plain) = (median(&ordered).context("nothing")?, median(&plain).context("nothing")?);
            let own = ordered - plain - AWAITED * probe_s(&node, &pods).await?;
            rows.push(Row::new(&BENCH, case, "own_s", "s").measured(own, Some(LIMIT), options.runs as usize));
        }
    }
    node.down()?;
    Ok(rows)
}

/// Measures the time that the runtime takes for the command of the probes.
async fn probe_s(node: &Node, pods: &Api<Pod>) -> Result<f64> {
    let manifest = PodManifest::new("default", "probe").container(Container::new("a"));
    pods.create(&PostParams::default(), &manifest.pod()?).await.context("create")?;
    until(pods, "probe", is_ready).await?;
    let cri = node.containerd().cri()?;
    let containers = cri.containers("default", "probe").await?;
    let id = &containers.first().context("no container")?.id;
    let mut took = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        cri.exec(id, &["/bin/sh", "-c", "true"]).await?;
        took.push(begun.elapsed().as_secs_f64());
    }
    remove(pods, "probe").await?;
    let probe = median(&took).context("nothing was measured")?;
    eprintln!("a probe's own time: {probe:.3} s");
    Ok(probe)
}

fn manifest(name: &str, ordered: bool, highest_first: bool, probes: bool) -> PodManifest {
    let mut containers = [("a", 3), ("b", 2), ("c", 1)];
    if !highest_first {
        containers.reverse();
    }
    containers.into_iter().fold(PodManifest::new("default", name), |manifest, (name, priority)| {
        let mut container = Container::new(name);
        if ordered {
            container = container.priority(priority);
        }
        if probes {
            container = container.ready_when("true");
        }
        manifest.container(container)
    })
}

/// Plays the pod, measures, and removes it, so that the next one finds the node as this one did.
async fn all_ready(pods: &Api<Pod>, manifest: &PodManifest) -> Result<f64> {
    let pod = manifest.pod()?;
    let name = pod.metadata.name.clone().context("a pod without a name")?;
    let begun = Instant::now();
    pods.create(&PostParams::default(), &pod).await.context("create")?;
    until(pods, &name, is_ready).await?;
    let elapsed = begun.elapsed();
    remove(pods, &name).await?;
    Ok(elapsed.as_secs_f64())
}

async fn remove(pods: &Api<Pod>, name: &str) -> Result<()> {
    let now = DeleteParams { grace_period_seconds: Some(1), ..Default::default() };
    let uid =
        pods.delete(name, &now).await.context("delete")?.map_left(|pod| pod.metadata.uid).left().flatten();
    until(pods, name, conditions::is_deleted(&uid.context("a pod without a UID")?)).await
}

fn is_ready(pod: Option<&Pod>) -> bool {
    let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn until(pods: &Api<Pod>, name: &str, condition: impl Condition<Pod>) -> Result<()> {
    tokio::time::timeout(PATIENCE, await_condition(pods.clone(), name, condition))
        .await
        .with_context(|| format!("pod {name}: not within {} s", PATIENCE.as_secs()))?
        .with_context(|| format!("watch pod {name}"))?;
    Ok(())
}
