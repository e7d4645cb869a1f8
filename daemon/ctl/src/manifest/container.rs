//! One container's CRI configuration, in the kubelet's manner.

use std::collections::HashMap;

use anyhow::{Context, Result};
use berth_proto::cri::{ContainerConfig, ContainerMetadata, ImageSpec, LinuxContainerConfig, Mount};
use serde_json::{Value, json};

use super::env::{self, Facts};
use super::expand::expand;
use super::sandbox::{Places, path_text, pod_labels};
use super::types::{Container, Handler};
use super::{Manifest, keys, security, volume};

/// Where a container's last words go inside it, unless it says so itself.
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// Makes the configuration for CreateContainer. `image_ref` is the image's ID after it was found or pulled.
pub(crate) fn config(
    manifest: &Manifest,
    container: &Container,
    places: &Places,
    facts: &Facts,
    image_ref: &str,
) -> Result<ContainerConfig> {
    let (envs, known) = env::resolve(manifest, container, facts)?;
    let expanded = |list: &[String]| list.iter().map(|text| expand(text, &known)).collect();
    let mut mounts = volume::mounts(manifest, container, places)?;
    mounts.push(Mount {
        container_path: termination_path(container).to_owned(),
        host_path: path_text(&places.termination_log(container))?,
        ..Mount::default()
    });
    let mut labels: HashMap<String, String> = pod_labels(manifest).into();
    labels.insert(keys::CONTAINER_NAME.to_owned(), container.name.clone());
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata { name: container.name.clone(), attempt: 0 }),
        image: Some(ImageSpec {
            image: image_ref.to_owned(),
            user_specified_image: container.image.clone(),
            ..ImageSpec::default()
        }),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs,
        mounts,
        labels,
        annotations: annotations(manifest, container)?,
        log_path: format!("{}/0.log", container.name),
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        tty: container.tty,
        linux: Some(LinuxContainerConfig {
            resources: Some(security::resources(container)?),
            security_context: Some(security::context(&manifest.pod.spec, container)?),
        }),
    })
}

impl Places {
    /// The file on the node behind the container's termination message path.
    pub(crate) fn termination_log(&self, container: &Container) -> std::path::PathBuf {
        self.data.join("containers").join(&container.name).join("termination-log")
    }
}

/// `terminationMessagePath`, or the default.
pub(crate) fn termination_path(container: &Container) -> &str {
    container.termination_message_path.as_deref().unwrap_or(TERMINATION_MESSAGE_PATH)
}

fn annotations(manifest: &Manifest, container: &Container) -> Result<HashMap<String, String>> {
    let policy = container.termination_message_policy.as_deref().unwrap_or("File");
    let mut annotations: HashMap<String, String> = [
        ("io.kubernetes.container.hash", hash(container)),
        ("io.kubernetes.container.restartCount", "0".to_owned()),
        ("io.kubernetes.container.terminationMessagePath", termination_path(container).to_owned()),
        ("io.kubernetes.container.terminationMessagePolicy", policy.to_owned()),
        (keys::GRACE, manifest.grace_seconds().to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    if let Some(hook) = &container.lifecycle.pre_stop {
        annotations.insert(keys::PRE_STOP.to_owned(), handler_json(hook).to_string());
    }
    if !container.ports.is_empty() {
        let ports: Vec<Value> = container
            .ports
            .iter()
            .map(|port| {
                let mut json = json!({
                    "containerPort": port.container_port,
                    "protocol": port.protocol.as_deref().unwrap_or("TCP"),
                });
                for (key, value) in [
                    ("name", port.name.as_ref().map(|name| json!(name))),
                    ("hostPort", port.host_port.filter(|port| *port > 0).map(|port| json!(port))),
                    ("hostIP", port.host_ip.as_ref().map(|ip| json!(ip))),
                ] {
                    if let Some(value) = value {
                        json[key] = value;
                    }
                }
                json
            })
            .collect();
        let ports = serde_json::to_string(&ports).context("ports")?;
        annotations.insert("io.kubernetes.container.ports".to_owned(), ports);
    }
    Ok(annotations)
}

/// A hook as the kubelet writes it into the annotation.
fn handler_json(handler: &Handler) -> Value {
    match (&handler.exec, &handler.sleep) {
        (Some(exec), _) => json!({ "exec": { "command": exec.command } }),
        (None, Some(sleep)) => json!({ "sleep": { "seconds": sleep.seconds } }),
        (None, None) => json!({}),
    }
}

/// FNV-1a over what makes the container a different one; in hex, like the kubelet's.
fn hash(container: &Container) -> String {
    let text = json!({ "image": container.image, "name": container.name }).to_string();
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}
