//! Time from which new pods of a set get its sidecars, in an annotation of the set.
//!
//! A pod that a set selects and that has none of its sidecars was missed, unless it was made before the set
//! asked for it. The fields of the set say only what it asks for now, so admission notes when that changed,
//! within the author's request; a status would be written after the first pods.

use jiff::Timestamp;
use serde_json::Value;

use crate::json::{made, object, text};

/// Annotation of a set: the time at which its selectors last changed, or whether its injection is paused.
pub const INJECTED_SINCE: &str = "berth.dev/injected-since";

/// Writes the annotation of a set that is being written; `old` is the stored one, at an update. A new set has
/// none: it was made when it says. A value of the author's own is overwritten.
pub fn note_since(set: &mut Value, old: Option<&Value>, now: Timestamp) {
    let noted = match old {
        None => None,
        Some(old) if asks(old) == asks(set) => {
            let annotations = old.as_object().and_then(|old| object(object(old, "metadata")?, "annotations"));
            let before = annotations.map(|annotations| text(annotations, INJECTED_SINCE)).unwrap_or_default();
            Some(before.to_owned()).filter(|before| !before.is_empty())
        }
        Some(_) => Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    };
    let Some(metadata) = set.as_object_mut().and_then(|set| made(set, "metadata")) else { return };
    match noted {
        Some(noted) => {
            if let Some(annotations) = made(metadata, "annotations") {
                annotations.insert(INJECTED_SINCE.to_owned(), noted.into());
            }
        }
        None => {
            let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
            annotations.and_then(|annotations| annotations.remove(INJECTED_SINCE));
        }
    }
}

/// Fields by which a pod is injected or not.
fn asks(set: &Value) -> ([Option<&Value>; 3], bool) {
    let field = |path: &str| set.pointer(path).filter(|value| !value.is_null());
    let reach = ["/spec/selector", "/spec/namespace", "/spec/namespaceSelector"].map(field);
    (reach, field("/spec/injectionStrategy/paused") == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(app: &str, strategy: &Value, since: Option<&str>) -> Value {
        let annotations = since.map(|since| json!({ INJECTED_SINCE: since }));
        json!({
            "metadata": { "name": "s", "annotations": annotations },
            "spec": { "selector": { "matchLabels": { "app": app } }, "injectionStrategy": strategy, "namespace": null },
        })
    }

    #[test]
    fn what_a_set_asks_for_has_a_time() {
        let (none, paused, runs) = (json!(null), json!({ "paused": true }), json!({ "paused": false }));
        let (old, now) = ("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
        for (before, after, expect) in [
            (None, set("a", &none, None), None),
            (None, set("a", &none, Some(old)), None),
            (Some(set("a", &none, None)), set("a", &none, Some("forged")), None),
            (Some(set("a", &none, None)), set("a", &runs, None), None),
            (Some(set("a", &none, Some(old))), set("a", &none, None), Some(old)),
            (Some(set("a", &none, Some(old))), set("b", &none, Some(old)), Some(now)),
            (Some(set("a", &paused, Some(old))), set("a", &none, Some(old)), Some(now)),
            (Some(set("a", &none, None)), set("a", &paused, None), Some(now)),
        ] {
            let mut written = after.clone();
            note_since(&mut written, before.as_ref(), Timestamp::UNIX_EPOCH);
            let found = written["metadata"]["annotations"][INJECTED_SINCE].as_str();
            assert_eq!(found, expect, "{before:?} {after}");
        }
        for odd in
            [json!(null), json!([]), json!({ "metadata": 1 }), json!({ "metadata": { "annotations": 1 } })]
        {
            note_since(&mut odd.clone(), Some(&set("a", &none, None)), Timestamp::UNIX_EPOCH);
        }
    }
}
