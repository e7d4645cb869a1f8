//! Updates that leave everything as it is that rules are about. Pure.
//!
//! Rules and options change while objects stay, so one that would be refused now was let in once. Its
//! finalizers have to come off all the same: else it, and with it its namespace, would never be gone.

use serde_json::Value;

use super::{
    path::Route,
    review::{Request, Verdict},
    sidecar_sets,
};

/// Lets an update in that changes nothing it could be refused for.
pub(super) fn spared(verdict: Verdict, route: &Route, request: &Request) -> Verdict {
    let judges =
        matches!(route, Route::CheckSets | Route::CheckSpreads | Route::CheckStates | Route::CheckBudgets);
    if !judges || matches!(verdict, Verdict::Allowed { .. }) || request.old_object.is_null() {
        return verdict;
    }
    // A set that is checked has its defaults by now, and what is stored may be from before one of them.
    let is_untouched = is_untouched(&request.object, &request.old_object)
        || *route == Route::CheckSets
            && is_untouched(&request.object, &sidecar_sets::completed_before(request));
    if is_untouched { Verdict::AS_IT_IS } else { verdict }
}

/// Compares what rules are about. Of an object that is being deleted that is its spec alone: who takes a
/// finalizer off may take an annotation with it.
fn is_untouched(new: &Value, old: &Value) -> bool {
    let stays = |path: &str| field(new, path) == field(old, path);
    let deleting = new.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string);
    stays("/spec") && (deleting || stays("/metadata/labels") && stays("/metadata/annotations"))
}

fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(path).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(spec: i32, metadata: &Value) -> Value {
        json!({ "metadata": metadata, "spec": { "a": spec } })
    }

    fn refused() -> Verdict {
        Verdict::invalid("no")
    }

    const GONE: &str = "2026-07-02T10:00:00Z";

    #[rstest]
    #[case::a_finalizer_less(object(1, &json!({ "deletionTimestamp": GONE })), true)]
    #[case::and_an_annotation_less(object(1, &json!({ "deletionTimestamp": GONE, "annotations": { "a": "b" } })), true)]
    #[case::another_spec_of_one_that_goes(object(2, &json!({ "deletionTimestamp": GONE })), false)]
    #[case::nothing(object(1, &json!({ "labels": { "l": "1" }, "annotations": null })), true)]
    #[case::another_owner(object(1, &json!({ "labels": { "l": "1" }, "ownerReferences": [{}] })), true)]
    #[case::another_spec(object(2, &json!({ "labels": { "l": "1" } })), false)]
    #[case::another_label(object(1, &json!({ "labels": { "l": "2" } })), false)]
    #[case::another_annotation(object(1, &json!({ "labels": { "l": "1" }, "annotations": { "a": "b" } })), false)]
    fn what_counts_as_a_change(#[case] new: Value, #[case] untouched: bool) {
        let old = object(1, &json!({ "labels": { "l": "1" }, "finalizers": ["foregroundDeletion"] }));
        assert_eq!(is_untouched(&new, &old), untouched);
    }

    #[rstest]
    #[case::refused(refused(), Route::CheckSpreads, true, Verdict::AS_IT_IS)]
    #[case::not_known(Verdict::Unready("not listed"), Route::CheckStates, true, Verdict::AS_IT_IS)]
    #[case::another_route(refused(), Route::Budgets, true, refused())]
    #[case::a_new_one(refused(), Route::CheckBudgets, false, refused())]
    fn verdicts_on_what_stays(
        #[case] verdict: Verdict,
        #[case] route: Route,
        #[case] stored: bool,
        #[case] expected: Verdict,
    ) {
        let object = object(1, &json!({}));
        let old_object = if stored { object.clone() } else { Value::Null };
        let request = Request { object, old_object, ..Request::default() };
        assert_eq!(spared(verdict, &route, &request), expected);
    }

    /// A set from before a default was there gets it with each update.
    #[test]
    fn defaults_are_no_change() {
        let deleted = json!({ "deletionTimestamp": GONE });
        let old_object =
            json!({ "metadata": deleted, "spec": { "containers": [{ "name": "a", "image": "i" }] } });
        let mut request = Request { object: old_object.clone(), old_object, ..Request::default() };
        let Verdict::Allowed { object: Some(object), .. } =
            sidecar_sets::complete(&request, "2026-07-02T10:00:00Z".parse().unwrap())
        else {
            panic!("not completed");
        };
        assert_ne!(object["spec"], request.object["spec"]);
        request.object = object;
        assert_eq!(spared(refused(), &Route::CheckSets, &request), Verdict::AS_IT_IS);
        assert_eq!(spared(refused(), &Route::CheckSpreads, &request), refused());
        request.object["spec"]["containers"][0]["image"] = json!("j");
        assert_eq!(spared(refused(), &Route::CheckSets, &request), refused());
    }

    /// Warnings of what is let in are said as ever.
    #[test]
    fn warnings_stay() {
        let object = object(1, &json!({}));
        let request = Request { object: object.clone(), old_object: object, ..Request::default() };
        let warned = Verdict::Allowed { object: None, warnings: vec!["w".to_owned()] };
        assert_eq!(spared(warned.clone(), &Route::CheckSets, &request), warned);
    }
}
