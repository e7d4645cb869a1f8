//! Images: on one node (`one_node`), and in a large cluster: how long until an image is on 1,000 nodes, 50 at
//! a time, when each pull takes 100 ms, and what does it take?
//!
//! etcd, the API server and the manager are real. Nodes are on paper and their agents are one process, this
//! one: each answers for its node through the API server, 100 ms after it was asked. The clock starts before
//! the job is made and stops when a watch has shown it completed. The baseline is what nobody can beat: nodes
//! / parallelism × 100 ms. On a small machine the API server is slower than that: `writes_alone_s` is what it
//! takes for the two writes a node alone, without a pull to wait for.
//!
//! `scale-1000` is one job. `scale-1000-killed` is three at once, with the leading manager killed twice and
//! its twin taking over; its time has two expiries of the lease in it. In both every node must have been
//! asked exactly once by every job, or the bench fails.

mod agents;
mod cluster;
mod one_node;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ImagePullJob;
use berth_tests::node::{ControlPlane, Manager, Replica, User, crds, programs};
use clap::Args;
use futures::TryStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use self::agents::Agents;
use crate::idle::cpu_s;
use crate::manager::memory_mb;
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "images",
    about: "an ImagePullJob: what it takes beyond the pull itself on one node; on 1,000 nodes, 50 at a time, each pull 100 ms: time against the ideal, writes, memory and CPU of the manager; three jobs with the manager killed twice",
    cases: &[
        (one_node::SMALL, one_node::METRICS),
        (one_node::LARGE, one_node::METRICS),
        (one_node::PRESENT, one_node::METRICS),
        (ONE, METRICS),
        (KILLED, KILLED_METRICS),
    ],
};
const ONE: &str = "scale-1000";
const KILLED: &str = "scale-1000-killed";
const METRICS: &[&str] = &["elapsed_s", "writes_alone_s", "api_writes_per_node", "rss_mb", "cpu_s"];
const KILLED_METRICS: &[&str] = &["elapsed_s", "api_writes_per_node", "rss_mb", "cpu_s"];
const PULL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(300);
/// Seconds: short, because its expiry is waited for.
const LEASE: u16 = 3;

/// How large the cluster is. The defaults are what the cases' names stand for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Nodes, each with an agent.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    agents: u32,
    /// Nodes that pull at once, for each job.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    parallelism: u32,
}

pub(crate) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if [one_node::SMALL, one_node::LARGE, one_node::PRESENT].iter().any(|case| options.common.wants(case)) {
        rows.extend(one_node::run(&options.common).await?);
    }
    if [ONE, KILLED].iter().any(|case| options.common.wants(case)) {
        rows.extend(large(options).await?);
    }
    Ok(rows)
}

async fn large(options: &Scale) -> Result<Vec<Row>> {
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    cluster::create(&client, options.agents).await?;
    let agents = Agents::start(client.clone(), PULL).await?;
    let stage = Stage { client, agents, options };
    // Building it is not its start.
    programs::manager()?;
    let mut rows = Vec::new();
    if options.common.wants(ONE) {
        rows.extend(stage.one(&plane).await.context(ONE)?);
    }
    if options.common.wants(KILLED) {
        rows.extend(stage.killed(&plane).await.context(KILLED)?);
    }
    Ok(rows)
}

struct Stage<'a> {
    client: Client,
    agents: Agents,
    options: &'a Scale,
}

/// Time and writes of a round.
struct Took {
    elapsed: f64,
    writes: f64,
}

