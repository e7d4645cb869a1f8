//! Where the network of a pod is: its address, and the namespace to dial it from.
//!
//! The CRI has a field for the address only. The namespace stands in the verbose answer of
//! `PodSandboxStatus`, as JSON: containerd and CRI-O both show the sandbox's OCI spec there, with the
//! namespaces' paths, and the ID of a process in it.

use std::{net::IpAddr, path::PathBuf};

use berth_proto::cri;
use serde::Deserialize;

/// The network a sandbox has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The node's.
    Host,
    /// One of its own.
    Own {
        /// Its first address.
        ip: IpAddr,
        /// Ways to its namespace, the better ones first; none when the runtime does not tell.
        namespaces: Vec<PathBuf>,
    },
}

/// Part of a sandbox's information that both runtimes give, among other things.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Info {
    /// Process in the sandbox; 0 when there is none.
    pid: u32,
    runtime_spec: Option<Spec>,
}

#[derive(Deserialize)]
struct Spec {
    linux: Option<Linux>,
}

#[derive(Deserialize)]
struct Linux {
    #[serde(default)]
    namespaces: Vec<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: String,
    /// Empty for one that came with the process.
    #[serde(default)]
    path: PathBuf,
}

impl Network {
    /// `None` without an address.
    pub(super) fn read(answer: cri::PodSandboxStatusResponse) -> Option<Self> {
        let info = answer.info.get("info").and_then(|text| serde_json::from_str(text).ok());
        let Info { pid, runtime_spec } = info.unwrap_or_default();
        let status = answer.status.unwrap_or_default();
        let namespaces = runtime_spec.and_then(|spec| spec.linux).map(|linux| linux.namespaces);
        let is_network = |namespace: &&Namespace| namespace.kind == "network";
        let has_none = namespaces.as_ref().is_some_and(|all| !all.iter().any(|one| is_network(&one)));
        if has_none || is_of_the_node(&status) {
            return Some(Self::Host);
        }
        let path = namespaces.iter().flatten().find(is_network).map(|namespace| namespace.path.clone());
        let of_process = (pid > 0).then(|| format!("/proc/{pid}/ns/net").into());
        Some(Self::Own {
            ip: status.network?.ip.parse().ok()?,
            // A process ID may mean another process by now; a path does not.
            namespaces: path.filter(|path| path.is_absolute()).into_iter().chain(of_process).collect(),
        })
    }
}

fn is_of_the_node(status: &cri::PodSandboxStatus) -> bool {
    let linux = status.linux.as_ref().and_then(|linux| linux.namespaces.as_ref());
    let options = linux.and_then(|namespaces| namespaces.options.as_ref());
    options.is_some_and(|options| options.network() == cri::NamespaceMode::Node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ip: &str, mode: Option<cri::NamespaceMode>, info: &str) -> cri::PodSandboxStatusResponse {
        let options = mode.map(|mode| cri::NamespaceOption { network: mode.into(), ..Default::default() });
        cri::PodSandboxStatusResponse {
            status: Some(cri::PodSandboxStatus {
                network: Some(cri::PodSandboxNetworkStatus { ip: ip.to_owned(), ..Default::default() }),
                linux: options.map(|options| cri::LinuxPodSandboxStatus {
                    namespaces: Some(cri::Namespace { options: Some(options) }),
                }),
                ..Default::default()
            }),
            info: [("info".to_owned(), info.to_owned())].into(),
        }
    }

    #[test]
    fn networks_as_the_runtimes_tell_them() {
        let own = |ip: &str, paths: &[&str]| {
            let namespaces = paths.iter().map(PathBuf::from).collect();
            Some(Network::Own { ip: ip.parse().unwrap(), namespaces })
        };
        let pod = Some(cri::NamespaceMode::Pod);
        let containerd = r#"{"pid":42,"netNamespaceClosed":false,"config":{},"runtimeSpec":{"linux":{"namespaces":[
            {"type":"pid"},{"type":"network","path":"/var/run/netns/cni-1"},{"type":"mount"}]}}}"#;
        let crio = r#"{"image":"pause","pid":42,"runtimeSpec":{"ociVersion":"1.0.2","linux":{"namespaces":[
            {"type":"network"}]}}}"#;
        let no_infra = r#"{"runtimeSpec":{"linux":{"namespaces":[
            {"type":"network","path":"/var/run/netns/1-2-3"}]}}}"#;
        let of_the_node = r#"{"pid":42,"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"}]}}}"#;
        let table = [
            ("10.0.0.1", pod, containerd, own("10.0.0.1", &["/var/run/netns/cni-1", "/proc/42/ns/net"])),
            ("fd00::1", None, containerd, own("fd00::1", &["/var/run/netns/cni-1", "/proc/42/ns/net"])),
            ("10.0.0.1", pod, crio, own("10.0.0.1", &["/proc/42/ns/net"])),
            ("10.0.0.1", pod, no_infra, own("10.0.0.1", &["/var/run/netns/1-2-3"])),
            ("", pod, of_the_node, Some(Network::Host)),
            ("192.0.2.1", None, of_the_node, Some(Network::Host)),
            ("", Some(cri::NamespaceMode::Node), "{}", Some(Network::Host)),
            // Not there yet, or not any more.
            ("", pod, containerd, None),
            ("nonsense", pod, containerd, None),
            // A runtime that tells less.
            ("10.0.0.1", pod, r#"{"pid":0,"runtimeSpec":null}"#, own("10.0.0.1", &[])),
            ("10.0.0.1", pod, r#"{"runtimeSpec":{}}"#, own("10.0.0.1", &[])),
            ("10.0.0.1", pod, "no JSON", own("10.0.0.1", &[])),
        ];
        for (ip, mode, info, expect) in table {
            assert_eq!(Network::read(answer(ip, mode, info)), expect, "{ip} {mode:?} {info}");
        }
    }
}
