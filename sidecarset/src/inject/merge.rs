//! The lists of a pod, with what is injected in its place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::build::Built;

/// Containers with the injected ones: one whose name the pod has takes that place; of the others, some come
/// before the pod's own and some after, in their order.
pub(super) fn containers(own: Vec<Value>, injected: Vec<Built>) -> Vec<Value> {
    let mut own = own;
    let places: BTreeMap<String, usize> =
        own.iter().enumerate().map(|(at, container)| (name(container).to_owned(), at)).collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for built in injected {
        let container = Value::Object(built.container);
        match places.get(name(&container)).and_then(|at| own.get_mut(*at)) {
            Some(place) => *place = container,
            None if built.before => before.push(container),
            None => after.push(container),
        }
    }
    before.into_iter().chain(own).chain(after).collect()
}

/// List with those of the others whose names it does not have; `each_once` drops its own repetitions too.
pub(super) fn by_name(own: Vec<Value>, others: Vec<Value>, each_once: bool) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for value in own {
        if seen.insert(name(&value).to_owned()) || !each_once {
            all.push(value);
        }
    }
    for value in others {
        if seen.insert(name(&value).to_owned()) {
            all.push(value);
        }
    }
    all
}

fn name(of: &Value) -> &str {
    of.get("name").and_then(Value::as_str).unwrap_or_default()
}
