//! One sidecar of a set, parsed: the container that goes into the pod, and what the members of a sidecar say
//! of it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    hash::is_native,
    json::{Object, object, objects, text},
};

/// Members that are no core/v1 Container's.
const OWN: [&str; 6] = [
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
];

/// A sidecar as it is injected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sidecar {
    pub(crate) name: String,
    /// The core/v1 Container.
    pub(crate) container: Object,
    pub(crate) before: bool,
    /// The image of the idle twin; None for a cold upgrade.
    pub(crate) hot: Option<String>,
    /// Whether it is an init container that goes on running.
    pub(crate) native: bool,
    pub(crate) shares_mounts: bool,
    pub(crate) shares_devices: bool,
    pub(crate) transfers: Vec<Transfer>,
}

/// Variables that come from a container of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) source: Source,
    /// Sorted.
    pub(crate) names: BTreeSet<String>,
}

/// Name of the container that variables come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Named(String),
    /// Value of a label of the pod.
    Label(String),
    /// Value of an annotation of the pod.
    Annotation(String),
    /// A field that names none.
    Nowhere,
}

impl Sidecar {
    /// Parses a sidecar of the spec; `before` is where it goes when nothing is said.
    pub(crate) fn parse(given: &Object, init: bool) -> Self {
        let policy = |member: &str| object(given, member).map_or("", |policy| text(policy, "type"));
        let before = match text(given, "podInjectPolicy") {
            "BeforeAppContainer" => true,
            "AfterAppContainer" => false,
            _ => !init,
        };
        let native = init && is_native(given);
        let upgrade = object(given, "upgradeStrategy");
        let hot = upgrade.filter(|upgrade| text(upgrade, "upgradeType") == "HotUpgrade" && (!init || native));
        let mut container = given.clone();
        container.retain(|name, _| !OWN.contains(&name.as_str()));
        Self {
            name: text(given, "name").to_owned(),
            container,
            before,
            hot: hot.map(|upgrade| text(upgrade, "hotUpgradeEmptyImage").to_owned()),
            native,
            shares_mounts: policy("shareVolumePolicy") == "enabled",
            shares_devices: policy("shareVolumeDevicePolicy") == "enabled",
            transfers: objects(given, "transferEnv").map(Transfer::parse).collect(),
        }
    }

    /// Names that its containers have in a pod.
    pub(crate) fn names(&self) -> Vec<String> {
        match self.hot {
            Some(_) => crate::names::twins(&self.name).to_vec(),
            None => vec![self.name.clone()],
        }
    }
}

impl Transfer {
    fn parse(given: &Object) -> Self {
        let from = object(given, "sourceContainerNameFrom").and_then(|from| object(from, "fieldRef"));
        let source = match from {
            Some(from) => source_of(text(from, "fieldPath")),
            None => Source::Named(text(given, "sourceContainerName").to_owned()),
        };
        let listed = crate::json::list(given, "envNames").iter().filter_map(Value::as_str);
        let names = listed.chain([text(given, "envName")]).filter(|name| !name.is_empty());
        Self { source, names: names.map(str::to_owned).collect() }
    }
}

/// Reads `metadata.labels['key']` or `metadata.annotations['key']`.
pub(crate) fn source_of(path: &str) -> Source {
    let key = |prefix: &str| {
        path.strip_prefix(prefix)?.strip_suffix("']").filter(|key| !key.is_empty()).map(str::to_owned)
    };
    key("metadata.labels['")
        .map(Source::Label)
        .or_else(|| key("metadata.annotations['").map(Source::Annotation))
        .unwrap_or(Source::Nowhere)
}
