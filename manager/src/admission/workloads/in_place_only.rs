//! Templates of sets that make no new pods: one that running pods cannot follow is refused, as OpenKruise
//! refuses it, and not left to an update that waits for good. Pure.
//!
//! Templates are compared by what they ask for: a client with types writes the same one in other words. One
//! that was let in before can be scaled, and changes when the set may make new pods.

use berth_workloads_policy::{in_place::change, template::same};
use serde_json::{Map, Value};

use crate::admission::review::Request;

/// Way of updates that makes no new pods.
const ONLY: &str = "InPlaceOnly";

/// Reason why an update cannot be let in. `object`: the set with its defaults, as it is to be stored.
pub(super) fn fault(request: &Request, object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    let field = match kind {
        "CloneSet" => "spec.updateStrategy.type",
        "StatefulSet" => "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
        _ => return None,
    };
    let way = object.pointer(&format!("/{}", field.replace('.', "/")));
    if way.and_then(Value::as_str) != Some(ONLY) {
        return None;
    }
    let (old, new) = (template(&request.old_object)?, template(object)?);
    if same(&old, &new) || change(&old, &new).is_some() {
        return None;
    }
    Some(format!(
        "{kind} {}/{}: spec.template changes in more than images, labels and annotations, which no running pod can \
         follow, and {field} is {ONLY}: take the rest back, or give InPlaceIfPossible",
        request.namespace, request.name
    ))
}

/// The template without its metadata, which may change as in OpenKruise.
fn template(set: &Value) -> Option<Map<String, Value>> {
    let spec = set.pointer("/spec/template/spec").filter(|spec| spec.is_object())?;
    Some(Map::from_iter([("spec".to_owned(), spec.clone())]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::admission::{review::Verdict, workloads::complete};

    fn set(kind: &str, way: &str, template: &Value) -> Value {
        let strategy = match kind {
            "CloneSet" => json!({ "type": way }),
            _ => json!({ "type": "RollingUpdate", "rollingUpdate": { "podUpdatePolicy": way } }),
        };
        json!({
            "kind": kind, "metadata": { "name": "web" },
            "spec": { "updateStrategy": strategy, "template": template },
        })
    }

    fn update(kind: &str, way: &str, old: &Value, new: &Value) -> Verdict {
        let request = Request {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            object: set(kind, way, new),
            old_object: if old.is_null() { Value::Null } else { set(kind, ONLY, old) },
            ..Request::default()
        };
        complete(&request, true)
    }

    fn template(container: &Value, labels: &Value) -> Value {
        json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } })
    }

    /// Rows: a container of the new template and its labels, and whether running pods can follow it.
    #[rstest]
    #[case::nothing(json!({ "name": "a", "image": "a:1" }), json!({ "app": "web" }), true)]
    #[case::an_image(json!({ "name": "a", "image": "a:2" }), json!({ "app": "web" }), true)]
    #[case::labels(json!({ "name": "a", "image": "a:1" }), json!({ "app": "web", "tier": "1" }), true)]
    #[case::in_other_words(json!({ "name": "a", "image": "a:2", "resources": {}, "env": [] }), json!({ "app": "web" }), true)]
    #[case::an_env(json!({ "name": "a", "image": "a:2", "env": [{ "name": "A", "value": "1" }] }), json!({ "app": "web" }), false)]
    #[case::a_policy(json!({ "name": "a", "image": "a:1", "imagePullPolicy": "Never" }), json!({ "app": "web" }), false)]
    #[case::another_name(json!({ "name": "b", "image": "a:1" }), json!({ "app": "web" }), false)]
    fn what_running_pods_cannot_follow_is_refused(
        #[case] container: Value,
        #[case] labels: Value,
        #[case] follows: bool,
    ) {
        let plain = template(&json!({ "name": "a", "image": "a:1" }), &json!({ "app": "web" }));
        let new = template(&container, &labels);
        let mut ordered = new.clone();
        ordered["metadata"]["annotations"] = json!({ "apps.kruise.io/container-launch-priority": "Ordered" });
        for (kind, field) in [("CloneSet", "updateStrategy.type"), ("StatefulSet", "podUpdatePolicy")] {
            let Verdict::Allowed { object: Some(whole), .. } = update(kind, ONLY, &Value::Null, &plain)
            else {
                panic!("{kind}: a new one is let in");
            };
            // What is stored has its defaults or, where nobody filled them in, has not.
            for old in [&plain, &whole["spec"]["template"]] {
                match update(kind, ONLY, old, &new) {
                    Verdict::Allowed { .. } => assert!(follows, "{kind} {old}"),
                    Verdict::Refused { code, message, .. } => {
                        assert!(!follows && code == 422, "{kind} {old}: {message}");
                        let parts = [kind, "shop/web", field, "give InPlaceIfPossible"];
                        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
                    }
                    other => panic!("{other:?}"),
                }
                let metadata = update(kind, ONLY, &new, &ordered);
                assert!(matches!(metadata, Verdict::Allowed { .. }), "{kind}: any metadata");
                let may_be_made = update(kind, "InPlaceIfPossible", old, &new);
                assert!(matches!(may_be_made, Verdict::Allowed { .. }), "{kind}: new pods can have it");
            }
        }
    }
}
