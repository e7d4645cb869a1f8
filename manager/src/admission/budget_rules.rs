//! PodUnavailableBudgets that are written: what their definition cannot say of them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::PodUnavailableBudgetSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    budgets::BudgetKept,
    review::{Request, Verdict},
};
use crate::budgets::{Budget, Workload};

/// Checks a budget against its rules and the other ones of its namespace. `limits` says whether any operation
/// is limited at all.
pub(super) fn judge<'a>(
    request: &Request,
    others: impl Iterator<Item = &'a BudgetKept>,
    limits: bool,
) -> Verdict {
    if !limits {
        return Verdict::invalid(
            "the manager limits neither deletions (--budget-deletions) nor updates (--budget-updates): switch one on",
        );
    }
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(request.object["metadata"]["annotations"].clone()).unwrap_or_default();
    let spec: PodUnavailableBudgetSpec = match serde_json::from_value(request.object["spec"].clone()) {
        Ok(spec) => spec,
        Err(error) => return Verdict::invalid(format!("spec: {error}")),
    };
    let budget = match Budget::parse(&spec, &annotations) {
        Ok(budget) => budget,
        Err(error) => return Verdict::invalid(error),
    };
    // What it covers cannot be changed, so an update meets nobody new.
    if !request.old_object.is_null() {
        return Verdict::AS_IT_IS;
    }
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let own = Own::of(spec.selector.as_ref());
    for other in others.filter(|other| other.name != name) {
        let Ok(known) = &other.budget else { continue };
        let meets = match (budget.workload(), known.workload()) {
            (Some(one), Some(another)) => is_same(one, another),
            (None, None) => other.selector.as_ref().is_some_and(|other| !own.is_apart(other)),
            _ => false,
        };
        if meets {
            let field = if budget.workload().is_some() { "targetRef" } else { "selector" };
            return Verdict::invalid(format!(
                "spec.{field}: PodUnavailableBudget {:?} has the same pods, or may have; change it, or this one",
                other.name
            ));
        }
    }
    Verdict::AS_IT_IS
}

fn is_same(one: &Workload, another: &Workload) -> bool {
    (one.group(), &one.kind, &one.name) == (another.group(), &another.kind, &another.name)
}

/// Values of labels that the selector of a new budget asks for, by their keys. It is compared with all
/// budgets of its namespace, of which there may be thousands: of those nothing is copied, and their values
/// are looked up here.
#[derive(Debug)]
struct Own<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Own<'a> {
    fn of(selector: Option<&'a LabelSelector>) -> Self {
        let all = selector.map(asked).unwrap_or_default().into_iter();
        Self(all.map(|(key, values)| (key, values.iter().map(String::as_str).collect())).collect())
    }

    /// Says whether no pod can have labels that both select: they ask for different values of one key.
    fn is_apart(&self, other: &LabelSelector) -> bool {
        asked(other).into_iter().any(|(key, values)| {
            self.0.get(key).is_some_and(|own| !values.iter().any(|value| own.contains(value.as_str())))
        })
    }
}

