//! Pods with a place in a WorkloadSpread that are about to go. Pure.

use berth_spread::{MATCHED, Matched};
use serde_json::Value;

use super::{evictions, review::Request};
use crate::store::Owner;

/// Length of a pod's name at most. The status of a WorkloadSpread gets it, and nobody knows who sent it.
pub(super) const LONGEST_NAME: usize = 253;

/// A pod whose place is given back.
#[derive(Debug)]
pub(super) struct Leaver {
    /// Its place.
    pub(super) matched: Matched,
    /// Its name.
    pub(super) pod: String,
    /// The eviction of it, tied to it; none where it is deleted.
    pub(super) eviction: Option<Value>,
}

/// Pod that a request ends, if it has a place. An entry of the status names a pod and no more: were an
/// eviction carried out on another one of that name, that one would go untold, and so each is tied to the
/// pod whose place is given back (`evictions`). A deletion needs no tie: the API server asks about the very
/// object that it then deletes, and asks again if that has changed.
pub(super) fn leaver(request: &Request, evicted: &Value) -> Option<Leaver> {
    let (pod, eviction) = match (request.operation.as_str(), request.sub_resource.as_str()) {
        ("DELETE", "") => (&request.old_object, None),
        _ if evictions::is_one(request) => {
            let uid = evicted.pointer("/metadata/uid").and_then(Value::as_str)?;
            (evicted, Some(evictions::tied(&request.object, uid)?))
        }
        _ => return None,
    };
    if evictions::is_dry_run(request) || !lives(pod) {
        return None;
    }
    controller(pod)?;
    let matched = Matched::read(pod["metadata"]["annotations"][MATCHED].as_str()?)?;
    let name = pod["metadata"]["name"].as_str().filter(|name| name.len() <= LONGEST_NAME)?;
    Some(Leaver { matched, pod: name.to_owned(), eviction })
}

/// The controller of a pod.
pub(super) fn controller(pod: &Value) -> Option<Owner> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let part = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
    Some(Owner { api_version: part("apiVersion"), kind: part("kind"), name: part("name"), uid: part("uid") })
}

/// Says whether the pod has not ended, and is not going.
pub(super) fn lives(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::running(json!({"status": {"phase": "Running"}}), true)]
    #[case::new(json!({}), true)]
    #[case::going(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false)]
    #[case::over(json!({"status": {"phase": "Failed"}}), false)]
    fn pods_that_have_a_place(#[case] pod: Value, #[case] lives_: bool) {
        assert_eq!(lives(&pod), lives_);
    }

    /// Pod `web-1` of the UID `u`, as it stands at the API server.
    fn placed() -> Value {
        json!({ "metadata": { "name": "web-1", "uid": "u",
            "annotations": { MATCHED: r#"{"name":"s","subset":"a"}"# },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true }],
        } })
    }

    fn request(operation: &str, sub_resource: &str, object: Value, dry_run: bool) -> Request {
        let (operation, sub_resource) = (operation.to_owned(), sub_resource.to_owned());
        Request { operation, sub_resource, object, old_object: placed(), dry_run, ..Request::default() }
    }

    fn tied_to(uid: &str) -> Value {
        json!({ "deleteOptions": { "preconditions": { "uid": uid } } })
    }

    /// Pods whose place is given back, and the eviction as it goes on; a deletion goes on as it is.
    #[rstest]
    #[case::deleted("DELETE", "", Value::Null, placed(), Some(None))]
    #[case::evicted("CREATE", "eviction", json!({}), placed(), Some(Some(tied_to("u"))))]
    #[case::by_its_uid("CREATE", "eviction", tied_to("u"), placed(), Some(Some(tied_to("u"))))]
    #[case::another_one_of_its_name("CREATE", "eviction", tied_to("v"), placed(), None)]
    #[case::gone("CREATE", "eviction", json!({}), Value::Null, None)]
    #[case::only_tried("CREATE", "eviction", json!({ "deleteOptions": { "dryRun": ["All"] } }), placed(), None)]
    #[case::of_no_spread("CREATE", "eviction", json!({}), json!({ "metadata": { "uid": "u" } }), None)]
    #[case::of_no_workload("CREATE", "eviction", json!({}), json!({ "metadata": { "uid": "u", "annotations": placed()["metadata"]["annotations"] } }), None)]
    #[case::something_else("UPDATE", "", json!({}), placed(), None)]
    fn an_eviction_is_of_the_pod_whose_place_is_given_back(
        #[case] operation: &str,
        #[case] sub_resource: &str,
        #[case] object: Value,
        #[case] evicted: Value,
        #[case] goes: Option<Option<Value>>,
    ) {
        let found = leaver(&request(operation, sub_resource, object.clone(), false), &evicted);
        if let Some(leaver) = &found {
            assert_eq!((&*leaver.matched.name, &*leaver.matched.subset, &*leaver.pod), ("s", "a", "web-1"));
        }
        assert_eq!(found.map(|leaver| leaver.eviction), goes);
        assert!(leaver(&request(operation, sub_resource, object, true), &evicted).is_none(), "only tried");
    }

    #[test]
    fn what_has_no_name_of_a_pod_has_no_place() {
        for name in [json!("w".repeat(LONGEST_NAME + 1)), Value::Null] {
            let mut request = request("DELETE", "", Value::Null, false);
            request.old_object["metadata"]["name"] = name;
            assert!(leaver(&request, &Value::Null).is_none());
        }
    }

    #[test]
    fn one_that_goes_already_has_given_its_place_back() {
        let mut going = placed();
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(leaver(&request("CREATE", "eviction", json!({}), false), &going).is_none());
    }
}
