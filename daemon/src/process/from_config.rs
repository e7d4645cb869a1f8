//! Components as the configuration wants them.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use prometheus_client::registry::Registry;

use crate::{
    agent::metrics::AgentMetrics,
    cluster::{Cluster, metrics::ClusterMetrics},
    config::{Configuration, FailurePolicy, PathMode, ViewMode},
    pods::kubelet::KubeletView,
};

pub(super) fn policy(config: &Configuration) -> berth_policy::Config {
    berth_policy::Config {
        view: match config.pod_view.mode {
            ViewMode::None => berth_policy::View::None,
            ViewMode::Auto | ViewMode::Api | ViewMode::Kubelet => berth_policy::View::Watched,
        },
        launch_order: config.launch_order.enabled,
        exit_order: config.exit_order.enabled,
        hold: config.launch_order.hold_timeout.0,
        early_readiness: config.launch_order.early_readiness,
        early_hold: config.launch_order.early_hold_timeout.0,
        distinct_seconds: config.launch_order.distinct_seconds,
        unknown_pods: match config.launch_order.failure_policy {
            FailurePolicy::Open => berth_policy::UnknownPods::Open,
            FailurePolicy::Closed => berth_policy::UnknownPods::Closed,
        },
        kubelet_poll: config.pod_view.kubelet.is_some(),
        path: match config.path {
            PathMode::Inline | PathMode::Takeover => berth_policy::Path::Inline,
            PathMode::Beside => berth_policy::Path::Beside,
        },
        api_requests: config.pod_view.mode == ViewMode::Api,
        file_requests: true,
        update_requests: config.pod_view.mode == ViewMode::Api,
    }
}

/// Tells the place of the agent, and what of its features needs the path of the calls.
pub(super) fn tell(config: &Configuration, metrics: &AgentMetrics) {
    metrics.path(config.path.name());
    let in_the_path = config.path != PathMode::Beside;
    let launch_order = in_the_path && config.launch_order.enabled;
    metrics.feature("launch order", launch_order);
    metrics.feature("early readiness", launch_order && config.launch_order.early_readiness);
    metrics.feature("exit order", in_the_path && config.exit_order.enabled);
}

pub(super) fn kubelet(config: &Configuration) -> anyhow::Result<Option<Arc<KubeletView>>> {
    let alone = config.pod_view.mode == ViewMode::Kubelet;
    let view =
        config.pod_view.kubelet.as_ref().map(|kubelet| KubeletView::new(kubelet, alone)).transpose()?;
    Ok(view.map(Arc::new))
}

/// The side towards the API server, where there is one.
pub(super) fn cluster(config: &Configuration, registry: &mut Registry) -> anyhow::Result<Option<Cluster>> {
    if config.pod_view.mode != ViewMode::Api {
        return Ok(None);
    }
    Ok(Some(Cluster::new(config, node_name(config)?, ClusterMetrics::register(registry))))
}

/// Name of this node in the API.
pub(super) fn node_name(config: &Configuration) -> anyhow::Result<String> {
    config.node_name.clone().map_or_else(host_name, Ok)
}

/// The kubelet's default for the name of its node.
fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("the host name, for nodeName")?;
    let name =
        name.into_string().map_err(|name| anyhow!("host name {name:?} is not UTF-8; give nodeName"))?;
    Ok(name.trim().to_lowercase())
}
