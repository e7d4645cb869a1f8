//! What a node sees of berthd being replaced, while its pods come and go.
//!
//! All parts are real. Pods of two ordered containers with exec probes are made and deleted all the time; four clients call
//! berthd all the time. `upgrade` replaces it by `berthctl upgrade`, `kill` by SIGKILL and a new start that has to bind the
//! socket anew, which is worse than what systemd does with a socket it keeps. Then everything is counted that went wrong:
//! calls of the clients, restarts of containers, pods that failed, what the kubelet complains of, and whether the node was ever
//! not Ready. `none` is the same churn with nothing replaced, the baseline of the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::{Caller, PodWatch, complaints, node_ready};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use crate::Options;
use crate::report::{Bench, Row, median};

const METRICS: &[&str] = &[
    "failed_calls",
    "complaints",
    "restarts",
    "failed_pods",
    "not_ready",
    "replaced_s",
    "pods",
    "answered_calls",
];

pub(crate) const BENCH: Bench = Bench {
    name: "handover",
    about: "berthd replaced ten times while 60 pods come and go; baseline: the same churn without",
    cases: &[("none", METRICS), ("upgrade", METRICS), ("kill", METRICS)],
};
const NAMESPACE: &str = "default";
/// At once.
const PODS: usize = 60;
/// Made and deleted in one step.
const STEP: usize = 3;
/// Between two steps of the churn: about 90 pods a minute.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two replacements.
const APART: Duration = Duration::from_secs(6);
const REPLACED: usize = 10;
const PATIENCE: Duration = Duration::from_secs(600);

struct Bed {
    node: Node,
    client: Client,
    pods: Api<Pod>,
}

/// Counted over one case.
#[derive(Clone, Debug, Default)]
struct Seen {
    failed_calls: f64,
    complaints: f64,
    restarts: f64,
    failed_pods: f64,
    not_ready: f64,
    replaced_s: Vec<f64>,
    pods: f64,
    answered: f64,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let client = node.client().await?;
    let bed = Bed { pods: Api::namespaced(client.clone(), NAMESPACE), client, node };
    let mut rows = Vec::new();
    let mut without = None;
    for &(case, _) in BENCH.cases.iter().filter(|(case, _)| options.wants(case)) {
        let seen = bed.churn(case).await.with_context(|| case.to_owned())?;
        eprintln!("{case}: {seen:?}");
        rows.extend(rows_of(case, &seen, without.as_ref()));
        if case == "none" {
            without = Some(seen);
        }
    }
    bed.node.down()?;
    Ok(rows)
}

fn rows_of(case: &'static str, seen: &Seen, without: Option<&Seen>) -> Vec<Row> {
    let row = |metric, unit, count: fn(&Seen) -> f64| {
        Row::new(&BENCH, case, metric, unit).measured(count(seen), without.map(count), 1)
    };
    let mut rows = vec![
        row("failed_calls", "calls", |seen| seen.failed_calls),
        row("complaints", "Events", |seen| seen.complaints),
        row("restarts", "containers", |seen| seen.restarts),
        row("failed_pods", "pods", |seen| seen.failed_pods),
        row("not_ready", "times", |seen| seen.not_ready),
        row("pods", "pods", |seen| seen.pods),
        row("answered_calls", "calls", |seen| seen.answered),
    ];
    if let Some(replaced) = median(&seen.replaced_s) {
        rows.push(Row::new(&BENCH, case, "replaced_s", "s").measured(replaced, None, seen.replaced_s.len()));
    }
    rows
}

