//! Budgets by what they cover: which of them an event of a pod looks at.

use std::sync::Arc;

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use rstest::rstest;
use serde_json::{Value, json};

use super::world::{Pod, SPACE, owner, seen};
use crate::{
    budgets::{finder::Finder, known::Known},
    store::{BudgetSeen, Key, Object, PodChange, PodStage, Pods},
};

/// Pod `p` of the ReplicaSet `web-shop-1`, which comes.
fn comes() -> PodChange {
    let pod = Pod {
        uid: "u".to_owned(),
        version: 1,
        created: "2026-07-02T10:00:00Z".parse().unwrap(),
        stage: PodStage::Active,
        ready: true,
        owner: Some(owner("ReplicaSet", "web-shop-1")),
    };
    let Object::Pod(mut pod) = seen("p", &pod) else { panic!("no pod") };
    let labels = [("app", "web"), ("tier", "1")];
    pod.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    Pods::default().apply(&pod).unwrap()
}

/// Budget `b`, in whose status this pod has a permit.
fn budget(cover: &Value, permit: &str) -> Known {
    let mut spec = json!({ "maxUnavailable": 1 });
    spec.as_object_mut().unwrap().extend(cover.as_object().unwrap().clone());
    let since = json!({ permit: "2026-07-02T10:00:00Z" });
    let status: Status = serde_json::from_value(json!({ "unavailablePods": since })).unwrap();
    let seen = BudgetSeen::of_test(SPACE, "b", Ok(serde_json::from_value(spec).unwrap()));
    Known::new(&BudgetSeen { status: Ok(status), ..seen }, 0)
}

fn by_label(value: &str) -> Value {
    json!({ "selector": { "matchLabels": { "app": value } } })
}

fn by_expression(operator: &str, values: &[&str]) -> Value {
    let values = Some(values).filter(|values| !values.is_empty());
    json!({ "selector": { "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] } })
}

fn by_target(api_version: &str, kind: &str, name: &str) -> Value {
    json!({ "targetRef": { "apiVersion": api_version, "kind": kind, "name": name } })
}

#[rstest]
#[case::its_label(by_label("web"), "q", true)]
#[case::another_label(by_label("db"), "q", false)]
#[case::one_of_its_labels(by_expression("In", &["db", "web"]), "q", true)]
#[case::none_of_them(by_expression("In", &["db", "store"]), "q", false)]
#[case::any_but_some(by_expression("NotIn", &["web"]), "q", true)]
#[case::any_that_has_one(by_expression("Exists", &[]), "q", true)]
#[case::its_deployment(by_target("apps/v1", "Deployment", "web-shop"), "q", true)]
#[case::perhaps_its_deployment(by_target("apps/v1", "Deployment", "web"), "q", true)]
#[case::not_its_deployment(by_target("apps/v1", "Deployment", "web-s"), "q", false)]
#[case::its_replica_set(by_target("apps/v1", "ReplicaSet", "web-shop-1"), "q", true)]
#[case::another_set(by_target("apps.kruise.io/v1alpha1", "CloneSet", "store"), "q", false)]
#[case::of_a_kind_that_is_not_known(by_target("argoproj.io/v1alpha1", "Rollout", "store"), "q", true)]
#[case::with_a_permit(by_label("db"), "p", true)]
#[case::not_kept(json!({ "selector": {} }), "p", false)]
fn a_pod_finds_the_budgets_that_may_cover_it(
    #[case] cover: Value,
    #[case] permit: &str,
    #[case] is_found: bool,
) {
    let (mut finder, change) = (Finder::default(), comes());
    let key = Key { namespace: SPACE.into(), name: "b".into() };
    finder.put(&key, &budget(&cover, permit));
    assert_eq!(finder.of_pod(&change).contains("b"), is_found);
    // As one that goes, and in another namespace.
    let PodChange { key: pod, before, after } = change;
    let goes = PodChange { key: pod.clone(), before: after.clone(), after: before.clone() };
    assert_eq!(finder.of_pod(&goes).contains("b"), is_found);
    let elsewhere = Key { namespace: "other".into(), ..pod };
    assert!(finder.of_pod(&PodChange { key: elsewhere, before, after }).is_empty());
}

#[test]
fn a_budget_is_found_by_what_it_is_now() {
    let (mut finder, change) = (Finder::default(), comes());
    let key = Key { namespace: SPACE.into(), name: "b".into() };
    let permit = |finder: &Finder, pod: &str| finder.of_permit(&key.namespace, &Arc::from(pod)).len();
    finder.put(&key, &budget(&by_label("web"), "p"));
    assert_eq!((finder.of_pod(&change).len(), permit(&finder, "p")), (1, 1));
    finder.put(&key, &budget(&by_label("db"), "q"));
    assert_eq!((finder.of_pod(&change).len(), permit(&finder, "p"), permit(&finder, "q")), (0, 0, 1));
    finder.put(&key, &budget(&json!({}), "q"));
    assert_eq!(permit(&finder, "q"), 0, "it cannot be kept");
    finder.put(&key, &budget(&by_label("web"), "q"));
    finder.remove(&key);
    assert_eq!(format!("{finder:?}"), format!("{:?}", Finder::default()), "nothing is kept of it");
}
