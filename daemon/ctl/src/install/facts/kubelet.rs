//! A kubelet in a service of its own: its flags, then its configuration file and the drop-ins beside it, then
//! its defaults.

use anyhow::{Context, Result};
use berthd::base::yaml;
use serde_json::{Map, Value};

use super::super::host::Host;
use super::super::places::Flavour;
use super::super::unit::{Unit, expand, flag};
use super::{Kubelet, certificate};

/// The kubelet's defaults (KubeletConfiguration).
const HEALTHZ_ADDRESS: &str = "127.0.0.1";
const HEALTHZ_PORT: u64 = 10248;

/// The feature gate of KEP 2535.
const VERIFIES_IMAGES: &str = "KubeletEnsureSecretPulledImages";

pub(super) fn read(host: &Host, flavour: Flavour, unit: &Unit) -> Result<Kubelet> {
    let exec_start = unit.values("ExecStart");
    let variables = unit.environment(host)?;
    let args = expand(exec_start.last().map_or("", String::as_str), &variables);
    let config = config(host, flag(&args, "config"), flag(&args, "config-dir"))?;
    let told = |name: &str, field: &str| {
        let given = flag(&args, name).map(str::to_owned);
        given.or_else(|| config.get(field).map(text)).filter(|value| !value.is_empty())
    };
    let kubeconfig = match (flag(&args, "kubeconfig"), flag(&args, "bootstrap-kubeconfig")) {
        (Some(path), _) => Some(path.to_owned()),
        (None, Some(_)) => Some(flavour.kubeconfig()),
        (None, None) => None,
    };
    let kubeconfig = kubeconfig.filter(|path| host.exists(path));
    Ok(Kubelet {
        flavour,
        program: program(&args),
        exec_start,
        endpoint: told("container-runtime-endpoint", "containerRuntimeEndpoint")
            .map_or_else(|| flavour.runtime().to_owned(), endpoint),
        image_endpoint: told("image-service-endpoint", "imageServiceEndpoint").map(endpoint),
        overruled: None,
        configured: None,
        node_name: flag(&args, "hostname-override").and_then(node_name),
        certified: kubeconfig.as_deref().and_then(|path| certificate::of_kubeconfig(host, path)),
        kubeconfig,
        healthz: healthz(
            told("healthz-bind-address", "healthzBindAddress"),
            told("healthz-port", "healthzPort"),
        ),
        image_policy: config
            .get("imagePullCredentialsVerificationPolicy")
            .map(text)
            .filter(|policy| !policy.is_empty()),
        verifies_images: flag(&args, "feature-gates").and_then(verifies_images).or_else(|| {
            config.get("featureGates").and_then(|gates| gates.get(VERIFIES_IMAGES)).and_then(Value::as_bool)
        }),
        read_only_port: told("read-only-port", "readOnlyPort")
            .and_then(|port| port.parse().ok())
            .filter(|port| *port != 0),
    })
}

/// A name of a Node as the kubelet takes it; `None` for what no Node is named, as `%H`, for which systemd
/// puts the host name.
pub(super) fn node_name(given: &str) -> Option<String> {
    let of_names = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, '-' | '.');
    Some(given.trim().to_lowercase()).filter(|name| !name.is_empty() && name.chars().all(of_names))
}

/// Reads what a list of feature gates, as flags have it, says of the verification of images.
pub(super) fn verifies_images(gates: &str) -> Option<bool> {
    let mut gates = gates.split(',').filter_map(|gate| gate.trim().split_once('='));
    gates.rfind(|(name, _)| *name == VERIFIES_IMAGES)?.1.parse().ok()
}

/// The name of the program, without systemd's marks before it.
pub(super) fn program(args: &[String]) -> String {
    args.first().map_or("", |program| program.trim_start_matches(['-', '@', ':', '+', '!'])).to_owned()
}

/// Address at which it says that it is healthy.
pub(super) fn healthz(address: Option<String>, port: Option<String>) -> Option<String> {
    let port = port.map_or(Some(HEALTHZ_PORT), |port| port.parse().ok()).filter(|port| *port != 0)?;
    let address = match address.as_deref() {
        None | Some("0.0.0.0" | "") => HEALTHZ_ADDRESS.to_owned(),
        Some("::") => "[::1]".to_owned(),
        Some(address) if address.contains(':') => format!("[{address}]"),
        Some(address) => address.to_owned(),
    };
    Some(format!("{address}:{port}"))
}

/// An endpoint with its scheme: the kubelet also takes a bare path.
pub(super) fn endpoint(text: String) -> String {
    if text.starts_with('/') { format!("unix://{text}") } else { text }
}

/// The configuration file with the drop-ins of `--config-dir` over it, field by field; only plain fields
/// count here.
pub(super) fn config(host: &Host, file: Option<&str>, dir: Option<&str>) -> Result<Map<String, Value>> {
    let mut files: Vec<String> = file.into_iter().map(str::to_owned).collect();
    if let Some(dir) = dir {
        let names = host.list(dir)?.into_iter().filter(|name| name.ends_with(".conf"));
        files.extend(names.map(|name| format!("{dir}/{name}")));
    }
    let mut all = Map::new();
    for file in files {
        all.extend(yaml(host, &file)?);
    }
    Ok(all)
}

/// The fields of a YAML file; none where there is no file.
pub(super) fn yaml(host: &Host, file: &str) -> Result<Map<String, Value>> {
    let Some(content) = host.read(file)?.filter(|content| !content.trim().is_empty()) else {
        return Ok(Map::new());
    };
    yaml::from_str(&content).with_context(|| format!("{file} is no YAML with fields"))
}

/// A plain value as a flag would have it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
