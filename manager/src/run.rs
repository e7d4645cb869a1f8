//! Wires the manager together, and takes it apart in order.
//!
//! ```text
//!   watches ──▶ Controller { the indexes } ───────────────────────▶ Writer ──▶ status of Berth's kinds
//!   Secrets ──▶    ▲                                            ▲
//!                  └───────────────── Tenure ───────────────────┘ ◀── Candidate ──▶ Lease
//! ```
//!
//! Every replica watches and decides; only the one that holds the lease writes. So its index is warm when it
//! takes over. Stop: no more writes are begun, those on their way end, the lease is given up. Admission is
//! served by every replica and wired in its own module.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use berth_base::{
    client::{client, identity},
    openkruise::{self, End, Owners},
    ownership::{Ownership, SharedKind},
    program,
    signals::Signals,
};
use berth_malloc::growth::keep_small;
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
    admission, budgets,
    config::Config,
    controller::Controller,
    health::{self, Admits, Listed},
    http::{self, Pages},
    indexes::Indexes,
    lease::{Candidate, Terms},
    metrics::Metrics,
    notes, podstates,
    room::Room,
    secrets, sidecarsets, spreads,
    store::{Entered, Webhooks},
    watch::{Follower, Lists},
    wire::{
        AdvancedSets, Budgets, Jobs, Markers, Namespaces, NodeImages, NodeProbes, NodeUpdates, Nodes,
        PodStates, Pods, Requests, SidecarSets, Spreads, StatefulSets, Updates,
    },
    writer::Writer,
};

/// Inputs that wait for the index. Past them the watches wait, and with them the API server.
const INPUTS: usize = 1024;

/// Time after which memory that nothing uses is returned: of the start's lists most is not kept, and of what
/// rare events need nothing.
const RETURN_UNUSED: Duration = Duration::from_secs(30);

/// The whole program: parses the command line and runs until it is told to stop.
pub fn main() -> ExitCode {
    program::main(|config: &Config| (config.log_filter(), config.log_format), serve)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // Before anything is taken: a stop that is asked for during the start is a clean one too.
    let mut signals = Signals::listen()?;
    let client = client(config.kubeconfig.as_deref()).await?;
    let terms = terms(&config)?;
    info!(version = env!("CARGO_PKG_VERSION"), identity = terms.identity, "berth-manager starts");
    tokio::spawn(keep_small(RETURN_UNUSED));
    let mut owners = Owners::new(&client, config.ownership);
    while let Some(ownership) = owners.known(config.health_address, &mut signals).await? {
        if !work(&config, ownership, &client, terms.clone(), &mut signals, &mut owners).await? {
            break;
        }
    }
    info!("berth-manager stopped");
    Ok(())
}

