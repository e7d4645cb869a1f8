//! Containers of all sets as they go into one pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    MOST_CONTAINERS,
    env::{self, Pod},
    is_injected,
    mounts::{self, Shared},
};
use crate::{
    fault::Refusal,
    json::{Object, objects, size_of_object, text},
    selector::Labels,
    set::{Revision, Set},
    sidecar::Sidecar,
};

/// The most bytes that are injected into one pod: no object of the API server is larger.
const MOST_BYTES: usize = 3 << 19;
/// The most variables whose absence is told, to keep the answer short.
const MOST_WARNINGS: usize = 16;

/// A container that is to be injected.
pub(super) struct Built {
    pub(super) container: Object,
    pub(super) before: bool,
}

/// Parts of a pod that are to be injected.
#[derive(Default)]
pub(super) struct Parts {
    /// Sorted by name.
    pub(super) init: Vec<Built>,
    pub(super) containers: Vec<Built>,
    pub(super) volumes: Vec<Value>,
    pub(super) secrets: Vec<Value>,
    /// Names of the sidecars that have twins.
    pub(super) hot: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Names of containers that came with the pod. They are looked up for each one that is injected.
struct Names<'a> {
    all: BTreeSet<&'a str>,
    /// Names that no set has brought.
    own: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(spec: &'a Object, member: &str) -> Self {
        let own = objects(spec, member).filter(|container| !is_injected(container));
        Self {
            all: objects(spec, member).map(|container| text(container, "name")).collect(),
            own: own.map(|container| text(container, "name")).collect(),
        }
    }
}

/// Work on one pod.
pub(super) struct Build<'a> {
    spec: &'a Object,
    /// Variables of the containers that came with the pod, without those that are replaced.
    pod: Pod<'a>,
    mounts: Vec<Shared<'a>>,
    devices: Vec<Shared<'a>>,
    /// Variables that paths of the mounts refer to.
    of_paths: Vec<&'a Object>,
    init: Names<'a>,
    containers: Names<'a>,
    /// Owner of each name that is taken.
    taken: BTreeMap<String, String>,
    bytes: usize,
    parts: Parts,
}

impl<'a> Build<'a> {
    pub(super) fn new(
        spec: &'a Object,
        revisions: &[(&'a Set, &'a Revision)],
        labels: &'a Labels,
        annotations: &'a Labels,
    ) -> Self {
        let sidecars = revisions.iter().flat_map(|(_, revision)| revision.sidecars());
        let replaced: BTreeSet<String> = sidecars.flat_map(Sidecar::names).collect();
        let own = objects(spec, "containers").filter(|container| !replaced.contains(text(container, "name")));
        let own: Vec<_> = own.collect();
        let mounts = mounts::of_pod(&own, "volumeMounts");
        Self {
            spec,
            of_paths: env::of_paths(&mounts),
            init: Names::of(spec, "initContainers"),
            containers: Names::of(spec, "containers"),
            mounts,
            devices: mounts::of_pod(&own, "volumeDevices"),
            pod: Pod::new(&own, labels, annotations),
            taken: BTreeMap::new(),
            bytes: 0,
            parts: Parts::default(),
        }
    }

    /// Builds what this set has for the pod.
    pub(super) fn revision(&mut self, set: &Set, revision: &Revision) -> Result<(), Refusal> {
        let mut volumes = BTreeSet::new();
        for (init, sidecars) in [(true, &revision.init), (false, &revision.containers)] {
            for sidecar in sidecars {
                // Each once: a container may mount one a thousand times.
                let new = mounted(&sidecar.container).filter(|name| volumes.insert(*name));
                self.parts.volumes.extend(new.filter_map(|name| revision.volumes.get(name)).cloned());
                self.sidecar(set, sidecar, init)?;
            }
        }
        self.parts.secrets.extend(revision.secrets.iter().cloned());
        Ok(())
    }

