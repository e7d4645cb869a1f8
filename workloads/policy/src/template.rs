//! Templates, compared by what they ask for.
//!
//! A client with types of its own reads an object and writes it back with fields that say nothing, without
//! others, and with quantities in another spelling. That is no new template: no pod is updated for it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::quantity::quantity;

/// Maps of quantities.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Quantities.
const QUANTITIES: [&str; 2] = ["sizeLimit", "divisor"];
/// Members that are maps, or are there though nothing is in them: an empty one says nothing. Others, such as
/// `emptyDir`, say something by being there.
const MAPS: [&str; 8] =
    ["labels", "annotations", "metadata", "nodeSelector", "matchLabels", "limits", "requests", "resources"];
/// Flags that are off where they are left out.
const FLAGS: [&str; 7] = ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"];
/// Numbers that are 0 where they are left out.
const NUMBERS: [&str; 3] = ["initialDelaySeconds", "hostPort", "divisor"];

/// Tells whether two templates, or parts of them, ask for the same pods.
pub fn same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one == other || plain(one) == plain(other)
}

/// Template without what says nothing, its quantities as numbers. It is for comparison alone.
pub(crate) fn plain(object: &Map<String, Value>) -> Map<String, Value> {
    let members = object.iter().filter_map(|(key, value)| {
        let value = member(key, value);
        (!says_nothing(key, &value)).then(|| (key.clone(), value))
    });
    members.collect()
}

fn member(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(amounts) if AMOUNTS.contains(&key) => {
            Value::Object(amounts.iter().map(|(name, value)| (name.clone(), amount(value))).collect())
        }
        Value::Object(object) => Value::Object(plain(object)),
        Value::Array(all) => Value::Array(all.iter().map(|one| member("", one)).collect()),
        other if QUANTITIES.contains(&key) => amount(other),
        other => other.clone(),
    }
}

/// Quantity in billionths; what is none stays as it is.
fn amount(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => Cow::from(text),
        Value::Number(number) => number.to_string().into(),
        other => return other.clone(),
    };
    // As a text: no number of JSON is as large.
    quantity(&text).map_or_else(|| value.clone(), |nano| nano.to_string().into())
}

fn says_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(members) => members.is_empty() && MAPS.contains(&key),
        Value::Bool(flag) => !flag && FLAGS.contains(&key),
        Value::Number(number) => number.as_f64() == Some(0.0) && NUMBERS.contains(&key),
        Value::String(text) => (text.is_empty() && key == "value") || (text == "0" && NUMBERS.contains(&key)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn template(container: Value) -> Map<String, Value> {
        let mut main = json!({ "name": "main", "image": "a:1" });
        for (key, value) in container.as_object().unwrap() {
            main[key] = value.clone();
        }
        let spec = json!({ "containers": [main], "volumes": [{ "name": "v", "emptyDir": {} }] });
        json!({ "metadata": { "labels": { "app": "a" } }, "spec": spec }).as_object().cloned().unwrap()
    }

    /// Rows: a container as its author gave it, and as a client with types writes it back.
    #[rstest]
    #[case::as_it_is(json!({ "later": [1] }), json!({ "later": [1] }), true)]
    #[case::no_resources(json!({}), json!({ "resources": {} }), true)]
    #[case::no_limits(json!({ "resources": { "limits": {} } }), json!({ "resources": {} }), true)]
    #[case::a_spelling(
        json!({ "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } } }),
        json!({ "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }), true)]
    #[case::a_number(
        json!({ "resources": { "requests": { "cpu": 2 } } }),
        json!({ "resources": { "requests": { "cpu": "2" } } }), true)]
    #[case::an_empty_value(json!({ "env": [{ "name": "A", "value": "" }] }), json!({ "env": [{ "name": "A" }] }), true)]
    #[case::nothing_in_a_list(json!({ "args": [], "env": null }), json!({}), true)]
    #[case::a_flag(json!({ "tty": false, "livenessProbe": { "initialDelaySeconds": 0 } }), json!({ "livenessProbe": {} }), true)]
    #[case::a_divisor(
        json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }] }),
        json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "0" } } }] }),
        true)]
    #[case::more(
        json!({ "resources": { "limits": { "cpu": "1" } } }),
        json!({ "resources": { "limits": { "cpu": "2" } } }), false)]
    #[case::no_quantity(
        json!({ "resources": { "limits": { "cpu": "one" } } }),
        json!({ "resources": { "limits": { "cpu": "two" } } }), false)]
    #[case::a_choice(json!({ "securityContext": { "privileged": false } }), json!({ "securityContext": {} }), false)]
    #[case::a_value(json!({ "env": [{ "name": "A", "value": "1" }] }), json!({ "env": [{ "name": "A" }] }), false)]
    #[case::a_source(json!({ "envFrom": [{ "configMapRef": {} }] }), json!({ "envFrom": [{}] }), false)]
    fn what_asks_for_the_same(#[case] given: Value, #[case] back: Value, #[case] is_same: bool) {
        assert_eq!(same(&template(given), &template(back)), is_same);
    }

    #[test]
    fn a_time_that_is_none_says_nothing() {
        let mut back = template(json!({}));
        back["metadata"]["creationTimestamp"] = Value::Null;
        assert!(same(&back, &template(json!({}))));
        back["spec"]["volumes"][0]["emptyDir"] = Value::Null;
        assert!(!same(&back, &template(json!({}))));
    }
}
