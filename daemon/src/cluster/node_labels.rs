//! Labels of the Node that say what Berth can do there, so that pods can ask for nodes that keep their order.
//!
//! Order is promised only when the kubelet has been seen to speak through this agent, and then as long as it
//! is configured. It is not taken back when the kubelet is away: a kubelet that starts checks the pods it
//! runs against the labels of its node again, and would end those that ask for one that is gone
//! (`generalFilter` in the kubelet's pkg/kubelet/lifecycle/predicate.go). One that goes past Berth has to be
//! started again, and would end them as well, so that it does not come is said in an Event.

use std::{collections::BTreeMap, time::Duration};

use berth_shim::Metrics;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Cluster, Said,
    client::CallError,
    metrics::Write,
    pause,
    raw::{self, Raw},
};
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
/// How long the kubelet may take after the agent's start, before it is said that it does not come.
const COMES_WITHIN: Duration = Duration::from_secs(120);
/// Reason of that Event.
const REASON: &str = "KubeletNotThroughBerth";
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
            sleep(pause).await;
        }
    }

    /// Tells whether order is kept here, as soon as that is known; it stays so.
    async fn order(&self) -> bool {
        if !self.ordered || self.path == PathMode::Beside {
            return false;
        }
        if timeout(COMES_WITHIN, self.kubelet_comes()).await.is_err() {
            self.tell_of_promise().await;
            self.kubelet_comes().await;
        }
        true
    }

    async fn kubelet_comes(&self) {
        while self.is_kubelet_away() {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn is_kubelet_away(&self) -> bool {
        self.shim.kubelet_connections_open() == 0
    }

    /// Says that the kubelet does not come, where the Node has promised order before. On a node that Berth is
    /// new to it comes when the administrator leads it there.
    async fn tell_of_promise(&self) {
        let mut attempt = 0;
        while self.is_kubelet_away() {
            match self.metadata().await {
                Ok(Some(node)) if promises(node.labels()) => return self.tell().await,
                Ok(_) => return,
                Err(_) => sleep(pause::after(attempt)).await,
            }
            attempt += 1;
        }
    }

    async fn tell(&self) {
        let minutes = COMES_WITHIN.as_secs() / 60;
        let note = format!(
            "This Node has the label {ORDER}=true, and its kubelet has not connected to Berth within {minutes} minutes \
             of the agent's start: its calls go past Berth, and containers start and stop in any order. Restart the \
             kubelet. The label stays, because a kubelet that starts ends pods which require a label that its Node has \
             lost: cordon the Node until then"
        );
        warn!("Kubelet does not come, though its Node says that order is kept");
        // Its name for its UID, as the kubelet does: `kubectl describe` finds both.
        let name = Some(self.cluster.node().to_owned());
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            uid: name.clone(),
            name,
            ..ObjectReference::default()
        };
        self.cluster.tell_of(about, &Said { reason: REASON, warning: true, note: &note }).await;
    }

    async fn metadata(&self) -> Result<Option<PartialObjectMeta<Raw>>, CallError> {
        let name = self.cluster.node();
        let get = |client| async move { raw::all::<Node>(client).get_metadata_opt(name).await };
        self.cluster.connection().ask(get).await
    }

    async fn look(&self, order: bool) -> Result<Looked, CallError> {
        let (name, connection) = (self.cluster.node(), self.cluster.connection());
        let Some(node) = self.metadata().await? else { return Ok(Looked::NoNode) };
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

/// Tells whether labels of a Node say that order is kept there.
fn promises(labels: &BTreeMap<String, String>) -> bool {
    labels.get(ORDER).is_some_and(|order| order == "true")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::cluster::{
        events::Events,
        fake::{Answer, FakeApi},
        metrics::ClusterMetrics,
    };

    /// Rows: the label of before, the kubelet's connections, and the number of Events.
    #[tokio::test]
    async fn a_kubelet_that_does_not_come_is_told_of_where_the_node_promises_order() {
        for (label, connections, count) in
            [(Some("true"), 0, 1), (Some("true"), 1, 0), (Some("false"), 0, 0), (None, 0, 0)]
        {
            let told = Arc::new(Mutex::new(Vec::new()));
            let events = told.clone();
            let api = FakeApi::new(move |question| {
                if question.what == "GET /api/v1/nodes/node-a" {
                    let labels = label.map_or(json!({}), |label| json!({ ORDER: label }));
                    return Answer::Object(json!({
                        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": { "name": "node-a", "labels": labels },
                    }));
                }
                events.lock().unwrap().push((question.what, question.body.clone()));
                Answer::Object(question.body)
            })
            .await;
            let (config, name) = (Configuration::default(), "node-a".to_owned());
            let metrics = ClusterMetrics::register(&mut Registry::default());
            let mut cluster = Cluster::new(&config, name.clone(), metrics.clone());
            cluster.events = Events::new(api.connection.clone(), name, metrics);
            cluster.connection = api.connection.clone();
            let shim = Metrics::register(&mut Registry::default());
            shim.told(1, connections, 0);
            NodeLabels::new(cluster, shim, &config).tell_of_promise().await;
            let told = told.lock().unwrap();
            assert_eq!(told.len(), count, "{label:?} {connections}: {told:?}");
            for (what, event) in told.iter() {
                assert_eq!(what, "POST /apis/events.k8s.io/v1/namespaces/default/events");
                assert_eq!((&event["reason"], &event["regarding"]["kind"]), (&json!(REASON), &json!("Node")));
                assert!(event["note"].as_str().unwrap().ends_with("until then"), "{event}");
            }
        }
    }
}
