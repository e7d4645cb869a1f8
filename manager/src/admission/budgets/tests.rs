use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::served;

/// Eviction of pod `shop/p`.
fn eviction() -> Request {
    let text = str::to_owned;
    Request {
        operation: text("CREATE"),
        sub_resource: text("eviction"),
        namespace: text("shop"),
        name: text("p"),
        object: json!({}),
        ..Request::default()
    }
}

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
    let verdict = guard.ask(&eviction()).await;
    let Verdict::Allowed { object: Some(eviction), .. } = &verdict else { panic!("{verdict:?}") };
    assert_eq!(eviction["deleteOptions"]["preconditions"]["uid"], "u");
}

/// A budget for whose selector there is no room limits its pods and no others, and nobody asks for those of
/// other namespaces. Rows: the label of its pods, how many others are like it, and the answer.
#[rstest]
#[case::its_pod("web", 0, "pub unavailable allowed is negative")]
#[case::another_pod("db", 0, "")]
#[case::gone("", 0, "")]
#[case::some_others("web", MOST_READ - 1, "pub unavailable allowed is negative")]
#[case::too_many("db", MOST_READ, "too many of the namespace would have to be read")]
#[tokio::test]
async fn a_budget_without_room_limits_as_before(
    #[case] app: &'static str,
    #[case] others: usize,
    #[case] says: &str,
) {
    let budget = move |name: &str| {
        let status = json!({ "observedGeneration": 1, "totalReplicas": 3, "currentAvailable": 2,
            "desiredAvailable": 2, "unavailableAllowed": 0 });
        let metadata = json!({ "namespace": "shop", "name": name, "uid": "u", "generation": 1 });
        json!({ "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
            "metadata": metadata, "status": status,
            "spec": { "selector": { "matchLabels": { "app": app } }, "maxUnavailable": 1 } })
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "shop", "name": "p", "uid": "u", "labels": { "app": "web" } },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let (client, _) =
        served::client(move |parts| match parts.uri.path().rsplit_once("/podunavailablebudgets/") {
            Some(_) if app.is_empty() => served::failure(404),
            Some((_, name)) => budget(name),
            None => pod.clone(),
        });
    let one = |at: usize| {
        let name = format!("b{at:0>2}");
        let kept = read(serde_json::from_value(budget(&name)).unwrap()).unwrap();
        (format!("shop/{name}"), (BOUND.bare)(kept))
    };
    let budgets = watch::channel(View::of((0..=others).map(one).collect())).1;
    let guard = Guard { client, budgets, locks: ObjectLocks::default() };
    match guard.ask(&eviction()).await {
        Verdict::Allowed { .. } => assert_eq!(says, ""),
        Verdict::Refused { code: 429, message, .. } => {
            assert!(!says.is_empty() && message.contains(says), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let whole = guard.bare("shop").await.map(|all| all.len());
    let there = if app.is_empty() { 0 } else { others + 1 };
    assert_eq!(whole, if others < MOST_READ { Ok(there) } else { Err(TOO_MANY) });
    assert_eq!(guard.bare("other").await, Ok(Vec::new()));
}
