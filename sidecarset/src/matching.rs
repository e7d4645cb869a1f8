//! Which sets a new pod gets, and in which order: by the name of the set, so that two pods of one template
//! are the same. (OpenKruise's order changes from pod to pod.)

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    json::{Object, object, text},
    names,
    selector::Labels,
    set::{Namespaces, Set},
};

/// Circumstances of a pod that is made.
pub struct Context<'a> {
    /// Namespace of the request; the pod itself may not say it.
    pub namespace: &'a str,
    /// Labels of the namespace; None when they cannot be known, and no set matches by them then.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
    /// Random number below 100, for sets that give a share of the pods an older revision.
    pub draw: &'a mut dyn FnMut() -> u8,
    /// Time that the pod's annotations say.
    pub now: Timestamp,
}

/// Sets that the pod gets, sorted by name. None for a pod that has ended, that goes, or that is the API's
/// copy of a static one.
pub(crate) fn candidates<'s>(pod: &Object, sets: &[&'s Set], cx: &Context) -> Vec<&'s Set> {
    let empty = Object::new();
    let metadata = object(pod, "metadata").unwrap_or(&empty);
    let ended =
        matches!(object(pod, "status").map_or("", |status| text(status, "phase")), "Succeeded" | "Failed");
    let goes = metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null());
    let mirror =
        object(metadata, "annotations").is_some_and(|annotations| annotations.contains_key(names::MIRROR));
    if ended || goes || mirror {
        return Vec::new();
    }
    let namespace = Some(text(metadata, "namespace")).filter(|name| !name.is_empty()).unwrap_or(cx.namespace);
    let labels = labels(metadata, "labels");
    let matches = |set: &&Set| !set.paused && set.takes(&labels, namespace, cx.namespace_labels);
    let mut found: Vec<_> = sets.iter().copied().filter(matches).collect();
    // A set that stands in for another one takes its place.
    let hidden: Vec<_> = found.iter().filter_map(|set| set.canary_of.clone()).collect();
    found.retain(|set| !hidden.contains(&set.name));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    found
}

/// Labels or annotations of an object.
pub(crate) fn labels(metadata: &Object, member: &str) -> Labels {
    let members = object(metadata, member).into_iter().flatten();
    members
        .filter_map(|(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

impl Set {
    /// Tells whether the set selects a pod with these labels in this namespace, paused or not.
    pub fn takes(&self, labels: &Labels, namespace: &str, namespace_labels: Option<&Labels>) -> bool {
        let here = match &self.namespaces {
            Namespaces::All => true,
            Namespaces::One(name) => name == namespace,
            Namespaces::Labelled(selector) => namespace_labels.is_some_and(|labels| selector.takes(labels)),
        };
        here && self.selector.takes(labels)
    }
}
