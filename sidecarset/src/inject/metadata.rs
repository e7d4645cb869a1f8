//! Annotations of `patchPodMetadata`.

use berth_proto::nested;
use serde_json::Value;

use crate::{
    fault::Refusal,
    golang::merged_text,
    json::Object,
    selector::Labels,
    set::{Patch, Policy},
};

/// Brings the annotations that a set has for pods into those of this one.
pub(super) fn patch(annotations: &mut Labels, set: &str, patches: &[Patch]) -> Result<(), Refusal> {
    for patch in patches {
        for (key, value) in &patch.annotations {
            let there = annotations.get(key);
            let value = match patch.policy {
                Policy::Retain if there.is_some() => continue,
                Policy::Retain | Policy::Overwrite => value.clone(),
                Policy::Merge => {
                    let there = there.map(String::as_str).unwrap_or_default();
                    let refused = || Refusal::Merge { set: set.to_owned(), key: key.clone() };
                    merge(there, value).ok_or_else(refused)?
                }
            };
            annotations.insert(key.clone(), value);
        }
    }
    Ok(())
}

/// Merges two JSON texts by RFC 7386; None when one of them is no JSON, or takes too much memory. Into
/// nothing, the text goes as it is; one that deletes something leaves that out, so that merging it again
/// changes nothing.
fn merge(there: &str, text: &str) -> Option<String> {
    let patch = nested::read_text(text)?;
    if there.is_empty() {
        return Some(if deletes(&patch) {
            merged_text(&merged(Value::Null, patch))
        } else {
            text.to_owned()
        });
    }
    if there == text && !deletes(&patch) {
        return Some(text.to_owned());
    }
    Some(merged_text(&merged(nested::read_text(there)?, patch)))
}

fn deletes(patch: &Value) -> bool {
    patch.as_object().is_some_and(|members| members.values().any(|value| value.is_null() || deletes(value)))
}

fn merged(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = match target {
        Value::Object(members) => members,
        _ => Object::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            let before = target.remove(&name).unwrap_or_default();
            target.insert(name, merged(before, value));
        }
    }
    Value::Object(target)
}
