//! A pod that is made anew, sent back to where the one before it ran.

use berth_proto::crd::PodState;
use serde_json::{Map, Value, json};

use crate::{Labels, Rules, known};

/// Annotation of a pod: the PersistentPodState that it was sent back by.
pub const INJECTED_ANNOTATION: &str = "kruise.io/injected-persistent-pod-state";

/// Sends a pod back. `is_there` says whether any node has all labels that are required. Returns whether
/// anything of it was changed: a pod of which nothing is recorded stays as it is, and so does one of a
/// strange shape.
pub fn inject(pod: &mut Value, name: &str, rules: &Rules, state: &PodState, is_there: bool) -> bool {
    let required = Some(rules.required(state)).filter(|labels| !labels.is_empty() && is_there);
    let terms = rules.preferred.iter().map(|(weight, keys)| (weight, known(keys, state)));
    let terms: Vec<Value> = terms.filter(|(_, labels)| !labels.is_empty()).map(term).collect();
    if required.is_none() && terms.is_empty() {
        return false;
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    let mut changed = false;
    if let Some(selector) = required.as_ref().and_then(|_| map(spec, "nodeSelector")) {
        // As there, it wins over the template's.
        let labels = required.into_iter().flatten();
        selector.extend(labels.map(|(key, value)| (key, Value::String(value))));
        changed = true;
    }
    if !terms.is_empty()
        && let Some(affinity) = map(spec, "affinity").and_then(|affinity| map(affinity, "nodeAffinity"))
    {
        let list = affinity.entry("preferredDuringSchedulingIgnoredDuringExecution").or_insert(Value::Null);
        if list.is_null() {
            *list = json!([]);
        }
        if let Some(list) = list.as_array_mut() {
            list.extend(terms);
            changed = true;
        }
    }
    if changed
        && let Some(object) = pod.as_object_mut()
        && let Some(annotations) = map(object, "metadata").and_then(|meta| map(meta, "annotations"))
    {
        annotations.insert(INJECTED_ANNOTATION.to_owned(), name.into());
    }
    changed
}

fn term((weight, labels): (&i32, Labels)) -> Value {
    let one = |(key, value)| json!({ "key": key, "operator": "In", "values": [value] });
    let expressions: Vec<Value> = labels.into_iter().map(one).collect();
    json!({ "weight": weight, "preference": { "matchExpressions": expressions } })
}

/// Map of a field, made where there is none; `None`: it is no map.
fn map<'a>(object: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = object.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}
