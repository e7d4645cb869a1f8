//! Wires the program together, and takes it apart in order.
//!
//! Every replica watches and keeps the picture; only the one that holds the lease plans. Stop: no more plans
//! are begun, and the lease is given up.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use berth_base::{
    client::{client, identity},
    http::{self, Check, Pages},
    lease::{Candidate, Terms},
    openkruise::{self, End, Owners},
    ownership::{Ownership, SharedKind},
    program,
    signals::Signals,
};
use berth_malloc::growth::keep_small;
use berth_workloads_policy::clone_set::Settings;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    cluster::Cluster,
    config::Config,
    controller::Controller,
    distribution,
    event_loop::Connections,
    events, jobs,
    kinds::KINDS,
    lane::pages,
    marker_finalizers,
    metrics::Metrics,
    podstates, sidecar_sets, spreads, united, virtual_nodes,
    watch::{Claims, NodePodUpdates, Nodes, Pods, PullJobs, Revisions, follow, follow_sets, leave_sets},
    write::Writer,
};

/// Inputs that wait for the picture. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;
/// Time after which memory that nothing uses is returned: of the start's lists most is not kept.
const RETURN_UNUSED: Duration = Duration::from_secs(30);

/// The whole program: parses the command line and runs until it is told to stop.
pub fn main() -> ExitCode {
    program::main(|config: &Config| (config.log_filter(), config.log_format), serve)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let client = client(config.kubeconfig.as_deref()).await?;
    let terms = Terms {
        namespace: config.namespace.clone(),
        name: config.lease_name.clone(),
        identity: identity(config.identity.as_deref())?,
        duration: config.lease_duration(),
    };
    info!(version = env!("CARGO_PKG_VERSION"), identity = terms.identity, "berth-workloads starts");
    tokio::spawn(keep_small(RETURN_UNUSED));
    let mut owners = Owners::new(&client, config.ownership);
    while let Some(ownership) = owners.known(config.health_address, &mut signals).await? {
        let config = config.clone().with(ownership);
        if !work(config, &client, terms.clone(), &mut signals, &mut owners).await? {
            break;
        }
    }
    info!("berth-workloads stopped");
    Ok(())
}

