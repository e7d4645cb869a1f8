//! PodProbeMarkers and NodePodProbes, reduced to what is decided by. Conversion only.

use std::collections::BTreeSet;

use berth_proto::crd::{NodePodProbe, Partly};
use berth_workloads_policy::{
    marker_finalizers::marker_of,
    store::{Stored, version},
};
use kube::api::ObjectMeta;
use serde_json::Value;

/// A PodProbeMarker as it is now.
#[derive(Clone, Debug)]
pub(super) struct MarkerView {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) finalizers: Vec<String>,
    pub(super) is_deleted: bool,
}

impl MarkerView {
    /// Reads the metadata of a marker.
    pub(super) fn of(meta: ObjectMeta) -> Option<Self> {
        Some(Self {
            namespace: meta.namespace?,
            name: meta.name?,
            uid: meta.uid?,
            version: meta.resource_version.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            is_deleted: meta.deletion_timestamp.is_some(),
        })
    }

    /// Key by which nodes have it.
    pub(super) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    /// Tells whether nothing differs that is decided by: its status changes with its pods.
    pub(super) fn decides_as(&self, earlier: &Self) -> bool {
        self.finalizers == earlier.finalizers && self.is_deleted == earlier.is_deleted
    }
}

impl Stored for MarkerView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

/// Keys of the markers that a node has entries of, with the UID of its object: those that are to be probed,
/// and those that are shown to be. An entry of a newer program that cannot be read is one all the same.
pub(super) fn probed(node: Partly<NodePodProbe>) -> Option<(String, BTreeSet<String>)> {
    let Partly { object: node, unreadable } = node;
    let wanted = node.status.unwrap_or_default().desired_pod_probes;
    let mut markers = BTreeSet::new();
    for entry in &unreadable {
        let probes = entry.entry.get("probes").and_then(Value::as_array).into_iter().flatten();
        let names = probes.filter_map(|probe| marker_of(probe.get("name")?.as_str()?));
        markers.extend(names.map(|name| key(entry.text("namespace"), name)));
    }
    for pod in wanted.iter().chain(&node.spec.pod_probes) {
        markers.extend(pod.probes.iter().filter_map(|one| Some(key(&pod.namespace, marker_of(&one.name)?))));
    }
    Some((node.metadata.uid?, markers))
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_has_the_markers_of_both_lists() {
        let pod = |namespace: &str, names: &[&str]| {
            let probe = json!({ "tcpSocket": { "port": 80 } });
            let probes =
                names.iter().map(|name| json!({ "name": name, "containerName": "c", "probe": probe }));
            let probes: Vec<_> = probes.collect();
            json!({ "name": "p", "namespace": namespace, "uid": "u", "probes": probes })
        };
        let node = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe",
            "metadata": { "name": "n", "uid": "node" },
            "spec": { "podProbes": [pod("ns", &["shown#a", "both#a", "none"])] },
            "status": { "desiredPodProbes": [pod("ns", &["both#a", "both#b"]), pod("other", &["both#a"])] },
        });
        let (uid, markers) = probed(serde_json::from_value(node.clone()).unwrap()).unwrap();
        let markers: Vec<_> = markers.iter().map(String::as_str).collect();
        assert_eq!((uid.as_str(), markers), ("node", vec!["ns/both", "ns/shown", "other/both"]));
        let mut newer = node;
        newer["status"]["desiredPodProbes"][1]["probes"][0]["containerName"] = json!({ "in": "newer" });
        let (_, markers) = probed(serde_json::from_value(newer).unwrap()).unwrap();
        assert_eq!(markers.len(), 3, "what a newer program has written is there: {markers:?}");
    }
}
