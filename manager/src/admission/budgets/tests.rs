use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::served;

#[test]
fn a_refusal_is_tried_again() {
    let Verdict::Refused { code, reason, message } = busy("web", "pub unavailable allowed is negative")
    else {
        panic!("not refused");
    };
    assert_eq!((code, reason), (429, "TooManyRequests"));
    assert_eq!(
        message,
        "podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative"
    );
}

/// Pods that may go whenever they like, and those that the budget keeps, by what is known of their workload.
#[test]
fn wanted_by_the_scale() {
    let budget = |cover: Value, total: Option<&str>| {
        let mut spec = json!({"maxUnavailable": 1});
        spec.as_object_mut().unwrap().extend(cover.as_object().unwrap().clone());
        let annotation = |of: &str| ("pub.kruise.io/protect-total-replicas".to_owned(), of.to_owned());
        let annotations: BTreeMap<String, String> = total.map(annotation).into_iter().collect();
        Budget::parse(&serde_json::from_value(spec).unwrap(), &annotations).unwrap()
    };
    let of_one =
        budget(json!({"targetRef": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"}}), None);
    let by_labels = json!({"selector": {"matchLabels": {"app": "web"}}});
    let (selector, stated) = (budget(by_labels.clone(), None), budget(by_labels, Some("5")));
    let owner = Owner {
        api_version: "apps/v1".to_owned(),
        kind: "DaemonSet".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
    };
    let wants = |uid: &str, replicas| Fact::Wants { uid: uid.to_owned(), replicas };
    let forbidden = || Fact::Forbidden("let it".to_owned());
    use Wanted::{AsCounted, Gone, Pods};
    for (fact, expected) in [
        (wants("u", 3), [Pods(3), AsCounted, AsCounted]),
        (wants("u", 0), [Gone, Gone, Gone]),
        (wants("of another", 3), [Gone, Gone, Gone]),
        (Fact::Gone, [Gone, Gone, Gone]),
        (Fact::NoScale, [Gone, Gone, AsCounted]),
        // Nobody waits for a right that may never come.
        (forbidden(), [Gone, Gone, AsCounted]),
    ] {
        let answers = [&of_one, &selector, &stated].map(|budget| Wanted::of(&fact, budget, &owner));
        assert_eq!(answers, expected, "{fact:?}");
    }
}

/// Authors of a pod decide how deep its managed fields are, and no drain waits for that.
#[tokio::test]
async fn a_pod_with_deep_managed_fields_is_evicted() {
    let deep = (0..500).fold(Value::Null, |inner, _| json!([inner]));
    let metadata =
        json!({ "namespace": "shop", "name": "p", "uid": "u", "managedFields": [{ "fieldsV1": deep }] });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
    let (client, _) = served::client(move |_| pod.clone());
    let budgets = watch::channel(View::of(BTreeMap::new())).1;
    let guard = Guard { client, budgets, locks: ObjectLocks::default() };
    let text = str::to_owned;
    let request = Request {
        operation: text("CREATE"),
        sub_resource: text("eviction"),
        namespace: text("shop"),
        name: text("p"),
        object: json!({}),
        ..Request::default()
    };
    let verdict = guard.ask(&request).await;
    let Verdict::Allowed { object: Some(eviction), .. } = &verdict else { panic!("{verdict:?}") };
    assert_eq!(eviction["deleteOptions"]["preconditions"]["uid"], "u");
}
