//! JSON patch from an object before to the one after.
//!
//! Members of the spec and the annotations are replaced whole. A differ that goes into lists finds every
//! container changed when one is put before them, and says more, not less. The API server applies the patch
//! to the very object it sent, so nothing of another author can be lost.

use serde_json::{Value, json};

/// Operations that make `after` of `before`. Only the spec's members and the annotations may differ.
pub fn patch(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    for (parent, only) in [("metadata", Some("annotations")), ("spec", None)] {
        let (old, new) = (before.get(parent), after.get(parent));
        let Some(new) = new.filter(|new| old != Some(*new)).and_then(Value::as_object) else { continue };
        let Some(old) = old.and_then(Value::as_object) else {
            operations.push(json!({"op": "add", "path": format!("/{parent}"), "value": new}));
            continue;
        };
        let concerned = |name: &&String| only.is_none_or(|only| only == name.as_str());
        for (name, value) in new.iter().filter(|(name, _)| concerned(name)) {
            if old.get(name) != Some(value) {
                operations.push(json!({"op": "add", "path": path(parent, name), "value": value}));
            }
        }
        for name in old.keys().filter(concerned).filter(|name| !new.contains_key(*name)) {
            operations.push(json!({"op": "remove", "path": path(parent, name)}));
        }
    }
    operations
}

fn path(parent: &str, name: &str) -> String {
    format!("/{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}
