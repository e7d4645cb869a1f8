//! One SidecarSet, parsed once: every pod that is made is then compared with values, not with texts.

use std::collections::BTreeMap;

use berth_proto::{
    crd::{MOST_CONTAINERS, SidecarSet, SidecarSetSpec},
    percent::percent,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::{
    fault::Fault,
    hash::{Hashes, hashes},
    history::{Content, decode},
    json::{Object, list, objects, text},
    names,
    selector::{Labels, Selector},
    sidecar::Sidecar,
};

/// The most variables that the containers of a list may ask of others.
const MOST_TRANSFERRED: usize = 16 << 10;

/// One SidecarSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub(crate) name: String,
    pub(crate) selector: Selector,
    pub(crate) namespaces: Namespaces,
    pub(crate) paused: bool,
    /// The set that this one stands in for.
    pub(crate) canary_of: Option<String>,
    pub(crate) newest: Revision,
    /// The revision that new pods get instead.
    pub(crate) named: Option<Named>,
}

/// Namespaces of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    All,
    One(String),
    Labelled(Selector),
}

/// The sidecars of one revision, with all that goes into a pod along with them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    /// Name of the revision; None while it is not recorded.
    pub(crate) name: Option<String>,
    pub(crate) hashes: Hashes,
    pub(crate) init: Vec<Sidecar>,
    pub(crate) containers: Vec<Sidecar>,
    pub(crate) volumes: BTreeMap<String, Value>,
    pub(crate) secrets: Vec<Value>,
    pub(crate) metadata: Vec<Patch>,
}

/// The revision that `injectionStrategy` names, and which pods get it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    /// Its name or custom version, as it was given.
    pub(crate) wanted: String,
    /// None when it is not in the history.
    pub(crate) revision: Option<Revision>,
    pub(crate) share: Share,
}

/// Which pods get the named revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    All,
    /// All that the update's selector does not take, and of the others so many in a hundred.
    Partial {
        selector: Option<Selector>,
        percent: u8,
    },
}

/// Annotations of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) policy: Policy,
    pub(crate) annotations: Labels,
}

/// Which value wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Retain,
    Overwrite,
    Merge,
}

impl Set {
    /// Parses a set as the API server has it.
    pub fn parse(set: &SidecarSet) -> Result<Self, Fault> {
        let spec = &set.spec;
        let name = set.metadata.name.clone().unwrap_or_default();
        let selector = spec.selector.as_ref();
        let no_selector = || Fault::new("spec.selector", "no selector defined for SidecarSet: give one");
        let annotation =
            |key: &str| set.metadata.annotations.as_ref()?.get(key).filter(|value| !value.is_empty());
        let canary = annotation(names::CANARY).is_some_and(|value| value == "true");
        Ok(Self {
            selector: Selector::parse(selector.ok_or_else(no_selector)?, "spec.selector")?,
            namespaces: Namespaces::parse(spec)?,
            paused: spec.injection_strategy.as_ref().is_some_and(|strategy| strategy.paused),
            canary_of: annotation(names::CANARY_BASE).filter(|_| canary).cloned(),
            newest: newest(set)?,
            named: named(set)?,
            name,
        })
    }

    /// Name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hashes of the newest revision.
    pub fn hashes(&self) -> &Hashes {
        &self.newest.hashes
    }

    /// Tells whether new pods get nothing of the set.
    pub fn is_paused(&self) -> bool {
        self.paused
    }
}

fn newest(set: &SidecarSet) -> Result<Revision, Fault> {
    let fields = fields(&set.spec)?;
    let mut revision = Revision::parse(&fields)?;
    let annotations = set.metadata.annotations.as_ref();
    let stored = |key: &str| annotations?.get(key).filter(|hash| !hash.is_empty()).cloned();
    if let (Some(hash), Some(without_image)) = (stored(names::HASH), stored(names::HASH_WITHOUT_IMAGE)) {
        revision.hashes = Hashes { hash, without_image };
    }
    // Between an edit and its record the name is that of the revision before: then none is better.
    let status = set.status.as_ref();
    let latest = status.and_then(|status| status.latest_revision.clone()).filter(|name| !name.is_empty());
    revision.name = latest.filter(|name| {
        let recorded =
            status.and_then(|status| status.revisions.iter().find(|revision| revision.name == *name));
        let hash = recorded.and_then(|revision| revision.hash.as_ref());
        hash.is_none_or(|hash| *hash == revision.hashes.hash)
    });
    Ok(revision)
}

