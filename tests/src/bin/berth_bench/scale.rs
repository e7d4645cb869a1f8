//! Both programs in a large cluster with all kinds in use: what they take at rest, and what a rollout takes.
//!
//! etcd, the API server, berth-manager and berth-workloads are real, one replica each. Nodes exist on paper:
//! what berth-workloads makes is bound and started by one client (`kubelets`), and updated in place by
//! simulated agents (`crate::agents`). Most pods are not made one by one by berth-workloads: it makes the
//! first of each CloneSet, and while it is away the others are written as copies of that one (`crowd`), as if
//! they had been made long ago.
//!
//! Calls of the API are counted by the API server itself, which does not tell whose they are. What there was
//! before the programs came is taken off; watches and Leases are counted apart.

mod calls;
mod crowd;
mod kinds;
mod kubelets;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::node::{ControlPlane, Manager, Replica, User, Workloads, crds, programs};
use berth_tests::wait::await_condition;
use clap::Args;
use kube::Client;

use self::calls::Calls;
use self::kinds::{Kinds, Made};
use self::kubelets::Kubelets;
use crate::agents::{Agents, Upgrade};
use crate::idle::cpu_s;
use crate::manager::memory_mb;
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "scale",
    about: "5,000 nodes with 100,000 pods of CloneSets, StatefulSets, a DaemonSet, UnitedDeployments and a BroadcastJob, with SidecarSets, budgets, spreads, markers, pull jobs, recreate requests and cron jobs: memory of both programs, their CPU and the calls of the API in a minute in which nothing happens, and the calls of one rollout in place",
    cases: &[(
        CASE,
        &[
            "manager_rss_mb",
            "manager_peak_mb",
            "manager_cpu_s_per_min",
            "workloads_rss_mb",
            "workloads_peak_mb",
            "workloads_cpu_s_per_min",
            "api_calls_per_min",
            "watches_per_min",
            "lease_calls_per_min",
            "rollout_s",
            "rollout_calls_per_pod",
        ],
    )],
};
const CASE: &str = "5000x100000";
const MEASURED: Duration = Duration::from_secs(60);
/// Calls in so long tell whether the programs are still at work.
const LOOKS: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(1200);

/// How large the cluster is. The defaults are what the name of the case stands for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Size {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Nodes.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(50..))]
    nodes: u32,
    /// Pods of CloneSets, 200 in each; those of other kinds come on top.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(200..))]
    pods: u32,
}

