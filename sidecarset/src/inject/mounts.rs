//! Mounts and devices that an injected container shares with the pod's own.

use std::collections::BTreeSet;

use serde_json::Value;

use super::is_injected;
use crate::{
    json::{Object, list, objects, text},
    sidecar::Sidecar,
};

/// A mount, and the container that has it.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) mount: &'a Object,
    pub(super) container: &'a Object,
}

/// Mounts (`volumeMounts`) or devices (`volumeDevices`) of the pod's own containers, in their order. Sidecars
/// that came with a copied manifest share nothing.
pub(super) fn of_pod<'a>(containers: &[&'a Object], member: &'a str) -> Vec<Shared<'a>> {
    let own = containers.iter().copied().filter(|container| !is_injected(container));
    own.flat_map(|container| objects(container, member).map(move |mount| Shared { mount, container }))
        .collect()
}

/// Mounts of a sidecar in a pod that shares these: its own, then the pod's at paths that are free.
pub(super) fn mounts(sidecar: &Sidecar, shared: &[Shared]) -> Vec<Value> {
    let paths = |member: &'static str, path: &'static str| {
        objects(&sidecar.container, member).map(move |of| text(of, path))
    };
    let used = paths("volumeMounts", "mountPath").chain(paths("volumeDevices", "devicePath")).collect();
    let shared = if sidecar.shares_mounts { shared } else { &[] };
    with(list(&sidecar.container, "volumeMounts"), shared, "mountPath", used)
}

/// Devices of a sidecar, likewise.
pub(super) fn devices(sidecar: &Sidecar, shared: &[Shared]) -> Vec<Value> {
    let used =
        objects(&sidecar.container, "volumeDevices").map(|device| text(device, "devicePath")).collect();
    let shared = if sidecar.shares_devices { shared } else { &[] };
    with(list(&sidecar.container, "volumeDevices"), shared, "devicePath", used)
}

fn with<'a>(own: &[Value], shared: &[Shared<'a>], path: &str, mut used: BTreeSet<&'a str>) -> Vec<Value> {
    let free = shared.iter().filter(|shared| used.insert(text(shared.mount, path)));
    own.iter().cloned().chain(free.map(|shared| shared.mount.clone().into())).collect()
}
