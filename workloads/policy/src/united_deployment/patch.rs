//! A strategic merge patch of a pod template: as a JSON merge patch, but that lists of named things are
//! merged by their names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::fault::Fault;

/// Lists of a pod template whose items have an identity, and the field that has it.
const KEYS: [(&str, &str); 13] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("schedulingGates", "name"),
    ("resourceClaims", "name"),
];
/// List of plain values to which those of a patch are added; all others are replaced.
const ADDED_TO: &str = "finalizers";
/// Says what is done with what stands beside it.
const DIRECTIVE: &str = "$patch";
/// Names the only fields that stay.
const RETAIN: &str = "$retainKeys";
/// The order of a list, which is left as it is.
const ORDER: &str = "$setElementOrder/";
/// Takes values out of a list.
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object; `path` is that of the patch.
pub(super) fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &str,
) -> Result<(), Fault> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => target.clear(),
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(_) => {
            let why = "is no directive: give merge, replace or delete";
            return Err(Fault::new(format!("{path}.{DIRECTIVE}"), why));
        }
    }
    for (key, value) in patch {
        let at = format!("{path}.{key}");
        match value {
            _ if key == DIRECTIVE || key == RETAIN || key.starts_with(ORDER) => {}
            Value::Array(gone) if key.starts_with(REMOVE) => {
                let list = key.strip_prefix(REMOVE).unwrap_or_default();
                if let Some(list) = target.get_mut(list).and_then(Value::as_array_mut) {
                    let gone: BTreeSet<String> = gone.iter().map(Value::to_string).collect();
                    list.retain(|item| !gone.contains(&item.to_string()));
                }
            }
            _ if key.starts_with('$') => {
                return Err(Fault::new(at, "is no directive of a strategic merge patch: take it out"));
            }
            Value::Null => {
                target.remove(key);
            }
            Value::Object(changes) => {
                let into = target.entry(key).or_insert(Value::Null);
                if !into.is_object() {
                    *into = Value::Object(Map::new());
                }
                if let Some(into) = into.as_object_mut() {
                    merge(into, changes, &at)?;
                }
            }
            Value::Array(items) if key == ADDED_TO => {
                let into = target.entry(key).or_insert(Value::Null);
                let mut known = std::mem::take(into.as_array_mut().unwrap_or(&mut Vec::new()));
                let mut there: BTreeSet<String> = known.iter().map(Value::to_string).collect();
                known.extend(items.iter().filter(|item| there.insert(item.to_string())).cloned());
                *into = Value::Array(known);
            }
            Value::Array(items) => match KEYS.iter().find(|(list, _)| list == key) {
                Some((_, name)) => {
                    let into = target.entry(key).or_insert(Value::Null);
                    let known = std::mem::take(into.as_array_mut().unwrap_or(&mut Vec::new()));
                    *into = Value::Array(merge_list(known, items, name, &at)?);
                }
                None => {
                    target.insert(key.clone(), value.clone());
                }
            },
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        let kept: BTreeSet<&str> = kept.iter().filter_map(Value::as_str).collect();
        target.retain(|key, _| kept.contains(key.as_str()));
    }
    Ok(())
}

