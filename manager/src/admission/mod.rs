//! The admission server: what new pods, SidecarSets and ContainerRecreateRequests get before they are stored.
//!
//! ```text
//!   API server ──AdmissionReview──▶ server ──▶ handler ──▶ pods, sidecar_sets, recreate, workloads (pure)
//!                                     ▲           ▲
//!   Secret ◀── CertificateReconciler ─┘           └── SidecarSets, namespaces (watched)
//!                  │ bundle                             │ selectors
//!                  └──▶ ConfigurationReconciler ◀───────┘ ──▶ webhook configurations
//! ```
//!
//! Every replica serves, the lease is only asked for where a request is marked.
//! Nothing here changes an object that exists but the Secret, the two configurations, the conversion of the
//! definition of StatefulSets, that label, and the status of PodUnavailableBudgets and WorkloadSpreads, where
//! permits and places are written.

mod budget_rules;
mod budgets;
mod certificates;
mod configuration;
mod conversion;
mod evictions;
mod handler;
mod leaver;
mod lists;
mod locks;
mod node_images;
mod options;
mod patch;
mod path;
mod permits;
mod pod_state_rules;
mod pod_states;
mod pods;
mod protection;
mod recreate;
mod request_marks;
mod review;
mod server;
mod sets;
mod shows;
mod sidecar_sets;
mod spread_rules;
mod spreads;
mod subject;
mod untouched;
mod view;
mod workloads;

#[cfg(test)]
mod together;

use std::sync::Arc;

use anyhow::Context;
use berth_base::ownership::{Ownership, SharedKind};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, runtime::watcher};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use self::options::{FailurePolicy, Maker, Options};
use self::{
    budgets::Guard,
    certificates::Served,
    configuration::{
        Announced, BudgetOptions, Choices, Configuration, Precedence, Service, SpreadOptions, StateOptions,
        Writer, announcements, one_is_for_all_spreads, one_is_for_all_states, sample,
    },
    handler::{Handler, Namespaces},
    lists::Lists,
    locks::ObjectLocks,
    pod_states::Restorer,
    protection::Counter,
    server::Server,
    shows::Shows,
    spreads::Placer,
    view::{View, follow},
};
use crate::{
    health::Admits,
    lease::Tenure,
    metrics::Admission,
    requests::{Ask, Reply},
    store::{Entered, Webhooks},
};

/// Name of both configurations; they stand in deploy/manager.
const CONFIGURATION: &str = "berth-manager";

/// Handles to the rest of the program and to the API server.
pub struct Handles {
    /// Client of the API server.
    pub client: Client,
    /// Lease: requests are marked, and permits given, by the replica that holds it.
    pub tenure: Tenure,
    /// Questions of the index of requests for permits.
    pub asks: mpsc::UnboundedReceiver<Ask>,
    /// Answers to them.
    pub replies: mpsc::Sender<Reply>,
    /// Readiness, for the page of health.
    pub ready: watch::Sender<Admits>,
    /// Entries that stand in the configuration, for the index of SidecarSets.
    pub webhooks: watch::Sender<Webhooks>,
    /// Entries of budgets that stand in both configurations, for the index of budgets.
    pub entered: watch::Sender<Entered>,
    /// Counters of the server.
    pub metrics: Admission,
    /// End of the server.
    pub stop: CancellationToken,
}