/// Works until the program is told to end, or until the kinds change hands; returns whether it is the latter.
async fn work(
    config: &Config,
    ownership: Ownership,
    client: &Client,
    terms: Terms,
    signals: &mut Signals,
    owners: &mut Owners,
) -> anyhow::Result<bool> {
    let health_page = TcpListener::bind(config.health_address).await.context("--health-address")?;
    let scraped = TcpListener::bind(config.metrics_address).await.context("--metrics-address")?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    openkruise::register(registry.sub_registry_with_prefix("berth_manager"), ownership);
    let (listed, readiness) = watch::channel(Listed::default());
    let (admits, admission_readiness) = watch::channel(Admits::default());
    let (standing, webhooks) = watch::channel(Webhooks::default());
    let (enters, entered) = watch::channel(Entered::default());
    let (sender, inputs) = mpsc::channel(INPUTS);
    let (candidate, tenure) = Candidate::new(client.clone(), terms, metrics.clone());
    let vault = secrets::Vault::default();
    let writer = Writer::new(tenure.clone(), metrics.clone(), vault.clone());
    // Steps of the indexes go to those who carry them out, and what these find comes back.
    let (fetches, fetches_due) = mpsc::unbounded_channel();
    let (secrets_sender, answers) = mpsc::channel(INPUTS);
    let (asks, asks_due) = mpsc::unbounded_channel();
    let (replies_sender, replies) = mpsc::channel(INPUTS);
    let (steps, steps_due) = mpsc::unbounded_channel();
    let (facts_sender, facts) = mpsc::channel(INPUTS);
    let (spread_steps, spread_steps_due) = mpsc::unbounded_channel();
    let (replicas_sender, replicas) = mpsc::channel(INPUTS);
    let (pod_state_steps, pod_state_steps_due) = mpsc::unbounded_channel();
    let (annotations_sender, annotations) = mpsc::channel(INPUTS);
    let (filed_sender, filed) = mpsc::channel(INPUTS);
    let (notes, told) = notes::channel(tenure.clone());
    let (relists, lists) = Lists::new();
    let mut indexes = Indexes::default();
    if config.admission.asks_budgets() {
        indexes.requests.ask_budgets();
    }
    let files = config.observe_filed_revisions.clone();
    let files = files.filter(|_| ownership.has(SharedKind::SidecarSet));
    if files.is_some() {
        indexes.sidecarsets.wait_for_filing();
    }
    let controller = Controller {
        indexes,
        room: Room::new(config.most_held()),
        relists,
        fetches,
        answers,
        vault,
        asks,
        replies,
        steps,
        facts,
        spread_steps,
        replicas,
        pod_state_steps,
        annotations,
        inputs,
        webhooks,
        entered,
        filed,
        tenure: tenure.clone(),
        writer: writer.clone(),
        notes,
        listed,
        metrics: metrics.clone(),
    };

    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(http::serve(
        health_page,
        Pages::Health(health::checks(readiness, admission_readiness)),
        stop.clone(),
    ));
    let mut watches = JoinSet::new();
    let handles = admission::Handles {
        client: client.clone(),
        tenure: tenure.clone(),
        asks: asks_due,
        replies: replies_sender,
        ready: admits,
        webhooks: standing,
        entered: enters,
        metrics: metrics.admission(),
        stop: stop.clone(),
    };
    let namespace = &config.namespace;
    admission::start(&config.admission, ownership, namespace, handles, &mut watches, &mut tasks).await?;
    tasks.spawn(http::serve(scraped, Pages::Metrics(registry), stop.clone()));
    let follower = Follower { client: client.clone(), inputs: sender, metrics, ownership, lists };
    follow_all(&follower, &mut watches);
    watches.spawn(notes::write(client.clone(), told));
    watches.spawn(secrets::read(client.clone(), fetches_due, secrets_sender));
    watches.spawn(budgets::carry_out(client.clone(), tenure.clone(), steps_due, facts_sender));
    watches.spawn(spreads::carry_out(client.clone(), tenure.clone(), spread_steps_due, replicas_sender));
    watches.spawn(podstates::carry_out(client.clone(), tenure, pod_state_steps_due, annotations_sender));
    if let Some(namespace) = files {
        watches.spawn(sidecarsets::follow_filed(client.clone(), namespace, filed_sender));
    }
    watches.spawn(controller.run());
    // The lease is given up when nothing is written any more.
    let written = CancellationToken::new();
    let mut writes = JoinSet::new();
    writes.spawn(writer.run(client.clone(), stop.clone()));
    tasks.spawn(candidate.run(written.clone()));

    // Cancel-safe: a signal that is not taken stays pending, and no task's end is awaited before the stop but
    // to report it.
    let end = tokio::select! {
        () = signals.told() => End::Told,
        () = owners.changed() => End::OtherOwner,
        ended = tasks.join_next() => End::Task(ended),
        ended = watches.join_next() => End::Task(ended),
        ended = writes.join_next() => End::Task(ended),
    };
    stop.cancel();
    watches.shutdown().await;
    while writes.join_next().await.is_some() {}
    written.cancel();
    while tasks.join_next().await.is_some() {}
    end.goes_on()
}

/// Watches every kind that an index is decided by.
fn follow_all(follower: &Follower, watches: &mut JoinSet<()>) {
    follower.follow::<Nodes>(watches);
    follower.follow::<Pods>(watches);
    follower.follow::<Requests>(watches);
    follower.follow::<Updates>(watches);
    follower.follow::<NodeImages>(watches);
    follower.follow::<Jobs>(watches);
    follower.follow::<Markers>(watches);
    follower.follow::<NodeProbes>(watches);
    follower.follow::<Namespaces>(watches);
    follower.follow::<SidecarSets>(watches);
    follower.follow::<Budgets>(watches);
    follower.follow::<Spreads>(watches);
    follower.follow::<PodStates>(watches);
    follower.follow::<StatefulSets>(watches);
    follower.follow::<AdvancedSets>(watches);
    follower.follow::<NodeUpdates>(watches);
}

fn terms(config: &Config) -> anyhow::Result<Terms> {
    Ok(Terms {
        namespace: config.namespace.clone(),
        name: config.lease_name.clone(),
        identity: identity(config.identity.as_deref())?,
        duration: config.lease_duration(),
    })
}