    pub(super) fn finish(mut self) -> Parts {
        self.parts
            .init
            .sort_by(|one, other| text(&one.container, "name").cmp(text(&other.container, "name")));
        self.parts.warnings.truncate(MOST_WARNINGS);
        self.parts
    }

    fn sidecar(&mut self, set: &Set, sidecar: &Sidecar, init: bool) -> Result<(), Refusal> {
        let (env, missing) = env::of(sidecar, &self.pod, &self.of_paths);
        self.parts
            .warnings
            .extend(missing.into_iter().map(|text| format!("SidecarSet {}: {text}", set.name)));
        let mut container = sidecar.container.clone();
        for (member, list) in [
            ("env", env),
            ("volumeMounts", mounts::mounts(sidecar, &self.mounts)),
            ("volumeDevices", mounts::devices(sidecar, &self.devices)),
        ] {
            if !list.is_empty() {
                container.insert(member.to_owned(), list.into());
            }
        }
        match &sidecar.hot {
            None => self.add(set, container, sidecar.before, init),
            Some(empty) => {
                self.check_hot(set, sidecar, empty)?;
                for (at, twin) in sidecar.names().into_iter().enumerate() {
                    let mut container = container.clone();
                    if at > 0 {
                        container.insert("image".to_owned(), empty.clone().into());
                    }
                    if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
                        env::add_versions(env, &twin);
                    }
                    container.insert("name".to_owned(), twin.into());
                    self.add(set, container, sidecar.before, init)?;
                }
                self.parts.hot.push(sidecar.name.clone());
                Ok(())
            }
        }
    }

    /// Refuses twins that no API server takes.
    fn check_hot(&self, set: &Set, sidecar: &Sidecar, empty: &str) -> Result<(), Refusal> {
        let (set, container) = (set.name.clone(), sidecar.name.clone());
        if empty.is_empty() {
            return Err(Refusal::EmptyImage { set, container });
        }
        let on_host = self.spec.get("hostNetwork") == Some(&json!(true));
        let claims = |port: &Object| {
            let port = |member: &str| port.get(member).and_then(Value::as_i64).unwrap_or(0) > 0;
            port("hostPort") || (on_host && port("containerPort"))
        };
        if objects(&sidecar.container, "ports").any(claims) {
            return Err(Refusal::HostPorts { set, container });
        }
        Ok(())
    }

    fn add(&mut self, set: &Set, container: Object, before: bool, init: bool) -> Result<(), Refusal> {
        let name = text(&container, "name").to_owned();
        let refused = |other: String| Refusal::Name { set: set.name.clone(), container: name.clone(), other };
        let owner = format!("SidecarSet {}", set.name);
        if let Some(other) = self.taken.insert(name.clone(), owner) {
            return Err(refused(other));
        }
        let (same, other, kind) = if init {
            (&self.init, &self.containers, "a container of the pod")
        } else {
            (&self.containers, &self.init, "an init container of the pod")
        };
        if other.all.contains(&*name) {
            return Err(refused(kind.to_owned()));
        }
        if same.own.contains(&*name) {
            let text = format!("SidecarSet {} replaces container {name} of the pod with its own", set.name);
            self.parts.warnings.push(text);
        }
        let large = |most, thing| Refusal::TooLarge { set: set.name.clone(), most, thing };
        self.bytes = self.bytes.saturating_add(size_of_object(&container));
        if self.bytes > MOST_BYTES {
            return Err(large(MOST_BYTES, "bytes of containers"));
        }
        if self.taken.len() > MOST_CONTAINERS {
            return Err(large(MOST_CONTAINERS, "containers"));
        }
        let list = if init { &mut self.parts.init } else { &mut self.parts.containers };
        list.push(Built { container, before });
        Ok(())
    }
}

/// Names of the volumes that a container mounts.
fn mounted(container: &Object) -> impl Iterator<Item = &str> {
    let mounts = objects(container, "volumeMounts").chain(objects(container, "volumeDevices"));
    mounts.map(|mount| text(mount, "name"))
}
