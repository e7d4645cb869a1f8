//! Rules of a ResourceDistribution: its spec, checked.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use berth_proto::{
    crd::{DistributedResource, NamespaceList, ResourceDistribution},
    names::{is_dns_label, is_dns_subdomain, is_label_value, is_qualified},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    Names, NamespaceView,
    body::{self, Hash},
};
use crate::{
    fault::Fault,
    selector::{Labels, Selector},
};

/// Namespaces of the cluster itself: they are taken when they are listed, and by nothing else, unless all are
/// alike.
const OF_THE_CLUSTER: [&str; 2] = ["kube-system", "kube-public"];
/// The most bytes of annotations, in Kubernetes and here.
const MOST_ANNOTATION_BYTES: usize = 256 << 10;

/// Kind of a resource that is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// A ResourceDistribution's spec.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Name of the distribution.
    pub distribution: String,
    /// UID of the distribution.
    pub uid: String,
    /// Kind of the copies.
    pub kind: Kind,
    /// Name of the copies.
    pub name: String,
    /// Bytes of the manifest.
    pub bytes: usize,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) body: Hash,
    pub(super) manifest: Arc<DistributedResource>,
    all: bool,
    /// The namespaces of the cluster are as all others.
    everywhere: bool,
    /// Sorted: a cluster may have thousands of both.
    included: Vec<String>,
    excluded: Vec<String>,
    selector: Option<Selector>,
}

impl Kind {
    /// Name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

impl Rules {
    /// Reads and checks the spec.
    pub fn of(distribution: &ResourceDistribution) -> Result<Self, Fault> {
        let spec = &distribution.spec;
        let manifest = &spec.resource.0;
        let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") != "v1" {
            let why = format!("is {:?}: give v1", short(text("apiVersion")));
            return Err(Fault::new("spec.resource.apiVersion", why));
        }
        let kind = match text("kind") {
            "Secret" => Kind::Secret,
            "ConfigMap" => Kind::ConfigMap,
            other => {
                let why = format!("is {:?}: give Secret or ConfigMap", short(other));
                return Err(Fault::new("spec.resource.kind", why));
            }
        };
        let nothing = Map::new();
        let meta = manifest.get("metadata").and_then(Value::as_object).unwrap_or(&nothing);
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_dns_subdomain(name) {
            let why = format!("is {:?}: give the name of a {}", short(name), kind.name());
            return Err(Fault::new("spec.resource.metadata.name", why));
        }
        for (field, why) in [
            ("finalizers", "would keep copies and their namespaces from going: leave them out"),
            ("ownerReferences", "are those of the ResourceDistribution: leave them out"),
        ] {
            let is_given = match meta.get(field) {
                None | Some(Value::Null) => false,
                Some(Value::Array(list)) => !list.is_empty(),
                Some(_) => true,
            };
            if is_given {
                return Err(Fault::new(format!("spec.resource.metadata.{field}"), why));
            }
        }
        let (labels, annotations) = (strings(meta, "labels")?, strings(meta, "annotations")?);
        // As the API server would say it of each copy.
        let is_label = |(key, value): &(&String, &String)| is_qualified(key) && is_label_value(value);
        if let Some((key, _)) = labels.iter().find(|label| !is_label(label)) {
            let why = format!("has {:?}, which is no label or has no value of one: correct it", short(key));
            return Err(Fault::new("spec.resource.metadata.labels", why));
        }
        if let Some(key) = annotations.keys().find(|key| !is_qualified(&key.to_ascii_lowercase())) {
            let why = format!("has {:?}, which is no key of an annotation: correct it", short(key));
            return Err(Fault::new("spec.resource.metadata.annotations", why));
        }
        let size = annotations.iter().map(|(key, value)| key.len().saturating_add(value.len()));
        if size.fold(0, usize::saturating_add) > MOST_ANNOTATION_BYTES {
            let why = format!("have more than {MOST_ANNOTATION_BYTES} bytes: make them smaller");
            return Err(Fault::new("spec.resource.metadata.annotations", why));
        }
        let raw = serde_json::to_vec(manifest).unwrap_or_default();
        let targets = &spec.targets;
        let included = names("includedNamespaces", targets.included_namespaces.as_ref())?;
        let excluded = names("excludedNamespaces", targets.excluded_namespaces.as_ref())?;
        if let Some(both) = included.iter().find(|name| excluded.binary_search(name).is_ok()) {
            let why = format!("has {both:?}, which includedNamespaces has too: give it once");
            return Err(Fault::new("spec.targets.excludedNamespaces.list", why));
        }
        let field = "spec.targets.namespaceLabelSelector";
        let selector = targets.namespace_label_selector.as_ref();
        let selector = selector.map(|given| Selector::parse(field, given)).transpose()?;
        let mut rules = Self {
            distribution: distribution.metadata.name.clone().unwrap_or_default(),
            uid: distribution.metadata.uid.clone().unwrap_or_default(),
            kind,
            name: name.to_owned(),
            bytes: raw.len(),
            labels,
            annotations,
            body: body::of_manifest(kind, manifest)?,
            manifest: Arc::new(spec.resource.clone()),
            all: targets.all_namespaces.unwrap_or(false),
            everywhere: false,
            included,
            excluded,
            // One that asks for nothing takes nothing.
            selector: selector.filter(|selector| !selector.is_empty()),
        };
        rules.add_marks(hex(&Sha256::digest(&raw)));
        Ok(rules)
    }

