//! Labels of the Node that say what Berth can do there, so that pods can ask for nodes that keep their order.
//!
//! Order is promised only when the kubelet has been seen to speak through this agent, and then as long as it
//! is configured. It is not taken back when the kubelet is away: a kubelet that starts checks the pods it
//! runs against the labels of its node again, and would end those that ask for one that is gone
//! (`generalFilter` in the kubelet's pkg/kubelet/lifecycle/predicate.go).

use std::time::Duration;

use berth_shim::Metrics;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Cluster, client::CallError, metrics::Write, pause, raw};
use crate::{
    base::causes::chain,
    config::{Configuration, PathMode},
};

/// Label of a Node, where the agent stands: `inline`, `beside` or `takeover`.
pub const PATH: &str = "berth.dev/path";
/// Label of a Node: `true` where the containers of a pod start in the order it declares, `false` where
/// they do not.
pub const ORDER: &str = "berth.dev/order";

/// How often the kubelet is looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often labels are compared: a Node that was made anew has none, and somebody may have changed them.
const COMPARE: Duration = Duration::from_secs(300);

/// The labels of this node.
#[derive(Debug)]
pub struct NodeLabels {
    cluster: Cluster,
    shim: Metrics,
    path: PathMode,
    /// Launch order is switched on.
    ordered: bool,
}

/// Outcome of one look.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    Right,
    Written,
    NoNode,
}

impl NodeLabels {
    /// Nothing is asked before it runs.
    pub fn new(cluster: Cluster, shim: Metrics, config: &Configuration) -> Self {
        Self { cluster, shim, path: config.path, ordered: config.launch_order.enabled }
    }

    /// Keeps the labels as they should be, until the shutdown. They stay when the agent ends.
    pub async fn run(self, shutdown: CancellationToken) {
        // Cancel-safe: a patch is there or not.
        shutdown.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&self) {
        let order = self.order().await;
        let mut attempt = 0;
        loop {
            let pause = match self.look(order).await {
                Ok(Looked::Right | Looked::Written) => {
                    attempt = 0;
                    COMPARE
                }
                // The kubelet registers it, maybe later than the agent starts.
                Ok(Looked::NoNode) => pause::after(attempt),
                Err(error) if error.refusal_or_forbidden().is_some() => {
                    // A right that is missing comes seldom by itself.
                    warn!(error = %chain(&error), "Node labels not written");
                    COMPARE
                }
                Err(_) => pause::after(attempt),
            };
            attempt += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells whether order is kept here, as soon as that is known; it stays so.
    async fn order(&self) -> bool {
        if !self.ordered || self.path == PathMode::Beside {
            return false;
        }
        while self.shim.kubelet_connections_open() == 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        true
    }

    async fn look(&self, order: bool) -> Result<Looked, CallError> {
        let name = self.cluster.node();
        let get = |client| async move { raw::all::<Node>(client).get_metadata_opt(name).await };
        let connection = self.cluster.connection();
        let Some(node) = connection.ask(get).await? else { return Ok(Looked::NoNode) };
        let order = if order { "true" } else { "false" };
        let wanted = [(PATH, self.path.name()), (ORDER, order)];
        let labels = node.labels();
        if wanted.iter().all(|(key, value)| labels.get(*key).is_some_and(|found| found == value)) {
            return Ok(Looked::Right);
        }
        let labels: serde_json::Map<_, _> =
            wanted.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        // Of this Node only: one that was made anew is looked at anew.
        let body = Patch::Merge(json!({ "metadata": { "uid": node.metadata.uid, "labels": labels } }));
        let patch = |client| async move {
            raw::all::<Node>(client).patch_metadata(name, &PatchParams::default(), &body).await
        };
        let written = connection.ask(patch).await;
        self.cluster.metrics.wrote(Write::NodeLabels, &written);
        written?;
        info!(path = self.path.name(), order, "Node labels written");
        Ok(Looked::Written)
    }
}
