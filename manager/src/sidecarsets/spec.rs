//! A SidecarSet, parsed once: whom it selects, which sidecars its pods have, and how they are upgraded.

use std::collections::BTreeMap;

use berth_proto::crd::{MOST_SECONDS, SidecarSet, SidecarSetSpec};
use berth_sidecarset::{Hashes, INJECTED_SINCE, Set, complete, fields_of, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Map, Value};

use super::strategy::Strategy;
use crate::{
    selector::Selector,
    store::{Labels, Reach, SidecarSetSeen},
};

/// Namespaces in which nothing is injected.
const LEFT_OUT: [&str; 2] = ["kube-system", "berth-system"];

/// Rules of a set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    /// `None` selects nothing.
    selector: Option<Selector>,
    pub(super) scope: Scope,
    /// Fields that its webhook entry is made of.
    pub(super) reach: Reach,
    pub(super) containers: Box<[Sidecar]>,
    /// Names of the sidecars as a pod's annotation lists them: sorted, those of init that restart included.
    pub(super) sidecars: Box<[String]>,
    pub(super) hashes: Hashes,
    pub(super) strategy: Strategy,
    pub(super) metadata: Box<[Metadata]>,
    /// Pods get a new revision for its annotations alone.
    pub(super) refreshes: bool,
    /// New pods get nothing.
    pub(super) paused: bool,
    /// Time at which that or the reach changed last, in seconds, by its admission.
    pub(super) since: Option<i64>,
    /// Set that this one stands in for.
    pub(super) canary_of: Option<Box<str>>,
    /// Revision that new pods get.
    pub(super) named: Option<Named>,
    pub(super) limit: i32,
    /// Fields that make a revision.
    pub(super) fields: Map<String, Value>,
}

/// Namespaces of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    One(Box<str>),
    /// `None` selects nothing.
    Labelled(Option<Selector>),
}

/// One of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sidecar {
    pub(super) name: Box<str>,
    pub(super) image: Box<str>,
    /// Image of the twin that rests; only with hot upgrades.
    pub(super) empty: Option<Box<str>>,
    /// Seconds that a new version has to take over; only with hot upgrades.
    pub(super) migration_seconds: Option<i32>,
}

/// Annotations of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) policy: Policy,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Which value wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Retain,
    Overwrite,
    Merge,
}

/// How a revision is named: by its name, or by its author's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Name(Box<str>),
    Version(Box<str>),
}

impl Rules {
    /// Parses a set; an error says what is wrong with it.
    pub(super) fn parse(seen: &SidecarSetSeen) -> Result<Self, String> {
        let spec = seen.spec.as_ref().map_err(|error| format!("spec cannot be read: {error}; correct it"))?;
        let selector = spec.selector.as_ref().ok_or("spec.selector is missing: give one")?;
        let canary = seen.annotations.get(names::CANARY).is_some_and(|value| value == "true");
        let base = seen.annotations.get(names::CANARY_BASE).filter(|base| canary && !base.is_empty());
        let injection = spec.injection_strategy.as_ref();
        let fields = match serde_json::to_value(spec) {
            Ok(Value::Object(fields)) => fields_of(&fields),
            Ok(_) => return Err("spec is no object: correct it".to_owned()),
            Err(error) => return Err(format!("spec cannot be written as JSON: {error}")),
        };
        Ok(Self {
            selector: parse_selector("spec.selector", selector)?,
            scope: Scope::parse(spec)?,
            reach: Reach {
                selector: spec.selector.clone(),
                namespace: spec.namespace.clone(),
                namespace_selector: spec.namespace_selector.clone(),
            },
            containers: {
                let seconds = migration_seconds(seen)?;
                let containers = spec.containers.iter();
                containers.map(|container| Sidecar::parse(&container.0, seconds)).collect()
            },
            sidecars: running(spec),
            hashes: hashes(seen, spec)?,
            strategy: Strategy::parse(spec.update_strategy.as_ref())?,
            metadata: metadata(spec),
            refreshes: seen.annotations.get(names::REFRESH_METADATA).is_some_and(|value| value == "true"),
            paused: injection.is_some_and(|injection| injection.paused),
            since: {
                let noted = seen.annotations.get(INJECTED_SINCE);
                noted.and_then(|time| time.parse().ok()).map(Timestamp::as_second)
            },
            canary_of: base.map(|base| base.as_str().into()),
            named: injection.and_then(|injection| {
                let asked = injection.revision.as_ref()?;
                let given = |text: &Option<String>| {
                    text.as_deref().filter(|text| !text.is_empty()).map(Box::<str>::from)
                };
                let name = given(&asked.revision_name).map(Named::Name);
                name.or_else(|| given(&asked.custom_version).map(Named::Version))
            }),
            limit: spec.revision_history_limit.unwrap_or(10),
            fields,
        })
    }