/// Starts everything that admission needs: watches and reconcilers into `watches`, which are ended at the
/// stop, and the server into `tasks`, which ends by itself.
pub async fn start(
    options: &Options,
    ownership: Ownership,
    namespace: &str,
    handles: Handles,
    watches: &mut JoinSet<()>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let Some(address) = options.admission_address else { return Ok(()) };
    let Handles { client, tenure, asks, replies, ready, webhooks, entered, metrics, stop } = handles;
    webhooks.send_replace(Webhooks::Unknown);
    entered.send_replace(Entered::unknown());
    let standing = webhooks.subscribe();
    let (coming, announced) = announcements();
    let listener = TcpListener::bind(address).await.context("--admission-address")?;
    ready.send_replace(Admits::waiting());
    let service = Service { namespace: namespace.to_owned(), name: options.admission_service.clone() };
    let host = format!("{}.{}.svc", service.name, service.namespace);
    let names = vec![host.clone(), format!("{host}.cluster.local")];

    let shows = shows::follow_all(&client, ownership, watches);
    let (served, serving) = watch::channel(Served::default());
    // Replicas may listen at different addresses.
    let told = Options { admission_address: None, ..options.clone() };
    let choices = choices(options, ownership);
    let writer = Writer::new(Timestamp::now(), &(&service, told, ownership), &sample(&service, choices));
    let shared = Shared {
        client: &client,
        service: &service,
        choices,
        writer: &writer,
        shows: &shows,
        served: &serving,
        coming: &announced,
        entered: &entered,
        metrics: &metrics,
    };
    let (mutating, validating) = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations");
    let (changes, entries) =
        reconciler::<MutatingWebhookConfiguration>(watches, &shared, mutating, Some(webhooks));
    let (checks, _) = reconciler::<ValidatingWebhookConfiguration>(watches, &shared, validating, None);
    let bundled = [changes, checks];
    let converts = ownership.has(SharedKind::StatefulSet);
    let converting = converter(converts, watches, &client, &service, &serving);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let (secret, secret_shown) = watch::channel(View::default());
    let one = watcher::Config::default().fields(&format!("metadata.name={}", options.admission_secret));
    watches.spawn(follow(api.clone(), one, "Secret of the certificates", Some, secret));
    let reconciler = certificates::CertificateReconciler {
        maker: options.admission_certificates,
        api,
        name: (namespace.to_owned(), options.admission_secret.clone()),
        names,
        secret: secret_shown,
        bundled: bundled.clone(),
        converting,
        served,
    };
    watches.spawn(reconciler.run());
    watches.spawn(tell(ready, serving.clone(), bundled, shows.sets.clone(), shows.namespaces.clone()));
    if ownership.has(SharedKind::ContainerRecreateRequest) {
        watches.spawn(request_marks::run(client.clone(), tenure.clone()));
    }
    let (budgets, locks) = (shows.budgets, ObjectLocks::default());
    let guard = Arc::new(Guard { client: client.clone(), budgets, locks });
    watches.spawn(permits::give(guard.clone(), tenure, asks, replies));

    let handler = Handler {
        client: client.clone(),
        counter: Counter::new(client.clone()),
        namespace: namespace.to_owned(),
        sets: shows.sets,
        namespaces: shows.namespaces,
        guard,
        placer: Placer {
            client: client.clone(),
            spreads: shows.spreads,
            lists: Lists::new(entries.clone(), one_is_for_all_spreads),
            locks: ObjectLocks::default(),
        },
        spreads: options.workload_spreads,
        restorer: Restorer {
            client: client.clone(),
            states: shows.states,
            lists: Lists::new(entries.clone(), one_is_for_all_states),
        },
        pod_states: options.persistent_pod_states,
        limits: options.budget_deletions || options.budget_updates,
        coming,
        webhooks: standing,
        entries,
        pod_readiness_gate: options.pod_readiness_gate,
        any_metadata: options.any_pod_metadata,
        template_defaults: options.template_defaults,
    };
    let server = Server::new(handler, serving, metrics)?;
    tasks.spawn(server.run(listener, stop));
    Ok(())
}

/// Sources of both configurations.
struct Shared<'a> {
    client: &'a Client,
    service: &'a Service,
    choices: Choices,
    writer: &'a Writer,
    shows: &'a Shows,
    served: &'a watch::Receiver<Served>,
    coming: &'a Announced,
    entered: &'a watch::Sender<Entered>,
    metrics: &'a Admission,
}

