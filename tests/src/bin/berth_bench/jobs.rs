//! Jobs: how long after its main container has ended is a pod over that has a sidecar, and does the Job count it right?
//!
//! All parts are real: job controller, berthd with the token and the policies of `deploy/`, kubelet, containerd. One Job runs
//! at a time; the main containers live for different times, so that they end anywhere between two looks of the kubelet. When
//! a container ended is the runtime's word, when a sidecar was told to is its own, and the pod is over when a watch shows it.
//! The baseline is no measurement but the limit: what the sidecar made of its grace, and 2.5 s. That of a Job without a
//! sidecar is the kubelet's own part.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::{Jobs, exits, ignores_term};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Cri;
use berth_tests::recreate::Evidence;
use kube::ResourceExt;

use crate::Options;
use crate::report::{Bench, Row, median};

const METRICS: &[&str] = &["terminal_s", "terminal_max_s", "grace_used_s", "counted_right"];

pub(crate) const BENCH: Bench = Bench {
    name: "jobs",
    about: "main container's exit to the pod's terminal phase; baseline: the limit, the grace that was used and 2.5 s",
    cases: &[
        ("never-exits-0", METRICS),
        ("never-exits-143", METRICS),
        ("never-ignores-sigterm", METRICS),
        ("on-failure-exits-0", METRICS),
        ("on-failure-exits-143", METRICS),
        ("on-failure-ignores-sigterm", METRICS),
        ("no-sidecar", METRICS),
    ],
};
/// What may come on top of what the sidecar makes of its grace, in seconds.
const LIMIT: f64 = 2.5;
/// Seconds.
const GRACE: i64 = 2;
const NAMESPACE: &str = "default";

/// One Job; times in seconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    terminal: f64,
    grace_used: f64,
    /// The Job counts one success and nothing else.
    right: bool,
}

struct Bed {
    node: Node,
    jobs: Jobs,
    cri: Cri,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().controllers(true).start_updating().await?;
    let jobs = Jobs::watch(&node.client().await?, NAMESPACE).await?;
    let bed = Bed { jobs, cri: node.containerd().cri()?, node };
    // The first pod of a node pays for what is only done once.
    bed.took("warm-up", "never-exits-0", 0).await?;

    let mut rows = Vec::new();
    for &(case, _) in BENCH.cases.iter().filter(|(case, _)| options.wants(case)) {
        let mut took = Vec::new();
        for run in 0..options.runs {
            took.push(bed.took(&format!("{case}-{run}"), case, run).await.with_context(|| case.to_owned())?);
        }
        eprintln!("{case}: {took:.2?}");
        rows.extend(rows_of(case, &took)?);
    }
    drop(bed.jobs);
    bed.node.down()?;
    Ok(rows)
}

fn rows_of(case: &'static str, took: &[Took]) -> Result<Vec<Row>> {
    let terminal: Vec<f64> = took.iter().map(|took| took.terminal).collect();
    let grace: Vec<f64> = took.iter().map(|took| took.grace_used).collect();
    let limits: Vec<f64> = grace.iter().map(|grace| grace + LIMIT).collect();
    // The one that came nearest to its limit, or went farthest past it.
    let over = |took: &Took| took.terminal - took.grace_used;
    let worst = took.iter().max_by(|a, b| over(a).total_cmp(&over(b))).context("nothing was measured")?;
    let right = took.iter().filter(|took| took.right).count();
    let share = f64::from(u32::try_from(right)?) / f64::from(u32::try_from(took.len())?);
    let row = |metric, unit| Row::new(&BENCH, case, metric, unit);
    Ok(vec![
        row("terminal_s", "s").measured(median(&terminal).context("nothing")?, median(&limits), took.len()),
        row("terminal_max_s", "s").measured(worst.terminal, Some(worst.grace_used + LIMIT), took.len()),
        row("grace_used_s", "s").medians(&grace, &[])?,
        row("counted_right", "share").measured(share, Some(1.0), took.len()),
    ])
}

impl Bed {
    /// Runs one Job; `run` decides how long its main container lives.
    async fn took(&self, job: &str, case: &str, run: u32) -> Result<Took> {
        let evidence = Evidence::new(self.node.run(), NAMESPACE, job)?;
        let policy = if case.starts_with("on-failure") { "OnFailure" } else { "Never" };
        let main = format!("sleep {:.1}", 1.0 + f64::from(run % 5) * 0.2);
        let pod = PodManifest::new(NAMESPACE, job).spec("restartPolicy", policy).grace(GRACE);
        let pod = evidence.mount(pod).container(Container::new("main").only(&main));
        let pod = match sidecar(case) {
            Some(proxy) => pod.container(evidence.mounted(proxy)),
            None => pod,
        };
        self.jobs.create(&pod, 0).await?;
        let status = self.jobs.over(job).await?;
        let seen = self.jobs.pod_of(job)?;
        let (over_at, _) = seen.ended()?;

        let containers = self.cri.containers(NAMESPACE, &seen.last.name_any()).await?;
        let ended = |name: &str| -> Result<Option<i64>> {
            let Some(instance) = containers.iter().find(|instance| instance.name == name) else {
                return Ok(None);
            };
            ensure!(instance.finished_at > 0, "{instance:?}");
            Ok(Some(instance.finished_at))
        };
        let main = ended("main")?.context("no main container")?;
        let grace_used = match ended("proxy")? {
            Some(proxy) => seconds(evidence.written_at("told")?, proxy),
            None => 0.0,
        };
        let right = (status.succeeded, status.failed.unwrap_or(0)) == (Some(1), 0);
        Ok(Took { terminal: seconds(main, over_at), grace_used, right })
    }
}

/// Notes when it is told to end.
fn sidecar(case: &str) -> Option<Container> {
    const NOTE: &str = "touch /evidence/told";
    let exits = |code| exits("proxy", &format!("{NOTE};"), code);
    match case.rsplit('-').next()? {
        "0" => Some(exits(0)),
        "143" => Some(exits(143)),
        "sigterm" => Some(ignores_term("proxy", NOTE)),
        _ => None,
    }
}

fn seconds(from: i64, to: i64) -> f64 {
    Duration::from_nanos((to - from).max(0).unsigned_abs()).as_secs_f64()
}