/// Merges a list by the field that tells its items apart.
fn merge_list(known: Vec<Value>, items: &[Value], name: &str, path: &str) -> Result<Vec<Value>, Fault> {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).unwrap_or_default().to_owned();
    let replaces = items.iter().any(|item| directive(item) == "replace" && item.get(name).is_none());
    let mut list: Vec<Option<Value>> =
        if replaces { Vec::new() } else { known.into_iter().map(Some).collect() };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in list.iter().enumerate() {
        if let Some(key) = item.as_ref().and_then(|item| item.get(name)) {
            places.entry(key.to_string()).or_insert(at);
        }
    }
    for (at, item) in items.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let Some(changes) = item.as_object() else {
            return Err(Fault::new(path, format!("is no object: give one with {name}")));
        };
        let Some(key) = changes.get(name).map(Value::to_string) else {
            if directive(item) == "replace" {
                continue;
            }
            return Err(Fault::new(
                path,
                format!("has no {name}: give it, for it says which one is changed"),
            ));
        };
        let place = places.get(&key).copied();
        if directive(item) == "delete" {
            if let Some(gone) = place.and_then(|place| list.get_mut(place)) {
                *gone = None;
            }
            places.remove(&key);
            continue;
        }
        let known = place.and_then(|place| list.get_mut(place)?.take());
        let mut into = match known {
            Some(Value::Object(known)) => known,
            _ => Map::new(),
        };
        merge(&mut into, changes, &path)?;
        let into = Some(Value::Object(into));
        match place.and_then(|place| list.get_mut(place)) {
            Some(slot) => *slot = into,
            None => {
                places.insert(key, list.len());
                list.push(into);
            }
        }
    }
    Ok(list.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn merged(target: Value, patch: &Value) -> Result<Value, Fault> {
        let mut target = target.as_object().cloned().unwrap();
        merge(&mut target, patch.as_object().unwrap(), "patch")?;
        Ok(target.into())
    }

    #[rstest]
    #[case::fields(json!({ "a": 1, "b": { "c": 1, "d": 2 } }), json!({ "b": { "c": null, "e": 3 } }),
        json!({ "a": 1, "b": { "d": 2, "e": 3 } }))]
    #[case::over_something_else(json!({ "a": 1 }), json!({ "a": { "b": { "c": null } } }), json!({ "a": { "b": {} } }))]
    #[case::lists_without_names(json!({ "args": [1, 2] }), json!({ "args": [3] }), json!({ "args": [3] }))]
    #[case::tolerations(json!({ "tolerations": [{ "key": "a" }] }), json!({ "tolerations": [{ "key": "b" }] }),
        json!({ "tolerations": [{ "key": "b" }] }))]
    #[case::containers(
        json!({ "containers": [{ "name": "a", "image": "a:1", "env": [{ "name": "X", "value": "1" }] }, { "name": "b" }] }),
        json!({ "containers": [{ "name": "a", "env": [{ "name": "X", "value": "2" }, { "name": "Y", "value": "3" }] }] }),
        json!({ "containers": [
            { "name": "a", "image": "a:1", "env": [{ "name": "X", "value": "2" }, { "name": "Y", "value": "3" }] },
            { "name": "b" },
        ] }))]
    #[case::one_that_is_new(json!({ "containers": "none" }), json!({ "containers": [{ "name": "a", "x": null }] }),
        json!({ "containers": [{ "name": "a" }] }))]
    #[case::ports(json!({ "ports": [{ "containerPort": 80 }] }), json!({ "ports": [{ "containerPort": 80, "name": "web" }] }),
        json!({ "ports": [{ "containerPort": 80, "name": "web" }] }))]
    #[case::one_goes(json!({ "volumes": [{ "name": "a" }, { "name": "b" }] }),
        json!({ "volumes": [{ "name": "a", "$patch": "delete" }, { "name": "c", "$patch": "delete" }] }),
        json!({ "volumes": [{ "name": "b" }] }))]
    #[case::a_whole_list(json!({ "volumes": [{ "name": "a" }] }), json!({ "volumes": [{ "name": "b" }, { "$patch": "replace" }] }),
        json!({ "volumes": [{ "name": "b" }] }))]
    #[case::a_whole_object(json!({ "a": { "b": 1 } }), json!({ "a": { "$patch": "replace", "c": 2 } }), json!({ "a": { "c": 2 } }))]
    #[case::an_object_goes(json!({ "a": { "b": 1 } }), json!({ "a": { "$patch": "delete", "c": 2 } }), json!({ "a": {} }))]
    #[case::values_go(json!({ "finalizers": ["a", "b"] }), json!({ "$deleteFromPrimitiveList/finalizers": ["a"] }),
        json!({ "finalizers": ["b"] }))]
    #[case::values_come(json!({ "finalizers": ["a"] }), json!({ "finalizers": ["b", "a", "b"] }),
        json!({ "finalizers": ["a", "b"] }))]
    #[case::first_values(json!({}), json!({ "finalizers": ["a"] }), json!({ "finalizers": ["a"] }))]
    #[case::claims_of_devices(json!({ "resourceClaims": [{ "name": "a" }] }),
        json!({ "resourceClaims": [{ "name": "b" }] }), json!({ "resourceClaims": [{ "name": "a" }, { "name": "b" }] }))]
    #[case::only_these(json!({ "s": { "a": 1, "b": 2 } }), json!({ "s": { "$retainKeys": ["a", "c"], "c": 3 } }),
        json!({ "s": { "a": 1, "c": 3 } }))]
    #[case::the_order_stays(json!({ "env": [{ "name": "a" }] }), json!({ "$setElementOrder/env": [{ "name": "a" }] }),
        json!({ "env": [{ "name": "a" }] }))]
    #[case::the_same_twice(json!({}), json!({ "env": [{ "name": "a", "value": "1" }, { "name": "a", "value": "2" }] }),
        json!({ "env": [{ "name": "a", "value": "2" }] }))]
    fn merges(#[case] target: Value, #[case] patch: Value, #[case] expected: Value) {
        assert_eq!(merged(target, &patch).unwrap(), expected);
    }

    #[rstest]
    #[case::no_name(json!({ "spec": { "containers": [{ "image": "a" }] } }), "patch.spec.containers[0] has no name")]
    #[case::no_object(json!({ "containers": ["a"] }), "patch.containers[0] is no object")]
    #[case::no_directive(json!({ "a": { "$patch": "keep" } }), "patch.a.$patch is no directive")]
    #[case::a_number(json!({ "$patch": 1 }), "patch.$patch is no directive")]
    #[case::an_unknown_one(json!({ "$parameterize": 1 }), "patch.$parameterize is no directive")]
    fn what_makes_no_sense_is_named(#[case] patch: Value, #[case] words: &str) {
        let fault = merged(json!({}), &patch).unwrap_err().to_string();
        assert!(fault.starts_with(words) && fault.contains(':'), "{fault}");
    }

    /// Two lists of 30,000 names would take a minute if each were looked for in the other.
    #[test]
    fn long_lists_are_merged_by_an_index() {
        let names = |from: u32| (from..from + 30_000).map(|at| json!({ "name": at.to_string() })).collect();
        let list = |from: u32| json!({ "env": Value::Array(names(from)) });
        let merged = merged(list(0), &list(15_000)).unwrap();
        assert_eq!(merged["env"].as_array().unwrap().len(), 45_000);
    }
}
