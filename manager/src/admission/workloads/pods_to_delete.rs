//! Names in `podsToDelete` of a CloneSet. A name that is new has to be that of a pod of the set that is not
//! going already: one that is misspelt would take nothing away, and be taken out without a word.
//!
//! The pods are read for the question, not taken from a watch, which may be late: a pod that has just been
//! made is there. Pure; whoever asks reads them ([`Handler`](crate::admission::handler)).

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::admission::review::Request;

/// The most names that are looked at: nobody's list costs the API server more reads.
const MOST_CHECKED: usize = 256;
/// Length of a pod's name at most.
const LONGEST_NAME: usize = 253;
const FIELD: &str = "spec.scaleStrategy.podsToDelete";

/// Names that the update adds, the first of them; none of another kind than a CloneSet.
pub(in crate::admission) fn added(request: &Request) -> BTreeSet<&str> {
    if request.object["kind"] != "CloneSet" {
        return BTreeSet::new();
    }
    let of = |object| -> BTreeSet<&str> { names(object).collect() };
    let old = of(&request.old_object);
    of(&request.object).into_iter().filter(|name| !old.contains(name)).take(MOST_CHECKED).collect()
}

fn names(object: &Value) -> impl Iterator<Item = &str> {
    let all = object.pointer("/spec/scaleStrategy/podsToDelete").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

/// Tells whether a pod can have this name; no other one is asked for.
pub(in crate::admission) fn is_name(name: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte);
    name.len() <= LONGEST_NAME
        && name.bytes().all(|byte| inner(&byte))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Reason why a name cannot be added; `pod`: the one that has it.
pub(in crate::admission) fn fault(request: &Request, name: &str, pod: Option<&ObjectMeta>) -> Option<String> {
    let why = match pod {
        None => "there is no such pod",
        Some(pod) if pod.deletion_timestamp.is_some() => "the pod is being deleted already",
        Some(pod) if !is_of(request, pod) => "the pod is not one of this CloneSet",
        Some(_) => return None,
    };
    let name: String = name.chars().take(LONGEST_NAME).collect();
    Some(format!(
        "CloneSet {}/{}: {FIELD}: {name:?}: {why}: leave it out, or name a pod whose controller is this CloneSet \
         (kubectl get pods)",
        request.namespace, request.name
    ))
}

fn is_of(request: &Request, pod: &ObjectMeta) -> bool {
    let uid = request.object.pointer("/metadata/uid").and_then(Value::as_str);
    let owners = pod.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    // A set that is about to be made has none.
    uid.is_some_and(|uid| !uid.is_empty() && controllers.any(|owner| owner.uid == uid))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn request(kind: &str, old: &[&str], new: &[&str]) -> Request {
        let object = |names: &[&str]| {
            json!({
                "kind": kind, "metadata": { "uid": "set" }, "spec": { "scaleStrategy": { "podsToDelete": names } },
            })
        };
        Request {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            object: object(new),
            old_object: object(old),
            ..Request::default()
        }
    }

    #[test]
    fn only_names_that_are_new_are_asked_about() {
        let request = |old, new| request("CloneSet", old, new);
        assert_eq!(added(&request(&["a"], &["b", "a"])), BTreeSet::from(["b"]));
        assert!(added(&request(&["a", "gone"], &["gone"])).is_empty(), "as names are taken out");
        assert!(added(&super::tests::request("StatefulSet", &[], &["a"])).is_empty());
        let made = Request { old_object: Value::Null, ..request(&[], &["a"]) };
        assert_eq!(added(&made), BTreeSet::from(["a"]));
        let none = Request { object: json!({ "kind": "CloneSet", "spec": {} }), ..Request::default() };
        let many: Vec<String> = (0..1000).map(|number| format!("p-{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(added(&request(&[], &many)).len(), MOST_CHECKED);
        assert!(added(&none).is_empty());
    }

    #[rstest]
    #[case::its_own(json!({ "ownerReferences": [owner("set", true)] }), None)]
    #[case::beside_another_owner(json!({ "ownerReferences": [owner("x", false), owner("set", true)] }), None)]
    #[case::going(
        json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner("set", true)] }),
        Some("is being deleted already")
    )]
    #[case::of_another(json!({ "ownerReferences": [owner("other", true)] }), Some("not one of this CloneSet"))]
    #[case::not_its_controller(json!({ "ownerReferences": [owner("set", false)] }), Some("not one of this CloneSet"))]
    #[case::of_nobody(json!({}), Some("not one of this CloneSet"))]
    #[case::none(Value::Null, Some("there is no such pod"))]
    fn a_pod_of_the_set_that_stays_may_be_named(#[case] metadata: Value, #[case] why: Option<&str>) {
        let pod = (!metadata.is_null()).then(|| serde_json::from_value::<ObjectMeta>(metadata).unwrap());
        let told = fault(&request("CloneSet", &[], &["web-a"]), "web-a", pod.as_ref());
        match why {
            None => assert_eq!(told, None),
            Some(why) => {
                let told = told.unwrap();
                let parts = ["CloneSet shop/web", FIELD, "\"web-a\"", why, "leave it out"];
                assert!(parts.iter().all(|part| told.contains(part)), "{told}");
            }
        }
    }

    fn owner(uid: &str, controller: bool) -> Value {
        json!({ "apiVersion": "v", "kind": "k", "name": "n", "uid": uid, "controller": controller })
    }

    #[test]
    fn a_set_that_is_made_has_no_pods() {
        let mut request = request("CloneSet", &[], &["web-a"]);
        request.object["metadata"] = json!({});
        let pod = serde_json::from_value(json!({ "ownerReferences": [owner("", true)] })).unwrap();
        assert!(fault(&request, "web-a", Some(&pod)).is_some());
    }

    #[test]
    fn names_that_no_pod_can_have_are_not_asked_for() {
        for (name, is) in [
            ("web-a", true),
            ("web.a-1", true),
            ("", false),
            ("../secrets", false),
            ("a/b", false),
            ("..", false),
            ("A", false),
            ("a?b", false),
        ] {
            assert_eq!(is_name(name), is, "{name}");
        }
        assert!(is_name(&"a".repeat(253)) && !is_name(&"a".repeat(254)));
    }
}
