//! Evictions that a budget is asked about, and those that a WorkloadSpread is told of. Pure.
//!
//! An eviction names its pod, and the API server carries it out a moment after it has asked: it reads the pod
//! then, and after a conflict again, twenty times in 10 s (`EvictionREST.Create` of kube-apiserver). Until
//! then the pod may have gone by another request, and one of the same name may have come in its place, be
//! ready, and be counted: nobody has a permit for that one. So an eviction that is let through is tied to the
//! pod that was looked at, by the precondition `uid` that its author could have given himself. Evicted in
//! vain, he is answered with a conflict.

use serde_json::{Value, json};

use super::review::{Request, Verdict};

/// Tells whether the request is an eviction.
pub(super) fn is_one(request: &Request) -> bool {
    (request.operation.as_str(), request.sub_resource.as_str()) == ("CREATE", "eviction")
}

/// Tells whether it is only tried: the dry run of an eviction is said in it.
pub(super) fn is_dry_run(request: &Request) -> bool {
    let tries = request.object.pointer("/deleteOptions/dryRun").and_then(Value::as_array);
    request.dry_run || tries.is_some_and(|all| !all.is_empty())
}

/// The eviction, tied to the pod of this UID; `None`: its author has tied it to another one, and it evicts
/// nothing.
pub(super) fn tied(eviction: &Value, uid: &str) -> Option<Value> {
    match eviction.pointer("/deleteOptions/preconditions/uid") {
        Some(Value::String(given)) if given != uid => return None,
        Some(Value::String(_)) => return Some(eviction.clone()),
        _ => {}
    }
    let mut eviction = eviction.clone();
    let mut at = &mut eviction;
    for field in ["deleteOptions", "preconditions"] {
        if !at[field].is_object() {
            at[field] = json!({});
        }
        at = &mut at[field];
    }
    at["uid"] = uid.into();
    Some(eviction)
}

/// Answer to the eviction of a pod that is not there, as the API server gives it: were it let through, it
/// would evict one that comes a moment later.
pub(super) fn of_none(name: &str) -> Verdict {
    Verdict::Refused { code: 404, reason: "NotFound", message: format!("pods {name:?} not found") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain(json!({}), Some(json!({ "preconditions": { "uid": "u" } })))]
    #[case::null(json!({ "deleteOptions": null }), Some(json!({ "preconditions": { "uid": "u" } })))]
    #[case::with_options(
        json!({ "deleteOptions": { "gracePeriodSeconds": 5, "preconditions": { "resourceVersion": "7" } } }),
        Some(json!({ "gracePeriodSeconds": 5, "preconditions": { "resourceVersion": "7", "uid": "u" } }))
    )]
    #[case::tied(
        json!({ "deleteOptions": { "preconditions": { "uid": "u" } } }),
        Some(json!({ "preconditions": { "uid": "u" } }))
    )]
    #[case::of_another(json!({ "deleteOptions": { "preconditions": { "uid": "v" } } }), None)]
    fn an_eviction_is_of_one_pod(#[case] eviction: Value, #[case] options: Option<Value>) {
        let tied = tied(&eviction, "u").map(|eviction| eviction["deleteOptions"].clone());
        assert_eq!(tied, options);
    }

    #[rstest]
    #[case::none(json!({}), false, false)]
    #[case::of_the_request(json!({}), true, true)]
    #[case::of_the_eviction(json!({ "deleteOptions": { "dryRun": ["All"] } }), false, true)]
    #[case::empty(json!({ "deleteOptions": { "dryRun": [] } }), false, false)]
    fn a_dry_run_is_said_in_two_places(#[case] object: Value, #[case] dry_run: bool, #[case] is: bool) {
        assert_eq!(is_dry_run(&Request { object, dry_run, ..Request::default() }), is);
    }
}
