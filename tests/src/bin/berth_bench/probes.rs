//! Probes of one's own: how long until a pod is marked, what they cost, and what happens when they are too
//! many?
//!
//! All parts are real: manager, berthd with the token and the policies of `deploy/`, kubelet, containerd. The
//! baselines are OpenKruise's figures on the same machine, or limits.
//!
//! - `flip`: one pod with an exec probe every second that looks for a file. From the file's appearing or
//!   vanishing, at any moment of the period, until a watch shows the label of the other outcome. Limit:
//!   period and a second.
//! - `idle-40x1-exec-10s`, `idle-40x2-http-1s`: in each pod an exec probe every 10 s, or two HTTP probes
//!   every second, for a minute in which nothing changes: nothing may be written then. All of berthd's CPU
//!   counts, that of the idle node too.
//! - `budget-40-execs`: the same pods, where 40 exec probes a second are wanted, for a minute. How many run
//!   is counted by the commands themselves.

use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::NodePodProbe;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::markers::{APP, Marker, delete, says};
use berth_tests::node::{Manager, NODE_NAME, Node};
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::Options;
use crate::idle::cpu_s;
use crate::manager::memory_mb;
use crate::process::sum_of;
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "probes",
    about: "a file's change to the pod's label; 40 pods with three probes each; 40 exec probes a second; baseline: OpenKruise, or the limit",
    cases: &[
        (FLIP, &["flip_s", "flip_max_s"]),
        (EXEC, STEADY),
        (HTTP, STEADY),
        (BUDGET, &["execs_per_s", "load", "cpu_s_per_min", "node_ready"]),
    ],
};
const FLIP: &str = "flip";
const EXEC: &str = "idle-40x1-exec-10s";
const HTTP: &str = "idle-40x2-http-1s";
const STEADY: &[&str] = &["cpu_s_per_min", "rss_mb", "api_writes"];
const BUDGET: &str = "budget-40-execs";
const NAMESPACE: &str = "default";
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);
const MEASURED: Duration = Duration::from_secs(60);
/// The kubelet goes over pods that it has just started more often than over others.
const SETTLES: Duration = Duration::from_secs(20);
const PODS: usize = 40;
/// Flips in a run.
const FLIPS: u32 = 10;
/// OpenKruise's, measured by the same means: median of a flip, CPU and memory of the steady cases.
const KRUISE: [f64; 3] = [0.71, 0.2, 72.0];
/// The period, and a second.
const FLIP_LIMIT: f64 = 2.0;
/// `probes.execPerSecond`.
const EXECS_PER_S: f64 = 8.0;

struct Bed {
    node: Node,
    client: Client,
    pods: Api<Pod>,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::updating().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    let client = node.client().await?;
    let bed = Bed { pods: Api::namespaced(client.clone(), NAMESPACE), client, node };
    let mut rows = Vec::new();
    if options.wants(FLIP) {
        rows.extend(bed.flip(options.runs).await.context(FLIP)?);
    }
    if [EXEC, HTTP, BUDGET].iter().any(|case| options.wants(case)) {
        let evidence = bed.many_pods().await?;
        let many = || Marker::new("many", "many");
        if options.wants(EXEC) {
            let marker = many().probe("one", "main", exec("true", 10)).label("one");
            rows.extend(bed.steady(EXEC, &marker, &["one"]).await.context(EXEC)?);
        }
        if options.wants(HTTP) {
            let get = || probe("httpGet", json!({ "port": 8080, "path": "/" }), 1);
            let marker = many().probe("one", "main", get()).label("one").probe("two", "main", get());
            rows.extend(bed.steady(HTTP, &marker, &["one", "two"]).await.context(HTTP)?);
        }
        if options.wants(BUDGET) {
            rows.extend(bed.budget(&evidence).await.context(BUDGET)?);
        }
    }
    drop(manager);
    bed.node.down()?;
    Ok(rows)
}