impl Bed {
    async fn churn(&self, case: &str) -> Result<Seen> {
        let berthd = self.node.berthd()?;
        let watch = PodWatch::start(self.pods.clone()).await?;
        let label = format!("handover-{case}");
        let mut names: Vec<String> = Vec::new();
        while names.len() < PODS {
            names.push(self.make(&label, names.len()).await?);
        }
        self.await_ready(&names).await?;
        let complained = self.complaints().await?;
        let ready_since = self.ready_since().await?;
        let caller = Caller::start(berthd.socket())?;

        let mut seen = Seen::default();
        let mut made = names.len();
        let mut next = Instant::now() + APART;
        let mut rounds = 0;
        while rounds < REPLACED {
            for _ in 0..STEP {
                self.pods.delete(&names.remove(0), &DeleteParams::default()).await?;
                names.push(self.make(&label, made).await?);
                made += 1;
            }
            sleep(PAUSE).await;
            if Instant::now() < next {
                continue;
            }
            rounds += 1;
            let began = Instant::now();
            match case {
                "upgrade" => {
                    berthd.upgrade(&berthd.program()?, &["--watch=0s"]).await?;
                    seen.replaced_s.push(began.elapsed().as_secs_f64());
                }
                "kill" => {
                    berthd.crash().await?;
                    seen.replaced_s.push(began.elapsed().as_secs_f64());
                }
                _ => {}
            }
            next = Instant::now() + APART;
        }
        self.await_ready(&names).await?;
        let calls = caller.finish().await?;
        (seen.answered, seen.failed_calls) = (count(calls.answered), count(calls.failed.len()));
        let mut why: BTreeMap<&str, usize> = BTreeMap::new();
        calls.failed.iter().for_each(|failed| *why.entry(failed).or_default() += 1);
        why.iter().for_each(|(why, times)| eprintln!("{times} x {why}"));

        let pods = watch.labelled("app", &label);
        seen.pods = count(pods.len());
        seen.restarts =
            pods.iter().flat_map(|pod| pod.restarts.values()).map(|times| f64::from(*times)).sum();
        let failed =
            |pod: &&berth_tests::observe::Seen| pod.phases.iter().any(|(_, phase)| phase == "Failed");
        seen.failed_pods = count(pods.iter().filter(failed).count());
        seen.complaints = count(self.complaints().await?.saturating_sub(complained));
        seen.not_ready = if self.ready_since().await? == ready_since { 0.0 } else { 1.0 };

        let all = ListParams::default().labels(&format!("app={label}"));
        self.pods.delete_collection(&DeleteParams::default(), &all).await?;
        await_condition("the pods are gone", PATIENCE, async || {
            let left = self.pods.list(&all).await?.items.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
        Ok(seen)
    }

    /// Two ordered containers, the higher one with an exec probe; both end at once when they are told to.
    async fn make(&self, label: &str, number: usize) -> Result<String> {
        let name = format!("{label}-{number}");
        let ends = "trap 'exit 0' TERM; while :; do sleep 0.2; done";
        let pod = PodManifest::new(NAMESPACE, &name)
            .label("app", label)
            .container(Container::new("b").only(ends).priority(1))
            .container(Container::new("a").only(ends).ready_when("true").priority(2));
        self.pods.create(&PostParams::default(), &pod.pod()?).await?;
        Ok(name)
    }

    async fn await_ready(&self, names: &[String]) -> Result<()> {
        await_condition("all pods are Ready", PATIENCE, async || {
            let pods = self.pods.list(&ListParams::default()).await?.items;
            let ready = |pod: &&Pod| {
                let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
                names.contains(&pod.name_any())
                    && conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
            };
            let ready = pods.iter().filter(ready).count();
            ensure!(ready == names.len(), "{ready} of {} are", names.len());
            Ok(())
        })
        .await
    }

    /// How often the kubelet has complained.
    async fn complaints(&self) -> Result<usize> {
        let events = complaints(&self.client, NAMESPACE).await?;
        Ok(events.iter().map(|event| usize::try_from(event.count.unwrap_or(1)).unwrap_or(1)).sum())
    }

    /// Since when the node is Ready; fails while it is not.
    async fn ready_since(&self) -> Result<String> {
        let ready = node_ready(&self.client).await?;
        Ok(format!("{:?}", ready.last_transition_time))
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
