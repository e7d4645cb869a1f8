//! The rules of a subset, put into a new pod. Pure.

use berth_proto::nested;
use serde_json::{Map, Value, json};

use crate::{MATCHED, Subset, merge::merge};

/// Subset of a pod, as its annotation has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Name of the WorkloadSpread.
    pub name: String,
    /// Name of the subset.
    pub subset: String,
    /// Entry of `creatingPods`, of a pod that had no name when it was let in.
    pub uid: Option<String>,
}

impl Matched {
    /// Reads the annotation; one that is none says nothing.
    pub fn read(text: &str) -> Option<Self> {
        let value = nested::read_text(text)?;
        let part = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            name: part("name")?,
            subset: part("subset")?,
            uid: part("uid").filter(|uid| !uid.is_empty()),
        })
    }

    /// Writes the annotation.
    pub fn text(&self) -> String {
        let mut value = json!({ "name": self.name, "subset": self.subset });
        if let Some(uid) = &self.uid {
            value["uid"] = uid.as_str().into();
        }
        value.to_string()
    }
}

/// The most requirements that are written into one pod: those of its subset, once for each of its terms.
const MOST_REQUIREMENTS: usize = 4096;
/// The most bytes that they take there, where a pod has several terms: no object has room for more.
const MOST_ADDED: usize = 1 << 20;

/// Puts the rules of a subset into a new pod, and says so in its annotation. The patch comes after the rules,
/// as in OpenKruise: a list that it gives takes the place of theirs.
///
/// # Errors
/// Pod and subset have too much for each other. The message says what, and the remedy.
pub fn inject(pod: &mut Value, subset: &Subset, matched: &Matched) -> Result<(), String> {
    let Some(spec) = object(pod, "spec") else { return Ok(()) };
    if !subset.tolerations.is_empty() {
        extend(spec, "tolerations", &subset.tolerations);
    }
    if (subset.required.is_some() || !subset.preferred.is_empty())
        && let Some(affinity) = within(spec, "affinity")
        && let Some(nodes) = within(affinity, "nodeAffinity")
    {
        extend_some(nodes, "preferredDuringSchedulingIgnoredDuringExecution", &subset.preferred);
        if let Some(term) = &subset.required
            && let Some(required) = within(nodes, "requiredDuringSchedulingIgnoredDuringExecution")
        {
            require(required, term)?;
        }
    }
    if let Some(patch) = &subset.patch {
        merge(pod, patch)?;
    }
    if let Some(metadata) = object(pod, "metadata")
        && let Some(annotations) = within(metadata, "annotations")
    {
        annotations.insert(MATCHED.to_owned(), matched.text().into());
    }
    Ok(())
}

/// Adds a term to each that there is: a node must have one of them.
fn require(required: &mut Map<String, Value>, term: &Value) -> Result<(), String> {
    let terms = required.entry("nodeSelectorTerms").or_insert_with(|| json!([]));
    let Some(terms) = terms.as_array_mut() else { return Ok(()) };
    if terms.is_empty() {
        terms.push(term.clone());
        return Ok(());
    }
    let parts = ["matchExpressions", "matchFields"].iter().filter_map(|part| term.get(*part)?.as_array());
    let more = parts.map(Vec::len).fold(0, usize::saturating_add);
    let are_long = || terms.len() > 1 && terms.len().saturating_mul(term.to_string().len()) > MOST_ADDED;
    if terms.len().saturating_mul(more) > MOST_REQUIREMENTS || are_long() {
        return Err(format!(
            "spec.affinity.nodeAffinity: has {} terms, and its WorkloadSpread adds {more} requirements to each; \
             give fewer of either, or shorter ones",
            terms.len()
        ));
    }
    for known in terms.iter_mut().filter_map(Value::as_object_mut) {
        for part in ["matchExpressions", "matchFields"] {
            if let Some(more) = term.get(part).and_then(Value::as_array) {
                extend_some(known, part, more);
            }
        }
    }
    Ok(())
}

fn extend_some(map: &mut Map<String, Value>, key: &str, more: &[Value]) {
    if !more.is_empty() {
        extend(map, key, more);
    }
}

fn extend(map: &mut Map<String, Value>, key: &str, more: &[Value]) {
    let list = map.entry(key).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(more.iter().cloned());
    }
}

fn object<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    within(value.as_object_mut()?, key)
}

/// The map of that name, which is made where there is none.
fn within<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
