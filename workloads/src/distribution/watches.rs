//! The watches of distributions: what the API server shows, in the words of the picture. Conversion only.
//!
//! Copies are asked for by their label: the API server sends no other Secret. They may be large, so a list
//! comes in small pages, and each object is reduced before the next page is asked for.

use std::sync::Arc;

use berth_base::sent::Sent;
use berth_proto::crd::ResourceDistribution;
use berth_workloads_policy::distribution::{self, COPY_LABEL, CopyView, NamespaceView};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    metrics::Metrics,
    object,
    watch::{Shown, relay, shown, understood},
};

/// Objects of a page: of the largest ones that is 24 MiB.
const PAGE: u32 = 16;

/// A distribution, for the store.
pub(super) type Filed = object::Filed<Arc<ResourceDistribution>>;

/// Event of any kind.
#[derive(Debug)]
pub(super) enum Input {
    Distribution(Shown<Filed>),
    /// With its name.
    Namespace(Shown<(String, NamespaceView)>),
    Secret(Shown<CopyView>),
    ConfigMap(Shown<CopyView>),
}

impl Input {
    /// Tells whether a list is complete with it.
    pub(super) fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Distribution(Shown::ListEnds)
                | Self::Namespace(Shown::ListEnds)
                | Self::Secret(Shown::ListEnds)
                | Self::ConfigMap(Shown::ListEnds)
        )
    }
}

/// Starts all watches.
pub(super) fn start(
    client: &Client,
    inputs: &mpsc::Sender<Input>,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
) {
    let given = || (client.clone(), inputs.clone(), metrics.clone());
    tasks.spawn(distributions(given()));
    tasks.spawn(namespaces(given()));
    tasks.spawn(secrets(given()));
    tasks.spawn(config_maps(given()));
}

type Given = (Client, mpsc::Sender<Input>, Metrics);

fn copies() -> watcher::Config {
    watcher::Config::default().labels(COPY_LABEL).page_size(PAGE)
}

async fn distributions((client, inputs, metrics): Given) {
    let api = Api::<Sent<DynamicObject>>::all_with(client, &ApiResource::erase::<ResourceDistribution>(&()));
    let view = |object| understood(distribution::KIND, Filed::read(object), &metrics);
    let config = watcher::Config::default().page_size(PAGE);
    let input = |event: Option<_>| Some(Input::Distribution(shown(event?, view)));
    relay(api, config, "resourcedistributions", input, inputs, &metrics).await;
}

async fn namespaces((client, inputs, metrics): Given) {
    let view = |namespace: Namespace| {
        let meta = namespace.metadata;
        let view = NamespaceView {
            uid: meta.uid?,
            labels: meta.labels.unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
        };
        Some((meta.name?, view))
    };
    let input = |event: Option<_>| Some(Input::Namespace(shown(event?, view)));
    let config = watcher::Config::default();
    relay(Api::<Sent<Namespace>>::all(client), config, "namespaces", input, inputs, &metrics).await;
}

async fn secrets((client, inputs, metrics): Given) {
    let input =
        |event: Option<_>| Some(Input::Secret(shown(event?, |secret: Secret| CopyView::of_secret(&secret))));
    relay(Api::<Sent<Secret>>::all(client), copies(), "secrets", input, inputs, &metrics).await;
}

async fn config_maps((client, inputs, metrics): Given) {
    let input = |event: Option<_>| {
        Some(Input::ConfigMap(shown(event?, |map: ConfigMap| CopyView::of_config_map(&map))))
    };
    relay(Api::<Sent<ConfigMap>>::all(client), copies(), "configmaps", input, inputs, &metrics).await;
}
