//! The environment of a container: plain values with `$(VAR)`, and fieldRefs that can be known without an API
//! server.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use berth_proto::cri::KeyValue;

use super::Manifest;
use super::expand::expand;
use super::types::Container;

/// Facts that are known only when the sandbox runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The sandbox's addresses, the primary one first; the node's with hostNetwork.
    pub pod_ips: Vec<String>,
    /// The host name of this node.
    pub node_name: String,
}

/// The environment in the manifest's order, resolved; and the same as a map for `$(VAR)` in commands.
pub(crate) fn resolve(
    manifest: &Manifest,
    container: &Container,
    facts: &Facts,
) -> Result<(Vec<KeyValue>, BTreeMap<String, String>)> {
    let mut known = BTreeMap::new();
    let mut order = Vec::new();
    for env in &container.env {
        let value = match env.value_from.as_ref().and_then(|source| source.field_ref.as_ref()) {
            Some(field) => {
                let at = format!("env[{}] of container {:?}", env.name, container.name);
                lookup(manifest, &field.field_path, facts, &at)?
            }
            None => expand(env.value.as_deref().unwrap_or_default(), &known),
        };
        if known.insert(env.name.clone(), value).is_none() {
            order.push(env.name.clone());
        }
    }
    // One entry a name, the last value wins, as in the kubelet.
    let envs = order.into_iter().map(|key| KeyValue { value: known[&key].clone(), key }).collect();
    Ok((envs, known))
}

fn lookup(manifest: &Manifest, path: &str, facts: &Facts, at: &str) -> Result<String> {
    let spec = &manifest.pod.spec;
    let metadata = &manifest.pod.metadata;
    let quoted = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
    let entry = |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
    Ok(match path {
        "metadata.name" => metadata.name.clone(),
        "metadata.namespace" => manifest.namespace().to_owned(),
        "metadata.uid" => manifest.uid.clone(),
        "spec.nodeName" => spec.node_name.clone().unwrap_or_else(|| facts.node_name.clone()),
        "spec.serviceAccountName" => {
            spec.service_account_name.clone().unwrap_or_else(|| "default".to_owned())
        }
        "status.podIP" => facts.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => facts.pod_ips.join(","),
        _ => {
            if let Some(key) = quoted("metadata.labels['") {
                entry(&metadata.labels, key)
            } else if let Some(key) = quoted("metadata.annotations['") {
                entry(&metadata.annotations, key)
            } else {
                bail!(
                    "{at}: valueFrom.fieldRef {path:?} cannot be known without a kubelet; give a plain value (known are \
                     metadata.name, .namespace, .uid, .labels['…'], .annotations['…'], spec.nodeName, \
                     spec.serviceAccountName, status.podIP, status.podIPs)"
                );
            }
        }
    })
}
