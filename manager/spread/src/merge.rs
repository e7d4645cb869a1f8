//! Strategic merge of a piece of a pod, as `kubectl patch` does it: lists of things with names are merged by
//! their names, other lists are replaced, and `null` takes a field away. Pure.

use serde_json::{Map, Value};

/// Lists of a pod that are merged, and the field by which their items are told apart; the empty one: the
/// items are plain values.
const LISTS: [(&str, &str); 18] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("env", "name"),
    ("resourceClaims", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("ownerReferences", "uid"),
    ("conditions", "type"),
    ("schedulingGates", "name"),
    ("finalizers", ""),
    // Of projected volumes and ConfigMaps the lists are replaced, as in the API.
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
];
/// Says what becomes of a map or an item: `replace`, `delete` or `merge`.
const DIRECTIVE: &str = "$patch";
/// Values that are taken out of a list of plain ones.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// The order of a list; order says nothing here.
const ORDER: &str = "$setElementOrder/";
/// Fields of a union that stay.
const RETAIN: &str = "$retainKeys";

/// Merges a patch into an object.
pub fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Some(map) = target.as_object_mut() {
        merge_map(map, patch);
    }
}

/// Says whether a patch changes nothing of an object, its annotations aside.
pub fn is_merged(object: &Value, patch: &Map<String, Value>) -> bool {
    let without = |mut value: Value| {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("annotations");
        }
        value
    };
    let before = without(object.clone());
    let mut after = object.clone();
    merge(&mut after, patch);
    before == without(after)
}

fn merge_map(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => target.clear(),
        Some("delete") => return target.clear(),
        _ => {}
    }
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|one| one.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if key == DIRECTIVE || key == RETAIN || key.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            if let (Some(known), Some(gone)) =
                (target.get_mut(list).and_then(Value::as_array_mut), value.as_array())
            {
                known.retain(|one| !gone.contains(one));
            }
            continue;
        }
        match value {
            Value::Null => drop(target.remove(key)),
            Value::Object(part) => {
                let known = target.entry(key).or_insert(Value::Null);
                merge(known, part);
            }
            Value::Array(items) => {
                let by = LISTS.iter().find(|(list, _)| list == key).map(|(_, by)| *by);
                let known = target.entry(key).or_insert(Value::Null);
                match by {
                    Some(by) => merge_list(known, items, by),
                    None => *known = Value::Array(items.clone()),
                }
            }
            plain => drop(target.insert(key.clone(), plain.clone())),
        }
    }
}

fn merge_list(target: &mut Value, items: &[Value], by: &str) {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(known) = target.as_array_mut() else { return };
    if items.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        known.clear();
    }
    for item in items {
        let key = item.get(by).filter(|_| !by.is_empty());
        let found = match key {
            Some(key) => known.iter().position(|one| one.get(by) == Some(key)),
            None => known.iter().position(|one| one == item),
        };
        match directive(item).as_deref() {
            Some("delete") => drop(found.map(|at| known.remove(at))),
            Some("replace") => {}
            _ => match (found.and_then(|at| known.get_mut(at)), item.as_object()) {
                (Some(one), Some(part)) => merge(one, part),
                (Some(_), None) => {}
                (None, Some(part)) => {
                    let mut one = Value::Null;
                    merge(&mut one, part);
                    known.push(one);
                }
                (None, None) => known.push(item.clone()),
            },
        }
    }
}