    /// Takes `kube-system` and `kube-public` for namespaces as all others, as OpenKruise 1.4 does.
    #[must_use]
    pub fn everywhere(mut self, everywhere: bool) -> Self {
        self.everywhere = everywhere;
        self
    }

    /// Names of the namespaces that are to have a copy: those that are listed also when they are not there.
    pub(super) fn targets<'a>(&'a self, namespaces: &'a BTreeMap<String, NamespaceView>) -> Names<'a> {
        let taken = namespaces.iter().filter(|(name, view)| self.takes(name, Some(view)));
        let taken = taken.map(|(name, _)| name);
        let listed = self.included.iter().filter(|name| self.takes(name, None));
        taken.chain(listed).map(String::as_str).collect()
    }

    /// Tells whether a namespace is to have a copy; one that is listed also when it is not there.
    fn takes(&self, name: &str, view: Option<&NamespaceView>) -> bool {
        let is_in = |names: &[String]| names.binary_search_by(|one| one.as_str().cmp(name)).is_ok();
        let is_selected = |view: &NamespaceView| {
            self.all || self.selector.as_ref().is_some_and(|selector| selector.takes(&view.labels))
        };
        let may_be = self.everywhere || !OF_THE_CLUSTER.contains(&name);
        let is_taken = may_be && view.is_some_and(is_selected);
        (is_taken || is_in(&self.included)) && !is_in(&self.excluded)
    }

    /// Tells whether a change of a namespace changes anything for the distribution.
    pub fn minds(&self, name: &str, before: Option<&NamespaceView>, after: Option<&NamespaceView>) -> bool {
        let (was_taken, is_taken) = (self.takes(name, before), self.takes(name, after));
        // Most changes are of labels that nobody asks for.
        let standing = |view: Option<&NamespaceView>| view.map(|view| (view.uid.clone(), view.terminating));
        was_taken != is_taken || is_taken && standing(before) != standing(after)
    }
}

/// Sorted names of a list.
fn names(field: &str, list: Option<&NamespaceList>) -> Result<Vec<String>, Fault> {
    let mut all = Vec::new();
    for (at, entry) in list.and_then(|list| list.list.as_ref()).into_iter().flatten().enumerate() {
        if !is_dns_label(&entry.name) {
            let why = format!("is {:?}: give the name of a namespace", short(&entry.name));
            return Err(Fault::new(format!("spec.targets.{field}.list[{at}].name"), why));
        }
        all.push(entry.name.clone());
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn strings(meta: &Map<String, Value>, field: &str) -> Result<Labels, Fault> {
    let fault = |key: &str| {
        let field = format!("spec.resource.metadata.{field}{key}");
        Fault::new(field, "is no text: give keys with texts, or leave it out")
    };
    match meta.get(field) {
        None | Some(Value::Null) => Ok(Labels::new()),
        Some(Value::Object(given)) => {
            let one = |(key, value): (&String, &Value)| match value.as_str() {
                Some(value) => Ok((key.clone(), value.to_owned())),
                None => Err(fault(&format!("[{key}]"))),
            };
            given.iter().map(one).collect()
        }
        Some(_) => Err(fault("")),
    }
}

/// Beginning of a text, for a message.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes whatever is written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