pub(crate) async fn run(options: &Size) -> Result<Vec<Row>> {
    programs::manager()?;
    programs::workloads()?;
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    let begun = Instant::now();
    let told = |what: &str| eprintln!("{:5.0} s: {what}", begun.elapsed().as_secs_f64());

    let kinds = Kinds::new(&client, options.nodes, options.pods);
    kinds.make_nodes(&plane.store()?).await?;
    let agents = Agents::start(&plane, &client, options.nodes, Upgrade::Workloads).await?;
    told("nodes made");
    let made = first_pods(&plane, &client, &kinds).await?;
    told("the first pod of each CloneSet, and all of the other workloads, are ready");
    crowd::make(&plane, &made, options.nodes).await?;
    kinds.grow(&made).await?;
    kinds.make_policies(&made).await?;
    told("all pods made");

    let alone = calls_of(&client, MEASURED).await?;
    let kubelets = Kubelets::start(&client, options.nodes);
    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    let manager = Manager::start(plane.run(), Replica::First, &kubeconfig, ("default", 15)).await?;
    manager.leads().await?;
    told("the manager leads");
    let workloads = Workloads::launch(plane.run(), &kubeconfig, "default", kinds::OPTIONS)?;
    workloads.ready_within(PATIENCE).await?;
    told("berth-workloads has listed everything");
    await_condition("each set was looked at", PATIENCE, async || {
        let passes = workloads.metric("berth_workloads_passes_total").await?;
        ensure!(passes >= made.len() as f64, "{passes} passes");
        Ok(())
    })
    .await?;
    told("berth-workloads has looked at each set");
    settle(&client, &alone).await?;
    told("nothing is written any more");

    let pids = [manager.service().pid(), workloads.service().pid()];
    let [of_manager, of_workloads] = pids.map(|pid| pid.context("a program has ended"));
    let (of_manager, of_workloads) = (of_manager?, of_workloads?);
    let before = (cpu_s(of_manager)?, cpu_s(of_workloads)?);
    let rest = calls_of(&client, MEASURED).await?;
    let after = (cpu_s(of_manager)?, cpu_s(of_workloads)?);
    let (calls, watches, leases) = rest.beyond(&alone);
    told(&format!("at rest, in a minute: {rest}"));
    let memory = |pid: u32| anyhow::Ok((memory_mb(pid, "VmRSS")?, memory_mb(pid, "VmHWM")?));
    let (manager_mb, workloads_mb) = (memory(of_manager)?, memory(of_workloads)?);
    told(&format!("memory now and at the most: manager {manager_mb:.0?}, workloads {workloads_mb:.0?} MB"));

    let (rolling, first) = (Instant::now(), Calls::read(&client).await?);
    kinds.roll_out(&made).await?;
    let seconds = rolling.elapsed().as_secs_f64();
    let spent = Calls::read(&client).await?.since(&first);
    let (rollout, ..) = spent.beyond(&alone.in_time(rolling.elapsed(), MEASURED));
    told(&format!("a rollout of {} pods in {seconds:.1} s: {spent}", kinds.of_each()));
    drop((agents, kubelets, manager, workloads));
    plane.down()?;

    let row = |metric, unit, value| Row::new(&BENCH, CASE, metric, unit).measured(value, None, 1);
    Ok(vec![
        row("manager_rss_mb", "MB", manager_mb.0),
        row("manager_peak_mb", "MB", manager_mb.1),
        row("manager_cpu_s_per_min", "s", after.0 - before.0),
        row("workloads_rss_mb", "MB", workloads_mb.0),
        row("workloads_peak_mb", "MB", workloads_mb.1),
        row("workloads_cpu_s_per_min", "s", after.1 - before.1),
        row("api_calls_per_min", "", calls),
        row("watches_per_min", "", watches),
        row("lease_calls_per_min", "", leases),
        row("rollout_s", "s", seconds),
        row("rollout_calls_per_pod", "", rollout / f64::from(kinds.of_each())),
    ])
}

/// Has berth-workloads make the workloads, and ends it.
async fn first_pods(plane: &ControlPlane, client: &Client, kinds: &Kinds) -> Result<Vec<Made>> {
    let kubelets = Kubelets::start(client, kinds.nodes());
    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    let workloads = Workloads::start_with(plane.run(), &kubeconfig, "default", kinds::OPTIONS).await?;
    let made = kinds.make_workloads(PATIENCE).await?;
    workloads.service().stop()?;
    drop(kubelets);
    Ok(made)
}

/// Calls of the API in so long.
async fn calls_of(client: &Client, time: Duration) -> Result<Calls> {
    let before = Calls::read(client).await?;
    tokio::time::sleep(time).await;
    Ok(Calls::read(client).await?.since(&before))
}

/// Waits until the programs have written what they had to.
async fn settle(client: &Client, alone: &Calls) -> Result<()> {
    let begun = Instant::now();
    let allowed = alone.in_time(LOOKS, MEASURED);
    loop {
        let (calls, ..) = calls_of(client, LOOKS).await?.beyond(&allowed);
        if calls < 3.0 {
            return Ok(());
        }
        eprintln!("         {calls:.0} calls in {} s", LOOKS.as_secs());
        ensure!(begun.elapsed() < PATIENCE, "{calls} calls in {} s: it never rests", LOOKS.as_secs());
    }
}