/// Choices by which entries are made.
fn choices(options: &Options, ownership: Ownership) -> Choices {
    Choices {
        others: configuration::Options {
            pod_readiness_gate: options.pod_readiness_gate,
            deletion_protection: options.deletion_protection,
            ownership,
        },
        budgets: BudgetOptions {
            deletions: options.budget_deletions,
            updates: options.budget_updates,
            ignore: options.budget_failure_policy == FailurePolicy::Ignore,
        },
        spreads: SpreadOptions {
            on: options.workload_spreads,
            ignore: options.spread_failure_policy == FailurePolicy::Ignore,
        },
        states: StateOptions {
            on: options.persistent_pod_states,
            ignore: options.pod_state_failure_policy == FailurePolicy::Ignore,
        },
    }
}

/// Watches one configuration and keeps it right. Returns the bundle that stands in it, and itself.
fn reconciler<K: Configuration>(
    watches: &mut JoinSet<()>,
    shared: &Shared<'_>,
    what: &'static str,
    webhooks: Option<watch::Sender<Webhooks>>,
) -> (watch::Receiver<Vec<u8>>, watch::Receiver<View<K>>) {
    let api: Api<K> = Api::all(shared.client.clone());
    let (view, shown) = watch::channel(View::default());
    let one = watcher::Config::default().fields(&format!("metadata.name={CONFIGURATION}"));
    watches.spawn(follow(api.clone(), one, what, Some, view));
    let (bundled, standing) = watch::channel(Vec::new());
    let reconciler = configuration::ConfigurationReconciler {
        api,
        name: CONFIGURATION,
        service: shared.service.clone(),
        options: shared.choices.others,
        precedence: Precedence::of(shared.writer.clone()),
        shown: shown.clone(),
        sets: shared.shows.sets.clone(),
        budgets: (shared.shows.budgets.clone(), shared.choices.budgets),
        spreads: (shared.shows.spreads.clone(), shared.choices.spreads),
        states: (shared.shows.states.clone(), shared.choices.states),
        coming: shared.coming.clone(),
        served: shared.served.clone(),
        bundled,
        webhooks,
        entered: shared.entered.clone(),
        metrics: shared.metrics.clone(),
    };
    watches.spawn(reconciler.run());
    (standing, shown)
}

/// Watches the definition of StatefulSets, if there is one and they are ours, and keeps its conversion right.
/// Returns the bundle that stands in it.
fn converter(
    converts: bool,
    watches: &mut JoinSet<()>,
    client: &Client,
    service: &Service,
    served: &watch::Receiver<Served>,
) -> watch::Receiver<conversion::Bundled> {
    let (bundled, standing) = watch::channel(None);
    if !converts {
        // Its reader takes the end of the channel for the end of the program.
        watches.spawn(async move {
            std::future::pending::<()>().await;
            drop(bundled);
        });
        return standing;
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (view, shown) = watch::channel(View::default());
    let one = watcher::Config::default().fields(&format!("metadata.name={}", conversion::DEFINITION));
    watches.spawn(follow(api.clone(), one, "customresourcedefinitions", conversion::read, view));
    let (service, served) = (service.clone(), served.clone());
    let reconciler = conversion::ConversionReconciler { api, service, shown, served, bundled };
    watches.spawn(reconciler.run());
    standing
}

/// Says what of admission is ready. A configuration that was right once stays ready: who spoils it must not
/// take all replicas from the Service, and with them the pods that wait.
async fn tell(
    ready: watch::Sender<Admits>,
    mut served: watch::Receiver<Served>,
    mut bundled: [watch::Receiver<Vec<u8>>; 2],
    mut sets: watch::Receiver<View<sets::SetSeen>>,
    mut namespaces: watch::Receiver<Namespaces>,
) {
    loop {
        let certificate = served.borrow_and_update().is_loaded();
        let listed = sets.borrow_and_update().listed().is_some();
        let listed = namespaces.borrow_and_update().listed().is_some() && listed;
        let [first, second] = &mut bundled;
        let stand = !first.borrow_and_update().is_empty() && !second.borrow_and_update().is_empty();
        ready.send_modify(|admits| admits.add(certificate, listed, stand));
        // Cancel-safe: a change that is not taken is seen the next time.
        let changed = tokio::select! {
            changed = served.changed() => changed,
            changed = sets.changed() => changed,
            changed = namespaces.changed() => changed,
            changed = first.changed() => changed,
            changed = second.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
