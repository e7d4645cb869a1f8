//! Jobs: how long after its main container has ended is a Job complete whose pod has a sidecar, and is it
//! counted right?
//!
//! All parts are real: job controller, berthd with the token and the policies of `deploy/`, kubelet,
//! containerd. One Job runs at a time; the main containers live for different times, so that they end
//! anywhere between two looks of the kubelet. When a container ended is the runtime's word, when a sidecar
//! was told to is its own, and a Job is complete when the API says so. What a sidecar takes of its grace is
//! its own, and taken off. The baseline is the same Job without a sidecar, in the same run.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::{Jobs, exits, ignores_term};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Cri;
use berth_tests::recreate::Evidence;
use kube::ResourceExt;

use crate::Options;
use crate::report::{Bench, Row, median};

const METRICS: &[&str] =
    &["after_grace_s", "after_grace_max_s", "terminal_s", "grace_used_s", "counted_right"];

pub(crate) const BENCH: Bench = Bench {
    name: "jobs",
    about: "main's exit to Job complete, less the grace its sidecar used; baseline: the same Job without a sidecar",
    cases: &[
        (ALONE, METRICS),
        ("exit0-never", METRICS),
        ("exit143-never", METRICS),
        ("ignores-term-never", METRICS),
        ("exit0-onfailure", METRICS),
        ("exit143-onfailure", METRICS),
        ("ignores-term-onfailure", METRICS),
    ],
};
/// Without a sidecar: always run, because the others are compared with it.
const ALONE: &str = "no-sidecar";
/// Seconds.
const GRACE: i64 = 2;
const NAMESPACE: &str = "default";

/// One Job; times in seconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    /// From main's exit to the Job's completion.
    complete: f64,
    /// To the pod's terminal phase.
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
    bed.took("warm-up", "exit0-never", 0).await?;

    let mut rows = Vec::new();
    let mut alone = Vec::new();
    for &(case, _) in BENCH.cases.iter().filter(|(case, _)| *case == ALONE || options.wants(case)) {
        let mut took = Vec::new();
        for run in 0..options.runs {
            took.push(bed.took(&format!("{case}-{run}"), case, run).await.with_context(|| case.to_owned())?);
        }
        eprintln!("{case}: {took:.2?}");
        if case == ALONE {
            alone = took.iter().map(Took::after_grace).collect();
        }
        if options.wants(case) {
            rows.extend(rows_of(case, &took, &alone)?);
        }
    }
    drop(bed.jobs);
    bed.node.down()?;
    Ok(rows)
}

fn rows_of(case: &'static str, took: &[Took], alone: &[f64]) -> Result<Vec<Row>> {
    let of = |what: fn(&Took) -> f64| -> Vec<f64> { took.iter().map(what).collect() };
    let after_grace = of(Took::after_grace);
    let slowest = after_grace.iter().copied().max_by(f64::total_cmp).context("nothing was measured")?;
    let right = took.iter().filter(|took| took.right).count();
    let share = f64::from(u32::try_from(right)?) / f64::from(u32::try_from(took.len())?);
    let row = |metric, unit| Row::new(&BENCH, case, metric, unit);
    let alone = if case == ALONE { &[] } else { alone };
    Ok(vec![
        row("after_grace_s", "s").medians(&after_grace, alone)?,
        row("after_grace_max_s", "s").measured(slowest, median(alone), took.len()),
        row("terminal_s", "s").medians(&of(|took| took.terminal), &[])?,
        row("grace_used_s", "s").medians(&of(|took| took.grace_used), &[])?,
        row("counted_right", "share").measured(share, Some(1.0), took.len()),
    ])
}

impl Took {
    fn after_grace(&self) -> f64 {
        self.complete - self.grace_used
    }
}

impl Bed {
    /// Runs one Job; `run` decides how long its main container lives.
    async fn took(&self, job: &str, case: &str, run: u32) -> Result<Took> {
        let evidence = Evidence::new(self.node.run(), NAMESPACE, job)?;
        let policy = if case.ends_with("-onfailure") { "OnFailure" } else { "Never" };
        let main = format!("sleep {:.1}", 1.0 + f64::from(run % 5) * 0.2);
        let pod = PodManifest::new(NAMESPACE, job).spec("restartPolicy", policy).grace(GRACE);
        let pod = evidence.mount(pod).container(Container::new("main").only(&main));
        let pod = match sidecar(case) {
            Some(proxy) => pod.container(evidence.mounted(proxy)),
            None => pod,
        };
        self.jobs.create(&pod, 0).await?;
        let status = self.jobs.over(job).await?;
        let complete_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock")?;
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
        let complete = seconds(main, i64::try_from(complete_at.as_nanos())?);
        Ok(Took { complete, terminal: seconds(main, over_at), grace_used, right })
    }
}

/// Notes when it is told to end.
fn sidecar(case: &str) -> Option<Container> {
    const NOTE: &str = "touch /evidence/told";
    let exits = |code| exits("proxy", &format!("{NOTE};"), code);
    match case.rsplit_once('-')?.0 {
        "exit0" => Some(exits(0)),
        "exit143" => Some(exits(143)),
        "ignores-term" => Some(ignores_term("proxy", NOTE)),
        _ => None,
    }
}

fn seconds(from: i64, to: i64) -> f64 {
    Duration::from_nanos((to - from).max(0).unsigned_abs()).as_secs_f64()
}