impl Stage<'_> {
    fn ideal(&self) -> f64 {
        f64::from(self.options.agents.div_ceil(self.options.parallelism)) * PULL.as_secs_f64()
    }

    async fn one(&self, plane: &ControlPlane) -> Result<Vec<Row>> {
        let kubeconfig = plane.api().kubeconfig(User::Admin)?;
        let manager = Manager::start(plane.run(), Replica::First, &kubeconfig, ("default", LEASE)).await?;
        manager.leads().await?;
        let pid = manager.service().pid().context("the manager has ended")?;
        let (mut elapsed, mut writes, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.options.common.runs {
            let before = cpu_s(pid)?;
            let took = self.round(&[format!("one-{round}")], async |_| Ok(())).await?;
            cpu.push(cpu_s(pid)? - before);
            elapsed.push(took.elapsed);
            writes.push(took.writes);
        }
        let (rss, peak) = (memory_mb(pid, "VmRSS")?, memory_mb(pid, "VmHWM")?);
        eprintln!("{elapsed:.2?} s, {cpu:.2?} s of CPU; {rss:.0} MB, {peak:.0} MB at the most");
        manager.service().stop()?;
        let alone = cluster::write_twice(&self.client, self.options.agents).await?.as_secs_f64();
        eprintln!("{alone:.2} s for the same number of writes and nothing else");
        let ideal = vec![self.ideal(); elapsed.len()];
        Ok(vec![
            row(ONE, "elapsed_s", "s").medians(&elapsed, &ideal)?,
            row(ONE, "writes_alone_s", "s").measured(alone, None, 1),
            row(ONE, "api_writes_per_node", "writes").medians(&writes, &[])?,
            row(ONE, "rss_mb", "MB").measured(rss, None, 1),
            row(ONE, "cpu_s", "s").medians(&cpu, &[])?,
        ])
    }

    async fn killed(&self, plane: &ControlPlane) -> Result<Vec<Row>> {
        let kubeconfig = plane.api().kubeconfig(User::Admin)?;
        let start =
            async |replica| Manager::start(plane.run(), replica, &kubeconfig, ("default", LEASE)).await;
        let first = start(Replica::First).await?;
        first.leads().await?;
        let second = start(Replica::Second).await?;
        let names = ["a", "b", "c"].map(|name| format!("killed-{name}"));
        let all = self.options.agents as usize * names.len();
        let mut third = None;
        let took = self
            .round(&names, async |agents: &Agents| {
                agents.until_pulled(all / 4).await;
                first.service().kill()?;
                second.leads().await?;
                eprintln!("killed once, at {} of {all} pulls", agents.pulled());
                third = Some(start(Replica::First).await?);
                agents.until_pulled(all / 2).await;
                second.service().kill()?;
                eprintln!("killed twice, at {} of {all} pulls", agents.pulled());
                Ok(())
            })
            .await?;
        let third = third.context("the manager was not killed")?;
        let pid = third.service().pid().context("the manager has ended")?;
        let (rss, cpu) = (memory_mb(pid, "VmRSS")?, cpu_s(pid)?);
        third.service().stop()?;
        Ok(vec![
            row(KILLED, "elapsed_s", "s").measured(took.elapsed, Some(self.ideal()), 1),
            row(KILLED, "api_writes_per_node", "writes").measured(took.writes, None, 1),
            row(KILLED, "rss_mb", "MB").measured(rss, None, 1),
            row(KILLED, "cpu_s", "s").measured(cpu, None, 1),
        ])
    }

    /// Makes jobs at once and waits until a watch has shown each of them completed; `meanwhile` goes on
    /// beside it.
    async fn round(
        &self,
        names: &[String],
        meanwhile: impl AsyncFnOnce(&Agents) -> Result<()>,
    ) -> Result<Took> {
        let jobs: Api<ImagePullJob> = Api::all(self.client.clone());
        let mut events = pin!(watcher::watcher(jobs, watcher::Config::default()));
        while !matches!(events.try_next().await?.context("the watch ended")?, Event::InitDone) {}
        self.agents.begin();
        let begun = Instant::now();
        let (mut open, mut status_writes) = (names.to_vec(), 0u32);
        let mut uids = Vec::new();
        let watched = async {
            while !open.is_empty() {
                let Event::Apply(job) = events.try_next().await?.context("the watch ended")? else {
                    continue;
                };
                status_writes += u32::from(job.status.is_some());
                let status = job.status.clone().unwrap_or_default();
                if status.completion_time.is_some() && open.contains(&job.name_any()) {
                    open.retain(|name| *name != job.name_any());
                    let counted = (status.desired, status.succeeded, status.failed);
                    let all = i32::try_from(self.options.agents)?;
                    ensure!(counted == (Some(all), Some(all), Some(0)), "{}: {counted:?}", job.name_any());
                    uids.push(job.uid().context("a job without UID")?);
                }
            }
            anyhow::Ok(begun.elapsed().as_secs_f64())
        };
        let made = async {
            for name in names {
                cluster::ask(&self.client, name, self.options.parallelism).await?;
            }
            meanwhile(&self.agents).await
        };
        let both = tokio::time::timeout(PATIENCE, futures::future::try_join(watched, made)).await;
        let (elapsed, ()) = both.with_context(|| format!("not over: {}", self.agents.told()))??;
        self.agents.check(&uids, self.options.agents as usize, self.options.parallelism as usize)?;
        let writes = f64::from(status_writes + self.agents.writes()) / f64::from(self.options.agents);
        eprintln!(
            "{elapsed:.2} s (ideal {:.2} s), {}; {status_writes} job writes",
            self.ideal(),
            self.agents.told()
        );
        Ok(Took { elapsed, writes })
    }
}

fn row(case: &'static str, metric: &'static str, unit: &'static str) -> Row {
    Row::new(&BENCH, case, metric, unit)
}