/// Works until the program is told to end, or until the kinds change hands; returns whether it is the latter.
async fn work(
    config: Config,
    client: &Client,
    terms: Terms,
    signals: &mut Signals,
    owners: &mut Owners,
) -> anyhow::Result<bool> {
    let ownership = config.ownership;
    let health = TcpListener::bind(config.health_address).await.context("--health-address")?;
    let scraped = TcpListener::bind(config.metrics_address).await.context("--metrics-address")?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    openkruise::register(registry.sub_registry_with_prefix("berth_workloads"), ownership);
    // Whoever distributes has rights on Secrets, and does nothing else.
    let distributes = config.resource_distributions;
    let has_distributions = ownership.has(SharedKind::ResourceDistribution);
    let all_listed = match distributes {
        true if has_distributions => distribution::listed(),
        true => Vec::new(),
        false => Cluster::default().listed(),
    };
    let (listed, readiness) = watch::channel(all_listed);
    let (candidate, tenure) = Candidate::new(client.clone(), terms, metrics.clone());
    let (events, told) = events::channel();
    let writer = Writer { client: client.clone(), metrics: metrics.clone(), events, pages: pages() };
    let (settings, most_held) = (settings(&config), config.most_held());
    let of_jobs = jobs::Settings {
        broadcast_jobs: config.broadcast_jobs,
        cron_jobs: config.cron_jobs,
        by_scheduler: !config.broadcast_job_node_names,
        zone: config.cron_job_time_zone.clone(),
    };
    let (jobs_listed, jobs_readiness) = watch::channel(of_jobs.listed());
    let (united_listed, united_readiness) = watch::channel(united::listed(config.united_deployments));
    let (states_listed, states_readiness) = watch::channel(podstates::listed(config.pod_states));
    let (spreads_listed, spreads_readiness) = watch::channel(spreads::listed(config.spreads));
    let keeps_markers = config.marker_finalizers;
    let (markers_listed, markers_readiness) = watch::channel(marker_finalizers::listed(keeps_markers));
    let files = config.sidecar_set_revisions.is_some();
    let (revisions_listed, revisions_readiness) = watch::channel(sidecar_sets::listed(files));

    let stop = CancellationToken::new();
    let (mut tasks, mut watches) = (JoinSet::new(), JoinSet::new());
    let checks = Box::new(move || {
        let check = |(name, done)| Check { name, done, missing: "not listed yet" };
        let all = [
            &readiness,
            &jobs_readiness,
            &united_readiness,
            &spreads_readiness,
            &states_readiness,
            &markers_readiness,
            &revisions_readiness,
        ];
        all.map(|listed| listed.borrow().clone()).into_iter().flatten().map(check).collect()
    });
    tasks.spawn(http::serve(health, Pages::Health(checks), stop.clone()));
    tasks.spawn(http::serve(scraped, Pages::Metrics(registry), stop.clone()));
    let connections = |listed| Connections { tenure: tenure.clone(), writer: writer.clone(), listed };
    if distributes {
        if has_distributions {
            distribution::start(connections(listed), config.distribute_everywhere, &mut watches);
        }
    } else {
        jobs::start(of_jobs, connections(jobs_listed), &mut watches);
        if config.united_deployments {
            united::start(connections(united_listed), &mut watches);
        }
        if config.spreads {
            spreads::start(connections(spreads_listed), &mut watches);
        }
        if config.pod_states {
            podstates::start(connections(states_listed), &mut watches);
        }
        if keeps_markers {
            marker_finalizers::start(connections(markers_listed), &mut watches);
        } else if ownership.has(SharedKind::PodProbeMarker) {
            watches.spawn(marker_finalizers::let_go(writer.clone(), tenure.clone()));
        }
        if let Some(namespace) = config.sidecar_set_revisions {
            sidecar_sets::start(namespace, connections(revisions_listed), &mut watches);
        }
        watches.spawn(virtual_nodes::follow(client.clone(), tenure.clone(), writer.events.clone()));
        let controller = Controller { settings, most_held, connections: connections(listed) };
        start_sets(controller, client, ownership, &metrics, &mut watches);
    }
    watches.spawn(events::write(client.clone(), told));
    // The lease is given up when nothing is written any more.
    let written = CancellationToken::new();
    tasks.spawn(candidate.run(written.clone()));

    // Cancel-safe: a signal that is not taken stays pending, and no task's end is awaited before the stop but
    // to report it.
    let end = tokio::select! {
        () = signals.told() => End::Told,
        () = owners.changed() => End::OtherOwner,
        ended = tasks.join_next() => End::Task(ended),
        ended = watches.join_next() => End::Task(ended),
    };
    stop.cancel();
    // Writes on their way end with the controller; whoever follows reads what came of them.
    watches.shutdown().await;
    written.cancel();
    while tasks.join_next().await.is_some() {}
    end.goes_on()
}

/// Starts the controller of CloneSets, StatefulSets and DaemonSets, with its watches.
fn start_sets(
    controller: Controller,
    client: &Client,
    ownership: Ownership,
    metrics: &Metrics,
    watches: &mut JoinSet<()>,
) {
    let (sender, inputs) = mpsc::channel(INPUTS);
    for kind in KINDS {
        if ownership.has(kind.shared) {
            watches.spawn(follow_sets(client.clone(), kind, sender.clone(), metrics.clone()));
        } else {
            watches.spawn(leave_sets(kind, sender.clone()));
        }
    }
    watches.spawn(follow::<Pods>(client.clone(), sender.clone(), metrics.clone()));
    watches.spawn(follow::<Claims>(client.clone(), sender.clone(), metrics.clone()));
    watches.spawn(follow::<Revisions>(client.clone(), sender.clone(), metrics.clone()));
    watches.spawn(follow::<PullJobs>(client.clone(), sender.clone(), metrics.clone()));
    watches.spawn(follow::<Nodes>(client.clone(), sender.clone(), metrics.clone()));
    watches.spawn(follow::<NodePodUpdates>(client.clone(), sender, metrics.clone()));
    watches.spawn(controller.run(inputs));
}

/// Settings of the controller of sets, as they are configured.
fn settings(config: &Config) -> Settings {
    Settings {
        partition_rollback: config.cloneset_partition_rollback,
        short_hash: config.cloneset_short_hash,
        excludes_preparing: config.cloneset_scaling_exclude_preparing_delete,
        recreate_on_claim_changes: config.cloneset_recreate_on_claim_changes,
        predownload: config.predownload_images,
        predownload_daemon_sets: config.predownload_images_of_daemonsets,
    }
}
