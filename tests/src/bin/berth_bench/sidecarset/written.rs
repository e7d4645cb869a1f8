//! Writes that an upgrade takes of agent and manager: to the pods of a node, and to its NodePodUpdate. They
//! are counted by the versions that watches show, not by what the programs say of themselves. The Event that
//! a swap ends with is one more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use berth_proto::crd::NodePodUpdate;
use berth_sidecarset::upgradable;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use super::follow::follow;

/// Conditions of a pod that the agent writes; all others are the kubelet's.
const CONDITIONS: [&str; 2] = ["InPlaceUpdateReady", upgradable::CONDITION];
/// No write for so long: what an upgrade asked for is written. Signs of life of an agent are further apart.
const REST: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

/// Counter of the writes.
pub(super) struct Written {
    seen: Arc<Seen>,
    _watches: JoinSet<()>,
}

/// Knowledge of the watches.
#[derive(Default)]
struct Seen(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    writes: u32,
    pods: BTreeMap<String, Pod>,
    /// Versions of the nodes' objects.
    nodes: BTreeMap<String, String>,
}

impl Written {
    /// Begins to count those to the pods of a namespace and to all nodes' objects.
    pub(super) fn follow(client: &Client, namespace: &str) -> Self {
        let (seen, mut watches) = (Arc::new(Seen::default()), JoinSet::new());
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        watches.spawn(follow(pods, seen.clone(), Seen::pod));
        watches.spawn(follow(Api::<NodePodUpdate>::all(client.clone()), seen.clone(), Seen::node));
        Self { seen, _watches: watches }
    }

    /// Waits until nothing is written any more. Returns the number of writes so far.
    pub(super) async fn at_rest(&self) -> Result<u32> {
        await_condition("nothing is written any more", PATIENCE, async || {
            let before = self.seen.now().writes;
            tokio::time::sleep(REST).await;
            let now = self.seen.now().writes;
            ensure!(now == before, "{} writes in {REST:?}", now - before);
            Ok(now)
        })
        .await
    }
}

impl Seen {
    fn now(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pod(&self, pod: Pod) {
        let mut seen = self.now();
        let before = seen.pods.insert(pod.name_any(), pod.clone());
        if before.is_some_and(|before| !is_the_kubelets(&before, &pod)) {
            seen.writes += 1;
        }
    }

    fn node(&self, object: NodePodUpdate) {
        let mut seen = self.now();
        let version = object.resource_version().unwrap_or_default();
        let before = seen.nodes.insert(object.name_any(), version.clone());
        if before.is_some_and(|before| before != version) {
            seen.writes += 1;
        }
    }
}

/// Between the two versions the kubelet has written, who writes nothing but the status.
fn is_the_kubelets(before: &Pod, pod: &Pod) -> bool {
    let (then, now) = (&before.metadata, &pod.metadata);
    before.spec == pod.spec
        && then.labels == now.labels
        && then.annotations == now.annotations
        && conditions(before).eq(conditions(pod))
}

fn conditions(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    let all = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.filter(|condition| CONDITIONS.contains(&&*condition.type_))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(version: u32, more: &Value) -> Pod {
        let mut pod = json!({
            "metadata": { "name": "a", "resourceVersion": version.to_string(), "annotations": { "k": "1" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
            "status": { "phase": "Pending", "conditions": [{ "type": "Ready", "status": "False" }] },
        });
        for (path, value) in more.as_object().into_iter().flatten() {
            *pod.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    /// The first version of an object, and one that a watch shows again, are nobody's writes.
    #[test]
    fn writes_are_those_of_others_than_the_kubelet() {
        let seen = Seen::default();
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let told = json!([
            { "type": "Ready", "status": "True" }, { "type": "SidecarSetUpgradable", "status": "True" },
        ]);
        let mut version = 0;
        for (more, writes) in [
            (json!({}), 0),
            (json!({ "/status/phase": "Running" }), 0),
            (json!({ "/status/conditions": ready }), 0),
            (json!({ "/status/conditions": told }), 1),
            (json!({ "/metadata/annotations/k": "2", "/status/conditions": told }), 2),
            (json!({ "/spec/containers/0/image": "i:2", "/status/conditions": told }), 3),
        ] {
            version += 1;
            seen.pod(pod(version, &more));
            assert_eq!(seen.now().writes, writes, "{more}");
        }
        for (version, writes) in [("7", 3), ("7", 3), ("8", 4)] {
            let mut object = NodePodUpdate::new("n", Default::default());
            object.metadata.resource_version = Some(version.to_owned());
            seen.node(object);
            assert_eq!(seen.now().writes, writes, "{version}");
        }
    }
}