fn named(set: &SidecarSet) -> Result<Option<Named>, Fault> {
    let strategy = set.spec.injection_strategy.as_ref();
    let Some(asked) = strategy.and_then(|strategy| strategy.revision.as_ref()) else { return Ok(None) };
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let (by_name, by_version) = (given(&asked.revision_name), given(&asked.custom_version));
    let Some(wanted) = by_name.clone().or_else(|| by_version.clone()) else { return Ok(None) };
    let status = set.status.clone().unwrap_or_default();
    let recorded = status.revisions.iter().filter(|revision| match &by_name {
        Some(name) => revision.name == *name,
        None => revision.custom_version == by_version,
    });
    let recorded = recorded.max_by_key(|revision| revision.revision);
    // A history that cannot be read has no revision: each pod is then refused, and told which is missing.
    let contents = decode(status.history.as_deref().unwrap_or_default()).unwrap_or_default();
    let content =
        recorded.and_then(|record| contents.into_iter().find(|content| content.name == record.name));
    let revision = match (recorded, content) {
        (Some(record), Some(Content { name, fields })) => {
            let mut revision = Revision::parse(&fields)?;
            if let (Some(hash), Some(without_image)) = (&record.hash, &record.hash_without_image) {
                revision.hashes = Hashes { hash: hash.clone(), without_image: without_image.clone() };
            }
            Some(Revision { name: Some(name), ..revision })
        }
        _ => None,
    };
    let share = match asked.policy.as_deref() {
        Some("Partial") => partial(&set.spec)?,
        _ => Share::All,
    };
    Ok(Some(Named { wanted, revision, share }))
}

/// Share of the pods that keep the named revision while an update goes on.
fn partial(spec: &SidecarSetSpec) -> Result<Share, Fault> {
    let Some(strategy) = &spec.update_strategy else {
        return Ok(Share::Partial { selector: None, percent: 0 });
    };
    if strategy.paused {
        return Ok(Share::All);
    }
    let selector = strategy.selector.as_ref();
    let selector =
        selector.map(|selector| Selector::parse(selector, "spec.updateStrategy.selector")).transpose()?;
    // As for upgrades, one that asks for nothing takes all pods.
    let selector = selector.filter(|selector| !selector.is_empty());
    let percent = match &strategy.partition {
        Some(IntOrString::String(share)) => {
            percent(share).map_or(0, |share| u8::try_from(share.min(100)).unwrap_or(100))
        }
        _ => 0,
    };
    Ok(Share::Partial { selector, percent })
}

/// Fields of the spec as JSON.
fn fields(spec: &SidecarSetSpec) -> Result<Object, Fault> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Fault::new("spec", "is no object: correct it")),
        Err(error) => Err(Fault::new("spec", format!("cannot be written as JSON: {error}"))),
    }
}

impl Namespaces {
    fn parse(spec: &SidecarSetSpec) -> Result<Self, Fault> {
        match (&spec.namespace_selector, spec.namespace.as_deref().unwrap_or_default()) {
            (Some(selector), _) => Selector::parse(selector, "spec.namespaceSelector").map(Self::Labelled),
            (None, "") => Ok(Self::All),
            (None, name) => Ok(Self::One(name.to_owned())),
        }
    }

    /// Tells whether there may be a namespace of both.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        match (self.as_selector(), other.as_selector()) {
            (Some(one), Some(other)) => one.may_overlap(&other),
            _ => true,
        }
    }

    fn as_selector(&self) -> Option<Selector> {
        match self {
            Self::All => None,
            Self::One(name) => Some(Selector::of(names::NAMESPACE_NAME, name)),
            Self::Labelled(selector) => Some(selector.clone()),
        }
    }
}

/// Refuses what only an object of another definition can have, so that a pod's injection has a bound.
fn few(fields: &Object) -> Result<(), Fault> {
    for field in ["containers", "initContainers"] {
        let count = objects(fields, field).count();
        let transferred = objects(fields, field).flat_map(|given| objects(given, "transferEnv"));
        let names: usize = transferred.map(|transfer| list(transfer, "envNames").len()).sum();
        for (many, most) in [(count, MOST_CONTAINERS), (names, MOST_TRANSFERRED)] {
            if many > most {
                let message = format!("has {many} containers or variables to transfer: give at most {most}");
                return Err(Fault::new(format!("spec.{field}"), message));
            }
        }
    }
    Ok(())
}

impl Revision {
    /// Parses the fields of a revision. The hashes are those of the fields.
    fn parse(fields: &Object) -> Result<Self, Fault> {
        // This checks the types of the containers too.
        let hashes = hashes(fields)?;
        few(fields)?;
        let sidecars =
            |field: &str, init| objects(fields, field).map(|given| Sidecar::parse(given, init)).collect();
        let volumes = objects(fields, "volumes");
        Ok(Self {
            name: None,
            hashes,
            init: sidecars("initContainers", true),
            containers: sidecars("containers", false),
            volumes: volumes.map(|volume| (text(volume, "name").to_owned(), volume.clone().into())).collect(),
            secrets: objects(fields, "imagePullSecrets").map(|secret| secret.clone().into()).collect(),
            metadata: objects(fields, "patchPodMetadata").map(Patch::parse).collect(),
        })
    }

    /// Init containers, then containers.
    pub(crate) fn sidecars(&self) -> impl Iterator<Item = &Sidecar> {
        self.init.iter().chain(&self.containers)
    }
}

impl Patch {
    fn parse(given: &Object) -> Self {
        let annotations = crate::json::object(given, "annotations").into_iter().flatten();
        let annotations =
            annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Self { policy: Policy::parse(text(given, "patchPolicy")), annotations: annotations.collect() }
    }
}

impl Policy {
    fn parse(policy: &str) -> Self {
        match policy {
            "Overwrite" => Self::Overwrite,
            "MergePatchJson" => Self::Merge,
            _ => Self::Retain,
        }
    }
}
