//! A v1 Pod manifest, and what the kubelet would make of it in CRI messages.
//!
//! Reading is strict: what cannot be played is an error that names the field, before anything is created. No
//! CRI call is made here and nothing is written to disk; `play` does both with what this module hands it.

pub(crate) mod check;
pub(crate) mod container;
pub(crate) mod env;
pub(crate) mod expand;
pub(crate) mod sandbox;
pub(crate) mod scalar;
pub(crate) mod security;
pub(crate) mod types;
pub(crate) mod volume;

use std::io::Read;

use anyhow::{Context, Result, bail};
use berth_policy::launch_priority::{EnvValue, LaunchOrder, ORDERED_ANNOTATION, PRIORITY_ENV};
use berthd::base::yaml::{Document, YamlError};

/// The label and annotation keys that the kubelet writes.
pub(crate) mod keys {
    /// On sandboxes and containers.
    pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
    /// On sandboxes and containers.
    pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// On sandboxes and containers.
    pub(crate) const POD_UID: &str = berth_shim::convert::POD_UID_LABEL;
    /// On containers.
    pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Container annotation: seconds.
    pub(crate) const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
    /// Container annotation: the hook as JSON.
    pub(crate) const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
    /// Sandbox annotation of ours: where the pod's volumes are, so that `stop-pod` can remove them.
    pub(crate) const DATA_DIR: &str = "berth.dev/data-dir";
}

/// A manifest that can be played.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Pod that it describes.
    pub pod: types::Pod,
    /// `metadata.uid`, or a fresh one.
    pub uid: String,
    /// The declared order, if there is one.
    pub order: Option<LaunchOrder>,
    /// Remarks for the user about fields that have no effect.
    pub remarks: Vec<String>,
}

impl Manifest {
    /// Reads a file, or stdin for `-`.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let mut text = String::new();
        if path == "-" {
            std::io::stdin().read_to_string(&mut text).context("read the manifest from stdin")?;
        } else {
            text = std::fs::read_to_string(path).with_context(|| format!("read the manifest {path}"))?;
        }
        let shown = if path == "-" { "<stdin>" } else { path };
        Self::parse(&text).with_context(|| format!("the manifest {shown} cannot be played"))
    }

    /// Reads a manifest from memory.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            bail!("it is empty; give the manifest of a v1 Pod");
        }
        let document = Document::parse(text).map_err(readable)?;
        // The kind first, or a Deployment would be told that its fields are unknown.
        if let Some((api_version, kind)) = document.head()
            && (kind != "Pod" || api_version != "v1")
        {
            bail!(
                "it is {api_version} {kind}; berthctl play plays one v1 Pod: take the pod template out of it"
            );
        }
        let pod: types::Pod = document.typed().map_err(readable)?;
        let remarks = check::check(&pod, &document)?;
        let order = order(&pod)?;
        let uid = pod.metadata.uid.clone().map_or_else(fresh_uid, Ok)?;
        Ok(Self { pod, uid, order, remarks })
    }

    /// `metadata.namespace`, or `default`.
    pub(crate) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// `metadata.name`.
    pub(crate) fn name(&self) -> &str {
        &self.pod.metadata.name
    }

    /// `spec.terminationGracePeriodSeconds`, or 30.
    pub(crate) fn grace_seconds(&self) -> i64 {
        self.pod.spec.termination_grace_period_seconds.unwrap_or(30)
    }
}

fn order(pod: &types::Pod) -> Result<Option<LaunchOrder>> {
    let annotation = pod.metadata.annotations.get(ORDERED_ANNOTATION).map(String::as_str);
    let containers = pod.spec.containers.iter().map(|container| {
        // The last of several entries of one name is what the container sees.
        let env =
            container.env.iter().rfind(|env| env.name == PRIORITY_ENV).map(|env| match &env.value_from {
                Some(_) => EnvValue::ValueFrom,
                None => EnvValue::Plain(env.value.as_deref().unwrap_or_default()),
            });
        (container.name.as_str(), env)
    });
    Ok(LaunchOrder::declared(annotation, containers)?)
}

/// The parser's message, with the remedy for what is played.
fn readable(error: YamlError) -> anyhow::Error {
    match error {
        YamlError::Several => anyhow::anyhow!(
            "it has several YAML documents; berthctl play plays one Pod: give each document its own file"
        ),
        error @ YamlError::Yaml { .. } => anyhow::anyhow!("{error}"),
    }
}

/// A random (version 4) UUID.
fn fresh_uid() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let mut random = std::fs::File::open("/dev/urandom").context("open /dev/urandom for a pod UID")?;
    random.read_exact(&mut bytes).context("read /dev/urandom for a pod UID")?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

#[cfg(test)]
mod tests;
