//! The pod's sandbox, in the kubelet's manner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use berth_policy::launch_priority::PLAN_ANNOTATION;
use berth_proto::cri::{
    DnsConfig, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, PodSandboxConfig, PodSandboxMetadata,
    PortMapping, Protocol,
};

use super::types::PodSpec;
use super::{Manifest, keys, security};

/// Where a played pod keeps its things.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The pod's log directory, `<namespace>_<name>_<uid>` below `--log-dir`.
    pub logs: PathBuf,
    /// The pod's data directory, `<uid>` below `--data-dir`.
    pub data: PathBuf,
}

impl Places {
    /// The places of one pod.
    pub(crate) fn new(manifest: &Manifest, log_dir: &Path, data_dir: &Path) -> Self {
        let pod = format!("{}_{}_{}", manifest.namespace(), manifest.name(), manifest.uid);
        Self { logs: log_dir.join(pod), data: data_dir.join(&manifest.uid) }
    }
}

/// Makes the configuration for RunPodSandbox, which every CreateContainer repeats.
pub(crate) fn config(manifest: &Manifest, places: &Places) -> Result<PodSandboxConfig> {
    let spec = &manifest.pod.spec;
    let mut labels = manifest.pod.metadata.labels.clone();
    labels.extend(pod_labels(manifest));
    let mut annotations = manifest.pod.metadata.annotations.clone();
    annotations.insert(keys::DATA_DIR.to_owned(), path_text(&places.data)?);
    if let Some(order) = &manifest.order {
        let plan: BTreeMap<String, i32> =
            order.launch_sequence().map(|(name, priority)| (name.to_string(), priority)).collect();
        annotations.insert(PLAN_ANNOTATION.to_owned(), serde_json::to_string(&plan).context("launch plan")?);
    }
    Ok(PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: manifest.name().to_owned(),
            uid: manifest.uid.clone(),
            namespace: manifest.namespace().to_owned(),
            attempt: 0,
        }),
        hostname: hostname(manifest),
        log_directory: path_text(&places.logs)?,
        dns_config: spec.dns_config.as_ref().map(|dns| DnsConfig {
            servers: dns.nameservers.clone(),
            searches: dns.searches.clone(),
            options: dns
                .options
                .iter()
                .map(|option| {
                    option
                        .value
                        .as_ref()
                        .map_or(option.name.clone(), |value| format!("{}:{value}", option.name))
                })
                .collect(),
        }),
        port_mappings: port_mappings(spec),
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
        linux: Some(LinuxPodSandboxConfig {
            // The runtime's own choice: the kubelet's cgroup tree is the kubelet's.
            cgroup_parent: String::new(),
            security_context: Some(sandbox_security(spec)),
        }),
    })
}

/// The labels by which every tool finds a pod's sandboxes and containers.
pub(crate) fn pod_labels(manifest: &Manifest) -> [(String, String); 3] {
    [
        (keys::POD_NAME.to_owned(), manifest.name().to_owned()),
        (keys::POD_NAMESPACE.to_owned(), manifest.namespace().to_owned()),
        (keys::POD_UID.to_owned(), manifest.uid.clone()),
    ]
}

/// A path as the CRI wants it.
pub(crate) fn path_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("the path {} is not UTF-8", path.display()))
}

fn hostname(manifest: &Manifest) -> String {
    let spec = &manifest.pod.spec;
    if spec.host_network {
        return String::new(); // the node's
    }
    let name = spec.hostname.as_deref().unwrap_or_else(|| manifest.name());
    // The kernel takes 64 bytes, the kubelet leaves 63, and no name ends in a separator.
    name[..name.len().min(63)].trim_end_matches(['-', '.']).to_owned()
}

fn port_mappings(spec: &PodSpec) -> Vec<PortMapping> {
    if spec.host_network {
        return Vec::new();
    }
    let ports = spec.containers.iter().flat_map(|container| &container.ports);
    ports
        .map(|port| PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            }
            .into(),
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

fn sandbox_security(spec: &PodSpec) -> LinuxSandboxSecurityContext {
    let context = spec.security_context.as_ref();
    LinuxSandboxSecurityContext {
        namespace_options: Some(security::namespaces(spec)),
        run_as_user: context.and_then(|context| context.run_as_user).map(security::number),
        run_as_group: context.and_then(|context| context.run_as_group).map(security::number),
        supplemental_groups: security::groups(spec),
        privileged: spec
            .init_containers
            .iter()
            .chain(&spec.containers)
            .any(|container| container.security_context.as_ref().is_some_and(|context| context.privileged)),
    }
}