/// Keys of which a selector asks for one of some values.
fn asked(selector: &LabelSelector) -> BTreeMap<&str, &[String]> {
    let labels = selector.match_labels.iter().flatten();
    let mut all: BTreeMap<&str, &[String]> =
        labels.map(|(key, value)| (key.as_str(), std::slice::from_ref(value))).collect();
    let expressions = selector.match_expressions.iter().flatten();
    for one in expressions.filter(|one| one.operator == "In") {
        all.entry(&one.key).or_insert(one.values.as_deref().unwrap_or_default());
    }
    all
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn kept(name: &str, spec: &Value) -> BudgetKept {
        let spec: PodUnavailableBudgetSpec = serde_json::from_value(spec.clone()).unwrap();
        BudgetKept {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            selector: spec.selector.clone(),
            budget: Budget::parse(&spec, &BTreeMap::new()),
        }
    }

    fn said(object: Value, others: &[BudgetKept], limits: bool) -> String {
        let request = Request { object, ..Request::default() };
        match judge(&request, others.iter(), limits) {
            Verdict::Allowed { .. } => String::new(),
            Verdict::Refused { code: 422, message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    fn web() -> Value {
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxUnavailable": 1})
    }

    fn labelled(app: &str) -> Value {
        json!({"selector": {"matchLabels": {"app": app}}, "maxUnavailable": "50%"})
    }

    /// A budget of so many values, from this one on.
    fn many(from: usize, count: usize) -> Value {
        let values: Vec<String> = (from..from + count).map(|number| format!("v{number}")).collect();
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}, "maxUnavailable": 1})
    }

    #[rstest]
    #[case::good(json!({}), web(), "")]
    #[case::operations(json!({"kruise.io/pub-protect-operations": "EVICT, DELETE"}), web(), "")]
    #[case::odd_operation(json!({"kruise.io/pub-protect-operations": "EVICT,SCALE"}), web(), "UPDATE, DELETE and EVICT")]
    #[case::odd_total(json!({"pub.kruise.io/protect-total-replicas": "many"}), web(), "protect-total-replicas")]
    #[case::negative_total(json!({"pub.kruise.io/protect-total-replicas": "-1"}), web(), "protect-total-replicas")]
    #[case::two_covers(json!({}), json!({"selector": {"matchLabels": {"a": "b"}}, "targetRef": web()["targetRef"], "maxUnavailable": 1}), "exactly one of selector")]
    #[case::no_limit(json!({}), json!({"targetRef": web()["targetRef"]}), "exactly one of maxUnavailable")]
    #[case::share(json!({}), json!({"targetRef": web()["targetRef"], "minAvailable": "101%"}), "spec.minAvailable")]
    #[case::negative(json!({}), json!({"targetRef": web()["targetRef"], "maxUnavailable": -1}), "spec.maxUnavailable")]
    #[case::empty(json!({}), json!({"selector": {}, "maxUnavailable": 1}), "spec.selector: is empty")]
    #[case::odd_selector(json!({}), json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}, "maxUnavailable": 1}), "spec.selector.")]
    #[case::many_values(json!({}), many(0, 1025), "spec.selector: has 1025 values; give at most 1024 together")]
    #[case::no_workload(json!({}), json!({"targetRef": {"apiVersion": "apps/v1", "kind": "", "name": "x"}, "maxUnavailable": 1}), "spec.targetRef.kind")]
    #[case::no_path(json!({}), json!({"targetRef": {"apiVersion": "apps/v1/../..", "kind": "Deployment", "name": "x"}, "maxUnavailable": 1}), "spec.targetRef.apiVersion")]
    #[case::of_no_pods(json!({}), json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "name": "x"}, "maxUnavailable": 1}), "give a selector")]
    fn what_is_wrong_is_said(#[case] annotations: Value, #[case] spec: Value, #[case] says: &str) {
        let object = json!({"metadata": {"name": "b", "annotations": annotations}, "spec": spec});
        let said = said(object, &[], true);
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
    }

    #[rstest]
    #[case::same_workload(web(), web(), true)]
    #[case::another_version(web(), json!({"targetRef": {"apiVersion": "apps/v2", "kind": "Deployment", "name": "web"}, "minAvailable": 1}), true)]
    #[case::another_workload(web(), json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "db"}, "minAvailable": 1}), false)]
    #[case::same_labels(labelled("web"), labelled("web"), true)]
    #[case::other_labels(labelled("web"), labelled("db"), false)]
    #[case::one_of_these(labelled("web"), json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, "maxUnavailable": 1}), true)]
    #[case::none_of_these(labelled("web"), json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, "maxUnavailable": 1}), false)]
    #[case::another_key(labelled("web"), json!({"selector": {"matchLabels": {"tier": "x"}}, "maxUnavailable": 1}), true)]
    #[case::of_two_keys(labelled("web"), json!({"selector": {"matchLabels": {"tier": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "x"]}]}, "maxUnavailable": 1}), false)]
    #[case::not_these(labelled("web"), json!({"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, "maxUnavailable": 1}), true)]
    #[case::a_label_and_values(json!({"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, "maxUnavailable": 1}), labelled("web"), true)]
    #[case::many_and_one_in_common(many(0, 1024), many(1023, 1024), true)]
    #[case::many_and_none_in_common(many(0, 1024), many(1024, 1024), false)]
    #[case::not_compared(labelled("web"), web(), false)]
    fn two_of_the_same_pods(#[case] one: Value, #[case] another: Value, #[case] meet: bool) {
        let object = json!({"metadata": {"name": "b"}, "spec": one});
        let said = said(object.clone(), &[kept("a", &another)], true);
        assert_eq!(said.contains("\"a\" has the same pods"), meet, "{said}");
        assert_eq!(super::tests::said(object, &[kept("b", &another)], true), "", "itself");
    }

    #[test]
    fn with_nothing_limited_there_is_no_budget() {
        let object = json!({"metadata": {"name": "b"}, "spec": web()});
        assert!(said(object, &[], false).contains("--budget-deletions"));
    }
}
