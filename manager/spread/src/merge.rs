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
/// Labels by which controllers of Kubernetes and OpenKruise know the revision of a pod.
const REVISIONS: [&str; 3] = ["controller-revision-hash", "pod-template-generation", "pod-template-hash"];
/// Domains of keys by which others decide.
const DOMAINS: [&str; 4] = ["berth.dev", "k8s.io", "kruise.io", "kubernetes.io"];
/// Says what becomes of a map or an item: `replace`, `delete` or `merge`.
const DIRECTIVE: &str = "$patch";
/// Values that are taken out of a list of plain ones.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// The order of a list; order says nothing here.
const ORDER: &str = "$setElementOrder/";
/// Fields of a union that stay.
const RETAIN: &str = "$retainKeys";

/// The most items of lists that are compared in one merge. A pod of 1,000 variables and a patch of 100 take a
/// tenth of it, and the longest that there can be would take minutes.
const MOST_COMPARED: usize = 1 << 20;

/// Merges a patch into an object.
///
/// # Errors
/// The lists of both are too long to be compared; the message names one. The object is merged in part then.
pub fn merge(target: &mut Value, patch: &Map<String, Value>) -> Result<(), String> {
    let mut left = MOST_COMPARED;
    Merge { left: &mut left }.merge_value(target, patch)
}

/// Says whether a patch changes nothing of an object, its annotations aside. `left` is how many items may
/// still be compared: less after each.
///
/// # Errors
/// The lists of both are too long to be compared; the message names one.
pub fn is_merged(object: &Value, patch: &Map<String, Value>, left: &mut usize) -> Result<bool, String> {
    let without = |mut value: Value| {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("annotations");
        }
        value
    };
    let before = without(object.clone());
    let mut after = object.clone();
    Merge { left }.merge_value(&mut after, patch)?;
    Ok(before == without(after))
}

/// Finds the labels and annotations of a patch that a pod which was there before is to get, as a part of
/// a merge patch of its metadata. Nothing is taken off a running pod, and nothing is given to it that
/// others decide by (`deploy/spreads/policy.yaml` says the same).
pub fn metadata(pod: &Value, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut given = Map::new();
    let Some(patch) = patch.get("metadata").and_then(Value::as_object) else { return given };
    for part in ["labels", "annotations"] {
        let Some(patch) = patch.get(part).and_then(Value::as_object) else { continue };
        let before = pod.get("metadata").and_then(|metadata| metadata.get(part)).cloned().unwrap_or_default();
        let mut after = before.clone();
        if merge(&mut after, patch).is_err() {
            continue;
        }
        let is_news = |(key, value): &(String, Value)| {
            value.is_string() && before.get(key) != Some(value) && !is_of_others(key)
        };
        let Value::Object(after) = after else { continue };
        let news: Map<String, Value> = after.into_iter().filter(is_news).collect();
        if !news.is_empty() {
            given.insert(part.to_owned(), news.into());
        }
    }
    given
}

/// Tells whether somebody decides by this label or annotation of a running pod: its controller, Kubernetes or
/// Berth.
fn is_of_others(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _)| domain);
    let is_in = |of: &&str| {
        domain
            .and_then(|domain| domain.strip_suffix(of))
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    REVISIONS.contains(&key) || DOMAINS.iter().any(is_in)
}

/// A merge that is under way.
struct Merge<'a> {
    /// Items that may still be compared.
    left: &'a mut usize,
}

impl Merge<'_> {
    fn merge_value(&mut self, target: &mut Value, patch: &Map<String, Value>) -> Result<(), String> {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        target.as_object_mut().map_or(Ok(()), |map| self.merge_map(map, patch))
    }

    fn merge_map(
        &mut self,
        target: &mut Map<String, Value>,
        patch: &Map<String, Value>,
    ) -> Result<(), String> {
        match patch.get(DIRECTIVE).and_then(Value::as_str) {
            Some("replace") => target.clear(),
            Some("delete") => {
                target.clear();
                return Ok(());
            }
            _ => {}
        }
        if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
            self.compare(RETAIN, target.len(), kept.len())?;
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
                    self.compare(list, known.len(), gone.len())?;
                    known.retain(|one| !gone.contains(one));
                }
                continue;
            }
            match value {
                Value::Null => drop(target.remove(key)),
                Value::Object(part) => {
                    let known = target.entry(key).or_insert(Value::Null);
                    self.merge_value(known, part)?;
                }
                Value::Array(items) => {
                    let by = LISTS.iter().find(|(list, _)| list == key);
                    let known = target.entry(key).or_insert(Value::Null);
                    match by {
                        Some(by) => self.merge_list(known, items, *by)?,
                        None => *known = Value::Array(items.clone()),
                    }
                }
                plain => drop(target.insert(key.clone(), plain.clone())),
            }
        }
        Ok(())
    }

    fn merge_list(
        &mut self,
        target: &mut Value,
        items: &[Value],
        (list, by): (&str, &str),
    ) -> Result<(), String> {
        let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
        if !target.is_array() {
            *target = Value::Array(Vec::new());
        }
        let Some(known) = target.as_array_mut() else { return Ok(()) };
        if items.iter().any(|item| directive(item).as_deref() == Some("replace")) {
            known.clear();
        }
        for item in items {
            self.compare(list, known.len(), 1)?;
            let key = item.get(by).filter(|_| !by.is_empty());
            let found = match key {
                Some(key) => known.iter().position(|one| one.get(by) == Some(key)),
                None => known.iter().position(|one| one == item),
            };
            match directive(item).as_deref() {
                Some("delete") => drop(found.map(|at| known.remove(at))),
                Some("replace") => {}
                _ => match (found.and_then(|at| known.get_mut(at)), item.as_object()) {
                    (Some(one), Some(part)) => self.merge_value(one, part)?,
                    (Some(_), None) => {}
                    (None, Some(part)) => {
                        let mut one = Value::Null;
                        self.merge_value(&mut one, part)?;
                        known.push(one);
                    }
                    (None, None) => known.push(item.clone()),
                },
            }
        }
        Ok(())
    }

    /// Counts the comparisons of so many items with so many others.
    fn compare(&mut self, list: &str, known: usize, items: usize) -> Result<(), String> {
        let left = self.left.checked_sub(known.saturating_mul(items));
        let too_long =
            || format!("{list}: the pod and the patch of its WorkloadSpread are too long; give fewer items");
        *self.left = left.ok_or_else(too_long)?;
        Ok(())
    }
}