    /// Tells whether a pod with these labels is selected.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Tells whether pods of this namespace are selected; nobody knows its labels before it has been seen.
    pub(super) fn reaches(&self, namespace: &str, labels: Option<&Labels>) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::One(name) => **name == *namespace,
            Scope::Labelled(selector) => {
                selector.as_ref().zip(labels).is_some_and(|(selector, labels)| selector.matches(labels))
            }
        }
    }

    /// Tells whether pods made in this namespace get sidecars.
    pub(super) fn injects_into(namespace: &str, labels: Option<&Labels>) -> bool {
        !LEFT_OUT.contains(&namespace) && !labels.is_some_and(is_control_plane)
    }
}

/// Tells whether a namespace with these labels is one that no set is injected into.
pub(super) fn is_control_plane(labels: &Labels) -> bool {
    labels.iter().any(|(key, _)| **key == *names::CONTROL_PLANE)
}

impl Scope {
    fn parse(spec: &SidecarSetSpec) -> Result<Self, String> {
        match (&spec.namespace_selector, spec.namespace.as_deref().unwrap_or_default()) {
            (Some(selector), _) => parse_selector("spec.namespaceSelector", selector).map(Self::Labelled),
            (None, "") => Ok(Self::All),
            (None, name) => Ok(Self::One(name.into())),
        }
    }
}

impl Sidecar {
    fn parse(given: &Map<String, Value>, migration_seconds: Option<i32>) -> Self {
        let text = |of: Option<&Value>| of.and_then(Value::as_str).unwrap_or_default().into();
        let upgrade = given.get("upgradeStrategy");
        let member = |name: &str| upgrade.and_then(|upgrade| upgrade.get(name));
        let hot = member("upgradeType").and_then(Value::as_str) == Some("HotUpgrade");
        Self {
            name: text(given.get("name")),
            image: text(given.get("image")),
            empty: hot.then(|| text(member("hotUpgradeEmptyImage"))),
            migration_seconds: migration_seconds.filter(|_| hot),
        }
    }
}

/// Seconds that new versions of a set have to take over, by its annotation.
fn migration_seconds(seen: &SidecarSetSeen) -> Result<Option<i32>, String> {
    let Some(text) = seen.annotations.get(names::MIGRATION_SECONDS) else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds| (1..=MOST_SECONDS).contains(&i64::from(*seconds)));
    match seconds {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(format!(
            "annotation {} is {:?}; give a whole number of seconds from 1 on, such as \"60\"",
            names::MIGRATION_SECONDS,
            text.chars().take(40).collect::<String>()
        )),
    }
}

/// Parses a selector; an empty one selects nothing.
pub(super) fn parse_selector(path: &str, selector: &LabelSelector) -> Result<Option<Selector>, String> {
    let labels = selector.match_labels.clone().unwrap_or_default();
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    if labels.is_empty() && expressions.is_empty() {
        return Ok(None);
    }
    Selector::parse(&labels, expressions).map(Some).map_err(|error| format!("{path}.{error}"))
}

/// Hashes that admission has written; of a set that it has not seen they are computed as it does.
fn hashes(seen: &SidecarSetSeen, spec: &SidecarSetSpec) -> Result<Hashes, String> {
    let written = |key: &str| seen.annotations.get(key).filter(|hash| !hash.is_empty()).cloned();
    if let (Some(hash), Some(without_image)) = (written(names::HASH), written(names::HASH_WITHOUT_IMAGE)) {
        return Ok(Hashes { hash, without_image });
    }
    let mut set = serde_json::json!({ "metadata": { "name": seen.name }, "spec": spec });
    complete(&mut set, None).map_err(|fault| fault.to_string())?;
    let completed: SidecarSetSpec = serde_json::from_value(set.get("spec").cloned().unwrap_or_default())
        .map_err(|error| format!("spec cannot be read with its defaults: {error}"))?;
    let metadata = ObjectMeta { name: Some(seen.name.clone()), ..ObjectMeta::default() };
    let parsed = Set::parse(&SidecarSet { metadata, spec: completed, status: None });
    Ok(parsed.map_err(|fault| fault.to_string())?.hashes().clone())
}

fn metadata(spec: &SidecarSetSpec) -> Box<[Metadata]> {
    let patches = spec.patch_pod_metadata.iter().map(|patch| Metadata {
        policy: match patch.patch_policy.as_deref() {
            Some("Overwrite") => Policy::Overwrite,
            Some("MergePatchJson") => Policy::Merge,
            _ => Policy::Retain,
        },
        annotations: patch.annotations.clone(),
    });
    patches.collect()
}

fn running(spec: &SidecarSetSpec) -> Box<[String]> {
    let native = spec.init_containers.iter();
    let native = native.filter(|one| one.0.get("restartPolicy").and_then(Value::as_str) == Some("Always"));
    let mut names: Vec<_> = native.chain(&spec.containers).map(|one| one.name().to_owned()).collect();
    names.sort();
    names.dedup();
    names.into()
}