/// A probe with this handler. A busy machine is no failure.
fn probe(handler: &str, what: Value, period: u32) -> Value {
    json!({ handler: what, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": 1 })
}

fn exec(script: &str, period: u32) -> Value {
    probe("exec", json!({ "command": ["/bin/sh", "-c", script] }), period)
}

impl Bed {
    async fn flip(&self, runs: u32) -> Result<Vec<Row>> {
        const POD: &str = "flip";
        let evidence = Evidence::new(self.node.run(), NAMESPACE, POD)?;
        let manifest = PodManifest::new(NAMESPACE, POD).label(APP, POD);
        let manifest = evidence.mount(manifest).container(evidence.mounted(Container::new("main")));
        self.pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
        let marker =
            Marker::new(POD, POD).probe("idle", "main", exec("test -f /evidence/idle", 1)).label("idle");
        marker.apply(&self.client, NAMESPACE).await?;

        let config = watcher::Config::default().fields(&format!("metadata.name={POD}"));
        let mut seen = pin!(watcher(self.pods.clone(), config).default_backoff().applied_objects());
        let mut until = async |value: &str| -> Result<()> {
            let shown = async {
                while let Some(pod) = seen.try_next().await.context("watch of the pod")? {
                    if pod.labels().get("idle").is_some_and(|found| found == value) {
                        return anyhow::Ok(());
                    }
                }
                anyhow::bail!("the watch ended")
            };
            timeout(PATIENCE, shown).await.with_context(|| format!("idle is not {value}"))?
        };
        until("false").await?;
        let mut took = Vec::new();
        for number in 0..runs * FLIPS {
            // A flip is seen right after a run of the probe; the next change is to come at any other moment.
            sleep(Duration::from_millis(u64::from(number * 370 % 1000))).await;
            let idle = number % 2 == 0;
            let begun = Instant::now();
            if idle {
                evidence.put("idle")?;
            } else {
                evidence.take("idle")?;
            }
            until(if idle { "true" } else { "false" }).await?;
            took.push(begun.elapsed().as_secs_f64());
        }
        eprintln!("{FLIP}: {took:.2?}");
        delete(&self.client, NAMESPACE, POD).await?;
        let most = took.iter().copied().fold(0.0, f64::max);
        let row = |metric| Row::new(&BENCH, FLIP, metric, "s");
        Ok(vec![
            row("flip_s").medians(&took, &[KRUISE[0]])?,
            row("flip_max_s").measured(most, Some(FLIP_LIMIT), took.len()),
        ])
    }

    /// The pods of the other two cases, and where they leave evidence.
    async fn many_pods(&self) -> Result<Evidence> {
        let evidence = Evidence::new(self.node.run(), NAMESPACE, "many")?;
        for number in 0..PODS {
            let main = Container::new("main")
                .shell("mkdir /www; echo fine > /www/index.html; httpd -p 8080 -h /www");
            let manifest = PodManifest::new(NAMESPACE, &format!("many-{number}")).label(APP, "many");
            let manifest = evidence.mount(manifest).container(evidence.mounted(main));
            self.pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
        }
        await_condition("all pods run", PATIENCE, async || {
            let running = ListParams::default().fields("status.phase=Running").labels("app=many");
            let count = self.pods.list(&running).await?.items.len();
            ensure!(count == PODS, "{count} of {PODS}");
            Ok(())
        })
        .await?;
        Ok(evidence)
    }

    /// Waits until every pod says this of each of these probes.
    async fn all_say(&self, probes: &[&str], status: &str) -> Result<()> {
        await_condition(format!("all say {status}"), PATIENCE, async || {
            for pod in self.pods.list(&ListParams::default().labels("app=many")).await?.items {
                for probe in probes {
                    says(&pod, probe, status, "").with_context(|| pod.name_any())?;
                }
            }
            Ok(())
        })
        .await
    }

    /// `probes` are those of the marker.
    async fn steady(&self, case: &'static str, marker: &Marker, probes: &[&str]) -> Result<Vec<Row>> {
        marker.apply(&self.client, NAMESPACE).await?;
        self.all_say(probes, "True").await?;
        sleep(SETTLES).await;
        let berthd = self.node.berthd()?.service().pid().context("berthd does not run")?;
        let before = (cpu_s(berthd)?, self.writes().await?);
        sleep(MEASURED).await;
        let after = (cpu_s(berthd)?, self.writes().await?);
        let memory = memory_mb(berthd, "VmRSS")?;
        delete(&self.client, NAMESPACE, "many").await?;
        let minutes = MEASURED.as_secs_f64() / 60.0;
        let row = |metric, unit| Row::new(&BENCH, case, metric, unit);
        Ok(vec![
            row("cpu_s_per_min", "s").measured((after.0 - before.0) / minutes, Some(KRUISE[1]), 1),
            row("rss_mb", "MB").measured(memory, Some(KRUISE[2]), 1),
            row("api_writes", "count").measured(after.1 - before.1, Some(0.0), 1),
        ])
    }

    async fn budget(&self, evidence: &Evidence) -> Result<Vec<Row>> {
        let marker = Marker::new("busy", "many").probe("busy", "main", exec("echo run >> /evidence/runs", 1));
        marker.apply(&self.client, NAMESPACE).await?;
        self.all_say(&["busy"], "True").await?;
        sleep(SETTLES).await;
        let berthd = self.node.berthd()?.service().pid().context("berthd does not run")?;
        let (begun, before) = (Instant::now(), (cpu_s(berthd)?, evidence.count("runs", "run")?));
        sleep(MEASURED).await;
        let (seconds, after) =
            (begun.elapsed().as_secs_f64(), (cpu_s(berthd)?, evidence.count("runs", "run")?));
        let load = load()?;
        let ready = self.ready().await?;
        for line in self.said().await? {
            eprintln!("{BUDGET}: {line}");
        }
        delete(&self.client, NAMESPACE, "busy").await?;
        let execs = u32::try_from(after.1 - before.1)?;
        let row = |metric, unit| Row::new(&BENCH, BUDGET, metric, unit);
        Ok(vec![
            row("execs_per_s", "1/s").measured(f64::from(execs) / seconds, Some(EXECS_PER_S), 1),
            row("load", "processes").measured(load, None, 1),
            row("cpu_s_per_min", "s").measured((after.0 - before.0) * 60.0 / seconds, None, 1),
            row("node_ready", "share").measured(if ready { 1.0 } else { 0.0 }, Some(1.0), 1),
        ])
    }

    /// All writes to the API that berthd has counted.
    async fn writes(&self) -> Result<f64> {
        let metrics = self.node.berthd()?.metrics().await?;
        sum_of(&metrics, "berth_agent_api_writes_total{")
    }

    async fn ready(&self) -> Result<bool> {
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        let conditions =
            nodes.get(NODE_NAME).await?.status.unwrap_or_default().conditions.unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    }

    /// The conditions of the node's object.
    async fn said(&self) -> Result<Vec<String>> {
        let objects: Api<NodePodProbe> = Api::all(self.client.clone());
        let conditions = objects.get(NODE_NAME).await?.status.unwrap_or_default().conditions;
        Ok(conditions
            .iter()
            .map(|found| format!("{} is {}: {}", found.type_, found.status, found.message))
            .collect())
    }
}

/// The load of the machine over the last minute.
fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("the machine's load")?;
    text.split(' ').next().unwrap_or_default().parse().context("the machine's load")
}
